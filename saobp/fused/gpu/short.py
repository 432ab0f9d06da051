"""Sequences that fit one tile: a head is one program, forward and backward, and nothing is kept in between."""

import triton
import triton.language as tl

from saobp.fused.gpu.tiles import changes_of, head_of, kept_of, load_rows, product, scores_of, store_rows


@triton.jit
def attention_of(
    query, key, real, places, scale, length, width, heads, q_sequence, q_head, q_row, k_sequence, k_head, k_row,
    WIDTH: tl.constexpr, PADDED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Queries, keys and attention of a head, whose rows beyond its length look at nothing."""
    q = load_rows(head_of(query, q_sequence, q_head, heads), q_row, places, length, width, WIDTH)
    k = load_rows(head_of(key, k_sequence, k_head, heads), k_row, places, length, width, WIDTH)
    scores = scores_of(q, k, places, real, length, scale, PADDED, PRECISION)
    attention = tl.exp2(scores - tl.max(scores, 1)[:, None])
    attention /= tl.sum(attention, 1)[:, None]
    return q, k, tl.where((places < length)[:, None], attention, 0.0)


@triton.jit
def refined_of(attention, messages, OWN: tl.constexpr):
    """Refined probabilities of a head; the loads are products, the largest 1."""
    loads = tl.reduce(messages, 0, product)
    loads /= tl.max(loads, 0)
    weights = (attention if OWN else attention / messages) * loads[None, :]
    total = tl.sum(weights, 1)
    return weights / tl.where(total > 0, total, 1.0)[:, None]


@triton.jit
def attend(
    query, key, value, real, query_bits, key_bits, out, scale, change, length, width, depth, heads, threshold, kept,
    q_sequence, q_head, q_row, k_sequence, k_head, k_row, v_sequence, v_head, v_row,
    PLACES: tl.constexpr, WIDTH: tl.constexpr, DEPTH: tl.constexpr, PADDED: tl.constexpr,
    DROPS: tl.constexpr, OWN: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Refined attention's output."""
    head, places = tl.program_id(1), tl.arange(0, PLACES)
    real += head // heads * length
    _, _, attention = attention_of(
        query, key, real, places, scale, length, width, heads, q_sequence, q_head, q_row, k_sequence, k_head, k_row,
        WIDTH, PADDED, PRECISION,
    )  # fmt: skip
    messages = 1 + changes_of(places, real, length, change, PADDED) * attention
    refined = refined_of(attention, messages, OWN)
    if DROPS:
        first = head * length
        refined *= kept_of(query_bits + first, key_bits + first, places, places, length, threshold, kept)
    v = load_rows(head_of(value, v_sequence, v_head, heads), v_row, places, length, depth, DEPTH)
    mean = tl.dot(refined.to(v.dtype), v, input_precision=PRECISION)
    start = out + ((head // heads).to(tl.int64) * length * heads + head % heads) * depth
    store_rows(start, heads * depth, places, length, depth, mean, DEPTH)


@triton.jit
def gradients(
    query, key, value, given, real, query_bits, key_bits, to_query, to_key, to_value,
    scale, nats, change, length, width, depth, heads, threshold, kept,
    q_sequence, q_head, q_row, k_sequence, k_head, k_row, v_sequence, v_head, v_row, g_sequence, g_head, g_row,
    PLACES: tl.constexpr, WIDTH: tl.constexpr, DEPTH: tl.constexpr, PADDED: tl.constexpr,
    DROPS: tl.constexpr, OWN: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """The gradients of query, key and value."""
    head, places = tl.program_id(1), tl.arange(0, PLACES)
    real += head // heads * length
    q, k, attention = attention_of(
        query, key, real, places, scale, length, width, heads, q_sequence, q_head, q_row, k_sequence, k_head, k_row,
        WIDTH, PADDED, PRECISION,
    )  # fmt: skip
    v = load_rows(head_of(value, v_sequence, v_head, heads), v_row, places, length, depth, DEPTH)
    g = load_rows(head_of(given, g_sequence, g_head, heads), g_row, places, length, depth, DEPTH)
    changes = changes_of(places, real, length, change, PADDED)
    refined = refined_of(attention, 1 + changes * attention, OWN)
    through = tl.dot(g, tl.trans(v), input_precision=PRECISION)
    used = refined
    if DROPS:
        first = head * length
        keep = kept_of(query_bits + first, key_bits + first, places, places, length, threshold, kept)
        through *= keep
        used *= keep
    found = tl.dot(tl.trans(used.to(g.dtype)), g, input_precision=PRECISION)
    start = ((head // heads).to(tl.int64) * length * heads + head % heads) * depth
    store_rows(to_value + start, heads * depth, places, length, depth, found, DEPTH)
    direct = refined * (through - tl.sum(refined * through, 1)[:, None])
    once = 1 / (1 + changes * attention)
    back = (direct if OWN else direct * once) + attention * once * changes * tl.sum(direct, 0)[None, :]
    back = (back - attention * tl.sum(back, 1)[:, None]) * nats
    start = ((head // heads).to(tl.int64) * length * heads + head % heads) * width
    found = tl.dot(back.to(k.dtype), k, input_precision=PRECISION)
    store_rows(to_query + start, heads * width, places, length, width, found, WIDTH)
    found = tl.dot(tl.trans(back.to(q.dtype)), q, input_precision=PRECISION)
    store_rows(to_key + start, heads * width, places, length, width, found, WIDTH)
