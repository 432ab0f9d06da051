"""The output of refined attention (Eq. 9-11), in three passes: row sums, loads of the keys,
means.
"""

import triton
import triton.language as tl

from saobp.fused.gpu.tiles import (
    biased_of,
    changes_of,
    head_in,
    head_of,
    hidden_of,
    kept_of,
    load_numbers,
    load_rows,
    over,
    product,
    store_rows,
    top_of,
)


@triton.jit
def row_sums(
    query,
    key,
    real,
    sums,
    scale,
    length,
    width,
    heads,
    q_sequence,
    q_head,
    q_row,
    k_sequence,
    k_head,
    k_row,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
    WIDTH: tl.constexpr,
    RAGGED: tl.constexpr,
    PADDED: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Logarithms of the rows' normalisers before refinement."""
    head, rows = tl.program_id(1), tl.program_id(0) * QUERIES + tl.arange(0, QUERIES)
    real += head // heads * length
    keys = head_of(key, k_sequence, k_head, heads)
    q = load_rows(
        head_of(query, q_sequence, q_head, heads), q_row, rows, length, width, WIDTH, RAGGED
    )
    largest, total = tl.full([QUERIES], -float("inf"), tl.float32), tl.zeros([QUERIES], tl.float32)
    for start in range(0, length, KEYS):
        columns = start + tl.arange(0, KEYS)
        k = load_rows(keys, k_row, columns, length, width, WIDTH, RAGGED)
        scores = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale
        if PADDED or RAGGED:
            scores += hidden_of(columns, real, length, PADDED)[None, :]
        new = tl.maximum(largest, tl.max(scores, 1))
        total = total * tl.exp2(largest - new) + tl.sum(tl.exp2(scores - new[:, None]), 1)
        largest = new
    tl.store(sums + head * length + rows, largest + tl.log2(total), mask=rows < length)


@triton.jit
def key_loads(
    query,
    key,
    real,
    spared,
    sums,
    loads,
    scale,
    change,
    length,
    width,
    heads,
    q_sequence,
    q_head,
    q_row,
    k_sequence,
    k_head,
    k_row,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
    WIDTH: tl.constexpr,
    RAGGED: tl.constexpr,
    PADDED: tl.constexpr,
    SPARES: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Logarithms of the keys' loads: of the product of all messages about a key (Eq. 9)."""
    head, columns = tl.program_id(1), tl.program_id(0) * KEYS + tl.arange(0, KEYS)
    real += head // heads * length
    queries = head_of(query, q_sequence, q_head, heads)
    k = load_rows(
        head_of(key, k_sequence, k_head, heads), k_row, columns, length, width, WIDTH, RAGGED
    )
    hidden = hidden_of(columns, real, length, PADDED)
    load = tl.zeros([KEYS], tl.float32)
    for start in range(0, length, QUERIES):
        rows = start + tl.arange(0, QUERIES)
        q = load_rows(queries, q_row, rows, length, width, WIDTH, RAGGED)
        before = load_numbers(sums + head * length, rows, length, float("inf"), RAGGED)
        scores = tl.dot(k, tl.trans(q), input_precision=PRECISION) * scale
        if PADDED or RAGGED:
            scores += hidden[:, None]
        messages = 1 + changes_of(rows, real, length, change, PADDED)[None, :] * tl.exp2(
            scores - before[None, :]
        )
        load += tl.log2(tl.reduce(messages, 1, product))
    if SPARES:
        load *= biased_of(columns, spared + head * length, length, RAGGED)
    tl.store(loads + head * length + columns, load, mask=columns < length)


@triton.jit
def means(
    query,
    key,
    value,
    real,
    spared,
    query_bits,
    key_bits,
    sums,
    loads,
    normalisers,
    out,
    scale,
    change,
    slope,
    height,
    length,
    width,
    depth,
    heads,
    threshold,
    kept,
    q_sequence,
    q_head,
    q_row,
    k_sequence,
    k_head,
    k_row,
    v_sequence,
    v_head,
    v_row,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
    WIDTH: tl.constexpr,
    DEPTH: tl.constexpr,
    STEPS: tl.constexpr,
    RAGGED: tl.constexpr,
    PADDED: tl.constexpr,
    SPARES: tl.constexpr,
    DROPS: tl.constexpr,
    OWN: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Refined attention's output (Eq. 11), and the logarithms of its rows' normalisers."""
    head, rows = tl.program_id(1), tl.program_id(0) * QUERIES + tl.arange(0, QUERIES)
    real, first = real + head // heads * length, head * length
    keys, values = (
        head_of(key, k_sequence, k_head, heads),
        head_of(value, v_sequence, v_head, heads),
    )
    q = load_rows(
        head_of(query, q_sequence, q_head, heads), q_row, rows, length, width, WIDTH, RAGGED
    )
    before = load_numbers(sums + first, rows, length, float("inf"), RAGGED)
    changes = changes_of(rows, real, length, change, PADDED)[:, None]
    top, wild = top_of(loads + first, length)
    mean, total = tl.zeros([QUERIES, DEPTH], tl.float32), tl.zeros([QUERIES], tl.float32)
    largest = tl.zeros([QUERIES], tl.float32) + tl.where(wild, -float("inf"), top)
    if DROPS:
        query_draws = load_numbers(query_bits + first, rows, length, 0, RAGGED)[:, None]
    for start in range(0, length, KEYS):
        columns = start + tl.arange(0, KEYS)
        k = load_rows(keys, k_row, columns, length, width, WIDTH, RAGGED)
        load = load_numbers(loads + first, columns, length, 0.0, RAGGED)[None, :]
        scores = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale
        if PADDED or RAGGED:
            scores += hidden_of(columns, real, length, PADDED)[None, :]
        attention = tl.exp2(scores - before[:, None])
        if wild:
            new = tl.maximum(largest, tl.max(scores + load, 1))
            weights, fade = tl.exp2(scores + load - new[:, None]), tl.exp2(largest - new)
            mean, total, largest = mean * fade[:, None], total * fade, new
        else:
            weights = attention * tl.exp2(load - top)
        if not OWN:
            change_here = changes
            if SPARES:
                change_here *= biased_of(columns, spared + first, length, RAGGED)[None, :]
            weights *= over(1 + change_here * attention, slope, height, STEPS)
        total += tl.sum(weights, 1)
        if DROPS:
            key_draws = load_numbers(key_bits + first, columns, length, 0, RAGGED)[None, :]
            weights *= kept_of(query_draws, key_draws, threshold, kept)
        v = load_rows(values, v_row, columns, length, depth, DEPTH, RAGGED)
        mean += tl.dot(weights.to(v.dtype), v, input_precision=PRECISION)
    start = head_in(out, length, heads, depth)
    store_rows(start, heads * depth, rows, length, depth, mean / total[:, None], DEPTH, RAGGED)
    tl.store(normalisers + first + rows, largest + tl.log2(total), mask=rows < length)
