"""Both passes in the common case: one strength, no padding, no order, no dropout, whole matrices.

The numbers are those of `saobp.fused.sweeps`. In a model of short sequences the interpreter takes as long as the
numbers do, so this is written out: beside the matrix products only passes over two or three matrices in the cache.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from saobp.fused.heads import Call
from saobp.fused.products import RANGE, log_sum, softmax_gradient
from saobp.fused.tiles import buffer, cut, heads_per_tile, is_single, scratch_for, sequences_per_tile


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
    for query, key, value, out, *kept in pieces(*tensors):
        attention, messages = attention_and_messages(call, query, key, scratch)
        load = plain_loads(messages, call.strongest)
        if load is None:
            return False
        weights = attention.div_(messages) if call.exclude_self else attention
        total = weights.mul_(load).sum(-1, keepdim=True)
        torch.bmm(weights, value, out=out).div_(total)
        for room, found in zip(kept, (total, load)):
            room.copy_(found)
    return True


def backward_plainly(call: Call, *tensors: Tensor) -> None:
    """Fill in the gradients of query, key and value from those three, the forward pass's results and its gradient."""
    scratch = scratch_for(tensors[0])
    for query, key, value, mean, total, load, given, *results in pieces(*tensors):
        to_query, to_key, to_value = results
        attention, messages = attention_and_messages(call, query, key, scratch)
        through = buffer(scratch, 0, attention.shape, query, query.dtype)
        weights = torch.div(attention, messages, out=through) if call.exclude_self else attention
        given = given / total
        last = (mean * given).sum(-1, keepdim=True).neg_()
        torch.bmm(weights.mT, given, out=to_value)
        heard = torch.baddbmm((to_value * value).sum(-1).unsqueeze(1), last.mT, weights).mul_(load)
        to_value.mul_(load.mT)
        torch.baddbmm(last, given, value.mT, out=through).mul_(load)
        if call.exclude_self:
            torch.addcdiv(heard.mul_(call.change), through, messages, out=through).div_(messages)
        else:
            through.addcdiv_(heard.mul_(call.change), messages)
        scores = softmax_gradient(through, attention, out=messages)
        torch.baddbmm(to_query, scores, key, beta=0, alpha=call.scale, out=to_query)
        torch.baddbmm(to_key, scores.mT, query, beta=0, alpha=call.scale, out=to_key)


def plain_loads(messages: Tensor, strongest: float) -> Tensor | None:
    """Multiply the messages about each key, (head, 1, key), up to a factor; None if float32 has no room for it."""
    if strongest * messages.shape[-2] <= RANGE / 2:
        return messages.prod(-2, keepdim=True)
    bias = log_sum(messages, strongest)
    bias -= bias.amax(-1, keepdim=True)
    mild = strongest * messages.shape[-2] <= RANGE or bias.amin().item() >= strongest - RANGE
    return bias.exp_() if mild else None
