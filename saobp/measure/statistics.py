"""Statistics of attention from query and key, without the L x L matrix.

One sweep over blocks of rows gives them all: a block holds whole rows, so that its softmax is known
before its columns are added up. Attention that sees earlier tokens alone is lower triangular, and its
powers for GTD come from the same sweep; other attention takes one more sweep per hop.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Real

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

from saobp.equations import checks
from saobp.equations.checks import check_whole, quoted
from saobp.equations.masks import HIDES, check_mask, check_pairs_of
from saobp.equations.messages import SATURATION, signed_strength
from saobp.equations.sparing import RULES, Spare, by_key, check_spare, check_spared_shape
from saobp.fused.attention import check_inputs
from saobp.fused.scores import allowed_pairs, senders
from saobp.fused.tiled.tiles import heads_per_tile
from saobp.fused.workers import side_by_side
from saobp.measure import compiled_rows
from saobp.measure.gtd_and_entropy import check_paths
from saobp.measure.probes import FEWEST, Probes, dependency, first_columns
from saobp.measure.row_blocks import SPARE, Block, RowBlocks, Step, Visibility

BY_ROWS = ("none", "high", "low")
"""Factors under which a row needs one number per key of all others, and so no matrix."""

NEARLY_EQUAL = 0.01
"""Squared distance from rank one under which it is summed up row by row: as a difference of two sums
it would keep few digits.
"""

BY_TOKEN = ("logsumexp", "row_entropy", "column_sum", "received")
"""Statistics that have one number per token; the rest have one per head."""


@dataclass(frozen=True)
class AttentionStatistics:
    """What `attention_statistics` returns: one number per head, or per head and token (… L).

    A token that is not real has NaN as a query and 0 as a key. NaN in a head's query or key gives NaN
    in what it reaches, and in that head alone.
    """

    # of the scores of each query, in nats, whatever the refinement: (batch, head, L)
    logsumexp: Float[Tensor, "batch head L"]
    # of each query, in nats, from 0 (one key) to log L (uniform)
    row_entropy: Float[Tensor, "batch head L"]
    # what each key receives, in queries: from 0 to L, 1 on average
    column_sum: Float[Tensor, "batch head L"]
    # the same over the number of queries that may look at the key: from 0 to 1
    received: Float[Tensor, "batch head L"]
    # largest scaled score before the softmax, in nats, whatever the refinement
    max_logit: Float[Tensor, "batch head"]
    # share of keys whose `received` is above the threshold: from 0 to 1
    sink_rate: Float[Tensor, "batch head"]
    # share of entries below 1/L: from 0 (uniform) to 1 - 1/L (one key per query)
    sparsity: Float[Tensor, "batch head"]
    # from the nearest matrix whose rows are equal, over the norm: from 0 (rows are equal) to 1
    rank_one_distance: Float[Tensor, "batch head"]
    # mean total variation of a row from its softmax: from 0 to 1, and 0 without a refinement
    moved: Float[Tensor, "batch head"]
    # global token dependency (Eq. 13): from 0 to 1, NaN without probes
    gtd: Float[Tensor, "batch head"]
    # its standard error, 0 where the number is exact
    gtd_error: Float[Tensor, "batch head"]
    # the same of the softmax that was refined; None without a refinement
    plain: AttentionStatistics | None = None


NAMES = tuple(name for name in AttentionStatistics.__dataclass_fields__ if name != "plain")
"""Of the statistics that are numbers."""


@dataclass(frozen=True)
class Wanted:
    """What is measured, and of which attention."""

    scale: float
    causal: bool
    window: int | None
    # (batch or 1, head or 1, query or 1, key): boolean, or added to the scores
    pairs: Tensor | None
    # of the refinement: None where the strength is 0
    strength: Tensor | None
    strongest: float
    exclude_self: bool
    spare: Spare
    probes: int
    beta: float
    hops: int
    sink: float
    seed: int


def attention_statistics(
    query: Float[Tensor, "batch head L width"],
    key: Float[Tensor, "batch group L width"],
    *,
    mask: Tensor | None = None,
    is_causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
    factor: str = "none",
    strength: float | Float[Tensor, "*heads"] = 0.2,
    exclude_self: bool = True,
    spare: Spare = None,
    probes: int = 64,
    beta: float = 0.9,
    hops: int = 4,
    sink: float = 0.3,
    seed: int = 0,
) -> AttentionStatistics:
    """Measure softmax(scale query key^T), or its refinement, without the L x L matrix (Eq. 2, 11-13).

    Memory grows with L, time with L^2. Statistics are in float32 or better, without gradient, and
    equal those of the matrix to about 1e-6. Of a refinement the softmax is measured, too (`plain`).
    At 8,192 tokens, one head of width 64, on one thread, two fifths of the time go into the products
    query key^T and a third into one compiled pass over each row. Without a compiler, or with a mask
    of pairs or a window, torch takes two dozen passes instead. Each probe column costs what a column
    of values costs, once per hop.

    Args:
        query: (batch, heads, L, D), of 16 bits or more.
        key: (batch, groups, L, D); the number of groups divides that of heads (grouped-query
            attention).
        mask: Real tokens, (L,) or (batch, L) boolean; or which pairs may look at each other, (batch
            or 1, heads or 1, L or 1, L): boolean, True where a query may look, or added to the
            scores, hiding at -5000 and below. In this form a token that may not look at itself
            counts as padding. Padding neither gives nor receives; what is padded may hold anything.
        is_causal: Queries see no later key.
        window: A query sees keys less than `window` tokens away.
        scale: Of the products; None is 1 / sqrt(D).
        factor: "none", or the attention refined by "high" or "low".
        strength: The paper's lambda >= 0 in nats: a number, or a tensor that broadcasts over (batch,
            heads).
        exclude_self: Leave a query's own message out (Algorithm 1); False is Eq. 11 as printed.
        spare: Keys that get no bias, as for `saobp.saobp_attention`.
        probes: Vectors that attention is applied to for GTD: one lies along the column sums, the
            others are random signs. 0 leaves GTD out, 4 are the fewest; as many as there are real
            tokens, or more, make it exact.
        beta: Discount of Eq. 12, in (0, 1].
        hops: K of Eq. 12.
        sink: A key is a sink if it receives more than this share of the attention of the queries
            that may look at it, in (0, 1).
        seed: Of the random signs.

    Returns:
        One object whose fields say what they mean. The sink metric of Gu et al. at token k is the
        mean of `received[..., k] > sink` over heads and layers; `sink_rate` is the share of a head's
        keys that pass. `gtd_error` is an upper estimate: GTD lies within two of it in at least 95 of
        100 draws. One token has entropy 0, column sum 1 and the GTD of the identity. A head whose
        queries all see nothing has NaN.

    Raises:
        ValueError: One line that names the argument and what is wrong with it.

    Source: Lee et al. 2025, Eq. 2, 7-13; Gu et al. 2025, When attention sink emerges in language
        models, Sec. 3 (threshold 0.3); Hutchinson 1990 (probes).
    """
    check_inputs(query, key, key, scale, 0.0, is_causal=is_causal, exclude_self=exclude_self)
    check_numbers(window, probes, sink, seed)
    check_paths(beta, hops)
    if factor not in BY_ROWS:
        raise ValueError(
            f"factor must be one of {', '.join(BY_ROWS)}, which need no L x L matrix; "
            f"got {quoted(factor)}: measure saobp.refine's result"
        )
    checks.check_strength(strength, tuple(query.shape[:2]))
    check_spared_shape(spare, (*query.shape[:3], query.shape[2]))
    real, pairs = real_and_pairs(mask, query)
    signed, strongest = strengths(factor, strength, query)
    earlier = is_causal
    if signed is not None and pairs is not None and pairs.shape[2] > 1 and not is_causal:
        earlier = senders(allowed_pairs(pairs, *pairs.shape[2:], False, pairs.device))
        if isinstance(earlier, Tensor):
            raise ValueError(
                "mask: under it rows hear neither all others nor the earlier ones, which takes the "
                "L x L matrix; measure saobp.refine's result"
            )
    check_spare(spare, factor, causal=earlier)
    wanted = Wanted(
        scale=query.shape[-1] ** -0.5 if scale is None else float(scale),
        causal=earlier,
        window=None if window is None else int(window),
        pairs=pairs,
        strength=signed,
        strongest=strongest,
        exclude_self=exclude_self,
        spare=spare,
        probes=int(probes),
        beta=float(beta),
        hops=int(hops),
        sink=float(sink),
        seed=int(seed),
    )
    with torch.no_grad(), torch.autocast(query.device.type, enabled=False):
        return every_head(wanted, query, key, real)


def check_numbers(window: int | None, probes: int, sink: float, seed: int) -> None:
    """Refuse numbers that mean nothing with a ValueError."""
    if window is not None:
        check_whole("window", window, 1)
    check_whole("probes", probes, 0)
    check_whole("seed", seed, 0)
    if 0 < probes < FEWEST:
        raise ValueError(
            f"probes must be 0, for no GTD, or at least {FEWEST}, for a standard error; got {probes}"
        )
    if isinstance(sink, bool) or not isinstance(sink, Real) or not 0 < sink < 1:
        raise ValueError(f"sink must be a share between 0 and 1; got {quoted(sink)}")


def real_and_pairs(
    mask: Tensor | None, query: Tensor
) -> tuple[Bool[Tensor, "batch L"] | None, Tensor | None]:
    """Return which tokens are real, and the mask of pairs if it says more than that."""
    batch, heads, length, _ = query.shape
    if mask is None:
        return None, None
    if not isinstance(mask, Tensor) or mask.ndim != 4:
        check_mask(mask, torch.empty(batch, heads, length, length, device="meta"))
        return mask.to(query.device).expand(batch, length), None
    check_pairs_of(mask, query)
    mask = mask.to(query.device)
    looks = mask[:, :, 0] if mask.shape[2] == 1 else mask.diagonal(0, -2, -1)
    looks = looks if mask.dtype == torch.bool else looks > HIDES
    real = looks.any(1).expand(batch, length)
    only_padding = mask.dtype == torch.bool and mask.shape[1] == mask.shape[2] == 1
    return real, None if only_padding else mask


def strengths(
    factor: str, strength: float | Tensor, query: Tensor
) -> tuple[Float[Tensor, "batch head"] | None, float]:
    """Return the signed strength of every head and the largest without its sign; None for 0."""
    wide = torch.promote_types(query.dtype, torch.float32)
    strength = torch.as_tensor(strength, dtype=wide, device=query.device).clamp(max=SATURATION)
    strongest = float(strength.max())
    if factor == "none" or strongest == 0:
        return None, 0.0
    strength = strength.reshape(()) if strength.numel() == 1 else strength
    return signed_strength(factor, strength).expand(query.shape[:2]), strongest


def every_head(
    wanted: Wanted, query: Tensor, key: Tensor, real: Tensor | None
) -> AttentionStatistics:
    """Measure a few heads at a time, side by side where there are several threads."""
    batch, heads, length, _ = query.shape
    size = heads_per_tile(length, query.device)
    # of attention, and of the softmax before it was refined
    results = [empty(query) for _ in range(1 if wanted.strength is None else 2)]

    def measure(sequence: int, start: int) -> None:
        some = slice(start, min(start + size, heads))
        places = torch.arange(length, device=query.device)
        if real is not None:
            places = places[real[sequence]]
        if not len(places):
            return
        rows = rows_of(wanted, query, key, places, (sequence, some))
        sides = statistics_of(wanted, rows, sequence * heads + start)
        for result, numbers in zip(results, sides, strict=True):
            for name, value in numbers.items():
                place = (sequence, some, places) if name in BY_TOKEN else (sequence, some)
                result[name][place] = value.to(result[name].dtype)

    side_by_side(measure, [(n, start) for n in range(batch) for start in range(0, heads, size)])
    plain = AttentionStatistics(**results[1]) if results[1:] else None
    return AttentionStatistics(**results[0], plain=plain)


def empty(query: Tensor) -> dict[str, Tensor]:
    """Return the numbers of padding, by name."""
    wide = torch.promote_types(query.dtype, torch.float32)
    numbers = {}
    for name in NAMES:
        shape = query.shape[: 3 if name in BY_TOKEN else 2]
        value = 0.0 if name in ("column_sum", "received") else math.nan
        numbers[name] = torch.full(shape, value, dtype=wide, device=query.device)
    return numbers


def rows_of(
    wanted: Wanted, query: Tensor, key: Tensor, places: Tensor, part: tuple[int, slice]
) -> RowBlocks:
    """Return the attention among the real tokens of a few heads of a sequence."""
    sequence, some = part
    wide = torch.promote_types(query.dtype, torch.float32)
    groups = torch.arange(query.shape[1], device=query.device)[some]
    groups = groups * key.shape[1] // query.shape[1]
    queries, keys = query[sequence, some], key[sequence, groups]
    if len(places) < query.shape[2]:
        queries, keys = queries[:, places], keys[:, places]
    mask = wanted.pairs
    if mask is not None:
        mask = mask[sequence if len(mask) > 1 else 0]
        mask = mask[some] if len(mask) > 1 else mask
    visible = Visibility(wanted.causal, wanted.window, places, mask)
    step = None
    if wanted.strength is not None:
        step = step_of(wanted, query, visible, part)
    return RowBlocks(queries.to(wide), keys.to(wide), wanted.scale, visible, step)


def step_of(wanted: Wanted, query: Tensor, visible: Visibility, part: tuple[int, slice]) -> Step:
    """Return how a few heads of a sequence are refined."""
    spare, spared, share = wanted.spare, None, None
    if isinstance(spare, Tensor):
        batch, heads, length, _ = query.shape
        spared = by_key(spare, (batch, heads, length, length), query.device)
        spared = spared.expand(batch, heads, length)[part][..., visible.places][:, None]
    elif spare in RULES:
        spared = visible.ends(both=spare == "edges")
    elif spare is not None:
        share = float(spare)
    strength = wanted.strength[part][:, None, None]
    return Step(strength, wanted.strongest, wanted.exclude_self, wanted.causal, spared, share)


def statistics_of(wanted: Wanted, rows: RowBlocks, number: int) -> list[dict[str, Tensor]]:
    """Go over the blocks of a few heads, the first of which has a number for its seed.

    Returns the statistics of their attention, and where it is refined those of the softmax.
    """
    if rows.step and not rows.step.earlier:
        rows.gather()
    seeds = [wanted.seed * 2**20 + number + head for head in range(rows.count)]
    start = first_columns(rows, wanted.probes, seeds) if wanted.probes else None
    sides = [Side(wanted, rows, start) for _ in range(2 if rows.step else 1)]
    attention, blocks = sides[0], rows.blocks()
    triangular = wanted.causal or len(blocks) == 1
    compiled = compiled_rows.serves(rows)
    for place in blocks:
        if compiled:
            add_compiled(rows, place, sides, triangular)
            continue
        plain = rows.plain(place)
        for side in sides:
            side.sums.see(plain)
        block = plain
        if rows.step:
            sides[1].add(plain, triangular)
            block = rows.refine(plain)
        attention.add(block, triangular)
        if rows.step:
            attention.sums.compare(plain, block)
    if wanted.probes and not triangular:
        for power in range(2, wanted.hops + 1):
            for side, block in sweep(rows, sides):
                side.probes.hop(block, power)
    if any(side.sums.nearly_equal().any() for side in sides):
        rows.forget()
        for side, block in sweep(rows, sides):
            side.sums.spread_out(block)
    return [side.statistics() for side in sides]


def add_compiled(rows: RowBlocks, place: slice, sides: list[Side], triangular: bool) -> None:
    """Take in a block that one compiled call works out, as every side has it."""
    # plain rows come first there
    sides = sides[::-1]
    columns = [side.sums.columns for side in sides]
    blocks, numbers = compiled_rows.measure(rows, place, columns)
    for side, block, sums in zip(sides, blocks, numbers, strict=True):
        side.sums.see(blocks[0])
        side.sums.take_in(place, sums)
        side.multiply(block, triangular)


def sweep(rows: RowBlocks, sides: list[Side]) -> Iterator[tuple[Side, Block]]:
    """Go over the blocks again; yield each as every side has it."""
    for place in rows.blocks():
        block = rows.plain(place)
        if rows.step:
            yield sides[1], block
            block = rows.refine(block)
        yield sides[0], block


class Side:
    """The sums and probes of attention, or of the softmax before it was refined."""

    def __init__(self, wanted: Wanted, rows: RowBlocks, start: Tensor | None):
        self.wanted, self.sums = wanted, Sums(rows)
        self.probes = None
        if start is not None:
            self.probes = Probes(rows, start, wanted.probes, wanted.beta, wanted.hops)

    def add(self, block: Block, triangular: bool) -> None:
        """Take in a block, the powers of its rows too where their keys are all known."""
        self.sums.add(block)
        self.multiply(block, triangular)

    def multiply(self, block: Block, triangular: bool) -> None:
        """Apply a block to the probes, as often as the keys of its rows allow."""
        if self.probes and triangular:
            self.probes.all_hops(block)
        elif self.probes:
            self.probes.hop(block, 1)

    def statistics(self) -> dict[str, Tensor]:
        """Return all numbers by name; without probes no GTD."""
        numbers = self.sums.statistics(self.wanted.sink)
        if self.probes:
            gtd, error = dependency(self.sums.squares, *self.probes.squares())
            numbers |= {"gtd": gtd, "gtd_error": error}
        return numbers


class Sums:
    """What the blocks of a few heads add up to."""

    def __init__(self, rows: RowBlocks):
        self.rows = rows
        by_head = rows.query.new_zeros(rows.count, dtype=torch.float64)
        by_token = rows.query.new_zeros(rows.count, rows.length, dtype=torch.float64)
        self.logsumexp, self.entropy = by_token.clone(), by_token.clone()
        self.columns, self.seen = by_token.clone(), by_token.clone()
        self.squares, self.above, self.moved = by_head.clone(), by_head.clone(), by_head.clone()
        # of the rows from their mean, squared; NaN where it is not summed up
        self.spread = torch.full_like(by_head, math.nan)
        self.largest = torch.full_like(by_head, -math.inf)
        visible = rows.visible
        self.simple = visible.mask is None and visible.window is None

    def see(self, block: Block) -> None:
        """Take in the scores of a plain block, and which keys its queries may look at."""
        total = block.largest + block.total.log()
        self.logsumexp[:, block.rows] = total[..., 0].double()
        self.largest = torch.maximum(self.largest, block.largest.amax((1, 2)).double())
        if not self.simple:
            hidden = self.rows.visible.hidden(block.rows, block.keys)
            self.seen[:, block.keys] += (~hidden).sum(-2).double()

    def add(self, block: Block) -> None:
        """Take in the weights of a block, refined or not."""
        scratch = self.rows.buffer(SPARE, *block.weights.shape[1:])
        blind = block.total == 0
        share = (1 / block.total).masked_fill_(blind, 0)
        spread = torch.mul(block.weights, block.scores, out=scratch).sum(-1, keepdim=True)
        entropy = block.total.log() - spread * share
        self.entropy[:, block.rows] = entropy.masked_fill_(blind, math.nan)[..., 0].double()
        self.columns[:, block.keys] += torch.bmm(share.mT, block.weights)[:, 0].double()
        norms = torch.linalg.vector_norm(block.weights, dim=-1, keepdim=True) * share
        self.squares += norms.double().square().sum((1, 2))
        bound = block.total * ((1 - 1e-5) / self.rows.length)
        bound.masked_fill_(blind, math.inf)
        above = torch.ge(block.weights, bound, out=scratch).sum(-1)
        self.above += above.double().sum(-1)

    def take_in(self, rows: slice, numbers: Float64[Tensor, "number head query"]) -> None:
        """Take in the numbers of a block's rows, whose column sums are added up."""
        total = numbers[compiled_rows.TOTAL]
        self.entropy[:, rows] = total.log() - numbers[compiled_rows.SPREAD] / total
        self.squares += (numbers[compiled_rows.SQUARES] / total.square()).sum(-1)
        self.above += numbers[compiled_rows.ABOVE].sum(-1)
        self.moved += numbers[compiled_rows.MOVED].sum(-1) / 2

    def compare(self, plain: Block, refined: Block) -> None:
        """Add the distance of refined rows, whose weights are used up, from the plain ones."""
        attention = refined.weights.div_(refined.total.clamp_min(torch.finfo(torch.float32).tiny))
        gap = torch.sub(attention, plain.weights, out=plain.weights)
        self.moved += gap.abs_().sum(-1).double().sum(-1) / 2

    def queries(self) -> Tensor:
        """Return how many queries see a key, (head,)."""
        return (~self.entropy.isnan()).sum(-1)

    def apart(self) -> Tensor:
        """Return the squared distance from rank one over the squared norm, (head,)."""
        difference = 1 - self.columns.square().sum(-1) / (self.queries() * self.squares)
        return torch.where(self.spread.isnan(), difference, self.spread / self.squares)

    def nearly_equal(self) -> Tensor:
        """Return which heads' rows are nearly equal, (head,)."""
        return self.apart() < NEARLY_EQUAL

    def spread_out(self, block: Block) -> None:
        """Add the distance of a block's rows from the mean row, which is known by now."""
        mean = self.columns / self.queries().clamp_min(1)[:, None]
        before, after = mean[:, : block.keys.start], mean[:, block.keys.stop :]
        mean = mean[:, None, block.keys].to(block.weights.dtype)
        scratch = self.rows.buffer(SPARE, *block.weights.shape[1:])
        blind = block.total == 0
        share = (1 / block.total).masked_fill_(blind, 0)
        gap = torch.mul(block.weights, share, out=scratch).sub_(mean)
        squares = torch.linalg.vector_norm(gap, dim=-1).double().square()
        # keys that no query of the block may look at
        squares += torch.cat([before, after], -1).square().sum(-1, keepdim=True)
        squares.masked_fill_(blind[..., 0], 0)
        self.spread = self.spread.nan_to_num() + squares.sum(-1)

    def statistics(self, sink: float) -> dict[str, Tensor]:
        """Return every statistic but GTD, by name."""
        length, queries = self.rows.length, self.queries()
        seen = self.seen
        if self.simple:
            later = torch.arange(length, device=seen.device, dtype=seen.dtype)
            seen = length - (later if self.rows.visible.causal else 0 * later)
        received = self.columns / seen.clamp_min(1)
        undefined = self.columns.isnan().any(-1) | (queries == 0)
        by_head = {
            "max_logit": self.largest,
            "sink_rate": (received > sink).double().mean(-1),
            "sparsity": 1 - self.above / length**2,
            "rank_one_distance": self.apart().clamp_min(0).sqrt(),
            "moved": self.moved / queries,
        }
        by_head = {name: value.masked_fill(undefined, math.nan) for name, value in by_head.items()}
        return by_head | {
            "logsumexp": self.logsumexp,
            "row_entropy": self.entropy,
            "column_sum": self.columns,
            "received": received,
        }
