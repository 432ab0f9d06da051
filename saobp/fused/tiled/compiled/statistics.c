/* Sums over rows of attention and over the same rows refined (Eq. 11), from their scores: a row goes through all passes
   while it lies in the cache. */

#include "products.h"

enum { CHUNK = 1024 };

/* Numbers of a row, in this order, after those of the plain rows those of the refined. */
enum { LARGEST, TOTAL, SPREAD, SQUARES, ABOVE, MOVED, NUMBERS };

/* Some rows of a few heads. `scores`, `weights` and `refined` are (head, row, key); without `refined` there is no step.
   `said` about each key and the column sums are (head, length) and grow; `spared` is 1 for a key without a bias, (head
   or 1, length), NULL for none; `numbers` are (side, number, head, row), `changes` (head), what `log(1 + change a)` says
   of attention a; `spare` holds 5 rows. Row `first` + n sees `first` + n + 1 keys if `causal`, and hears the rows before
   it if `earlier`, else all; its own message too if `own`. Weights stay 0 where `range` is passed. */
typedef struct {
    float *scores, *weights, *refined;
    double *said, *columns[2], *numbers;
    const unsigned char *spared;
    const float *changes;
    float *spare;
    long heads, rows, keys, length, first, spares;
    float range;
    int causal, earlier, own;
} Block;

/* log(1 + x) for -0.64 < x < 1.72, by its series in x / (2 + x). */
static inline float log_of_one_and(float x) {
    float z = x / (2 + x), square = z * z, sum = 1.0f / 19;
    sum = sum * square + 1.0f / 17;
    sum = sum * square + 1.0f / 15;
    sum = sum * square + 1.0f / 13;
    sum = sum * square + 1.0f / 11;
    sum = sum * square + 1.0f / 9;
    sum = sum * square + 1.0f / 7;
    sum = sum * square + 1.0f / 5;
    sum = sum * square + 1.0f / 3;
    return 2 * z + 2 * z * square * sum;
}

static inline float largest_of(const float *row, long keys) {
    float top[LANES];
    long key = 0;
    for (int lane = 0; lane < LANES; lane++) top[lane] = row[0];
    for (; key + LANES <= keys; key += LANES)
        for (int lane = 0; lane < LANES; lane++) top[lane] = row[key + lane] > top[lane] ? row[key + lane] : top[lane];
    for (; key < keys; key++) top[0] = row[key] > top[0] ? row[key] : top[0];
    for (int lane = 1; lane < LANES; lane++) top[0] = top[lane] > top[0] ? top[lane] : top[0];
    return top[0];
}

/* Turn scores into weights and sum these up, with their scores and squared. */
static inline void weigh(const float *row, float *weights, long keys, double *numbers, long step) {
    float largest = largest_of(row, keys);
    double total = 0, spread = 0, squares = 0;
    for (long start = 0; start < keys; start += CHUNK) {
        float sums[3][LANES] = {{0}};
        long key = start, stop = least(keys, start + CHUNK);
        for (; key + LANES <= stop; key += LANES)
            for (int lane = 0; lane < LANES; lane++) {
                float score = row[key + lane] - largest, weight = exponential(score);
                weights[key + lane] = weight;
                sums[0][lane] += weight;
                sums[1][lane] += weight * score;
                sums[2][lane] += weight * weight;
            }
        for (; key < stop; key++) {
            float score = row[key] - largest, weight = exponential(score);
            weights[key] = weight;
            sums[0][0] += weight;
            sums[1][0] += weight * score;
            sums[2][0] += weight * weight;
        }
        for (int lane = 0; lane < LANES; lane++)
            total += sums[0][lane], spread += sums[1][lane], squares += sums[2][lane];
    }
    /* a score that is no number leaves its row without one, whatever the exponential makes of it */
    if (spread != spread) largest = total = squares = spread;
    numbers[LARGEST * step] = largest, numbers[TOTAL * step] = total;
    numbers[SPREAD * step] = spread, numbers[SQUARES * step] = squares;
}

/* Add a row of weights to the column sums; return how many are as large as `bound`. */
static inline long add_row(const float *restrict weights, float *restrict columns, long keys, float share, float bound) {
    int above = 0;
    for (long key = 0; key < keys; key++) {
        columns[key] += weights[key] * share;
        above += weights[key] >= bound;
    }
    return above;
}

/* What a row of weights says about each key, in place of the messages of the row before. */
static inline void speak(const float *restrict weights, float *restrict messages, const unsigned char *spared, long keys,
                         float change) {
    for (long key = 0; key < keys; key++) messages[key] = log_of_one_and(change * weights[key]);
    for (long key = 0; spared && key < keys; key++) messages[key] = spared[key] ? 0 : messages[key];
}

