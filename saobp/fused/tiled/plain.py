"""Both passes in the common case: one strength, no order; by torch also no padding, no dropout,
whole matrices.

The numbers are those of `saobp.fused.tiled.sweeps`. In a model of short sequences the interpreter
takes as long as the numbers do, so this is one call of `saobp.fused.tiled.native`, or written out
for torch where there is no compiler.
"""

import torch
from torch import Tensor

from saobp.fused.tiled import native
from saobp.fused.tiled.heads import Call
from saobp.fused.tiled.products import RANGE, log_sum, softmax_gradient
from saobp.fused.tiled.tiles import buffer, is_single, like, parts, scratch_for, sums_like


def is_plain(call: Call, query: Tensor) -> bool:
    """Tell whether a call is the common case, and one that is served here."""
    return (
        call.is_common
        and query.dtype in (torch.float32, torch.float64)
        and (
            native.serves(query)
            or (is_single(query.shape[2]) and call.real is None and call.dropout is None)
        )
    )


def finds_shares(call: Call, query: Tensor) -> bool:
    """Tell whether the forward pass finds the keys of a share itself."""
    if native.serves(query):
        return call.is_common
    # by torch it may stop before the last head where loads need logarithms
    return is_plain(call, query) and call.strongest * query.shape[2] <= RANGE


def attention_and_messages(
    call: Call, changes: float | Tensor, query: Tensor, key: Tensor, scratch: dict
) -> tuple[Tensor, Tensor]:
    """Return attention and messages over e^strength (head, query, key), in buffers 1 and 2."""
    attention = plain_attention(call, query, key, scratch)
    return attention, messages_of(call, changes, attention, scratch)


def plain_attention(call: Call, query: Tensor, key: Tensor, scratch: dict) -> Tensor:
    """Return attention (head, query, key), in buffer 1."""
    count, length, _ = query.shape
    attention = buffer(scratch, 1, (count, length, length), query, query.dtype)
    torch.baddbmm(attention, query, key.mT, beta=0, alpha=call.scale, out=attention)
    return torch.softmax(attention, -1, out=attention)


def messages_of(call: Call, changes: float | Tensor, attention: Tensor, scratch: dict) -> Tensor:
    """Return messages over e^strength (head, query, key), in buffer 2."""
    messages = buffer(scratch, 2, attention.shape, attention, attention.dtype)
    if isinstance(changes, Tensor):
        return torch.addcmul(call.unit, attention, changes, out=messages)
    return torch.add(call.unit, attention, alpha=changes, out=messages)


def attend_plainly(call: Call, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor] | None:
    """Return the output, the rows' normalisers and the keys' loads; None where the loads need
    logarithms.
    """
    if native.serves(query):
        return native.attend(call, query, key, value)
    results, scratch = [like(value, value.dtype), *sums_like(query)], scratch_for(query)
    # the most that loads can lie apart, in nats
    spread = call.strongest * query.shape[2]
    for part, (queries, keys, values, out, total, load) in parts(
        query, key, value, *results, length=query.shape[2]
    ):
        attention = plain_attention(call, queries, keys, scratch)
        if call.share:
            call.spared[part] = attention.sum(-2) > call.share * query.shape[2]
        messages = messages_of(call, call.changes(part), attention, scratch)
        if spread <= RANGE / 2:
            loads = messages.prod(-2, keepdim=True)
        else:
            bias = log_sum(messages, call.strongest)
            bias -= bias.amax(-1, keepdim=True)
            if spread > RANGE and not bias.amin().item() >= call.strongest - RANGE:
                return None
            loads = bias.exp_()
        weights = (attention.div_(messages) if call.exclude_self else attention).mul_(loads)
        torch.sum(weights, -1, keepdim=True, out=total)
        torch.bmm(weights, values, out=out).div_(total)
        load.copy_(loads)
    return results


def backward_plainly(call: Call, *tensors: Tensor) -> list[Tensor]:
    """Return the gradients of query, key and value from those three, the forward pass's results and
    its gradient.
    """
    if native.serves(tensors[0]):
        return native.gradients(call, *tensors)
    results, scratch = [like(x, x.dtype) for x in tensors[:3]], scratch_for(tensors[0])
    for part, pieces in parts(*tensors, *results, length=tensors[0].shape[2]):
        query, key, value, mean, total, load, output_gradient, to_query, to_key, to_value = pieces
        output_gradient = output_gradient / total
        last = (mean * output_gradient).sum(-1, keepdim=True).neg_()
        changes = call.changes(part)
        attention, messages = attention_and_messages(call, changes, query, key, scratch)
        through = buffer(scratch, 0, attention.shape, query, query.dtype)
        weights = torch.div(attention, messages, out=through) if call.exclude_self else attention
        heard = last.mT @ weights
        torch.bmm(weights.mT, output_gradient, out=to_value)
        heard.add_((to_value * value).sum(-1).unsqueeze(1)).mul_(load)
        to_value.mul_(load.mT)
        torch.baddbmm(last, output_gradient, value.mT, out=through)
        scores = scores_gradient(
            messages, attention, through, load, heard.mul_(changes), not call.exclude_self
        )
        torch.baddbmm(to_query, scores, key, beta=0, alpha=call.scale, out=to_query)
        torch.baddbmm(to_key, scores.mT, query, beta=0, alpha=call.scale, out=to_key)
    return results


def scores_gradient(
    messages: Tensor,
    attention: Tensor,
    through: Tensor,
    load: Tensor,
    heard: Tensor,
    keeps_self: bool,
) -> Tensor:
    """Return the gradient of scores from that of weights, `through`, in the memory of the
    messages.
    """
    through.mul_(load)
    if keeps_self:
        through.addcdiv_(heard, messages)
    else:
        torch.addcdiv(heard, through, messages, out=through).div_(messages)
    return softmax_gradient(through, attention, out=messages)
