"""Both passes in the common case: one strength, no padding, no order, no dropout, whole matrices.

The numbers are those of `saobp.fused.sweeps`. In a model of short sequences the interpreter takes as long as the
numbers do, so this is written out: beside the matrix products only passes over two or three matrices in the cache.
"""

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from saobp.fused import native
from saobp.fused.heads import Call
from saobp.fused.products import RANGE, log_sum, softmax_gradient
from saobp.fused.tiles import TILE, buffer, cut, heads_per_tile, is_single, scratch_for, sequences_per_tile


def is_plain(call: Call, query: Tensor) -> bool:
    """Tell whether a call is the common case."""
    return (
        call.change is not None
        and call.strongest <= 0.5
        and call.factor != "elemmul"
        and not call.causal
        and call.dropout is None
        and query.dtype in (torch.float32, torch.float64)
        and is_single(query.shape[2])
    )


def pieces(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Cut tensors (batch, head, ...) into whole sequences or heads, (head, ...)."""
    heads, length = tensors[0].shape[1:3]
    together, size = sequences_per_tile(heads, length), heads_per_tile(length)
    return zip(*(cut(x, together, size) for x in tensors))


def attention_and_messages(call: Call, query: Tensor, key: Tensor, scratch: dict) -> tuple[Tensor, Tensor]:
    """Return attention and messages over e^strength (head, query, key), in buffers 1 and 2."""
    count, length, _ = query.shape
    attention, messages = (buffer(scratch, n, (count, length, length), query, query.dtype) for n in (1, 2))
    torch.baddbmm(attention, query, key.mT, beta=0, alpha=call.scale, out=attention)
    torch.softmax(attention, -1, out=attention)
    return attention, torch.add(call.one, attention, alpha=call.change, out=messages)


def attend_plainly(call: Call, *tensors: Tensor) -> bool:
    """Fill in the output and, if given, the rows' normalisers and the keys' loads that a gradient needs.

    `tensors` are query, key and value, and what is filled in. Returns False where the loads need logarithms.
    """
    scratch = scratch_for(tensors[0])
    weigh = weigh_natively if native.serves(tensors[0]) else weigh_by_torch
    for query, key, value, out, *kept in pieces(*tensors):
        found = weigh(call, query, key, value, scratch)
        if found is None:
            return False
        weights, values, total, load = found
        torch.bmm(weights, values, out=out).div_(total)
        for room, new in zip(kept, (total, load)):
            room.copy_(new)
    return True


def weigh_by_torch(call: Call, query: Tensor, key: Tensor, value: Tensor, scratch: dict) -> tuple[Tensor, ...] | None:
    """Return weights and values whose product is the output times the total, the total, and the loads."""
    attention, messages = attention_and_messages(call, query, key, scratch)
    load = plain_loads(messages, call.strongest)
    if load is None:
        return None
    weights = (attention.div_(messages) if call.exclude_self else attention).mul_(load)
    return weights, value, weights.sum(-1, keepdim=True), load


def weigh_natively(call: Call, query: Tensor, key: Tensor, value: Tensor, scratch: dict) -> tuple[Tensor, ...] | None:
    """Return the same by compiled passes, over so many rows at once as fit the cache."""
    count, length, _ = query.shape
    weights = buffer(scratch, 1, (count, length, length), query, query.dtype)
    product = query.new_ones(count, length, dtype=torch.float64)
    size = length if length**2 <= TILE else TILE // length
    for rows, asking in ((weights, query),) if size >= length else zip(weights.split(size, 1), query.split(size, 1)):
        torch.baddbmm(rows, asking, key.mT, beta=0, alpha=call.scale, out=rows)
        native.weigh(rows, product, call.change, not call.exclude_self)
    found = native.total(weights, product, call.strongest)
    if found is None:
        return None
    load, total = found
    return weights, value * load.mT, total, load


def backward_plainly(call: Call, *tensors: Tensor) -> None:
    """Fill in the gradients of query, key and value from those three, the forward pass's results and its gradient."""
    scratch = scratch_for(tensors[0])
    weigh = weigh_again_natively if native.serves(tensors[0]) else weigh_again_by_torch
    for query, key, value, mean, total, load, given, *results in pieces(*tensors):
        to_query, to_key, to_value = results
        given = given / total
        last = (mean * given).sum(-1, keepdim=True).neg_()
        attention, weights, heard, to_scores = weigh(call, query, key, last, scratch)
        torch.bmm(weights.mT, given, out=to_value)
        heard.add_((to_value * value).sum(-1).unsqueeze(1)).mul_(load)
        to_value.mul_(load.mT)
        through = buffer(scratch, 0, attention.shape, query, query.dtype)
        torch.baddbmm(last, given, value.mT, out=through)
        scores = to_scores(attention, through, load, heard, call.change, not call.exclude_self)
        torch.baddbmm(to_query, scores, key, beta=0, alpha=call.scale, out=to_query)
        torch.baddbmm(to_key, scores.mT, query, beta=0, alpha=call.scale, out=to_key)


def weigh_again_by_torch(call: Call, query: Tensor, key: Tensor, last: Tensor, scratch: dict) -> tuple:
    """Return attention, weights but for the loads, last^T weights, and what gives the scores' gradient."""
    attention, messages = attention_and_messages(call, query, key, scratch)
    weights = buffer(scratch, 0, attention.shape, query, query.dtype)
    weights = torch.div(attention, messages, out=weights) if call.exclude_self else attention
    return attention, weights, last.mT @ weights, partial(scores_gradient, messages)


def weigh_again_natively(call: Call, query: Tensor, key: Tensor, last: Tensor, scratch: dict) -> tuple:
    """Return the same by compiled passes."""
    count, length, _ = query.shape
    attention, weights = (buffer(scratch, n, (count, length, length), query, query.dtype) for n in (1, 0))
    torch.baddbmm(attention, query, key.mT, beta=0, alpha=call.scale, out=attention)
    heard = native.weigh_again(attention, weights, last, call.change, not call.exclude_self)
    return attention, weights, heard, native.scores_gradient


def scores_gradient(
    messages: Tensor, attention: Tensor, through: Tensor, load: Tensor, heard: Tensor, change: float, own: bool
) -> Tensor:
    """Return the gradient of scores from that of weights, `through`, in the memory of the messages."""
    through.mul_(load)
    if own:
        through.addcdiv_(heard.mul_(change), messages)
    else:
        torch.addcdiv(heard.mul_(change), through, messages, out=through).div_(messages)
    return softmax_gradient(through, attention, out=messages)


def plain_loads(messages: Tensor, strongest: float) -> Tensor | None:
    """Multiply the messages about each key, (head, 1, key), up to a factor; None if float32 has no room for it."""
    if strongest * messages.shape[-2] <= RANGE / 2:
        return messages.prod(-2, keepdim=True)
    bias = log_sum(messages, strongest)
    bias -= bias.amax(-1, keepdim=True)
    mild = strongest * messages.shape[-2] <= RANGE or bias.amin().item() >= strongest - RANGE
    return bias.exp_() if mild else None