/* The refined scores of a row, less a constant, from its plain ones and what all rows before it say. */
static inline void refine(const float *restrict row, const float *restrict messages, float *restrict refined,
                          const float *restrict bias, float *restrict heard, long keys, float largest, float own) {
    for (long key = 0; key < keys; key++) {
        refined[key] = row[key] - largest + bias[key] + (heard[key] + own * messages[key]);
        heard[key] += messages[key];
    }
}

/* The same where all rows are heard. */
static inline void refine_all(const float *restrict row, const float *restrict messages, float *restrict refined,
                              const float *restrict bias, long keys, float largest, float own) {
    for (long key = 0; key < keys; key++)
        refined[key] = row[key] - largest + bias[key] - (1 - own) * messages[key];
}

static inline double apart(const float *one, float first, const float *two, float second, long keys) {
    double total = 0;
    for (long start = 0; start < keys; start += CHUNK) {
        float sums[LANES] = {0};
        long key = start, stop = least(keys, start + CHUNK);
        for (; key + LANES <= stop; key += LANES)
            for (int lane = 0; lane < LANES; lane++) {
                float gap = one[key + lane] * first - two[key + lane] * second;
                sums[lane] += gap < 0 ? -gap : gap;
            }
        for (; key < stop; key++) {
            float gap = one[key] * first - two[key] * second;
            sums[0] += gap < 0 ? -gap : gap;
        }
        for (int lane = 0; lane < LANES; lane++) total += sums[lane];
    }
    return total;
}

/* Fill in the weights of some rows and their numbers, and add them to the column sums and to what is said. */
void saobp_statistics(Block of) {
    long size = of.heads * of.rows;
    float *columns[2] = {of.spare, of.spare + of.keys}, *bias = columns[1] + of.keys, *heard = bias + of.keys,
          *messages = heard + of.keys;
    for (long head = 0; head < of.heads; head++) {
        double *said = of.said + head * of.length, most = said[0], lowest = said[0];
        const unsigned char *spared = of.spared ? of.spared + head * of.spares * of.length : 0;
        for (long key = 0; key < of.keys; key++) {
            most = said[key] > most ? said[key] : most;
            lowest = said[key] < lowest ? said[key] : lowest;
        }
        for (long key = 0; key < of.keys; key++) {
            columns[0][key] = columns[1][key] = heard[key] = 0;
            bias[key] = (float)(said[key] - most);
        }
        for (long row = 0; row < of.rows; row++) {
            long at = head * of.rows + row, keys = of.causal ? least(of.keys, of.first + row + 1) : of.keys;
            float *scores = of.scores + at * of.keys, *weights = of.weights + at * of.keys;
            double *numbers = of.numbers + at, *after = numbers + NUMBERS * size;
            weigh(scores, weights, keys, numbers, size);
            float total = (float)numbers[TOTAL * size], share = 1 / total;
            float even = (1 - 1e-5f) / of.length;
            numbers[MOVED * size] = 0;
            numbers[ABOVE * size] = add_row(weights, columns[0], keys, share, total * even);
            for (long key = keys; key < of.keys; key++) weights[key] = 0;
            if (!of.refined) continue;
            float *refined = of.refined + at * of.keys;
            speak(weights, messages, spared, keys, of.changes[head] * share);
            float largest = (float)numbers[LARGEST * size];
            if (of.earlier) refine(scores, messages, refined, bias, heard, keys, largest, of.own);
            else refine_all(scores, messages, refined, bias, keys, largest, of.own);
            /* a zero stays a zero, also where the rest of its row loses nearly all */
            for (long key = 0; most - lowest > of.range && key < keys; key++)
                refined[key] = weights[key] * share <= 1.17549435e-38f ? -1e30f : refined[key];
            weigh(refined, refined, keys, after, size);
            total = (float)after[TOTAL * size];
            after[ABOVE * size] = add_row(refined, columns[1], keys, 1 / total, total * even);
            after[MOVED * size] = apart(refined, 1 / total, weights, share, keys);
            for (long key = keys; key < of.keys; key++) refined[key] = 0;
        }
        for (long key = 0; key < of.keys; key++) {
            of.columns[0][head * of.length + key] += columns[0][key];
            if (of.refined) of.columns[1][head * of.length + key] += columns[1][key];
            if (of.refined && of.earlier) said[key] += heard[key];
        }
    }
}
