/* Refined attention of whole matrices in one call, forward and backward (Eq. 9-11), for rows of float32.

   The heads of a group are worked on together, in blocks of queries or of keys, so that their matrices stay in the
   cache and every thread has a block. Sums are taken in an order that depends on no thread. */

#include <stdlib.h>

#if defined(__AVX512F__)
enum { WIDE = 16 };
#elif defined(__AVX__)
enum { WIDE = 8 };
#else
enum { WIDE = 4 };
#endif
enum { PANEL = 2 * WIDE, TALL = 6, LANES = 16, ROWS = 64, TILE = 32768, ALONE = 32768 };

typedef float lanes __attribute__((vector_size(4 * WIDE)));

/* A tensor (sequence, head, row, column) whose columns lie side by side. */
typedef struct { float *at; long sequence, head, row; } Tensor;

/* A call: width of a key, depth of a value; messages 1 + change a, a query's own one left out unless `own`. `real` is 1
   for a token and 0 for padding (head, row), NULL where all are real: padding is not seen and is silent. */
typedef struct {
    const unsigned char *real;
    long sequences, heads, length, width, depth, threads;
    float scale, change;
    int own;
} Call;

/* e^x for x <= 0 within two units in the last place; 0 below e^-87, where float32 loses digits. */
static inline float exponential(float x) {
    float turns = x * 1.44269504f + 12582912.0f, whole = turns - 12582912.0f;
    float rest = (x - whole * 0.693359375f) + whole * 2.12194440e-4f, sum = 1.9875691500e-4f;
    int power, bits;
    sum = sum * rest + 1.3981999507e-3f;
    sum = sum * rest + 8.3334519073e-3f;
    sum = sum * rest + 4.1665795894e-2f;
    sum = sum * rest + 1.6666665459e-1f;
    sum = sum * rest + 5.0000001201e-1f;
    sum = sum * rest * rest + rest + 1.0f;
    __builtin_memcpy(&power, &turns, sizeof power);
    __builtin_memcpy(&bits, &sum, sizeof bits);
    bits += (int)((unsigned)power << 23);
    __builtin_memcpy(&sum, &bits, sizeof sum);
    return x < -87.0f ? 0.0f : sum;
}

static inline float dot(const float *one, const float *two, long count) {
    float sum[LANES] = {0};
    long k = 0;
    for (; k + LANES <= count; k += LANES)
        for (int lane = 0; lane < LANES; lane++) sum[lane] += one[k + lane] * two[k + lane];
    for (; k < count; k++) sum[0] += one[k] * two[k];
    for (int lane = 1; lane < LANES; lane++) sum[0] += sum[lane];
    return sum[0];
}

static void softmax(float *row, long keys) {
    float top[LANES], sum[LANES];
    long key, full = keys - keys % LANES;
    for (int lane = 0; lane < LANES; lane++) top[lane] = row[0], sum[lane] = 0;
    for (key = 0; key < full; key += LANES)
        for (int lane = 0; lane < LANES; lane++) top[lane] = row[key + lane] > top[lane] ? row[key + lane] : top[lane];
    for (; key < keys; key++) top[0] = row[key] > top[0] ? row[key] : top[0];
    for (int lane = 1; lane < LANES; lane++) top[0] = top[lane] > top[0] ? top[lane] : top[0];
    float largest = top[0];
    for (key = 0; key < full; key += LANES)
        for (int lane = 0; lane < LANES; lane++) sum[lane] += row[key + lane] = exponential(row[key + lane] - largest);
    for (; key < keys; key++) sum[0] += row[key] = exponential(row[key] - largest);
    for (int lane = 1; lane < LANES; lane++) sum[0] += sum[lane];
    float scale = 1 / sum[0];
    for (key = 0; key < keys; key++) row[key] *= scale;
}

static inline long whole_panels(long columns) { return (columns + PANEL - 1) / PANEL * PANEL; }

static inline long least(long one, long two) { return one < two ? one : two; }

/* Columns `first` on of a matrix (inner, column), as many as a panel has, each row of it times `times`. */
static void pack(const float *matrix, long by_inner, long by_column, long inner, long columns, long first,
                 const float *times, float *panel) {
    long count = least(columns - first, PANEL);
    matrix += first * by_column;
    for (long k = 0; k < inner; k++, matrix += by_inner, panel += PANEL) {
        float factor = times ? times[k] : 1;
        for (long column = 0; column < PANEL; column++)
            panel[column] = column < count ? matrix[column * by_column] * factor : 0;
    }
}

