"""Refined attention and its gradient from tiles, without the L x L matrix between forward and
backward.

How the tiles of a few heads are gone over is in `saobp.fused.tiled.sweeps`; A A^T (Eq. 15), without
messages, is here.
"""

from collections.abc import Callable, Iterable
from functools import partial

import torch
from torch import Tensor

from saobp.fused.tiled.heads import Call, Gradients, Heads, Means
from saobp.fused.tiled.plain import attend_plainly, backward_plainly, is_plain
from saobp.fused.tiled.products import Wide, average, paired, softmax_gradient
from saobp.fused.tiled.sweeps import (
    backward_all,
    backward_prefix,
    forward_all,
    forward_prefix,
    values_for,
)
from saobp.fused.tiled.tiles import is_single, like, parts
from saobp.fused.workers import side_by_side


class RefinedAttention(torch.autograd.Function):
    """Refined attention of query, key and value (batch, head, L, D) at a signed strength (batch,
    head, 1, 1).
    """

    @staticmethod
    def forward(ctx, call: Call, *inputs: Tensor) -> Tensor:
        results = attend(call, *inputs, keep=True)
        ctx.save_for_backward(*inputs, *results)
        ctx.call = call
        return results[0].to(inputs[2].dtype)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple:
        refuse_second_derivatives()
        call, saved = ctx.call, ctx.saved_tensors
        inputs, kept = saved[:4], saved[4:]
        if len(kept) == 3:
            return None, *backward_plainly(call, *inputs[:3], *kept, gradient), None
        results = [like(x, torch.promote_types(x.dtype, torch.float32)) for x in inputs[:3]]
        results.append(torch.zeros_like(inputs[3], memory_format=torch.contiguous_format))
        work = partial(backward_part, call, ctx.needs_input_grad[4])
        run(work, parts(*saved, gradient, *results, length=gradient.shape[2]), gradient)
        return None, *(x.to(tensor.dtype) for x, tensor in zip(results, inputs))


def refuse_second_derivatives() -> None:
    """Raise RuntimeError in a backward pass under create_graph: what is worked out there could not
    be followed.
    """
    if torch.is_grad_enabled():
        raise RuntimeError(
            "saobp_attention has no second derivatives; call a model with output_attentions=True for them, "
            "and in code of your own use saobp.refine(softmax(scores)) @ value"
        )


def by_head(strength: float | Tensor, query: Tensor) -> Tensor:
    """Return a strength for each head, (batch, head, 1, 1), from one number or what broadcasts over
    (batch, head); one that has that shape stays as it is.
    """
    if isinstance(strength, Tensor) and strength.ndim == 4:
        return strength
    wide = torch.promote_types(query.dtype, torch.float32)
    strength = torch.as_tensor(strength, dtype=wide, device=query.device)
    return strength.expand(query.shape[:2])[..., None, None]


def attend(
    call: Call,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    strength: float | Tensor,
    keep: bool = False,
) -> list[Tensor]:
    """Return refined attention (batch, head, L, D) and, to keep for its gradient, normalisers and
    loads.

    Where it was not worked out plainly, there are shifts too, with one tile empty ones.
    """
    batch, heads, length, _ = query.shape
    plainly = attend_plainly(call, query, key, value) if is_plain(call, query) else None
    if plainly is not None:
        return plainly
    wide = torch.promote_types(query.dtype, torch.float32)
    # its products with the gradient cancel what is large: they are not of the rounded output
    results = [like(value, wide if keep else value.dtype)]
    if keep:
        load_type = torch.float64 if call.causal else wide
        results.append(query.new_empty(batch, heads, length, 1, dtype=wide))
        results.append(query.new_empty(batch, heads, 1, length, dtype=load_type))
        results.append(
            query.new_empty(batch, heads, 0 if is_single(length) else length, 1, dtype=wide)
        )
    pieces = parts(query, key, value, by_head(strength, query), *results, length=length)
    run(partial(forward_part, call), pieces, query)
    return results


