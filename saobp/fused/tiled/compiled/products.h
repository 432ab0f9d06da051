/* Products of matrices, softmax and exponential in float32, in an order of sums that depends on no thread. */

#ifndef SAOBP_PRODUCTS
#define SAOBP_PRODUCTS

#if defined(SAOBP_WIDE)
enum { WIDE = SAOBP_WIDE };
#elif defined(__AVX512F__)
enum { WIDE = 16 };
#elif defined(__AVX__)
enum { WIDE = 8 };
#else
enum { WIDE = 4 };
#endif
enum { PANEL = 2 * WIDE, TALL = 6, LANES = 16 };

typedef float lanes __attribute__((vector_size(4 * WIDE)));

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

static inline void softmax(float *row, long keys) {
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
static inline void pack(const float *matrix, long by_inner, long by_column, long inner, long columns, long first,
                        const float *times, float *panel) {
    long count = least(columns - first, PANEL);
    matrix += first * by_column;
    for (long k = 0; k < inner; k++, matrix += by_inner, panel += PANEL) {
        float factor = times ? times[k] : 1;
        for (long column = 0; column < PANEL; column++)
            panel[column] = column < count ? matrix[column * by_column] * factor : 0;
    }
}

/* scale a b for some rows of a and the panels of b, `stride` rows of b in each; added to c if `add`. */
static inline __attribute__((always_inline)) void multiply(
    const float *a, long by_row, long by_inner, const float *panels, long stride, long inner,
    float *c, long pitch, long rows, long columns, float scale, int add) {
    for (long row = 0; row < rows; row += TALL) {
        const float *from[TALL];
        for (long i = 0; i < TALL; i++) from[i] = a + least(row + i, rows - 1) * by_row;
        for (long column = 0; column < columns; column += PANEL) {
            lanes sum[TALL][2] = {0};
            const float *panel = panels + column * stride;
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
                lanes before[2] = {{0}};
                if (add && count == sizeof before) __builtin_memcpy(before, to, sizeof before);
                else if (add) __builtin_memcpy(before, to, count);
                lanes one = sum[i][0] + before[0], two = sum[i][1] + before[1];
                if (count == sizeof before) {
                    __builtin_memcpy(to, &one, sizeof one), __builtin_memcpy(to + WIDE, &two, sizeof two);
                    continue;
                }
                __builtin_memcpy(before, &one, sizeof one), __builtin_memcpy(before + 1, &two, sizeof two);
                __builtin_memcpy(to, before, count);
            }
        }
    }
}

static inline void pack_all(const float *matrix, long by_inner, long by_column, long inner, long columns,
                            const float *times, float *panels) {
    for (long first = 0; first < columns; first += PANEL)
        pack(matrix, by_inner, by_column, inner, columns, first, times, panels + first * inner);
}

#endif