/* scale a b for some rows of a and the panels of b. */
static inline __attribute__((always_inline)) void multiply(
    const float *a, long by_row, long by_inner, const float *panels, long inner,
    float *c, long pitch, long rows, long columns, float scale) {
    for (long row = 0; row < rows; row += TALL) {
        const float *from[TALL];
        for (long i = 0; i < TALL; i++) from[i] = a + least(row + i, rows - 1) * by_row;
        for (long column = 0; column < columns; column += PANEL) {
            lanes sum[TALL][2] = {0};
            const float *panel = panels + column * inner;
            for (long k = 0; k < inner; k++, panel += PANEL) {
                lanes one, two;
                __builtin_memcpy(&one, panel, sizeof one);
                __builtin_memcpy(&two, panel + WIDE, sizeof two);
                for (int i = 0; i < TALL; i++) {
                    float x = from[i][k * by_inner];
                    sum[i][0] += x * one;
                    sum[i][1] += x * two;
                }
            }
            long count = 4 * least(columns - column, PANEL);
            for (long i = 0; i < least(rows - row, TALL); i++) {
                sum[i][0] *= scale, sum[i][1] *= scale;
                float *to = c + (row + i) * pitch + column;
                if (count == sizeof sum[i]) __builtin_memcpy(to, sum[i], sizeof sum[i]);
                else __builtin_memcpy(to, sum[i], count);
            }
        }
    }
}

static inline float *rows_of(Tensor x, const Call *of, long head, long row) {
    return x.at + head / of->heads * x.sequence + head % of->heads * x.head + row * x.row;
}

static inline const unsigned char *real_of(const Call *of, long head) {
    return of->real ? of->real + head * of->length : NULL;
}

static void pack_all(const float *matrix, long by_inner, long by_column, long inner, long columns, const float *times,
                     float *panels) {
    for (long first = 0; first < columns; first += PANEL)
        pack(matrix, by_inner, by_column, inner, columns, first, times, panels + first * inner);
}

static inline void attention(float *row, long keys, const unsigned char *real) {
    if (real)
        for (long key = 0; key < keys; key++) row[key] = real[key] ? row[key] : -1e30f;
    softmax(row, keys);
}

/* Turn a row of attention into attention over messages and multiply its messages into `said`. */
static inline void weigh(float *row, float *said, long keys, float change, int own) {
    for (long key = 0; key < keys; key++) {
        float message = 1 + change * row[key];
        said[key] *= message;
        if (!own) row[key] /= message;
    }
}

/* Loads of a head from the products of its blocks, the largest 1. Return 0 if one is below `smallest` of it, or is not
   a number. */
static int loads(const float *said, double *product, float *load, long blocks, long length, double smallest) {
    double most = 0;
    int mild = 1;
    for (long key = 0; key < length; key++) product[key] = said[key];
    for (long block = 1; block < blocks; block++)
        for (long key = 0; key < length; key++) product[key] *= said[block * length + key];
    for (long key = 0; key < length; key++) most = product[key] > most ? product[key] : most;
    for (long key = 0; key < length; key++) {
        double share = product[key] / most;
        load[key] = (float)share;
        if (!(share >= smallest)) mild = 0;
    }
    return mild;
}

/* How many heads are worked on together, `entries` of a matrix each. */
static long group_of(const Call *of, long entries) {
    long group = of->threads * TILE / entries;
    return least(of->sequences * of->heads, group < 1 ? 1 : group);
}

/* Room for some floats of each head of a group, to where a cache line ends. */
static float *room_for(long group, long *each) {
    *each += 16 - *each % 16;
    return aligned_alloc(64, sizeof(float) * group * *each);
}

