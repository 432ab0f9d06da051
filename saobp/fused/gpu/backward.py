"""The gradients of refined attention, worked out again from its row sums, loads and normalisers."""

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
    refined_of,
    store_rows,
    to_attention,
    top_of,
)


@triton.jit
def products(
    mean,
    output_gradient,
    dots,
    length,
    depth,
    heads,
    g_sequence,
    g_head,
    g_row,
    QUERIES: tl.constexpr,
    DEPTH: tl.constexpr,
):
    """Products of the output and its gradient, o . do, by row."""
    head, rows = tl.program_id(1), tl.program_id(0) * QUERIES + tl.arange(0, QUERIES)
    start = head_in(mean, length, heads, depth)
    o = load_rows(start, heads * depth, rows, length, depth, DEPTH, True).to(tl.float32)
    g = load_rows(
        head_of(output_gradient, g_sequence, g_head, heads), g_row, rows, length, depth, DEPTH, True
    ).to(tl.float32)
    tl.store(dots + head * length + rows, tl.sum(o * g, 1), mask=rows < length)


@triton.jit
def before_and_after(
    k,
    q,
    rows,
    load,
    hidden,
    biased,
    real,
    sums,
    normalisers,
    top,
    wild,
    scale,
    change,
    slope,
    height,
    length,
    STEPS: tl.constexpr,
    RAGGED: tl.constexpr,
    PADDED: tl.constexpr,
    SPARES: tl.constexpr,
    OWN: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Attention, one over messages, refined probabilities and the messages' changes of a tile (key,
    query).
    """
    before = load_numbers(sums, rows, length, float("inf"), RAGGED)[None, :]
    after = load_numbers(normalisers, rows, length, float("inf"), RAGGED)[None, :]
    changes = changes_of(rows, real, length, change, PADDED)[None, :]
    if SPARES:
        changes *= biased
    scores = tl.dot(k, tl.trans(q), input_precision=PRECISION) * scale
    if PADDED or RAGGED:
        scores += hidden
    attention = tl.exp2(scores - before)
    once = over(1 + changes * attention, slope, height, STEPS)
    return (
        attention,
        once,
        refined_of(scores, attention, once, load, after, top, wild, OWN),
        changes,
    )


@triton.jit
def to_values(
    query,
    key,
    value,
    output_gradient,
    real,
    spared,
    query_bits,
    key_bits,
    sums,
    loads,
    normalisers,
    dots,
    heard,
    out,
    scale,
    nats,
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
    g_sequence,
    g_head,
    g_row,
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
    """The gradient of values, and what reaches the keys' loads, H."""
    head, columns = tl.program_id(1), tl.program_id(0) * KEYS + tl.arange(0, KEYS)
    real, first = real + head // heads * length, head * length
    queries, gradients = (
        head_of(query, q_sequence, q_head, heads),
        head_of(output_gradient, g_sequence, g_head, heads),
    )
    k = load_rows(
        head_of(key, k_sequence, k_head, heads), k_row, columns, length, width, WIDTH, RAGGED
    )
    v = load_rows(
        head_of(value, v_sequence, v_head, heads), v_row, columns, length, depth, DEPTH, RAGGED
    )
    load = load_numbers(loads + first, columns, length, 0.0, RAGGED)[:, None]
    top, wild = top_of(loads + first, length)
    hidden = hidden_of(columns, real, length, PADDED)[:, None]
    biased = 1.0
    if SPARES:
        biased = biased_of(columns, spared + first, length, RAGGED)[:, None]
    if DROPS:
        key_draws = load_numbers(key_bits + first, columns, length, 0, RAGGED)[:, None]
    value_gradient, lost = tl.zeros([KEYS, DEPTH], tl.float32), tl.zeros([KEYS], tl.float32)
    for start in range(0, length, QUERIES):
        rows = start + tl.arange(0, QUERIES)
        q = load_rows(queries, q_row, rows, length, width, WIDTH, RAGGED)
        g = load_rows(gradients, g_row, rows, length, depth, DEPTH, RAGGED)
        dot = load_numbers(dots + first, rows, length, 0.0, RAGGED)[None, :]
        _, _, refined, _ = before_and_after(
            k,
            q,
            rows,
            load,
            hidden,
            biased,
            real,
            sums + first,
            normalisers + first,
            top,
            wild,
            scale,
            change,
            slope,
            height,
            length,
            STEPS,
            RAGGED,
            PADDED,
            SPARES,
            OWN,
            PRECISION,
        )
        lost += tl.sum(refined * dot, 1)
        if DROPS:
            query_draws = load_numbers(query_bits + first, rows, length, 0, RAGGED)[None, :]
            refined *= kept_of(query_draws, key_draws, threshold, kept)
        value_gradient += tl.dot(refined.to(g.dtype), g, input_precision=PRECISION)
    tl.store(
        heard + first + columns,
        tl.sum(value_gradient * v.to(tl.float32), 1) - lost,
        mask=columns < length,
    )
    start = head_in(out, length, heads, depth)
    store_rows(start, heads * depth, columns, length, depth, value_gradient, DEPTH, RAGGED)