def run(work: Callable[..., None], pieces: Iterable[tuple], like: Tensor) -> None:
    """Work on pieces: side by side on a processor where sequences are long, else one after the
    other.

    Short sequences are over before torch's own threads, which spin for some milliseconds after a
    call, leave their cores to others.
    """
    if like.device.type == "cpu" and not is_single(like.shape[2]):
        side_by_side(work, pieces)
    else:
        for piece in pieces:
            work(*piece)


def forward_part(call: Call, part: slice, pieces: tuple[Tensor, ...]) -> None:
    """Work out a few heads: their output, and what their gradient will need to know if there is
    room for it.
    """
    heads, (out, *kept) = Heads(call, part, pieces[:4]), pieces[4:]
    total, load, shift = kept or (None, None, None)
    forward, _ = ways(call)
    loads = forward(heads, Means(heads, out, total))
    if kept:
        load.copy_(loads)
        if shift.shape[1]:
            shift.copy_(heads.found_shift())


def backward_part(
    call: Call, wants_strength: bool, part: slice, pieces: tuple[Tensor, ...]
) -> None:
    """Work out the gradients of a few heads."""
    inputs, (mean, total, load, shift, output_gradient), results = (
        pieces[:4],
        pieces[4:9],
        pieces[9:],
    )
    heads = Heads(call, part, inputs, shift if shift.shape[1] else None)
    gradients = Gradients(heads, results, strength=wants_strength)
    # do and one number more, -do . o, both over the normaliser of their row
    gradient = heads.wide("gradient")
    torch.div(output_gradient, total, out=gradient.body)
    torch.sum(mean * gradient.body, -1, keepdim=True, out=gradient.last)
    gradient.last.neg_()
    _, backward = ways(call)
    backward(heads, gradient, load, gradients)


def ways(
    call: Call,
) -> tuple[Callable[[Heads, Means], Tensor], Callable[[Heads, Wide, Tensor, Gradients], None]]:
    """Choose how a call goes forward and backward over the tiles of a few heads."""
    if call.factor == "elemmul":
        return forward_kernel, backward_kernel
    return (forward_prefix, backward_prefix) if call.causal else (forward_all, backward_all)


def forward_kernel(heads: Heads, means: Means) -> Tensor:
    """Average values under A A^T without forming it (Eq. 15): A (A^T V), and A (A^T 1) to normalise
    rows.

    Returns the sums A^T 1 in place of what is said, which this form does not need.
    """
    values, sums, averages = (
        values_for(heads, real_weight(heads)),
        heads.wide("sums"),
        heads.wide("means"),
    )
    for rows in heads.tiles():
        average(heads.attention(rows).mT, values.at(rows), None, sums, float(rows.start > 0))
    heads.found_shift()
    for rows in heads.tiles():
        average(heads.attention(rows), sums, None, averages.at(rows))
    torch.div(averages.body, averages.last, out=means.out)
    if means.total is not None:
        means.total.copy_(averages.last)
    return sums.last.mT


def backward_kernel(heads: Heads, gradient: Wide, _: Tensor, gradients: Gradients) -> None:
    """Fill in the gradients under A A^T: A stands in it twice, once for the query and once for the
    key.
    """
    weight = real_weight(heads)
    values, sums, returned = values_for(heads, weight), heads.wide("sums"), heads.wide("returned")
    for rows in heads.tiles():
        across = heads.attention(rows).mT
        average(across, values.at(rows), None, sums, float(rows.start > 0))
        average(across, gradient.at(rows), None, returned, float(rows.start > 0))
    for rows in heads.tiles():
        attention = heads.attention(rows)
        torch.bmm(attention, returned.body, out=heads.of(rows, gradients.value))
        through = paired(gradient.at(rows), sums, None, out=heads.buffer(0, rows))
        through.baddbmm_(values.at(rows).used, returned.used.mT)
        gradients.add_scores(rows, softmax_gradient(through, attention, out=heads.buffer(2, rows)))
    if weight is not None:
        gradients.value.mul_(weight)


def real_weight(heads: Heads) -> Tensor | None:
    """Return 1 for real tokens and 0 for padded ones, (head, L, 1); None where nothing is
    padded.
    """
    return None if heads.real is None else heads.real[..., None].to(heads.value.dtype)
