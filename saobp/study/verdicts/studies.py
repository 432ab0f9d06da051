"""The tracked studies that measurements read, and differences between two algorithms seed by seed in them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp
from typing import Any

import numpy as np
import pandas as pd

from saobp.study.paper import numbers
from saobp.study.paper.numbers import Published
from saobp.study.setup import labels, paths, records
from saobp.study.setup.records import select
from saobp.study.statistics import Estimate, borrow, estimates
from saobp.study.verdicts.model import Measurement, measured, scope_of

Record = dict[str, Any]
Read = Callable[[Record], float | None]  # one number of a run; None where it has none
SEEDS, BORROWED = "Student's t over seeds", "one seed; spread over seeds borrowed from {}"
ALONE = "one seed, descriptive"


@dataclass(frozen=True)
class Studies:
    """The records of each study by its name, and the paper's printed numbers."""

    records: Mapping[str, Sequence[Record]]
    paper: Published
    memory: dict[Any, Any] = field(default_factory=dict, compare=False)  # what several claims need, computed once

    def of(self, stage: str) -> dict[str, list[Record]]:
        """Return the records of one stage, of the studies that have any."""
        found = {name: select(list(runs), stage) for name, runs in self.records.items()}
        return {name: runs for name, runs in found.items() if runs}

    def with_reruns(self) -> "Studies":
        """Return the studies with the held-out loss of each run that was made twice in place of the first's.

        data/results/repeats.csv has the loss at the last step alone; of several repetitions the first row counts.
        """
        table = pd.read_csv(paths.root() / "data" / "results" / "repeats.csv").drop_duplicates(["study", "run"])
        losses = {(row.study, row.run): row.second for row in table.itertuples()}
        again = {
            name: [_with_losses(_with_loss(run, losses.get((name, run["name"]))), name, losses) for run in runs]
            for name, runs in self.records.items()
        }
        return replace(self, records=again, memory={})


def _with_loss(run: Record, loss: float | None) -> Record:
    return run if loss is None else run | {"metrics": run["metrics"] | {"perplexity": exp(loss)}}


def _with_losses(run: Record, study: str, losses: Mapping[tuple[str, str], float]) -> Record:
    """Return a record of notebook 12 whose runs at a strength hold the repetition's loss as "again"."""
    own = run["metrics"].get("strengths") or []
    again = [losses.get((study, f"strength {one['strength']}, seed {one['seed']}")) for one in own]
    if not any(again):
        return run
    own = [one if loss is None else one | {"again": loss} for one, loss in zip(own, again)]
    return run | {"metrics": run["metrics"] | {"strengths": own}}


def tracked() -> Studies:
    """Load every tracked study but the smoke test."""
    results = paths.root() / "data" / "results"
    names = sorted(folder.name for folder in results.iterdir() if folder.is_dir())
    return Studies({name: records.load(results / name) for name in names}, numbers.load())


def seed_gaps(
    runs: Iterable[Record], measure: Read, sides: tuple[str, str] = ("high", "original"), *, log: bool = False
) -> dict[Any, float]:
    """Return the first algorithm's number minus the second's, per pretraining seed: a mean over the tasks of both."""
    runs, found = list(runs), []
    for name in sides:
        own = {}
        for run in select(runs, algorithm=name):
            value = measure(run)
            if value is not None:
                own[run["parameters"]["seed"], str(run["parameters"].get("task"))] = np.log(value) if log else value
        found.append(own)
    shared = sorted(found[0].keys() & found[1].keys())
    tasks = {task for _, task in shared}
    gaps: dict[Any, list[float]] = {}
    for seed, task in shared:
        gaps.setdefault(seed, []).append(float(found[0][seed, task] - found[1][seed, task]))
    return {seed: float(np.mean(values)) for seed, values in gaps.items() if len(values) == len(tasks)}


def over_seeds(
    claim: str, studies: Studies, stage: str, gaps: Callable[[list[Record]], dict[Any, float]], *,
    paper: Callable[[str], float | None] = lambda size: None, part: str = "", lend: bool = True, **given: Any,
) -> list[Measurement]:  # fmt: skip
    """Measure one difference in every study and size with runs of a stage, from each seed's number.

    A study of one seed borrows the spread over seeds of the others (`borrow`), or without `lend` is descriptive: shown
    aside, with no interval. Where no study has two seeds there is no interval either. `paper` gives
    the paper's number for a size; `part` names what is measured, before the size.
    """
    cells: dict[tuple[str, str], tuple[dict[Any, float], tuple[str, ...]]] = {}
    for study, runs in studies.of(stage).items():
        for model in sorted({run["parameters"]["model"] for run in runs if not _decoder(run)}):
            own = select(runs, model=model)
            if found := gaps(own):
                cells[study, model] = found, tuple(run["name"] for run in _entering(own, gaps, found))
    values = [[*found.values()] for found, _ in cells.values()]
    if not values:
        return []
    several = [study for (study, _), cell in zip(cells, values) if len(cell) > 1]
    lend = lend and bool(several)
    shown = borrow(values, [0.0] * len(values)) if lend else [Estimate(cell[0], -np.inf, np.inf, 1) for cell in values]
    rows = []
    for ((study, model), (_, names)), cell, lent in zip(cells.items(), values, shown, strict=True):
        alone = len(cell) == 1
        found = lent if alone else estimates.mean_interval(cell)
        method = BORROWED.format(labels.joined(sorted(set(several)))) if alone and lend else ALONE if alone else SEEDS
        title = f"{part} {labels.model_title(model)}".strip()
        facts = {"method": method, "records": names, "paper": paper(labels.size(model))} | given
        facts |= {"aside": True} if alone and several and not lend else {}
        rows.append(measured(claim, title, scope_of(study, [model]), study, found, **facts))
    return rows


def _entering(runs: list[Record], gaps: Callable[[list[Record]], dict], found: dict) -> list[Record]:
    """The runs without the algorithms and tasks that can be left out without another result."""
    for key in ("algorithm", "task"):
        for value in sorted({str(run["parameters"].get(key)) for run in runs}):
            rest = [run for run in runs if str(run["parameters"].get(key)) != value]
            if rest and gaps(rest) == found:
                runs = rest
    return runs


def _decoder(run: Record) -> bool:
    return labels.is_decoder(str(run["parameters"]["model"])) or run["stage"] == "decoder"
