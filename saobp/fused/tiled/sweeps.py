"""How refined attention goes over its tiles: as a product where float32 has the range, else in
logarithms.

Write p for the softmax of the scores, t = 1 - c p for a message over e^strength, g_k = sum_i log
t_ik for what all queries say about key k, and r for the refined probabilities (Eq. 11; without "-
log t_jk" if a query receives its own message too):

    log r_jk = log p_jk + g_k - log t_jk + const

Back through the row normaliser, dy_jk = r_jk (dr_jk - do_j . o_j) is the gradient that reaches log
r_jk. Its column sums, the gradient of g, need no sweep of their own: they come with dv, from one
column more.
"""

import torch
from torch import Tensor

from saobp.fused.tiled.heads import BLOCKED, Gradients, Heads, Means
from saobp.fused.tiled.products import RANGE, Wide, average, log_sum, paired, softmax_gradient


def values_for(heads: Heads, weight: Tensor | None) -> Wide:
    """Return values and a column of ones, both times a weight of their key (head, L, 1) if
    given.
    """
    values = heads.wide("values")
    if weight is None:
        values.body.copy_(heads.value)
        values.last.fill_(1)
    else:
        torch.mul(heads.value, weight, out=values.body)
        values.last.copy_(weight)
    return values


def add_by_key(
    sums: Wide, heads: Heads, rows: slice, weights: Tensor, vectors: Wide, first: bool
) -> None:
    """Add weights^T @ vectors of a tile to the sums by key; the first tile sees all keys and starts
    them.
    """
    keep = heads.keep(rows)
    seen = sums.at(slice(0, heads.keys(rows)))
    average(weights.mT, vectors.at(rows), keep if keep is None else keep.mT, seen, float(not first))


def forward_all(heads: Heads, means: Means) -> Tensor:
    """Let every query receive from all the others; fill the means and return the load.

    The load of a key is e^g up to a factor, or g up to a constant where its range is too wide for
    float32.
    """
    load, narrow = key_loads(heads)
    bias = None if narrow else KeyBias(heads, load)
    for rows in reversed(heads.tiles()):
        weights = (
            product_weights(heads, rows, out=1).mul_(load) if narrow else beliefs(heads, rows, bias)
        )
        means.add(rows, weights)
    return load


def key_loads(heads: Heads) -> tuple[Tensor, bool]:
    """Put together what all real queries say about each key, (head, 1, key); tell if as a
    factor.
    """
    if heads.all and heads.call.strongest * heads.length <= RANGE / 2:
        return heads.messages(heads.all)[1].prod(-2, keepdim=True), True
    logs = [log_sum(heads.messages(rows)[1], heads.call.strongest) for rows in heads.tiles()]
    bias = sum(logs[1:], logs[0])
    heads.found_shift()
    # nothing is said about a padded key: let it not count as the best one
    if heads.real is not None:
        real = heads.real[:, None]
        bias = torch.where(real, bias, bias.masked_fill(~real, -torch.inf).amax(-1, keepdim=True))
    bias -= bias.amax(-1, keepdim=True)
    # a row that attracts its key alone weighs e^-strength there, beside the key's load
    narrow = is_mild(heads) or bool(bias.min() >= heads.call.strongest - RANGE)
    return (bias.exp_(), True) if narrow else (bias, False)


def is_mild(heads: Heads) -> bool:
    """Tell whether no load can have too wide a range, whatever the attention."""
    return heads.call.strongest * heads.length <= RANGE


def product_weights(heads: Heads, rows: slice, out: int) -> Tensor:
    """Return p / t of a tile, which is r but for e^g and the row's normaliser; in a buffer."""
    attention, messages = heads.messages(rows)
    if not heads.call.exclude_self:
        # a caller that changes it takes it: the tile is worked out again
        return attention
    return torch.div(attention, messages, out=heads.buffer(out, rows))


def backward_all(heads: Heads, gradient: Wide, load: Tensor, gradients: Gradients) -> None:
    """Fill in the gradients where every query receives messages from all the others."""
    # in nats, relative to the largest; a factor is positive
    if not is_mild(heads) and bool(load.min() < 0):
        return backward_beliefs(heads, gradient, KeyBias(heads, load), gradients)
    values, sums = values_for(heads, load.mT), heads.wide("sums")
    for rows in heads.tiles():
        weights = product_weights(heads, rows, out=0)
        add_by_key(sums, heads, rows, weights, gradient, first=rows.start == 0)
    torch.mul(sums.body, load.mT, out=gradients.value)
    heard = heads.unspared(sums.used.mul_(values.used).sum(-1).unsqueeze(1))
    for rows in reversed(heads.tiles()):
        gradients.add_scores(
            rows, product_gradient(heads, rows, gradient.at(rows), values, heard, gradients)
        )
    return None


def product_gradient(
    heads: Heads, rows: slice, gradient: Wide, values: Wide, heard: Tensor, gradients: Gradients
) -> Tensor:
    """Return the gradient of a tile's scores: a softmax's, of (x / t - c dg) / t with x = dy t /
    p.
    """
    attention, messages = heads.messages(rows)
    through = paired(gradient, values, heads.keep(rows), out=heads.buffer(0, rows))
    change = heads.change(rows) if heads.shared is None else heads.shared
    if gradients.wants_strength:
        weights = attention / messages
        reply = (
            torch.addcmul(heard, weights, through, value=-1) if heads.call.exclude_self else heard
        )
        gradients.add_strength(rows, heads.unspared(weights.mul_(reply)))
    if heads.call.exclude_self:
        torch.addcdiv(change * heard, through, messages, out=through).div_(messages)
    else:
        through.addcdiv_(change * heard, messages)
    return softmax_gradient(through, attention, out=heads.buffer(2, rows))


