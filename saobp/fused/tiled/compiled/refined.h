/* Rows of refined attention and of its gradient (Eq. 9-11), and how the matrices of a call are cut. */

#ifndef SAOBP_REFINED
#define SAOBP_REFINED

#include <stdlib.h>
#ifdef _OPENMP
#include <omp.h>
#else
#define omp_get_thread_num() 0
#endif
#include "products.h"

/* Parts of a head that are worked on side by side, their least rows; entries of a matrix that stays where it is, of all
   that a thread goes over before the next step, of a tile of a larger one; and of a call that is not worth a thread. */
enum { PARTS = 4, ROWS = 128, WHOLE = 1 << 18, GROUP = 1 << 15, TILE = 1 << 16, ALONE = 1 << 15 };

/* A tensor (sequence, head, row, column) whose columns lie side by side. */
typedef struct { float *at; long sequence, head, row; } Tensor;

/* A call: width of a key, depth of a value; messages 1 + change a, a query's own one left out unless `own`. `real` is 1
   for a token and 0 for padding (head, row), NULL where all are real: padding is not seen and is silent. `changes` by
   key are a row of zeros, of silent queries, and one row for all heads, or if `spares` one a head. `bits` of queries and
   keys (head, row) say which pairs dropout keeps, times `kept`; NULL without. With a `share` above 0 keys that receive
   more of all attention are spared: forward finds them, `spared` (head, row) is 1 and `changes` 0 for them from then on. */
typedef struct {
    const unsigned char *real;
    float *changes;
    unsigned char *spared;
    const int *bits[2];
    long sequences, heads, length, width, depth, threads;
    float scale, kept, share, change, strength;
    int own, spares, threshold;
} Call;

/* Rows of a tile and of a part, distance of rows, heads of a group that have so many matrices each, all heads; whether
   tiles are kept from one step to the next. */
typedef struct { long rows, part, parts, pitch, group, jobs; int whole; } Cut;

static inline Cut cut_of(const Call *of, long matrices) {
    long L = of->length, pitch = whole_panels(L), jobs = of->sequences * of->heads;
    long part = least(L, (L + PARTS - 1) / PARTS < ROWS ? ROWS : (L + PARTS - 1) / PARTS);
    long parts = (L + part - 1) / part, rows = TILE / pitch / TALL * TALL;
    int whole = L * pitch <= WHOLE;
    long group = whole ? of->threads * GROUP / (matrices * L * pitch) : (of->threads + parts - 1) / parts;
    rows = whole ? part : rows < 2 * TALL ? 2 * TALL : rows;
    return (Cut){rows, part, parts, pitch, least(jobs, group < 1 ? 1 : group), jobs, whole};
}

static inline float *rows_of(Tensor x, const Call *of, long head, long row) {
    return x.at + head / of->heads * x.sequence + head % of->heads * x.head + row * x.row;
}

/* By what the messages of a row change with attention, by key: nothing where it is silent or the key is spared. */
static inline const float *changes_of(const Call *of, long head, long row) {
    int silent = of->real && !of->real[head * of->length + row];
    return of->changes + (silent ? 0 : 1 + head * of->spares) * of->length;
}

/* Fill in the changes. */
static inline void fill_changes(const Call *of) {
    float *to = of->changes;
    const unsigned char *spared = of->spared;
    for (long key = 0; key < of->length; key++) *to++ = 0;
    for (long head = 0; head < (of->spares ? of->sequences * of->heads : 1); head++)
        for (long key = 0; key < of->length; key++) *to++ = spared && *spared++ ? 0 : of->change;
}

/* Dropout of a row of weights: which pairs are kept is told by the finaliser of MurmurHash3, see `Dropout`. */
static inline void drop(float *weight, const Call *of, long head, long row) {
    const int *keys = of->bits[1] + head * of->length, threshold = of->threshold;
    int query = of->bits[0][head * of->length + row];
    for (long key = 0; key < of->length; key++) {
        int bits = (int)((unsigned)query + (unsigned)keys[key]);
        bits = (int)((unsigned)(bits ^ (bits >> 16)) * 2246822507u);
        bits = (int)((unsigned)(bits ^ (bits >> 13)) * 3266489909u);
        weight[key] = bits >= threshold ? weight[key] * of->kept : 0;
    }
}

/* Attention of some rows of a head, from its packed keys. */
static inline void attention(Tensor query, const Call *of, const Cut *cut, long head, long first, long rows,
                             const float *keys, float *tile) {
    const unsigned char *real = of->real ? of->real + head * of->length : NULL;
    multiply(rows_of(query, of, head, first), query.row, 1, keys, of->width, of->width, tile, cut->pitch, rows,
             cut->pitch, of->scale, 0);
    for (long row = 0; row < rows; row++, tile += cut->pitch) {
        if (real)
            for (long key = 0; key < of->length; key++) tile[key] = real[key] ? tile[key] : -1e30f;
        softmax(tile, of->length);
    }
}

/* Turn a row of attention into attention over messages and multiply its messages into `said`. */
static inline void weigh(float *row, float *said, long keys, const float *changes, int own) {
    for (long key = 0; key < keys; key++) {
        float message = 1 + changes[key] * row[key];
        said[key] *= message;
        if (!own) row[key] /= message;
    }
}

