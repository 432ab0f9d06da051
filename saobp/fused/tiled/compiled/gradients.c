/* The gradient of refined attention, in the parts of `attend.c`; what they say about a key is added up at their end. */

#include <string.h>
#include "refined.h"

/* The output's gradient over the rows' normalisers, and minus its products with the output. */
static void share(Tensor given, Tensor mean, const float *total, const Call *of, long head, float *g, float *last) {
    for (long row = 0; row < of->length; row++, g += of->depth) {
        const float *from = rows_of(given, of, head, row);
        for (long column = 0; column < of->depth; column++) g[column] = from[column] / total[row];
        last[row] = -dot(rows_of(mean, of, head, row), g, of->depth);
    }
}

/* Add up a row of all parts, times `by`. */
static inline void add_up(const float *parts, long apart, long count, long columns, float by, float *to) {
    for (long column = 0; column < columns; column++) to[column] = parts[column];
    for (long part = 1; part < count; part++)
        for (long column = 0; column < columns; column++) to[column] += parts[part * apart + column];
    for (long column = 0; column < columns; column++) to[column] *= by;
}

/* Fill in the gradients of query, key and value. Return 0 without memory. */
int saobp_gradients(Tensor query, Tensor key, Tensor value, Tensor mean, Tensor given, Tensor to_query, Tensor to_key,
                    Tensor to_value, const float *total, const float *load, Call of) {
    Cut cut = cut_of(&of, 2);
    long L = of.length, pitch = cut.pitch, wide = whole_panels(of.width), deep = whole_panels(of.depth);
    long to_weights = cut.whole ? L * pitch : cut.rows * pitch, to_keys = cut.whole ? 2 * L * pitch : 0;
    long to_values = to_keys + pitch * of.width, to_given = to_values + pitch * of.depth, to_rows = to_given + deep * L;
    long to_queries = to_rows + wide * L, to_g = to_queries + wide * L, to_last = to_g + L * of.depth;
    long to_heard = to_last + L, to_parts = to_heard + cut.parts * L;
    long each = to_parts + cut.parts * L * (of.depth > of.width ? of.depth : of.width);
    long own = cut.whole ? 0 : 2 * cut.rows * pitch, blocks = (L + ROWS - 1) / ROWS;
    float *room = room_for(cut.group, &each, of.threads, &own);
    if (room == NULL) return 0;
    fill_changes(&of);
    #pragma omp parallel num_threads(of.threads) if (cut.jobs * L * L > ALONE)
    for (long start = 0; start < cut.jobs; start += cut.group) {
        long many = least(cut.group, cut.jobs - start);
        float *spare = room + cut.group * each + omp_get_thread_num() * own;
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
            if (job % 4 == 3)
                pack_all(rows_of(query, &of, head, 0), query.row, 1, L, of.width, NULL, mine + to_queries);
        }
        #pragma omp for
        for (long job = 0; job < many * cut.parts; job++) {
            long head = job / cut.parts, first = job % cut.parts * cut.part, end = least(L, first + cut.part);
            float *mine = room + head * each, *heard = mine + to_heard + job % cut.parts * L;
            float *sum = mine + to_parts + job % cut.parts * L * of.depth, *last = mine + to_last;
            memset(heard, 0, sizeof(float) * L), memset(sum, 0, sizeof(float) * L * of.depth);
            for (long rows, at = first; at < end; at += rows) {
                float *a = cut.whole ? mine + at * pitch : spare;
                rows = least(cut.rows, end - at);
                attention(query, &of, &cut, start + head, at, rows, mine + to_keys, a);
                for (long row = 0; row < rows; row++) {
                    const float *changes = changes_of(&of, start + head, at + row);
                    float *weight = a + row * pitch + to_weights;
                    weigh_beside(a + row * pitch, weight, heard, last[at + row], L, changes, of.own);
                    if (of.bits[0]) drop(weight, &of, start + head, at + row);
                }
                multiply(a + to_weights, 1, pitch, mine + to_given + at * PANEL, L, rows, sum, of.depth, L, of.depth, 1,
                         1);
            }
        }
        #pragma omp for
        for (long job = 0; job < many * blocks; job++) {
            long head = job / blocks, first = job % blocks * ROWS;
            float *mine = room + head * each, *heard = mine + to_heard;
            for (long k = first; k < least(L, first + ROWS); k++) {
                float *to = rows_of(to_value, &of, start + head, k), carried = load[(start + head) * L + k];
                const float *from = rows_of(value, &of, start + head, k);
                add_up(mine + to_parts + k * of.depth, L * of.depth, cut.parts, of.depth, carried, to);
                add_up(heard + k, L, cut.parts, 1, carried, heard + k);
                heard[k] += dot(to, from, of.depth);
            }
        }
        #pragma omp for
        for (long job = 0; job < many * cut.parts; job++) {
            long head = job / cut.parts, first = job % cut.parts * cut.part, end = least(L, first + cut.part);
            float *mine = room + head * each, *sum = mine + to_parts + job % cut.parts * L * of.width;
            const float *last = mine + to_last, *all = load + (start + head) * L;
            memset(sum, 0, sizeof(float) * L * of.width);
            for (long rows, at = first; at < end; at += rows) {
                float *a = cut.whole ? mine + at * pitch : spare, *g = a + to_weights;
                float *to = rows_of(to_query, &of, start + head, at);
                rows = least(cut.rows, end - at);
                if (!cut.whole) attention(query, &of, &cut, start + head, at, rows, mine + to_keys, a);
                multiply(mine + to_g + at * of.depth, of.depth, 1, mine + to_values, of.depth, of.depth, g, pitch, rows,
                         pitch, 1, 0);
                for (long row = 0; row < rows; row++) {
                    if (of.bits[0]) drop(g + row * pitch, &of, start + head, at + row);
                    to_scores(a + row * pitch, g + row * pitch, last[at + row], all, mine + to_heard, L,
                              changes_of(&of, start + head, at + row), of.own);
                }
                multiply(g, pitch, 1, mine + to_rows, L, L, to, to_query.row, rows, of.width, of.scale, 0);
                multiply(g, 1, pitch, mine + to_queries + at * PANEL, L, rows, sum, of.width, L, of.width, 1, 1);
            }
        }
        #pragma omp for
        for (long job = 0; job < many * blocks; job++) {
            long head = job / blocks, first = job % blocks * ROWS;
            float *parts = room + head * each + to_parts;
            for (long k = first; k < least(L, first + ROWS); k++)
                add_up(parts + k * of.width, L * of.width, cut.parts, of.width, of.scale,
                       rows_of(to_key, &of, start + head, k));
        }
    }
    free(room);
    return 1;
}
