"""The gradients of refined attention, worked out again from its row sums, loads and normalisers."""

import triton
import triton.language as tl

from saobp.fused.gpu.tiles import (
    changes_of,
    head_of,
    kept_of,
    load_rows,
    scores_of,
    store_rows,
    to_attention,
    weights_of,
)


@triton.jit
def products(mean, given, found, length, depth, heads, g_sequence, g_head, g_row,
             QUERIES: tl.constexpr, DEPTH: tl.constexpr):  # fmt: skip
    """Products of the output and its gradient, o . do, by row."""
    head, rows = tl.program_id(1), tl.program_id(0) * QUERIES + tl.arange(0, QUERIES)
    start = mean + ((head // heads).to(tl.int64) * length * heads + head % heads) * depth
    o = load_rows(start, heads * depth, rows, length, depth, DEPTH).to(tl.float32)
    g = load_rows(head_of(given, g_sequence, g_head, heads), g_row, rows, length, depth, DEPTH).to(tl.float32)
    tl.store(found + head * length + rows, tl.sum(o * g, 1), mask=rows < length)


@triton.jit
def to_values(
    query, key, value, given, real, query_bits, key_bits, sums, loads, normalisers, dots, heard, out,
    scale, change, length, width, depth, heads, threshold, kept,
    q_sequence, q_head, q_row, k_sequence, k_head, k_row, v_sequence, v_head, v_row, g_sequence, g_head, g_row,
    QUERIES: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr, DEPTH: tl.constexpr, PADDED: tl.constexpr,
    DROPS: tl.constexpr, OWN: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """The gradient of values, and what reaches the keys' loads, H."""
    head, columns = tl.program_id(1), tl.program_id(0) * KEYS + tl.arange(0, KEYS)
    real += head // heads * length
    first, there = head * length, columns < length
    queries, gradients = head_of(query, q_sequence, q_head, heads), head_of(given, g_sequence, g_head, heads)
    k = load_rows(head_of(key, k_sequence, k_head, heads), k_row, columns, length, width, WIDTH)
    load = tl.load(loads + first + columns, mask=there, other=0.0)
    found, lost = tl.zeros([KEYS, DEPTH], tl.float32), tl.zeros([KEYS], tl.float32)
    for start in range(0, length, QUERIES):
        rows = start + tl.arange(0, QUERIES)
        q = load_rows(queries, q_row, rows, length, width, WIDTH)
        g = load_rows(gradients, g_row, rows, length, depth, DEPTH)
        before = tl.load(sums + first + rows, mask=rows < length, other=float("inf"))
        after = tl.load(normalisers + first + rows, mask=rows < length, other=float("inf"))
        dot = tl.load(dots + first + rows, mask=rows < length, other=0.0)
        scores = scores_of(q, k, columns, real, length, scale, PADDED, PRECISION)
        changes = changes_of(rows, real, length, change, PADDED)
        _, _, refined = weights_of(scores, load, before, after, changes, OWN)
        lost += tl.sum(refined * dot[:, None], 0)
        if DROPS:
            refined *= kept_of(query_bits + first, key_bits + first, rows, columns, length, threshold, kept)
        found += tl.dot(tl.trans(refined.to(g.dtype)), g, input_precision=PRECISION)
    v = load_rows(head_of(value, v_sequence, v_head, heads), v_row, columns, length, depth, DEPTH)
    tl.store(heard + first + columns, tl.sum(found * v.to(tl.float32), 1) - lost, mask=there)
    start = out + ((head // heads).to(tl.int64) * length * heads + head % heads) * depth
    store_rows(start, heads * depth, columns, length, depth, found, DEPTH)


@triton.jit
def to_queries(
    query, key, value, given, real, query_bits, key_bits, sums, loads, normalisers, dots, heard, rests, out,
    scale, nats, change, length, width, depth, heads, threshold, kept,
    q_sequence, q_head, q_row, k_sequence, k_head, k_row, v_sequence, v_head, v_row, g_sequence, g_head, g_row,
    QUERIES: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr, DEPTH: tl.constexpr, PADDED: tl.constexpr,
    DROPS: tl.constexpr, OWN: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """The gradient of queries, and the row sums of t."""
    head, rows = tl.program_id(1), tl.program_id(0) * QUERIES + tl.arange(0, QUERIES)
    real += head // heads * length
    first, there = head * length, rows < length
    keys, values = head_of(key, k_sequence, k_head, heads), head_of(value, v_sequence, v_head, heads)
    q = load_rows(head_of(query, q_sequence, q_head, heads), q_row, rows, length, width, WIDTH)
    g = load_rows(head_of(given, g_sequence, g_head, heads), g_row, rows, length, depth, DEPTH)
    before = tl.load(sums + first + rows, mask=there, other=float("inf"))
    after = tl.load(normalisers + first + rows, mask=there, other=float("inf"))
    dot = tl.load(dots + first + rows, mask=there, other=0.0)
    changes = changes_of(rows, real, length, change, PADDED)
    rest = tl.zeros([QUERIES], tl.float32)
    found, average = tl.zeros([QUERIES, WIDTH], tl.float32), tl.zeros([QUERIES, WIDTH], tl.float32)
    for start in range(0, length, KEYS):
        columns = start + tl.arange(0, KEYS)
        k = load_rows(keys, k_row, columns, length, width, WIDTH)
        v = load_rows(values, v_row, columns, length, depth, DEPTH)
        load = tl.load(loads + first + columns, mask=columns < length, other=0.0)
        hear = tl.load(heard + first + columns, mask=columns < length, other=0.0)
        scores = scores_of(q, k, columns, real, length, scale, PADDED, PRECISION)
        attention, once, refined = weights_of(scores, load, before, after, changes, OWN)
        through = tl.dot(g, tl.trans(v), input_precision=PRECISION)
        if DROPS:
            through *= kept_of(query_bits + first, key_bits + first, rows, columns, length, threshold, kept)
        back = to_attention(attention, once, refined, through - dot[:, None], hear, changes, OWN)
        rest += tl.sum(back, 1)
        found += tl.dot(back.to(k.dtype), k, input_precision=PRECISION)
        average += tl.dot(attention.to(k.dtype), k, input_precision=PRECISION)
    tl.store(rests + first + rows, rest, mask=there)
    start = out + ((head // heads).to(tl.int64) * length * heads + head % heads) * width
    store_rows(start, heads * width, rows, length, width, (found - rest[:, None] * average) * nats, WIDTH)


@triton.jit
def to_keys(
    query, key, value, given, real, query_bits, key_bits, sums, loads, normalisers, dots, heard, rests, out,
    scale, nats, change, length, width, depth, heads, threshold, kept,
    q_sequence, q_head, q_row, k_sequence, k_head, k_row, v_sequence, v_head, v_row, g_sequence, g_head, g_row,
    QUERIES: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr, DEPTH: tl.constexpr, PADDED: tl.constexpr,
    DROPS: tl.constexpr, OWN: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """The gradient of keys."""
    head, columns = tl.program_id(1), tl.program_id(0) * KEYS + tl.arange(0, KEYS)
    real += head // heads * length
    first, there = head * length, columns < length
    queries, gradients = head_of(query, q_sequence, q_head, heads), head_of(given, g_sequence, g_head, heads)
    k = load_rows(head_of(key, k_sequence, k_head, heads), k_row, columns, length, width, WIDTH)
    v = load_rows(head_of(value, v_sequence, v_head, heads), v_row, columns, length, depth, DEPTH)
    load = tl.load(loads + first + columns, mask=there, other=0.0)
    hear = tl.load(heard + first + columns, mask=there, other=0.0)
    found = tl.zeros([KEYS, WIDTH], tl.float32)
    for start in range(0, length, QUERIES):
        rows = start + tl.arange(0, QUERIES)
        q = load_rows(queries, q_row, rows, length, width, WIDTH)
        g = load_rows(gradients, g_row, rows, length, depth, DEPTH)
        before = tl.load(sums + first + rows, mask=rows < length, other=float("inf"))
        after = tl.load(normalisers + first + rows, mask=rows < length, other=float("inf"))
        dot = tl.load(dots + first + rows, mask=rows < length, other=0.0)
        rest = tl.load(rests + first + rows, mask=rows < length, other=0.0)
        scores = scores_of(q, k, columns, real, length, scale, PADDED, PRECISION)
        changes = changes_of(rows, real, length, change, PADDED)
        attention, once, refined = weights_of(scores, load, before, after, changes, OWN)
        through = tl.dot(g, tl.trans(v), input_precision=PRECISION)
        if DROPS:
            through *= kept_of(query_bits + first, key_bits + first, rows, columns, length, threshold, kept)
        back = to_attention(attention, once, refined, through - dot[:, None], hear, changes, OWN)
        back -= attention * rest[:, None]
        found += tl.dot(tl.trans(back.to(q.dtype)), q, input_precision=PRECISION)
    start = out + ((head // heads).to(tl.int64) * length * heads + head % heads) * width
    store_rows(start, heads * width, columns, length, width, found * nats, WIDTH)