class KeyBias:
    """What a query receives from all the others: the same sum for each, without its own message."""

    def __init__(self, heads: Heads, bias: Tensor):
        self.exclude_self, self.bias = heads.call.exclude_self, bias
        self.heard: Tensor | None = None

    def hear(self, scores: Tensor, log_messages: Tensor) -> None:
        """Add to the scores of a tile what its queries receive."""
        scores.add_(self.bias)
        if self.exclude_self:
            scores.sub_(log_messages)

    def reply(self, gradient: Tensor, out: Tensor) -> Tensor:
        """Return the gradient of a tile's messages from that of its refined scores."""
        return (
            torch.sub(self.heard, gradient, out=out) if self.exclude_self else out.copy_(self.heard)
        )


class PrefixBias:
    """What a query receives from earlier ones only: a running sum, taken up from tile to tile.

    Backwards the tiles come last to first; in float64, taking off what was added restores the sum.
    """

    def __init__(self, heads: Heads, total: Tensor | None = None):
        self.exclude_self, self.backwards = heads.call.exclude_self, total is not None
        zeros = torch.zeros(
            heads.count, 1, heads.length, dtype=torch.float64, device=heads.query.device
        )
        self.total = zeros if total is None else total.clone()
        self.later = torch.zeros_like(zeros)

    def hear(self, scores: Tensor, log_messages: Tensor) -> None:
        """Add to the scores of a tile what its queries receive, and move on to the next tile."""
        running = log_messages.cumsum_(-2)
        total, tile_sum = self.total[..., : scores.shape[-1]], running[:, -1:].clone()
        if self.backwards:
            total -= tile_sum
        scores.add_(total.to(scores.dtype))
        # a shift, not a subtraction: the own message must not leave rounding behind
        if self.exclude_self:
            scores[:, 1:].add_(running[:, :-1])
        else:
            scores.add_(running)
        if not self.backwards:
            total += tile_sum

    def reply(self, gradient: Tensor, out: Tensor) -> Tensor:
        """Return the gradient of a tile's messages from that of its refined scores."""
        running = torch.cumsum(gradient, -2, out=out)
        last, later = running[:, -1:].clone(), self.later[..., : out.shape[-1]]
        torch.sub(last, running, out=running).add_(later.to(out.dtype))
        later += last
        return running if self.exclude_self else running.add_(gradient)


def beliefs(heads: Heads, rows: slice, bias: KeyBias | PrefixBias) -> Tensor:
    """Return the refined probabilities of a tile, in buffer 3, summing logarithms instead of
    multiplying.
    """
    heads.current, heads.raw = None, 0
    attention, messages = heads.messages(rows)
    scores, out = heads.buffer(0, rows), heads.buffer(3, rows)
    bias.hear(scores, torch.log(messages, out=out))
    # a zero stays a zero
    scores.masked_fill_(attention <= torch.finfo(scores.dtype).tiny, BLOCKED)
    return torch.softmax(scores, -1, out=out)


def forward_prefix(heads: Heads, means: Means) -> Tensor:
    """Let every query receive from earlier ones only; fill the means and return the sum over
    all.
    """
    bias = PrefixBias(heads)
    for rows in heads.tiles():
        means.add(rows, beliefs(heads, rows, bias))
    return bias.total


def backward_beliefs(heads: Heads, gradient: Wide, bias: KeyBias, gradients: Gradients) -> None:
    """Fill in the gradients where every query receives messages from all the others and e^g has too
    wide a range.
    """
    values, sums = values_for(heads, None), heads.wide("sums")
    for rows in heads.tiles():
        add_by_key(sums, heads, rows, beliefs(heads, rows, bias), gradient, first=rows.start == 0)
    gradients.value.copy_(sums.body)
    bias.heard = sums.used.mul_(values.used).sum(-1).unsqueeze(1)
    for rows in heads.tiles():
        weights = beliefs(heads, rows, bias)
        gradients.add_scores(
            rows, belief_gradient(heads, rows, weights, gradient, values, bias, gradients)
        )


def backward_prefix(heads: Heads, gradient: Wide, total: Tensor, gradients: Gradients) -> None:
    """Fill in the gradients where every query receives messages from earlier ones only: one sweep,
    last tile first.
    """
    bias, values, sums = PrefixBias(heads, total), values_for(heads, None), heads.wide("sums")
    for rows in reversed(heads.tiles()):
        weights = beliefs(heads, rows, bias)
        add_by_key(sums, heads, rows, weights, gradient, first=rows.stop == heads.length)
        gradients.add_scores(
            rows, belief_gradient(heads, rows, weights, gradient, values, bias, gradients)
        )
    gradients.value.copy_(sums.body)


def belief_gradient(
    heads: Heads,
    rows: slice,
    weights: Tensor,
    gradient: Wide,
    values: Wide,
    bias: KeyBias | PrefixBias,
    gradients: Gradients,
) -> Tensor:
    """Return the gradient of a tile's scores: directly, and through the messages its queries
    sent.
    """
    seen, out = values.at(slice(0, heads.keys(rows))), heads.buffer(0, rows)
    direct = paired(gradient.at(rows), seen, heads.keep(rows), out=out).mul_(weights)
    attention, messages = heads.messages(rows)
    reply = heads.unspared(bias.reply(direct, out=heads.buffer(3, rows))).div_(messages)
    if gradients.wants_strength:
        gradients.add_strength(rows, reply * attention)
    reply.mul_(heads.change(rows))
    return direct.add_(softmax_gradient(reply, attention, out=heads.buffer(2, rows)))