/* Fill in the output, the rows' normalisers and the keys' loads. Return 0 where the loads need logarithms. */
int saobp_attend(Tensor query, Tensor key, Tensor value, Tensor out, float *total, float *load, Call of,
                 double smallest) {
    long L = of.length, pitch = whole_panels(L), blocks = (L + ROWS - 1) / ROWS, jobs = of.sequences * of.heads;
    long to_keys = L * pitch, to_values = to_keys + pitch * of.width, to_said = to_values + whole_panels(of.depth) * L;
    long to_product = to_said + blocks * L + blocks * L % 2, each = to_product + 2 * L, group = group_of(&of, to_keys);
    float *room = room_for(group, &each);
    int mild = room != NULL;
    if (!mild) return 0;
    #pragma omp parallel num_threads(of.threads) if (jobs * L * L > ALONE) reduction(&&: mild)
    for (long start = 0; start < jobs; start += group) {
        long many = least(group, jobs - start), panels = pitch / PANEL;
        #pragma omp for
        for (long job = 0; job < many * panels; job++) {
            long head = job / panels, first = job % panels * PANEL;
            float *to = room + head * each + to_keys + first * of.width;
            pack(rows_of(key, &of, start + head, 0), 1, key.row, of.width, L, first, NULL, to);
        }
        #pragma omp for
        for (long job = 0; job < many * blocks; job++) {
            long head = job / blocks, first = job % blocks * ROWS, rows = least(ROWS, L - first);
            float *mine = room + head * each, *tile = mine + first * pitch, *said = mine + to_said + job % blocks * L;
            const float *asking = rows_of(query, &of, start + head, first);
            const unsigned char *real = real_of(&of, start + head);
            multiply(asking, query.row, 1, mine + to_keys, of.width, tile, pitch, rows, pitch, of.scale);
            for (long k = 0; k < L; k++) said[k] = 1;
            for (long row = 0; row < rows; row++, tile += pitch) {
                attention(tile, L, real);
                weigh(tile, said, L, real && !real[first + row] ? 0 : of.change, of.own);
            }
        }
        #pragma omp for
        for (long head = 0; head < many; head++) {
            float *mine = room + head * each, *own = load + (start + head) * L;
            mild &= loads(mine + to_said, (double *)(mine + to_product), own, blocks, L, smallest);
            pack_all(rows_of(value, &of, start + head, 0), value.row, 1, L, of.depth, own, mine + to_values);
        }
        #pragma omp for
        for (long job = 0; job < many * blocks; job++) {
            long head = job / blocks, first = job % blocks * ROWS, rows = least(ROWS, L - first);
            float *mine = room + head * each, *tile = mine + first * pitch;
            float *to = rows_of(out, &of, start + head, first), *sums = total + (start + head) * L + first;
            multiply(tile, pitch, 1, mine + to_values, L, to, out.row, rows, of.depth, 1);
            for (long row = 0; row < rows; row++, to += out.row) {
                float once = 1 / (sums[row] = dot(tile + row * pitch, load + (start + head) * L, L));
                for (long column = 0; column < of.depth; column++) to[column] *= once;
            }
        }
    }
    free(room);
    return mild;
}

/* The weights of a row of attention, beside it, and what the query says about each key, added to `heard`. */
static inline void weigh_beside(const float *row, float *weight, float *heard, float last, long keys, float change,
                                int own) {
    for (long key = 0; key < keys; key++) {
        weight[key] = own ? row[key] : row[key] / (1 + change * row[key]);
        heard[key] += last * weight[key];
    }
}

/* From the gradient of a row's weights, less `last`, to that of its scores, in place. */
static inline void to_scores(const float *a, float *g, float last, const float *load, const float *heard, long keys,
                             float change, int own) {
    for (long key = 0; key < keys; key++) {
        float once = 1 / (1 + change * a[key]), direct = (g[key] + last) * load[key];
        g[key] = own ? direct + heard[key] * change * once : (direct * once + heard[key] * change) * once;
    }
    float sum = dot(a, g, keys);
    for (long key = 0; key < keys; key++) g[key] = a[key] * (g[key] - sum);
}

/* The output's gradient over the rows' normalisers, and minus its products with the output. */
static void share(Tensor given, Tensor mean, const float *total, const Call *of, long head, float *g, float *last) {
    for (long row = 0; row < of->length; row++, g += of->depth) {
        const float *from = rows_of(given, of, head, row);
        for (long column = 0; column < of->depth; column++) g[column] = from[column] / total[row];
        last[row] = -dot(rows_of(mean, of, head, row), g, of->depth);
    }
}

