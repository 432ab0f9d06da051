"""What the kernels share: rows of a head, scores, messages and dropout of a tile.

In units of log 2, with scores s, attention a = e^(s - row), messages m = 1 + change a, loads g = sum over queries of log m,
refined probabilities p = e^(s + g - normaliser) / m. Back, H = column sums of p (G - o . do), G = do v^T, and

    t = p (G - o . do) / m + a change / m H,    gradient of s = t - a (row sum of t)

A program has a head and a block of its queries or keys; `rows` and `columns` are places in the sequence.
"""

import triton
import triton.language as tl

BLOCKED: tl.constexpr = tl.constexpr(-1e30)


@triton.jit
def head_of(tensor, by_sequence, by_head, heads):
    """Where the program's head starts."""
    head = tl.program_id(1).to(tl.int64)
    return tensor + head // heads * by_sequence + head % heads * by_head


@triton.jit
def load_rows(start, step, rows, length, width, WIDTH: tl.constexpr):
    """Some rows of a head, 0 where there are none."""
    columns = tl.arange(0, WIDTH)
    seen = (rows[:, None] < length) & (columns[None, :] < width)
    return tl.load(start + rows[:, None] * step + columns[None, :], mask=seen, other=0.0)


@triton.jit
def store_rows(start, step, rows, length, width, found, WIDTH: tl.constexpr):
    """Write some rows of a head."""
    columns = tl.arange(0, WIDTH)
    seen = (rows[:, None] < length) & (columns[None, :] < width)
    tl.store(start + rows[:, None] * step + columns[None, :], found.to(start.dtype.element_ty), mask=seen)


@triton.jit
def scores_of(query, key, columns, real, length, scale, PADDED: tl.constexpr, PRECISION: tl.constexpr):
    """Scores of a tile; very low where there is no key to see."""
    seen = columns < length
    if PADDED:
        seen = tl.load(real + columns, mask=seen, other=0) != 0
    return tl.where(seen[None, :], tl.dot(query, tl.trans(key), input_precision=PRECISION) * scale, BLOCKED)


@triton.jit
def changes_of(rows, real, length, change, PADDED: tl.constexpr):
    """What a query's message changes by attention: nothing if it is padding."""
    if PADDED:
        return tl.where(tl.load(real + rows, mask=rows < length, other=0) != 0, change, 0.0)[:, None]
    return change


@triton.jit
def kept_of(query_bits, key_bits, rows, columns, length, threshold, kept):
    """`kept` where dropout keeps a pair and 0 elsewhere, as `saobp.fused.dropout.Dropout.keep`."""
    asking = tl.load(query_bits + rows, mask=rows < length, other=0)
    bits = asking[:, None] + tl.load(key_bits + columns, mask=columns < length, other=0)[None, :]
    bits = (bits ^ (bits >> 16)) * -2048144789
    bits = (bits ^ (bits >> 13)) * -1028477387
    return tl.where(bits >= threshold, kept, 0.0)


@triton.jit
def product(one, other):
    """For `tl.reduce`."""
    return one * other


@triton.jit
def weights_of(scores, loads, sums, normalisers, changes, OWN: tl.constexpr):
    """Attention of a tile, one over its messages, and refined probabilities."""
    attention = tl.exp2(scores - sums[:, None])
    once = 1 / (1 + changes * attention)
    refined = tl.exp2(scores + loads[None, :] - normalisers[:, None])
    return attention, once, refined if OWN else refined * once


@triton.jit
def to_attention(attention, once, refined, through, heard, changes, OWN: tl.constexpr):
    """Attention times its gradient: `through` is (G - o . do), `heard` the keys' H."""
    direct = refined * through
    return (direct if OWN else direct * once) + attention * once * changes * heard[None, :]
