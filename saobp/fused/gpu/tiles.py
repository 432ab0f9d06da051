"""What the kernels share: rows of a head, attention, messages, refined probabilities and dropout of
a tile.

In units of log 2, with scores s, attention a = e^(s - row), messages m = 1 + change a, loads g =
sum over queries of log m, refined probabilities p = e^(s + g - normaliser) / m. Back, G = do v^T, H
= column sums of p (G - o . do), and

    t = p (G - o . do) / m + a change / m H,    gradient of s = t - a (row sum of t)

A program has a head and a block of its queries or keys; `rows` and `columns` are their places in
the sequence. A tile is (query, key) or (key, query), and what belongs to its queries and keys comes
in a shape that fits. RAGGED says that blocks reach beyond a head's rows or columns, PADDED that
some tokens are padding, SPARES that some keys get no bias: m = 1 and g = 0 there, OWN that a query
hears itself too.
"""

import triton
import triton.language as tl

from saobp.fused.tiled import heads

BLOCKED: tl.constexpr = tl.constexpr(heads.BLOCKED)
# largest spread of loads that float32 has room for as factors
MILD: tl.constexpr = tl.constexpr(90.0)


@triton.jit
def head_of(tensor, by_sequence, by_head, heads):
    """Where the program's head starts."""
    head = tl.program_id(1).to(tl.int64)
    return tensor + head // heads * by_sequence + head % heads * by_head


@triton.jit
def head_in(tensor, length, heads, width):
    """Where the program's head starts in a tensor whose tokens have their heads side by side."""
    return head_of(tensor, length * heads * width, width, heads)


@triton.jit
def load_rows(start, step, rows, length, width, WIDTH: tl.constexpr, RAGGED: tl.constexpr):
    """Some rows of a head, 0 where there are none."""
    columns = tl.arange(0, WIDTH)
    places = start + rows[:, None] * step + columns[None, :]
    if RAGGED:
        return tl.load(
            places, mask=(rows[:, None] < length) & (columns[None, :] < width), other=0.0
        )
    return tl.load(places)


@triton.jit
def store_rows(
    start, step, rows, length, width, numbers, WIDTH: tl.constexpr, RAGGED: tl.constexpr
):
    """Write some rows of a head."""
    columns = tl.arange(0, WIDTH)
    places, numbers = (
        start + rows[:, None] * step + columns[None, :],
        numbers.to(start.dtype.element_ty),
    )
    if RAGGED:
        tl.store(places, numbers, mask=(rows[:, None] < length) & (columns[None, :] < width))
    else:
        tl.store(places, numbers)


@triton.jit
def load_numbers(start, places, length, default, RAGGED: tl.constexpr):
    """Numbers of some rows, `default` where there are none."""
    if RAGGED:
        return tl.load(start + places, mask=places < length, other=default)
    return tl.load(start + places)


@triton.jit
def hidden_of(columns, real, length, PADDED: tl.constexpr):
    """What is added to the scores of keys: 0, or very much less where there is none to see."""
    seen = columns < length
    if PADDED:
        seen = tl.load(real + columns, mask=seen, other=0) != 0
    return tl.where(seen, 0.0, BLOCKED)


@triton.jit
def changes_of(rows, real, length, change, PADDED: tl.constexpr):
    """By what a query's message changes with attention: not at all if it is padding."""
    if PADDED:
        return tl.where(tl.load(real + rows, mask=rows < length, other=0) != 0, change, 0.0)
    return change + tl.zeros_like(rows).to(tl.float32)


@triton.jit
def biased_of(columns, spared, length, RAGGED: tl.constexpr):
    """1 for keys that get a bias, 0 for spared ones."""
    return tl.where(load_numbers(spared, columns, length, 0, RAGGED) != 0, 0.0, 1.0)


@triton.jit
def over(messages, slope, height, STEPS: tl.constexpr):
    """One over messages, by Newton's steps from a straight line."""
    inverse = height - slope * messages
    for _ in tl.static_range(STEPS):
        inverse *= 2 - messages * inverse
    return inverse


@triton.jit
def top_of(loads, length):
    """The largest load of a head, and whether loads are too far apart to be factors."""
    top, least = -float("inf"), float("inf")
    for start in range(0, length, 1024):
        places = start + tl.arange(0, 1024)
        top = tl.maximum(
            top, tl.max(tl.load(loads + places, mask=places < length, other=-float("inf")))
        )
        least = tl.minimum(
            least, tl.min(tl.load(loads + places, mask=places < length, other=float("inf")))
        )
    return top, top - least > MILD


@triton.jit
def refined_of(scores, attention, once, load, normaliser, top, wild, OWN: tl.constexpr):
    """Refined probabilities of a tile; as a product where loads are not far apart."""
    if wild:
        weights = tl.exp2(scores + load - normaliser)
    else:
        weights = attention * tl.exp2(load - top) * tl.exp2(top - normaliser)
    return weights if OWN else weights * once


@triton.jit
def to_attention(attention, once, refined, through, heard, change, OWN: tl.constexpr):
    """Attention times its gradient; `through` is G - o . do, `heard` the keys' H."""
    direct = refined * through
    return (direct if OWN else direct * once) + attention * once * (change * heard)


@triton.jit
def kept_of(query_draws, key_draws, threshold, kept):
    """`kept` where dropout keeps a pair and 0 elsewhere, from both bits, as
    `saobp.fused.dropout.Dropout.keep`.
    """
    bits = query_draws + key_draws
    bits = (bits ^ (bits >> 16)) * -2048144789
    bits = (bits ^ (bits >> 13)) * -1028477387
    return tl.where(bits >= threshold, kept, 0.0)


@triton.jit
def product(left, right):
    """For `tl.reduce`."""
    return left * right