/* Fill in the gradients of query, key and value. Return 0 without memory. */
int saobp_gradients(Tensor query, Tensor key, Tensor value, Tensor mean, Tensor given, Tensor to_query, Tensor to_key,
                    Tensor to_value, const float *total, const float *load, Call of) {
    long L = of.length, pitch = whole_panels(L), blocks = (L + ROWS - 1) / ROWS, jobs = of.sequences * of.heads;
    long wide = whole_panels(of.width), deep = whole_panels(of.depth), group = group_of(&of, 2 * L * pitch);
    long to_weights = L * pitch, to_keys = 2 * L * pitch, to_values = to_keys + pitch * of.width;
    long to_given = to_values + pitch * of.depth, to_rows = to_given + deep * L, to_queries = to_rows + wide * L;
    long to_g = to_queries + wide * L, to_last = to_g + L * of.depth, to_heard = to_last + L, each = to_heard + blocks * L;
    float *room = room_for(group, &each);
    if (room == NULL) return 0;
    #pragma omp parallel num_threads(of.threads) if (jobs * L * L > ALONE)
    for (long start = 0; start < jobs; start += group) {
        long many = least(group, jobs - start);
        #pragma omp for
        for (long job = 0; job < many * 4; job++) {
            long head = start + job / 4;
            float *mine = room + job / 4 * each;
            const float *keys = rows_of(key, &of, head, 0);
            if (job % 4 == 0) {
                share(given, mean, total + head * L, &of, head, mine + to_g, mine + to_last);
                pack_all(mine + to_g, of.depth, 1, L, of.depth, NULL, mine + to_given);
            }
            if (job % 4 == 1) pack_all(keys, 1, key.row, of.width, L, NULL, mine + to_keys);
            if (job % 4 == 1) pack_all(keys, key.row, 1, L, of.width, NULL, mine + to_rows);
            if (job % 4 == 2) pack_all(rows_of(value, &of, head, 0), 1, value.row, of.depth, L, NULL, mine + to_values);
            if (job % 4 == 3) pack_all(rows_of(query, &of, head, 0), query.row, 1, L, of.width, NULL, mine + to_queries);
        }
        #pragma omp for
        for (long job = 0; job < many * blocks; job++) {
            long head = job / blocks, first = job % blocks * ROWS, rows = least(ROWS, L - first);
            float *mine = room + head * each, *a = mine + first * pitch, *heard = mine + to_heard + job % blocks * L;
            const float *asking = rows_of(query, &of, start + head, first), *last = mine + to_last + first;
            const unsigned char *real = real_of(&of, start + head);
            multiply(asking, query.row, 1, mine + to_keys, of.width, a, pitch, rows, pitch, of.scale);
            for (long k = 0; k < L; k++) heard[k] = 0;
            for (long row = 0; row < rows; row++, a += pitch) {
                float change = real && !real[first + row] ? 0 : of.change;
                attention(a, L, real);
                weigh_beside(a, a + to_weights, heard, last[row], L, change, of.own);
            }
        }
        #pragma omp for
        for (long job = 0; job < many * blocks; job++) {
            long head = job / blocks, first = job % blocks * ROWS, rows = least(ROWS, L - first);
            float *mine = room + head * each, *heard = mine + to_heard + first;
            float *to = rows_of(to_value, &of, start + head, first);
            multiply(mine + to_weights + first, 1, pitch, mine + to_given, L, to, to_value.row, rows, of.depth, 1);
            for (long row = 0; row < rows; row++, to += to_value.row) {
                float carried = load[(start + head) * L + first + row];
                for (long block = 1; block < blocks; block++) heard[row] += heard[block * L + row];
                heard[row] = (heard[row] + dot(to, rows_of(value, &of, start + head, first + row), of.depth)) * carried;
                for (long column = 0; column < of.depth; column++) to[column] *= carried;
            }
        }
        #pragma omp for
        for (long job = 0; job < many * blocks; job++) {
            long head = job / blocks, first = job % blocks * ROWS, rows = least(ROWS, L - first);
            float *mine = room + head * each, *a = mine + first * pitch, *g = a + to_weights;
            float *to = rows_of(to_query, &of, start + head, first), *last = mine + to_last + first;
            const unsigned char *real = real_of(&of, start + head);
            multiply(mine + to_g + first * of.depth, of.depth, 1, mine + to_values, of.depth, g, pitch, rows, pitch, 1);
            for (long row = 0; row < rows; row++) {
                float change = real && !real[first + row] ? 0 : of.change, *at = g + row * pitch;
                to_scores(a + row * pitch, at, last[row], load + (start + head) * L, mine + to_heard, L, change, of.own);
            }
            multiply(g, pitch, 1, mine + to_rows, L, to, to_query.row, rows, of.width, of.scale);
        }
        #pragma omp for
        for (long job = 0; job < many * blocks; job++) {
            long head = job / blocks, first = job % blocks * ROWS, rows = least(ROWS, L - first);
            float *mine = room + head * each, *to = rows_of(to_key, &of, start + head, first);
            multiply(mine + to_weights + first, 1, pitch, mine + to_queries, L, to, to_key.row, rows, of.width, of.scale);
        }
    }
    free(room);
    return 1;
}