/* The same, and add the row to the column sums. */
static inline void weigh_and_add(float *restrict row, float *restrict said, float *restrict sums, long keys,
                                 const float *restrict changes, int own) {
    for (long key = 0; key < keys; key++) {
        float message = 1 + changes[key] * row[key];
        sums[key] += row[key];
        said[key] *= message;
        if (!own) row[key] /= message;
    }
}

/* Nothing is said about a key of a head. */
static inline void spare_key(const Call *of, long head, long key, long parts, float *said) {
    for (long part = 0; part < parts; part++) said[part * of->length + key] = 1;
    of->spared[head * of->length + key] = 1;
    of->changes[(1 + head) * of->length + key] = 0;
}

static inline long real_rows(const Call *of, long head) {
    const unsigned char *real = of->real ? of->real + head * of->length : NULL;
    long rows = real ? 0 : of->length;
    for (long row = 0; real && row < of->length; row++) rows += real[row];
    return rows;
}

/* Spare the keys of a head whose column sums, by part, come to more than a share of all. */
static inline void spare_keys(const Call *of, long head, long parts, const float *sums, float *said) {
    float most = of->share * real_rows(of, head);
    for (long key = 0; key < of->length; key++) {
        float sum = 0;
        for (long part = 0; part < parts; part++) sum += sums[part * of->length + key];
        if (sum > most) spare_key(of, head, key, parts, said);
    }
}

/* Where float32 holds what is said about a key that receives the share of all attention, `product` bounds tell nearly
   every key's side of it: log(1 + change a) lies between change a and a log(1 + change). */
static inline int is_bounded(const Call *of) {
    float change = of->change < 0 ? -of->change : of->change, strength = of->strength;
    return of->share > 0 && of->share * of->length * (change > strength ? change : strength) < 80;
}

/* The column sum of a key, from weights that were divided by its messages unless it has its own. */
static inline float column_of(const Call *of, long head, long key, const float *tile, long pitch) {
    float sum = 0;
    for (long row = 0; row < of->length; row++) {
        float weight = tile[row * pitch + key];
        if (changes_of(of, head, row) == of->changes) continue;
        sum += of->own ? weight : weight / (1 - of->change * weight);
    }
    return sum;
}

/* Spare the same keys, by what is said about them; the few that this leaves open are added up. */
static inline void spare_by_messages(const Call *of, long head, long parts, float *said, const float *tile,
                                     long pitch) {
    float change = of->change < 0 ? -of->change : of->change, strength = of->strength;
    float rows = real_rows(of, head), most = of->share * rows, slack = 1e-6f + 2.5e-7f * rows;
    float near = exponential(slack - most * (change < strength ? change : strength));
    float far = exponential(-slack - most * (change < strength ? strength : change));
    for (long key = 0; key < of->length; key++) {
        float product = said[key];
        for (long part = 1; part < parts; part++) product *= said[part * of->length + key];
        float loss = of->change < 0 ? product : 1 / product;
        if (loss > near) continue;
        /* a tie is no more than the share, whatever the last digit says */
        if (loss < far || column_of(of, head, key, tile, pitch) > most * (1 + 1e-6f))
            spare_key(of, head, key, parts, said);
    }
}

/* Take messages about spared keys off a row again that was divided by them. */
static inline void restore(float *row, const int *keys, long count, float change) {
    for (long n = 0; n < count; n++) row[keys[n]] /= 1 - change * row[keys[n]];
}

/* Loads of a head from the products of its parts, the largest 1. Return 0 if one is below `smallest` of it, or is not
   a number. */
static inline int loads(const float *said, double *product, float *load, long parts, long length, double smallest) {
    double most = 0;
    int mild = 1;
    for (long key = 0; key < length; key++) product[key] = said[key];
    for (long part = 1; part < parts; part++)
        for (long key = 0; key < length; key++) product[key] *= said[part * length + key];
    for (long key = 0; key < length; key++) most = product[key] > most ? product[key] : most;
    for (long key = 0; key < length; key++) {
        double share = product[key] / most;
        load[key] = (float)share;
        if (!(share >= smallest)) mild = 0;
    }
    return mild;
}

/* The weights of a row of attention, and what the query says about each key, added to `heard`. */
static inline void weigh_beside(const float *row, float *weight, float *heard, float last, long keys,
                                const float *changes, int own) {
    for (long key = 0; key < keys; key++) {
        weight[key] = own ? row[key] : row[key] / (1 + changes[key] * row[key]);
        heard[key] += last * weight[key];
    }
}

/* From the gradient of a row's weights, less `last`, to that of its scores, in place. */
static inline void to_scores(const float *a, float *g, float last, const float *load, const float *heard, long keys,
                             const float *changes, int own) {
    for (long key = 0; key < keys; key++) {
        float once = 1 / (1 + changes[key] * a[key]), direct = (g[key] + last) * load[key];
        g[key] = own ? direct + heard[key] * changes[key] * once
                     : (direct * once + heard[key] * changes[key]) * once;
    }
    float sum = dot(a, g, keys);
    for (long key = 0; key < keys; key++) g[key] = a[key] * (g[key] - sum);
}

/* Room for some floats of each head of a group and for others of each thread, up to where a cache line ends. */
static inline float *room_for(long group, long *each, long threads, long *own) {
    *each += 16 - *each % 16, *own += 16 - *own % 16;
    return aligned_alloc(64, sizeof(float) * (group * *each + threads * *own));
}

#endif
