"""The tracked studies that measurements read, and one number of each seed measured in all of
them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log, sqrt
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from companion.paper import numbers
from companion.paper.numbers import Published
from companion.records import select
from companion.records.schema import Record
from companion.records.tracked import RERUN, repeats
from companion.records.tracked import study as load
from companion.setup import labels, paths
from companion.statistics import borrow, mean_interval
from companion.statistics.seeds import seed_gaps
from companion.verdicts.claims_and_measurements import Measurement, measured

BORROWED, ALONE = "one seed; spread over seeds borrowed from {}", "one seed, descriptive"


@dataclass(frozen=True, eq=False)
class Studies:
    """The records of each study by its name, and the paper's printed numbers; `again`: the same
    `with_reruns`.
    """

    records: Mapping[str, Sequence[Record]]
    paper: Published
    again: "Studies | None" = None

    def of(self, stage: str, **parameters: Any) -> dict[str, list[Record]]:
        """Return the records of one stage with these parameters, of the studies that have any."""
        found = {name: select(runs, stage, **parameters) for name, runs in self.records.items()}
        return {name: runs for name, runs in found.items() if runs}

    def cells(self, stage: str, **parameters: Any) -> Iterator[tuple[str, str, list[Record]]]:
        """Yield study, model and runs, as `of` does: of decoders of the stage of that name, else of
        encoders.
        """
        for study, runs in self.of(stage, **parameters).items():
            for model in sorted({run["parameters"]["model"] for run in runs}):
                if labels.is_decoder(model) == (stage == "decoder"):
                    yield study, model, select(runs, model=model)

    def printed(
        self,
        number: int,
        metric: str,
        sides: Sequence[str] = ("High", "Original"),
        *,
        scale: Callable[[float], float] = float,
        **keys: str,
    ) -> float | None:
        """Return the paper's first algorithm minus its second in a table, on a scale; None where it
        lacks either.
        """
        values = [self.paper.value(number, algorithm=side, metric=metric, **keys) for side in sides]
        return None if None in values else float(np.subtract(*map(scale, values)))

    def with_reruns(self) -> "Studies":
        """Return the studies with the held-out loss of each run that was made twice as its other
        run had it.

        data/results/repeats.csv has the loss at the last step alone; of several repetitions the
        first row counts. Notebook 12's runs at a strength get it as "again". A perplexity on
        WikiText stays that of the first run.
        """
        table = repeats().drop_duplicates([*RERUN]).set_index([*RERUN])
        losses = dict(zip(table.index, table[["first", "second"]].to_numpy().tolist()))

        def both(
            study: str,
            record: str,
            algorithm: str = "",
            strength: float | str = "",
            seed: int | str = "",
        ) -> Any:
            return losses.get((study, record, algorithm, "", str(strength), str(seed)))

        def other(loss: float, pair: Sequence[float]) -> float:
            return max(pair, key=lambda one: abs(one - loss))

        def second(run: Record, study: str) -> Record:
            metrics, place = dict(run["metrics"]), (study, run["name"])
            if pair := both(*place):
                metrics["perplexity"] = exp(other(log(metrics["perplexity"]), pair))
            for branch in (branches := [dict(one) for one in metrics.get("branches", ())]):
                if pair := both(*place, branch["algorithm"]):
                    branch["held_out"] = other(branch["held_out"], pair)
            for one in (swept := [dict(one) for one in metrics.get("strengths") or ()]):
                if pair := both(*place, strength=one["strength"], seed=one["seed"]):
                    one["again"] = pair[1]
            found = {"branches": branches, "strengths": swept}
            return run | {
                "metrics": metrics | {key: parts for key, parts in found.items() if parts}
            }

        return replace(
            self,
            records={
                name: [second(run, name) for run in runs] for name, runs in self.records.items()
            },
        )


def tracked() -> Studies:
    """Load every tracked study."""
    found = (folder for folder in (paths.root() / "data" / "results").iterdir() if folder.is_dir())
    # that of a cut publication
    names = sorted(folder.name for folder in found if not folder.name.startswith("."))
    first = Studies({name: load(name) for name in names}, numbers.load())
    return replace(first, again=first.with_reruns())


def over_seeds(
    studies: Studies,
    stage: str,
    read: Callable[[Record], Any],
    sides: Sequence[str] = (),
    *,
    where: Mapping[str, Any] = MappingProxyType({}),
    log: bool = False,
    lend: bool = True,
    of_mean: Callable[[Any], float] = float,
    least: Callable[[Sequence[Record]], float] = lambda runs: 0.0,
    paper: Callable[[str], float | None] = lambda model: None,
    **given: Any,
) -> Iterator[Measurement]:
    """Measure a number of each seed in every study and size: one side's minus the other's, or
    `of_mean` of all runs'.

    `read` gives that of a run with the parameters of `where`, None where it does not enter; `paper`
    the paper's number for a model; `least` of a cell's runs the error that one seed has in any
    case, lest seeds that agree by chance make it small. A study of one seed borrows the spread over
    seeds of the others (`borrow`), or without `lend` is descriptive: shown aside, with no interval.
    Where no study has two seeds there is no interval either.
    """
    cells = []
    for study, model, every in studies.cells(stage, **where):
        runs = [run for run in every if not sides or run["parameters"]["algorithm"] in sides]
        runs = [run for run in runs if read(run) is not None]
        if sides:
            gaps = seed_gaps(runs, read, sides, log=log)
            runs, found = (
                [run for run in runs if run["parameters"]["seed"] in gaps],
                [*gaps.values()],
            )
        else:
            seeds, values = (
                [run["parameters"]["seed"] for run in runs],
                pd.Series([*map(read, runs)], dtype=object),
            )
            means = values.groupby(seeds).agg(
                lambda numbers: of_mean(np.mean(numbers.tolist(), axis=0))
            )
            found = means.dropna().tolist()
        if found:
            cells.append((study, model, runs, found))
    several = sorted({study for study, *_, found in cells if len(found) > 1})
    lent = borrow([found for *_, found in cells]) if lend and several else []
    for place, (study, model, runs, found) in enumerate(cells):
        floor = least(runs) / sqrt(len(found)) if len(found) > 1 else 0.0
        one, facts = (
            mean_interval(found, least=floor),
            {"paper": paper(model), "runs": runs} | given,
        )
        if len(found) == 1 and lent:
            one, facts["method"] = lent[place], BORROWED.format(labels.joined(several))
        elif len(found) == 1:
            facts |= {"method": ALONE, "aside": facts.get("aside", False) or bool(several)}
        yield measured(study, model, one, **facts)
