/* Refined attention: the heads of a group together, in parts of their queries, so that their matrices stay in the cache
   and every thread has a part. Matrices that are too large for it are worked out twice. */

#include "refined.h"

/* Fill in the output, the rows' normalisers and the keys' loads. Return 0 where the loads need logarithms, -1 without
   memory. */
int saobp_attend(Tensor query, Tensor key, Tensor value, Tensor out, float *total, float *load, Call of,
                 double smallest) {
    Cut cut = cut_of(&of, 1);
    /* whether the columns of a share are added up, not bounded by what is said */
    int adds = of.share > 0 && !(cut.whole && is_bounded(&of));
    long L = of.length, pitch = cut.pitch, panels = pitch / PANEL, to_keys = cut.whole ? L * pitch : 0;
    long to_values = to_keys + pitch * of.width, to_said = to_values + whole_panels(of.depth) * L;
    long to_sums = to_said + cut.parts * L + 176, to_product = to_sums + adds * cut.parts * L;
    to_product += to_product % 2;
    long each = to_product + 2 * L;
    long own = cut.whole ? L : L + cut.rows * pitch;
    float *room = room_for(cut.group, &each, of.threads, &own);
    int mild = 1;
    if (!room) return -1;
    fill_changes(&of);
    #pragma omp parallel num_threads(of.threads) if (cut.jobs * L * L > ALONE) reduction(&&: mild)
    for (long start = 0; start < cut.jobs; start += cut.group) {
        long many = least(cut.group, cut.jobs - start);
        float *ones = room + cut.group * each + omp_get_thread_num() * own, *spare = ones + L;
        #pragma omp for
        for (long job = 0; job < many * panels; job++) {
            long head = job / panels, first = job % panels * PANEL;
            float *to = room + head * each + to_keys + first * of.width;
            pack(rows_of(key, &of, start + head, 0), 1, key.row, of.width, L, first, NULL, to);
        }
        #pragma omp for
        for (long job = 0; job < many * cut.parts; job++) {
            long head = job / cut.parts, first = job % cut.parts * cut.part, end = least(L, first + cut.part);
            float *mine = room + head * each, *said = mine + to_said + job % cut.parts * L;
            float *sums = mine + to_sums + job % cut.parts * L;
            for (long k = 0; k < L; k++) said[k] = 1;
            for (long k = 0; adds && k < L; k++) sums[k] = 0;
            for (long rows, at = first; at < end; at += rows) {
                float *tile = cut.whole ? mine + at * pitch : spare;
                rows = least(cut.rows, end - at);
                attention(query, &of, &cut, start + head, at, rows, mine + to_keys, tile);
                for (long row = 0; row < rows; row++) {
                    const float *changes = changes_of(&of, start + head, at + row);
                    if (adds && changes != of.changes)
                        weigh_and_add(tile + row * pitch, said, sums, L, changes, of.own);
                    else weigh(tile + row * pitch, said, L, changes, of.own);
                }
            }
        }
        #pragma omp for
        for (long head = 0; head < many; head++) {
            float *mine = room + head * each, *all = load + (start + head) * L;
            if (adds) spare_keys(&of, start + head, cut.parts, mine + to_sums, mine + to_said);
            else if (of.share > 0)
                spare_by_messages(&of, start + head, cut.parts, mine + to_said, mine, pitch);
            mild &= loads(mine + to_said, (double *)(mine + to_product), all, cut.parts, L, smallest);
            pack_all(rows_of(value, &of, start + head, 0), value.row, 1, L, of.depth, all, mine + to_values);
        }
        #pragma omp for
        for (long job = 0; job < many * cut.parts; job++) {
            long head = job / cut.parts, first = job % cut.parts * cut.part, end = least(L, first + cut.part);
            float *mine = room + head * each, *all = load + (start + head) * L, *sums = total + (start + head) * L;
            long few = 0;
            int *keys = (int *)ones;
            for (long k = 0; of.share > 0 && cut.whole && !of.own && k < L; k++)
                if (of.spared[(start + head) * L + k]) keys[few++] = k;
            for (long rows, at = first; at < end; at += rows) {
                float *tile = cut.whole ? mine + at * pitch : spare, *to = rows_of(out, &of, start + head, at);
                rows = least(cut.rows, end - at);
                if (!cut.whole) {
                    attention(query, &of, &cut, start + head, at, rows, mine + to_keys, tile);
                    for (long k = 0; k < L; k++) ones[k] = 1;
                    for (long row = 0; row < rows; row++)
                        weigh(tile + row * pitch, ones, L, changes_of(&of, start + head, at + row), of.own);
                }
                for (long row = 0; row < rows; row++) {
                    if (few && changes_of(&of, start + head, at + row) != of.changes)
                        restore(tile + row * pitch, keys, few, of.change);
                    sums[at + row] = dot(tile + row * pitch, all, L);
                    if (of.bits[0]) drop(tile + row * pitch, &of, start + head, at + row);
                }
                multiply(tile, pitch, 1, mine + to_values, L, L, to, out.row, rows, of.depth, 1, 0);
                for (long row = 0; row < rows; row++, to += out.row)
                    for (long column = 0; column < of.depth; column++) to[column] /= sums[at + row];
            }
        }
    }
    free(room);
    return mild;
}
