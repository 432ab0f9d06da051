"""What attention does in a model, and what one step of the refinement would do to it.

Every layer is measured in the plain model while it runs, from query and key, and its attention is
refined on its own (Eq. 11): what a refined layer would hand to the next one is not followed. The
perplexities alone are those of the model with the refinement in every layer.
"""

from __future__ import annotations

import itertools
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from tqdm.auto import tqdm

from saobp.equations.checks import check_whole, quoted
from saobp.equations.sparing import check_saved, check_spare
from saobp.measure import gtd_and_entropy
from saobp.measure.inspection import explorer, predictions
from saobp.measure.inspection.maps import (
    Sample,
    encoded,
    is_causal,
    one_step,
    patch_labels,
    plain_copy,
    see,
)
from saobp.measure.inspection.measures import (
    FACTORS,
    LONGEST_MATRIX,
    MEASURES,
    OF_LANGUAGE_MODELS,
    chosen,
    strength_for,
)
from saobp.measure.observed import Seen
from saobp.measure.statistics import BY_ROWS, AttentionStatistics
from saobp.measure.streams import StreamedBootstrap
from saobp.models.supported import refuse

if TYPE_CHECKING:
    import pandas

CURVE = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Strengths at which the curves are taken, besides those asked for."""

LONGEST_CURVE = 512
"""Tokens of the longest texts for which curves are taken."""

EXACT = 256
"""Tokens of the longest text whose GTD is exact; longer ones have fewer probes."""


@dataclass
class Inspection:
    """What `saobp.inspect` measured: means over texts, and their bootstrap draws.

    In a notebook it shows its table and the explorer.
    """

    factor: str
    # asked for; the first is the one in the table
    strengths: tuple[float, ...]
    # at which everything was measured, 0 first: plain attention
    grid: tuple[float, ...]
    causal: bool
    measures: tuple[str, ...]
    # of (strength, measure, layer, head)
    values: StreamedBootstrap = field(repr=False)
    tokens: int = 0
    # layer, head (from 1) and token: texts, and the column's sums before and after
    holders: dict[tuple[int, int, str], np.ndarray] = field(
        default_factory=lambda: defaultdict(lambda: np.zeros(3)), repr=False
    )
    predictions: list[dict[str, Any]] = field(default_factory=list, repr=False)
    # keys that get no bias, as for `saobp.apply`
    spare: str | float | None = None
    name: str = ""
    # what the page says of the run
    facts: dict[str, Any] = field(default_factory=dict, repr=False)
    # what the explorer shows
    shown: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def shape(self) -> tuple[int, int]:
        """Layers and heads."""
        return self.values.mean().shape[-2:]

    def means(self, strength: float) -> dict[str, Float[np.ndarray, "layer head"]]:
        """Return every measure's mean over texts at a strength of the grid; NaN where it was not
        taken.
        """
        return dict(zip(self.measures, self.values.mean()[self.grid.index(strength)]))

    def sinks(self, layer: int | None = None, head: int | None = None) -> list[dict[str, Any]]:
        """Return the tokens that hold largest columns, most frequent first, of one layer or head
        (from 1) or of all.

        `share` is that of all (text, head) pairs; `before` and `after` are mean sums of the column,
        in queries.
        """
        tokens: dict[str, np.ndarray] = defaultdict(lambda: np.zeros(3))
        for (place, number, token), sums in self.holders.items():
            if layer in (None, place) and head in (None, number):
                tokens[token] = tokens[token] + sums
        pairs = sum(sums[0] for sums in tokens.values())
        ordered = sorted(tokens.items(), key=lambda item: (-item[1][0], item[0]))
        return [
            {"token": token, "share": n / pairs, "before": before / n, "after": after / n}
            for token, (n, before, after) in ordered
        ]

    def to_frame(self) -> pandas.DataFrame:
        """Return one row per strength asked for, layer, head and measure; head is missing in the
        means over heads.

        Columns before, after, change and its 95 % bootstrap interval over texts, low and high; and
        `token`, the most frequent one that holds the largest column.
        """
        import pandas

        rows = []
        for strength in self.strengths:
            for heads in (False, True):
                rows.extend(self._rows(strength, heads))
        table = pandas.DataFrame(rows)
        table["head"] = table["head"].astype("Int64")
        return table

    def _rows(self, strength: float, heads: bool) -> Iterator[dict[str, Any]]:
        """Yield the rows of one strength, of heads or of their means."""
        at = self.grid.index(strength)

        def average(values: np.ndarray) -> np.ndarray:
            return values if heads else values.mean(-1, keepdims=True)

        before, after = average(self.values.mean()[0]), average(self.values.mean()[at])
        low, high = self.values.interval(lambda values: average(values[at] - values[0]))
        for place in np.ndindex(before.shape):
            measure, layer, head = place
            name, number = self.measures[measure], head + 1 if heads else None
            token = None
            if name == "column_mass_maximum":
                token = self.sinks(layer + 1, number)[0]["token"]
            yield {
                "factor": self.factor,
                "strength": strength,
                "layer": layer + 1,
                "head": number,
                "measure": name,
                "before": before[place],
                "after": after[place],
                "change": after[place] - before[place],
                "low": low[place],
                "high": high[place],
                "token": token,
            }

    def save(self, folder: str | Path) -> list[Path]:
        """Write the page (index.html), attention.csv, measures.csv (what its numbers mean),
        attention.json, and perplexity.csv where there is one, into a folder; return their paths.

        Raises ValueError if the folder has files of these names that no inspection wrote, and
        PermissionError if it cannot be written.
        """
        explorer.refuse_unwritable(Path(folder))
        return explorer.write(Path(folder), self.name, self, self.shown, self.facts)

    def _repr_html_(self) -> str:
        """Return the table and the explorer, for a notebook."""
        return explorer.cell(self)


def inspect(
    model: nn.Module,
    tokenizer: Any,
    texts: str | Iterable[str],
    *,
    factor: str = "high",
    strengths: float | Sequence[float] | None = None,
    samples: int | None = None,
    tokens: int = 128,
    spare: str | float | None = None,
    measures: Sequence[str] | None = None,
    curve: bool = False,
    progress: bool = False,
) -> Inspection:
    """Measure attention before and after one step of the refinement, per layer and head (Eq. 2,
    11-14).

    The model is not changed. Every layer is refined on its own, see `saobp.measure.inspect`. Memory
    grows with the length of a text, not with its square.

        inspection = saobp.inspect(model, tokenizer, "The cat sat on the mat.")
        inspection                   # in a notebook: the table and the explorer
        inspection.to_frame()        # a row per layer, head and measure
        inspection.save("page")      # index.html, attention.csv, measures.csv, attention.json

    Args:
        model: A transformers model that `saobp.apply` serves, an encoder or a decoder.
        tokenizer: Its tokenizer; of a vision model its image processor.
        texts: A text or several, at most `samples` of them are read; of a vision model pictures.
        factor: "high", "low", "elemmul" or "sinkhorn"; the last two at most 1,024 tokens.
        strengths: The paper's lambda in nats, one or several; None is the paper's rule, see
            `strength_for`.
        samples: None is 16, or fewer where they would be over 2,048 tokens together.
        tokens: Longest sequence; what follows is cut. Up to 256 tokens GTD is exact; longer texts
            have 64 probes, and 16 from 2,048 tokens on (`saobp.attention_statistics`).
        spare: Keys that get no bias, as for `saobp.apply`: "first", "edges", a share in (0, 1], or
            None.
        measures: Names of `saobp.measure.inspection.measures.MEASURES`, or "perplexity"; None is all
            but the perplexity that texts of so many tokens can have.
        curve: Measure at the strengths of `CURVE`, too, and the perplexity.
        progress: Show a bar.

    Returns:
        An object that shows itself in a notebook, with `to_frame()` and `save(folder)`.

    Raises:
        ValueError: One line that names the argument, or the model if `saobp.apply` does not serve
            it.

    Source: Lee et al. 2025, Eq. 2, 7-16; of each measure in `MEASURES`.
    """
    started = time.perf_counter()
    samples = number_of_texts(tokens) if samples is None else samples
    check(factor, strengths, samples, tokens, spare, measures)
    refuse(model)
    names = chosen(measures, tokens)
    wanted = _several(strength_for(model) if strengths is None else strengths)
    along = CURVE if curve and tokens <= LONGEST_CURVE else ()
    plain = plain_copy(model)
    inspection = Inspection(
        factor,
        wanted,
        tuple(sorted({0.0, *along, *wanted})),
        is_causal(plain),
        tuple(name for name in names if name in MEASURES),
        StreamedBootstrap(),
        spare=spare,
        name=name_of(model),
    )
    check_spare(spare, factor, causal=inspection.causal)
    read: list[Any] = []
    texts = [texts] if isinstance(texts, str) else texts
    texts = _noting(texts, read) if hasattr(texts, "__iter__") else texts
    some = itertools.islice(encoded(plain, tokenizer, texts, tokens), samples)
    if (first := next(some, None)) is None:
        raise ValueError(
            "text: no text of two tokens or more; attention between tokens needs at least two"
        )
    some = itertools.chain([first], some)
    for sample in tqdm(some, total=samples, unit="text", desc="attention", disable=not progress):
        _measure(inspection, plain, sample)
    if OF_LANGUAGE_MODELS in names and (curve or measures is not None):
        few = {"samples": samples, "tokens": tokens, "progress": progress, "spare": spare}
        inspection.predictions = predictions.perplexities(
            model, tokenizer, read, factor, inspection.grid, **few
        )
    # a notebook keeps what its cells show
    number, most = (2, 128) if curve else (1, 32)
    inspection.shown = explorer.collect(
        model,
        tokenizer,
        read,
        factor=factor,
        strength=min(wanted[0], 1.0),
        number=number,
        tokens=tokens,
        most=most,
        spare=spare,
    )
    inspection.facts = {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "source": "texts",
        "note": "",
        "length": tokens,
        "asked_by_rule": strengths is None,
        "seconds": time.perf_counter() - started,
    }
    return inspection


def name_of(model: nn.Module) -> str:
    """Return a model's repository, or its class where it comes from a folder or from nowhere."""
    name = getattr(model, "name_or_path", "")
    return type(model).__name__ if not name or Path(name).exists() else name


