/* The passes over a tile that torch would take one by one: softmax, messages, their products, division (Eq. 9-11).

   A tile is (head, query, key) in float32, its rows `keys` apart and its heads `pitch`. The lanes of a processor add up and
   multiply side by side, so nothing here needs a compiler that may reorder sums; the numbers do not depend on threads. */

enum { LANES = 16, KEYS = 64, ROWS = 64, ALONE = 32768 };

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

/* Multiply the messages 1 + change a of some keys into `product`, and divide a by them unless the own one stays. */
static inline void weigh(float *a, double *product, long rows, long keys, long count, float change, int own) {
    float part[KEYS];
    for (long key = 0; key < count; key++) part[key] = 1;
    for (long row = 0; row < rows; row++, a += keys) {
        for (long key = 0; key < count; key++) {
            float message = 1 + change * a[key];
            part[key] *= message;
            if (!own) a[key] /= message;
        }
        if ((row + 1) % ROWS && row + 1 < rows) continue;
        for (long key = 0; key < count; key++) product[key] *= part[key], part[key] = 1;
    }
}

/* Scores become attention, and attention weights, of which a row's own normaliser is left out. */
void saobp_weights(float *tile, double *product, long heads, long rows, long keys, long pitch, float change, int own) {
    long blocks = (keys + KEYS - 1) / KEYS;
    #pragma omp parallel if (heads * rows * keys > ALONE)
    {
        #pragma omp for
        for (long line = 0; line < heads * rows; line++) softmax(tile + line / rows * pitch + line % rows * keys, keys);
        #pragma omp for
        for (long job = 0; job < heads * blocks; job++) {
            long head = job / blocks, first = job % blocks * KEYS;
            float *a = tile + head * pitch + first;
            double *said = product + head * keys + first;
            if (keys - first >= KEYS) weigh(a, said, rows, keys, KEYS, change, own);
            else weigh(a, said, rows, keys, keys - first, change, own);
        }
    }
}

/* Products become loads, the largest of a head 1; weights times loads add up to a row's total. Return 0 if a load is
   below `least` of the largest, or not a number. */
int saobp_totals(const float *tile, const double *product, float *load, float *total, long heads, long rows, long keys,
                 double least) {
    int mild = 1;
    for (long head = 0; head < heads; head++) {
        const double *said = product + head * keys;
        double most = said[0];
        for (long key = 1; key < keys; key++) most = said[key] > most ? said[key] : most;
        for (long key = 0; key < keys; key++) {
            double share = said[key] / most;
            load[head * keys + key] = (float)share;
            if (!(share >= least)) mild = 0;
        }
    }
    #pragma omp parallel for if (heads * rows * keys > ALONE)
    for (long line = 0; line < heads * rows; line++) {
        const float *weight = tile + line * keys, *of = load + line / rows * keys;
        float sum[LANES] = {0};
        long key, full = keys - keys % LANES;
        for (key = 0; key < full; key += LANES)
            for (int lane = 0; lane < LANES; lane++) sum[lane] += weight[key + lane] * of[key + lane];
        for (; key < keys; key++) sum[0] += weight[key] * of[key];
        for (int lane = 1; lane < LANES; lane++) sum[0] += sum[lane];
        total[line] = sum[0];
    }
    return mild;
}

/* Divide the attention to some keys by its messages, unless the own one stays, and sum it over rows, each times its `last`. */
static inline void weigh_beside(const float *a, float *weight, const float *last, float *heard, long rows, long keys, long count,
                                float change, int own) {
    float sum[KEYS] = {0};
    for (long row = 0; row < rows; row++, a += keys, weight += keys)
        for (long key = 0; key < count; key++) {
            weight[key] = own ? a[key] : a[key] / (1 + change * a[key]);
            sum[key] += last[row] * weight[key];
        }
    for (long key = 0; key < count; key++) heard[key] = sum[key];
}

/* For the gradient: scores become attention once more, with weights beside it and their sums over rows, times `last`. */
void saobp_again(float *tile, float *weights, const float *last, float *heard, long heads, long rows, long keys, float change,
                 int own) {
    long blocks = (keys + KEYS - 1) / KEYS;
    #pragma omp parallel if (heads * rows * keys > ALONE)
    {
        #pragma omp for
        for (long line = 0; line < heads * rows; line++) softmax(tile + line * keys, keys);
        #pragma omp for
        for (long job = 0; job < heads * blocks; job++) {
            long head = job / blocks, first = job % blocks * KEYS, at = head * rows * keys + first;
            const float *of = last + head * rows;
            float *said = heard + head * keys + first;
            if (keys - first >= KEYS) weigh_beside(tile + at, weights + at, of, said, rows, keys, KEYS, change, own);
            else weigh_beside(tile + at, weights + at, of, said, rows, keys, keys - first, change, own);
        }
    }
}

/* From the gradient of a weight, `through`, and what all say about a key's load, `heard`, to that of the scores, in place. */
void saobp_gradient(const float *tile, float *through, const float *load, const float *heard, long heads, long rows, long keys,
                    float change, int own) {
    long full = keys - keys % LANES;
    #pragma omp parallel for if (heads * rows * keys > ALONE)
    for (long line = 0; line < heads * rows; line++) {
        const float *a = tile + line * keys, *of = load + line / rows * keys, *said = heard + line / rows * keys;
        float *g = through + line * keys, sum[LANES] = {0};
        long key;
        for (key = 0; key < keys; key++) {
            float once = 1 / (1 + change * a[key]), direct = g[key] * of[key];
            g[key] = own ? direct + said[key] * change * once : (direct * once + said[key] * change) * once;
        }
        for (key = 0; key < full; key += LANES)
            for (int lane = 0; lane < LANES; lane++) sum[lane] += a[key + lane] * g[key + lane];
        for (; key < keys; key++) sum[0] += a[key] * g[key];
        for (int lane = 1; lane < LANES; lane++) sum[0] += sum[lane];
        for (key = 0; key < keys; key++) g[key] = a[key] * (g[key] - sum[0]);
    }
}
