"""The tracked studies that measurements read, and differences between two algorithms seed by seed in them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, inf
from typing import Any

import numpy as np
import pandas as pd

from saobp.study.paper import numbers
from saobp.study.paper.numbers import Published
from saobp.study.setup import labels, paths, records
from saobp.study.setup.records import select
from saobp.study.statistics import Estimate, borrow, mean_interval
from saobp.study.verdicts.model import SEEDS, Measurement, measured

Record = dict[str, Any]
Read = Callable[[Record], float | None]  # one number of a run; None where it has none
Gaps = Callable[[list[Record]], dict[Any, float]]  # each seed's number, from the runs of one model
BORROWED, ALONE = "one seed; spread over seeds borrowed from {}", "one seed, descriptive"
SIDES = ("high", "original")


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
        table = pd.read_csv(paths.root() / "data" / "results" / "repeats.csv").drop_duplicates(["study", "run"])
        losses = {(row.study, row.run): row.second for row in table.itertuples()}
        again = {name: [_with_losses(run, name, losses) for run in runs] for name, runs in self.records.items()}
        return replace(self, records=again, memory={})


def _with_losses(run: Record, study: str, losses: Mapping[tuple[str, str], float]) -> Record:
    """Return a record with its repetition's perplexity; notebook 12's runs at a strength get the loss as "again"."""
    metrics, loss = run["metrics"], losses.get((study, run["name"]))
    if loss is not None:
        metrics = metrics | {"perplexity": exp(loss)}
    if metrics.get("strengths"):
        again = [losses.get((study, f"strength {one['strength']}, seed {one['seed']}")) for one in metrics["strengths"]]
        own = [one if loss is None else one | {"again": loss} for one, loss in zip(metrics["strengths"], again)]
        metrics = metrics | {"strengths": own}
    return run | {"metrics": metrics}


def tracked() -> Studies:
    """Load every tracked study but the smoke test."""
    results = paths.root() / "data" / "results"
    names = sorted(folder.name for folder in results.iterdir() if folder.is_dir())
    return Studies({name: records.load(results / name) for name in names}, numbers.load())


def seed_gaps(
    runs: Iterable[Record], read: Read, sides: Sequence[str] = SIDES, *, log: bool = False, by: str = "algorithm",
    tasks: int = 0,
) -> dict[Any, float]:  # fmt: skip
    """Return the first algorithm's (or `by`) number minus the second's, per seed: a mean over the tasks of both.

    A seed counts that has all tasks that any seed has in both, or as many as are given.
    """
    runs, found = list(runs), []
    for name in sides:
        each = {(run["parameters"]["seed"], str(run["parameters"].get("task"))): read(run)
                for run in select(runs, **{by: name})}  # fmt: skip
        found.append({key: np.log(value) if log else value for key, value in each.items() if value is not None})
    shared = sorted(found[0].keys() & found[1].keys())
    tasks = tasks or len({task for _, task in shared})
    gaps: dict[Any, list[float]] = {}
    for seed, task in shared:
        gaps.setdefault(seed, []).append(float(found[0][seed, task] - found[1][seed, task]))
    return {seed: float(np.mean(values)) for seed, values in gaps.items() if len(values) == tasks}


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
    cells = [(study, model, runs, found) for study, model, runs in studies.cells(stage) if (found := gaps(runs))]
    values = [[*found.values()] for *_, found in cells]
    several = sorted({study for (study, *_), cell in zip(cells, values) if len(cell) > 1})
    lend = lend and bool(several)
    lent = borrow(values, [0.0] * len(values)) if lend else [Estimate(cell[0], -inf, inf, 1) for cell in values]
    rows = []
    for (study, model, runs, found), cell, one in zip(cells, values, lent):
        facts = {"paper": paper(studies.paper, labels.size(model)), "method": SEEDS} | given
        facts["records"] = tuple(run["name"] for run in _entering(runs, gaps, found))
        if len(cell) == 1:
            facts["method"] = BORROWED.format(labels.joined(several)) if lend else ALONE
            facts["aside"] = facts.get("aside", False) or bool(several) and not lend
        rows.append(measured(study, model, one if len(cell) == 1 else mean_interval(cell), **facts))
    return rows


def _entering(runs: list[Record], gaps: Gaps, found: dict) -> list[Record]:
    """The runs without the algorithms and tasks that can be left out without another result."""
    for key in ("algorithm", "task"):
        for value in sorted({str(run["parameters"].get(key)) for run in runs}):
            rest = [run for run in runs if str(run["parameters"].get(key)) != value]
            if rest and gaps(rest) == found:
                runs = rest
    return runs
