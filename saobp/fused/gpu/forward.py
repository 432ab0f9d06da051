"""The output of refined attention (Eq. 9-11), in three passes: row sums, loads of the keys, means."""

import triton
import triton.language as tl

from saobp.fused.gpu.tiles import changes_of, head_of, kept_of, load_rows, product, scores_of, store_rows


@triton.jit
def row_sums(
    query, key, real, found, scale, length, width, heads, q_sequence, q_head, q_row, k_sequence, k_head, k_row,
    QUERIES: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr, PADDED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Logarithms of the rows' normalisers before refinement."""
    head, rows = tl.program_id(1), tl.program_id(0) * QUERIES + tl.arange(0, QUERIES)
    real += head // heads * length
    keys = head_of(key, k_sequence, k_head, heads)
    q = load_rows(head_of(query, q_sequence, q_head, heads), q_row, rows, length, width, WIDTH)
    largest, total = tl.full([QUERIES], -float("inf"), tl.float32), tl.zeros([QUERIES], tl.float32)
    for start in range(0, length, KEYS):
        columns = start + tl.arange(0, KEYS)
        k = load_rows(keys, k_row, columns, length, width, WIDTH)
        scores = scores_of(q, k, columns, real, length, scale, PADDED, PRECISION)
        new = tl.maximum(largest, tl.max(scores, 1))
        total = total * tl.exp2(largest - new) + tl.sum(tl.exp2(scores - new[:, None]), 1)
        largest = new
    tl.store(found + head * length + rows, largest + tl.log2(total), mask=rows < length)


@triton.jit
def key_loads(
    query, key, real, sums, found, scale, change, length, width, heads,
    q_sequence, q_head, q_row, k_sequence, k_head, k_row,
    QUERIES: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr, PADDED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Logarithms of the keys' loads: of the product of all messages about a key (Eq. 9)."""
    head, columns = tl.program_id(1), tl.program_id(0) * KEYS + tl.arange(0, KEYS)
    real += head // heads * length
    queries = head_of(query, q_sequence, q_head, heads)
    k = load_rows(head_of(key, k_sequence, k_head, heads), k_row, columns, length, width, WIDTH)
    load = tl.zeros([KEYS], tl.float32)
    for start in range(0, length, QUERIES):
        rows = start + tl.arange(0, QUERIES)
        q = load_rows(queries, q_row, rows, length, width, WIDTH)
        normaliser = tl.load(sums + head * length + rows, mask=rows < length, other=float("inf"))
        attention = tl.exp2(scores_of(q, k, columns, real, length, scale, PADDED, PRECISION) - normaliser[:, None])
        messages = 1 + changes_of(rows, real, length, change, PADDED) * attention
        load += tl.log2(tl.reduce(messages, 0, product))
    tl.store(found + head * length + columns, load, mask=columns < length)


@triton.jit
def means(
    query, key, value, real, query_bits, key_bits, sums, loads, normalisers, out, scale, change, length, width, depth,
    heads, threshold, kept, q_sequence, q_head, q_row, k_sequence, k_head, k_row, v_sequence, v_head, v_row,
    QUERIES: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr, DEPTH: tl.constexpr, PADDED: tl.constexpr,
    DROPS: tl.constexpr, OWN: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Refined attention's output (Eq. 11), and the logarithms of its rows' normalisers."""
    head, rows = tl.program_id(1), tl.program_id(0) * QUERIES + tl.arange(0, QUERIES)
    real += head // heads * length
    keys, values = head_of(key, k_sequence, k_head, heads), head_of(value, v_sequence, v_head, heads)
    q = load_rows(head_of(query, q_sequence, q_head, heads), q_row, rows, length, width, WIDTH)
    normaliser = tl.load(sums + head * length + rows, mask=rows < length, other=float("inf"))
    changes = changes_of(rows, real, length, change, PADDED)
    largest, total = tl.full([QUERIES], -float("inf"), tl.float32), tl.zeros([QUERIES], tl.float32)
    mean = tl.zeros([QUERIES, DEPTH], tl.float32)
    for start in range(0, length, KEYS):
        columns = start + tl.arange(0, KEYS)
        k = load_rows(keys, k_row, columns, length, width, WIDTH)
        scores = scores_of(q, k, columns, real, length, scale, PADDED, PRECISION)
        beliefs = scores + tl.load(loads + head * length + columns, mask=columns < length, other=0.0)[None, :]
        new = tl.maximum(largest, tl.max(beliefs, 1))
        weights, fade = tl.exp2(beliefs - new[:, None]), tl.exp2(largest - new)
        if not OWN:
            weights /= 1 + changes * tl.exp2(scores - normaliser[:, None])
        total, largest = total * fade + tl.sum(weights, 1), new
        if DROPS:
            first = head * length
            weights *= kept_of(query_bits + first, key_bits + first, rows, columns, length, threshold, kept)
        v = load_rows(values, v_row, columns, length, depth, DEPTH)
        mean = mean * fade[:, None] + tl.dot(weights.to(v.dtype), v, input_precision=PRECISION)
    start = out + ((head // heads).to(tl.int64) * length * heads + head % heads) * depth
    store_rows(start, heads * depth, rows, length, depth, mean / total[:, None], DEPTH)
    tl.store(normalisers + head * length + rows, largest + tl.log2(total), mask=rows < length)