def _noting(texts: Iterable[Any], read: list[Any]) -> Iterator[Any]:
    """Yield texts, and keep those that were read."""
    for text in texts:
        read.append(text)
        yield text


def number_of_texts(tokens: int) -> int:
    """Return how many texts of so many tokens are read where nobody says."""
    check_whole("tokens", tokens, 4)
    return max(1, min(16, 2048 // int(tokens)))


def check(
    factor: str,
    strengths: float | Sequence[float] | None,
    samples: int,
    tokens: int,
    spare: str | float | None = None,
    measures: Sequence[str] | None = None,
) -> None:
    """Refuse what cannot be inspected, whatever the model, with a ValueError of one line."""
    if factor not in FACTORS:
        raise ValueError(f"factor must be one of {', '.join(FACTORS)}; got {quoted(factor)}")
    for strength in () if strengths is None else _several(strengths):
        number = isinstance(strength, Real) and not isinstance(strength, bool)
        if not number or not 0 < strength < float("inf"):
            why = "since plain attention is always shown"
            raise ValueError(f"strength must be finite and above 0, {why}; got {quoted(strength)}")
    check_whole("samples", samples, 1)
    check_whole("tokens", tokens, 4)
    if factor not in BY_ROWS and tokens > LONGEST_MATRIX:
        raise ValueError(
            f"tokens must be at most {LONGEST_MATRIX:,} for factor {factor}, which needs the L x L "
            f"matrix; got {tokens}"
        )
    chosen(measures, tokens)
    check_saved(spare)
    check_spare(spare, factor, causal=False)


def _several(strengths: float | Sequence[float]) -> tuple[float, ...]:
    """Return one strength or several, each once, in the order given; ValueError for none."""
    # an array or a tensor
    strengths = strengths.tolist() if hasattr(strengths, "tolist") else strengths
    several = (
        tuple(strengths)
        if isinstance(strengths, Sequence) and not isinstance(strengths, str)
        else (strengths,)
    )
    if not several:
        raise ValueError("strengths must hold one at least; None takes the paper's rule")
    return tuple(dict.fromkeys(several))


def _measure(inspection: Inspection, model: nn.Module, sample: Sample) -> None:
    """Measure one sample at every strength and note which token holds the largest column."""
    layers: list[tuple[np.ndarray, Tensor, Tensor]] = []

    def observe(call: Seen) -> None:
        # the masks of CLIP are causal, its modules are not
        inspection.causal = inspection.causal or call.sees_earlier_alone()
        if call.query.isfinite().all() and call.key.isfinite().all():
            layers.append(numbers(inspection, call))

    largest = see(model, sample, observe)
    if len(layers) < len(largest):
        raise ValueError(
            f"model: {type(model).__name__} gives attention that is no number on one of the texts"
        )
    values = np.stack([measured for measured, _, _ in layers], axis=2)
    if "massive_activation" in inspection.measures:
        values[:, inspection.measures.index("massive_activation")] = np.array(largest)[:, None]
    labels = sample.labels or patch_labels(layers[0][1].shape[-1])
    # where a decoder's sink is, whatever the word
    labels = ["first token", *labels[1:]] if inspection.causal else labels
    for layer, (_, before, after) in enumerate(layers, start=1):
        for head, key in enumerate(before.argmax(-1).tolist()):
            sums = 1, before[head, key].item(), after[head, key].item()
            inspection.holders[layer, head + 1, labels[key]] += sums
    inspection.values.add(values)
    inspection.tokens += len(labels)


def numbers(
    inspection: Inspection, call: Seen
) -> tuple[
    Float[np.ndarray, "strength measure head"], Float[Tensor, "head L"], Float[Tensor, "head L"]
]:
    """Measure one layer at every strength; return column sums before and after, too."""
    shape = len(inspection.grid), len(inspection.measures), call.query.shape[1]
    values, columns = np.full(shape, np.nan), {}
    for strength, measured in sides(inspection, call):
        columns[strength] = measured.pop("columns")
        for name, value in measured.items():
            if name in inspection.measures:
                place = inspection.grid.index(strength), inspection.measures.index(name)
                values[place] = value.double().cpu().numpy()
    return values, columns[0.0], columns[inspection.strengths[0]]


def sides(inspection: Inspection, call: Seen) -> Iterator[tuple[float, dict[str, Tensor]]]:
    """Yield every strength and the measures of one layer's attention by name, (head,)."""
    refined = [strength for strength in inspection.grid if strength > 0]
    whole = inspection.factor not in BY_ROWS
    if not whole:
        options = {"factor": inspection.factor, "spare": inspection.spare}
        options["probes"] = number_of_probes(call.query.shape[2])
        for strength in refined:
            statistics = call.statistics(strength=strength, **options)
            if strength == refined[0]:
                yield 0.0, by_statistics(call, statistics.plain)
            yield strength, by_statistics(call, statistics)
    by_matrix_alone = [name for name in inspection.measures if MEASURES[name].matrix]
    if whole or by_matrix_alone:
        scores = call.scores()
        maps = scores.softmax(-1)[0].masked_fill(scores[0] == -torch.inf, 0)
        for strength in inspection.grid if whole else (0.0, *inspection.strengths):
            step = inspection.factor, strength, inspection.causal, inspection.spare
            attention = one_step(maps, *step)
            measured = by_matrix(attention, inspection.measures)
            columns = attention.sum(-2)
            measured["columns"] = columns
            if whole:
                measured["moved"] = (attention - maps).abs().sum(-1).mean(-1) / 2
                measured["max_logit"] = scores[0].amax((-2, -1))
                measured["sink_value_norm"] = call.sink_value_norms(columns[None])[0]
            yield strength, measured


def number_of_probes(length: int) -> int:
    """Return by how many probes GTD is taken."""
    if length <= EXACT:
        return max(length, 4)
    return 64 if length < 2048 else 16


def by_statistics(call: Seen, statistics: AttentionStatistics) -> dict[str, Tensor]:
    """Return what needs no matrix of a call's first sequence."""
    columns = statistics.column_sum[0]
    return {
        "columns": columns,
        "column_mass_maximum": columns.amax(-1),
        "sink_rate": statistics.sink_rate[0],
        "entropy": statistics.row_entropy[0].nanmean(-1),
        "rank_one_distance": statistics.rank_one_distance[0],
        "sink_value_norm": call.sink_value_norms(statistics.column_sum)[0],
        "max_logit": statistics.max_logit[0],
        "gtd": statistics.gtd[0],
        "sparsity": statistics.sparsity[0],
        "moved": statistics.moved[0],
    }


def by_matrix(
    attention: Float[Tensor, "head L L"], measures: Sequence[str]
) -> dict[str, Float[Tensor, " head"]]:
    """Return what an attention matrix says."""
    measured = gtd_and_entropy.measure(attention)
    if "effective_rank" in measures:
        measured["effective_rank"] = gtd_and_entropy.effective_rank(attention)
    return measured
