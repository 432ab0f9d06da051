"""The forward pass in the common case: one strength, no padding, no order, no dropout, whole matrices.

The numbers are those of `saobp.fused.forms.forward_all`. In a model of short sequences the interpreter takes as long
as the numbers do, so this is written out: seven passes over a matrix in the cache beside the two products.
"""

import torch
from torch import Tensor

from saobp.fused.heads import (
    RANGE,
    Call,
    buffer,
    cut,
    heads_per_tile,
    is_single,
    log_sum,
    scratch_for,
    sequences_per_tile,
)


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


def attend_plainly(call: Call, *tensors: Tensor) -> bool:
    """Fill in the output and, if given, the rows' normalisers and the keys' loads that a gradient needs.

    `tensors` are query, key and value, and what is filled in. Returns False where the loads need logarithms.
    """
    heads, length = tensors[0].shape[1:3]
    scratch, together, size = scratch_for(tensors[0]), sequences_per_tile(heads, length), heads_per_tile(length)
    for query, key, value, out, *kept in zip(*(cut(x, together, size) for x in tensors)):
        shape = (len(query), length, length)
        attention, messages = (buffer(scratch, number, shape, query, query.dtype) for number in (1, 2))
        torch.baddbmm(attention, query, key.mT, beta=0, alpha=call.scale, out=attention)
        torch.softmax(attention, -1, out=attention)
        torch.add(call.one, attention, alpha=call.change, out=messages)
        load = plain_loads(messages, call.strongest)
        if load is None:
            return False
        weights = attention.div_(messages) if call.exclude_self else attention
        total = weights.mul_(load).sum(-1, keepdim=True)
        torch.bmm(weights, value, out=out).div_(total)
        for room, found in zip(kept, (total, load)):
            room.copy_(found)
    return True


def plain_loads(messages: Tensor, strongest: float) -> Tensor | None:
    """Multiply the messages about each key, (head, 1, key), up to a factor; None if float32 has no room for it."""
    if strongest * messages.shape[-2] <= RANGE / 2:
        return messages.prod(-2, keepdim=True)
    bias = log_sum(messages, strongest)
    bias -= bias.amax(-1, keepdim=True)
    mild = strongest * messages.shape[-2] <= RANGE or bias.amin().item() >= strongest - RANGE
    return bias.exp_() if mild else None