@triton.jit
def to_keys(
    query,
    key,
    value,
    output_gradient,
    real,
    spared,
    query_bits,
    key_bits,
    sums,
    loads,
    normalisers,
    dots,
    heard,
    rests,
    out,
    scale,
    nats,
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
    g_sequence,
    g_head,
    g_row,
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
    """The gradient of keys."""
    head, columns = tl.program_id(1), tl.program_id(0) * KEYS + tl.arange(0, KEYS)
    real, first = real + head // heads * length, head * length
    queries, gradients = (
        head_of(query, q_sequence, q_head, heads),
        head_of(output_gradient, g_sequence, g_head, heads),
    )
    k = load_rows(
        head_of(key, k_sequence, k_head, heads), k_row, columns, length, width, WIDTH, RAGGED
    )
    v = load_rows(
        head_of(value, v_sequence, v_head, heads), v_row, columns, length, depth, DEPTH, RAGGED
    )
    load = load_numbers(loads + first, columns, length, 0.0, RAGGED)[:, None]
    top, wild = top_of(loads + first, length)
    hidden = hidden_of(columns, real, length, PADDED)[:, None]
    biased = 1.0
    if SPARES:
        biased = biased_of(columns, spared + first, length, RAGGED)[:, None]
    if DROPS:
        key_draws = load_numbers(key_bits + first, columns, length, 0, RAGGED)[:, None]
    hear = load_numbers(heard + first, columns, length, 0.0, RAGGED)[:, None]
    key_gradient = tl.zeros([KEYS, WIDTH], tl.float32)
    for start in range(0, length, QUERIES):
        rows = start + tl.arange(0, QUERIES)
        q = load_rows(queries, q_row, rows, length, width, WIDTH, RAGGED)
        g = load_rows(gradients, g_row, rows, length, depth, DEPTH, RAGGED)
        dot = load_numbers(dots + first, rows, length, 0.0, RAGGED)[None, :]
        attention, once, refined, changes = before_and_after(
            k,
            q,
            rows,
            load,
            hidden,
            biased,
            real,
            sums + first,
            normalisers + first,
            top,
            wild,
            scale,
            change,
            slope,
            height,
            length,
            STEPS,
            RAGGED,
            PADDED,
            SPARES,
            OWN,
            PRECISION,
        )
        through = tl.dot(v, tl.trans(g), input_precision=PRECISION)
        if DROPS:
            query_draws = load_numbers(query_bits + first, rows, length, 0, RAGGED)[None, :]
            through *= kept_of(query_draws, key_draws, threshold, kept)
        back = to_attention(attention, once, refined, through - dot, hear, changes, OWN)
        back -= attention * load_numbers(rests + first, rows, length, 0.0, RAGGED)[None, :]
        key_gradient += tl.dot(back.to(q.dtype), q, input_precision=PRECISION)
    start = head_in(out, length, heads, width)
    store_rows(start, heads * width, columns, length, width, key_gradient * nats, WIDTH, RAGGED)


@triton.jit
def to_queries(
    query,
    key,
    value,
    output_gradient,
    real,
    spared,
    query_bits,
    key_bits,
    sums,
    loads,
    normalisers,
    dots,
    heard,
    rests,
    out,
    scale,
    nats,
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
    g_sequence,
    g_head,
    g_row,
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
    """The gradient of queries, and the row sums of t."""
    head, rows = tl.program_id(1), tl.program_id(0) * QUERIES + tl.arange(0, QUERIES)
    real, first = real + head // heads * length, head * length
    keys, values = (
        head_of(key, k_sequence, k_head, heads),
        head_of(value, v_sequence, v_head, heads),
    )
    q = load_rows(
        head_of(query, q_sequence, q_head, heads), q_row, rows, length, width, WIDTH, RAGGED
    )
    g = load_rows(
        head_of(output_gradient, g_sequence, g_head, heads),
        g_row,
        rows,
        length,
        depth,
        DEPTH,
        RAGGED,
    )
    before = load_numbers(sums + first, rows, length, float("inf"), RAGGED)[:, None]
    after = load_numbers(normalisers + first, rows, length, float("inf"), RAGGED)[:, None]
    dot = load_numbers(dots + first, rows, length, 0.0, RAGGED)[:, None]
    top, wild = top_of(loads + first, length)
    changes = changes_of(rows, real, length, change, PADDED)[:, None]
    if DROPS:
        query_draws = load_numbers(query_bits + first, rows, length, 0, RAGGED)[:, None]
    rest = tl.zeros([QUERIES], tl.float32)
    query_gradient, average = (
        tl.zeros([QUERIES, WIDTH], tl.float32),
        tl.zeros([QUERIES, WIDTH], tl.float32),
    )
    for start in range(0, length, KEYS):
        columns = start + tl.arange(0, KEYS)
        k = load_rows(keys, k_row, columns, length, width, WIDTH, RAGGED)
        v = load_rows(values, v_row, columns, length, depth, DEPTH, RAGGED)
        load = load_numbers(loads + first, columns, length, 0.0, RAGGED)[None, :]
        hear = load_numbers(heard + first, columns, length, 0.0, RAGGED)[None, :]
        scores = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale
        if PADDED or RAGGED:
            scores += hidden_of(columns, real, length, PADDED)[None, :]
        attention = tl.exp2(scores - before)
        change_here = changes
        if SPARES:
            change_here *= biased_of(columns, spared + first, length, RAGGED)[None, :]
        once = over(1 + change_here * attention, slope, height, STEPS)
        refined = refined_of(scores, attention, once, load, after, top, wild, OWN)
        through = tl.dot(g, tl.trans(v), input_precision=PRECISION)
        if DROPS:
            key_draws = load_numbers(key_bits + first, columns, length, 0, RAGGED)[None, :]
            through *= kept_of(query_draws, key_draws, threshold, kept)
        back = to_attention(attention, once, refined, through - dot, hear, change_here, OWN)
        rest += tl.sum(back, 1)
        query_gradient += tl.dot(back.to(k.dtype), k, input_precision=PRECISION)
        average += tl.dot(attention.to(k.dtype), k, input_precision=PRECISION)
    tl.store(rests + first + rows, rest, mask=rows < length)
    query_gradient = (query_gradient - rest[:, None] * average) * nats
    store_rows(
        head_in(out, length, heads, width),
        heads * width,
        rows,
        length,
        width,
        query_gradient,
        WIDTH,
        RAGGED,
    )
