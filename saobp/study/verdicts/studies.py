"""The tracked studies that measurements read, and differences between two algorithms seed by seed in them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp
from typing import Any

import numpy as np

from saobp.study.paper import numbers
from saobp.study.paper.numbers import Published
from saobp.study.setup import labels, paths
from saobp.study.setup.records import select
from saobp.study.setup.schema import Record
from saobp.study.setup.tracked import repeats
from saobp.study.setup.tracked import study as load
from saobp.study.statistics import borrow, mean_interval
from saobp.study.statistics.seeds import SIDES, Read, seed_gaps
from saobp.study.verdicts.claims_and_measurements import Measurement, measured

Gaps = Callable[[list[Record]], dict[Any, float]]  # each seed's number, from the runs of one model
BORROWED, ALONE = "one seed; spread over seeds borrowed from {}", "one seed, descriptive"


@dataclass(frozen=True)
class Studies:
    """The records of each study by its name, and the paper's printed numbers."""

    records: Mapping[str, Sequence[Record]]
    paper: Published
    memory: dict[Any, Any] = field(default_factory=dict, compare=False)  # what several claims need, computed once

    def of(self, stage: str, **parameters: Any) -> dict[str, list[Record]]:
        """Return the records of one stage with these parameters, of the studies that have any."""
        found = {name: select(list(runs), stage, **parameters) for name, runs in self.records.items()}
        return {name: runs for name, runs in found.items() if runs}

    def cells(self, stage: str, *, decoders: bool = False) -> Iterator[tuple[str, str, list[Record]]]:
        """Yield study, model and runs of a stage, of encoders or of decoders."""
        for study, runs in self.of(stage).items():
            for model in sorted({run["parameters"]["model"] for run in runs}):
                if labels.is_decoder(model) == decoders:
                    yield study, model, select(runs, model=model)

    def with_reruns(self) -> "Studies":
        """Return the studies with the held-out loss of each run that was made twice in place of the first's.

        data/results/repeats.csv has the loss at the last step alone; of several repetitions the first row counts.
        """
        table = repeats().drop_duplicates(["study", "run"])
        losses = table.set_index(["study", "run"])["second"].to_dict()
        again = {name: [_with_losses(run, name, losses) for run in runs] for name, runs in self.records.items()}
        return replace(self, records=again, memory={})


def _with_losses(run: Record, study: str, losses: Mapping[tuple[str, str], float]) -> Record:
    """A record with its repetition's perplexity; notebook 12's runs at a strength get the loss as "again"."""
    metrics = run["metrics"]
    if (loss := losses.get((study, run["name"]))) is not None:
        metrics = metrics | {"perplexity": exp(loss)}
    if metrics.get("strengths"):
        names = ((study, f"strength {one['strength']}, seed {one['seed']}") for one in metrics["strengths"])
        again = ({"again": losses[name]} if name in losses else {} for name in names)
        metrics = metrics | {"strengths": [one | new for one, new in zip(metrics["strengths"], again)]}
    return run | {"metrics": metrics}


def tracked() -> Studies:
    """Load every tracked study."""
    names = sorted(folder.name for folder in (paths.root() / "data" / "results").iterdir() if folder.is_dir())
    return Studies({name: load(name) for name in names}, numbers.load())


def seed_means(runs: Iterable[Record], read: Callable[[Record], Any]) -> dict[Any, Any]:
    """Return the mean over the runs of each pretraining seed that have a number (or several), by seed."""
    found: dict[Any, list[Any]] = {}
    for run in runs:
        if (value := read(run)) is not None:
            found.setdefault(run["parameters"]["seed"], []).append(value)
    return {seed: np.mean(values, axis=0) for seed, values in found.items()}


def difference(
    studies: Studies, stage: str, read: Read, sides: Sequence[str] = SIDES, *, log: bool = False, **given: Any
) -> list[Measurement]:
    """Measure one algorithm's number minus another's (`seed_gaps`) in every study and size (`over_seeds`)."""
    return over_seeds(studies, stage, lambda runs: seed_gaps(runs, read, sides, log=log), **given)


def over_seeds(
    studies: Studies, stage: str, gaps: Gaps, *, lend: bool = True,
    paper: Callable[[Published, str], float | None] = lambda paper, size: None, **given: Any,
) -> list[Measurement]:  # fmt: skip
    """Measure one difference in every study and size with runs of a stage, from each seed's number.

    A study of one seed borrows the spread over seeds of the others (`borrow`), or without `lend` is descriptive: shown
    aside, with no interval. Where no study has two seeds there is no interval either. `paper` gives the paper's number
    for a size.
    """
    cells = [(*cell, found) for cell in studies.cells(stage) if (found := gaps(cell[-1]))]
    values = [[*found.values()] for *_, found in cells]
    several = sorted({study for (study, *_), cell in zip(cells, values) if len(cell) > 1})
    lent = borrow(values, [0.0] * len(values)) if lend and several else [mean_interval(cell) for cell in values]
    rows = []
    for (study, model, runs, found), cell, one in zip(cells, values, lent):
        facts = {"paper": paper(studies.paper, labels.size(model))} | given
        facts["records"] = tuple(run["name"] for run in _entering(runs, gaps, found))
        if len(cell) > 1:
            one = mean_interval(cell)
        elif lend and several:
            facts["method"] = BORROWED.format(labels.joined(several))
        else:
            facts |= {"method": ALONE, "aside": facts.get("aside", False) or bool(several)}
        rows.append(measured(study, model, one, **facts))
    return rows


def _entering(runs: list[Record], gaps: Gaps, found: dict) -> list[Record]:
    """The runs without the algorithms and tasks that can be left out without another result."""
    for key in ("algorithm", "task"):
        for value in sorted({str(run["parameters"].get(key)) for run in runs}):
            rest = [run for run in runs if str(run["parameters"].get(key)) != value]
            runs = rest if rest and gaps(rest) == found else runs
    return runs
