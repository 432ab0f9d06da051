"""Sequences that fit one tile: a head is one program, forward and backward, and nothing is kept in
between.
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
    to_attention,
)


@triton.jit
def attention_of(
    q,
    k,
    places,
    real,
    scale,
    length,
    RAGGED: tl.constexpr,
    PADDED: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Attention of a head, whose rows beyond its length look at nothing."""
    scores = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale
    if PADDED or RAGGED:
        scores += hidden_of(places, real, length, PADDED)[None, :]
    attention = tl.exp2(scores - tl.max(scores, 1)[:, None])
    attention *= (1 / tl.sum(attention, 1))[:, None]
    return tl.where((places < length)[:, None], attention, 0.0) if RAGGED else attention


@triton.jit
def refined_of(attention, messages, once, OWN: tl.constexpr, RAGGED: tl.constexpr):
    """Refined probabilities of a head; the loads are products, the largest 1."""
    loads = tl.reduce(messages, 0, product)
    weights = (attention if OWN else attention * once) * (loads / tl.max(loads, 0))[None, :]
    total = tl.sum(weights, 1)
    if RAGGED:
        total = tl.where(total > 0, total, 1.0)
    return weights * (1 / total)[:, None]


@triton.jit
def attend(
    query,
    key,
    value,
    real,
    spared,
    query_bits,
    key_bits,
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
    PLACES: tl.constexpr,
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
    """Refined attention's output."""
    head, places = tl.program_id(1), tl.arange(0, PLACES)
    real, first = real + head // heads * length, head * length
    q = load_rows(
        head_of(query, q_sequence, q_head, heads), q_row, places, length, width, WIDTH, RAGGED
    )
    k = load_rows(
        head_of(key, k_sequence, k_head, heads), k_row, places, length, width, WIDTH, RAGGED
    )
    v = load_rows(
        head_of(value, v_sequence, v_head, heads), v_row, places, length, depth, DEPTH, RAGGED
    )
    attention = attention_of(q, k, places, real, scale, length, RAGGED, PADDED, PRECISION)
    changes = changes_of(places, real, length, change, PADDED)[:, None]
    if SPARES:
        changes *= biased_of(places, spared + first, length, RAGGED)[None, :]
    messages = 1 + changes * attention
    refined = refined_of(attention, messages, over(messages, slope, height, STEPS), OWN, RAGGED)
    if DROPS:
        asking = load_numbers(query_bits + first, places, length, 0, RAGGED)[:, None]
        refined *= kept_of(
            asking,
            load_numbers(key_bits + first, places, length, 0, RAGGED)[None, :],
            threshold,
            kept,
        )
    mean = tl.dot(refined.to(v.dtype), v, input_precision=PRECISION)
    store_rows(
        head_in(out, length, heads, depth),
        heads * depth,
        places,
        length,
        depth,
        mean,
        DEPTH,
        RAGGED,
    )


@triton.jit
def gradients(
    query,
    key,
    value,
    output_gradient,
    real,
    spared,
    query_bits,
    key_bits,
    to_query,
    to_key,
    to_value,
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
    PLACES: tl.constexpr,
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
    """The gradients of query, key and value."""
    head, places = tl.program_id(1), tl.arange(0, PLACES)
    real, first = real + head // heads * length, head * length
    q = load_rows(
        head_of(query, q_sequence, q_head, heads), q_row, places, length, width, WIDTH, RAGGED
    )
    k = load_rows(
        head_of(key, k_sequence, k_head, heads), k_row, places, length, width, WIDTH, RAGGED
    )
    v = load_rows(
        head_of(value, v_sequence, v_head, heads), v_row, places, length, depth, DEPTH, RAGGED
    )
    g = load_rows(
        head_of(output_gradient, g_sequence, g_head, heads),
        g_row,
        places,
        length,
        depth,
        DEPTH,
        RAGGED,
    )
    attention = attention_of(q, k, places, real, scale, length, RAGGED, PADDED, PRECISION)
    changes = changes_of(places, real, length, change, PADDED)[:, None]
    if SPARES:
        changes *= biased_of(places, spared + first, length, RAGGED)[None, :]
    messages = 1 + changes * attention
    once = over(messages, slope, height, STEPS)
    refined = refined_of(attention, messages, once, OWN, RAGGED)
    through, used = tl.dot(g, tl.trans(v), input_precision=PRECISION), refined
    if DROPS:
        query_draws = load_numbers(query_bits + first, places, length, 0, RAGGED)[:, None]
        keep = kept_of(
            query_draws,
            load_numbers(key_bits + first, places, length, 0, RAGGED)[None, :],
            threshold,
            kept,
        )
        through *= keep
        used = refined * keep
    value_gradient = tl.dot(tl.trans(used.to(g.dtype)), g, input_precision=PRECISION)
    store_rows(
        head_in(to_value, length, heads, depth),
        heads * depth,
        places,
        length,
        depth,
        value_gradient,
        DEPTH,
        RAGGED,
    )
    through -= tl.sum(refined * through, 1)[:, None]
    heard = tl.sum(refined * through, 0)[None, :]
    back = to_attention(attention, once, refined, through, heard, changes, OWN)
    back = (back - attention * tl.sum(back, 1)[:, None]) * nats
    query_gradient = tl.dot(back.to(k.dtype), k, input_precision=PRECISION)
    store_rows(
        head_in(to_query, length, heads, width),
        heads * width,
        places,
        length,
        width,
        query_gradient,
        WIDTH,
        RAGGED,
    )
    key_gradient = tl.dot(tl.trans(back.to(q.dtype)), q, input_precision=PRECISION)
    store_rows(
        head_in(to_key, length, heads, width),
        heads * width,
        places,
        length,
        width,
        key_gradient,
        WIDTH,
        RAGGED,
    )
