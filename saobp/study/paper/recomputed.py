"""The printed cells that can be checked by arithmetic, and which of them recompute.

A cell is checked where other printed numbers, the architecture or a public count of items say what it must be. All
others stand alone: nothing in the paper contradicts or supports them.
"""

from collections.abc import Iterable

import pandas as pd

from saobp.study.paper import arithmetic, frames
from saobp.study.paper.numbers import COLUMNS, Published

BLIND = 0.9  # share of all percentages that some count of the items gives, above which to look is no check
SEQUENCES = 32  # a batch at inference, by the product of Table 9's two columns


def checks(paper: Published) -> pd.DataFrame:
    """Return a row a check of a cell: table, check, cell (its keys), printed, and whether it recomputes.

    A cell that two equations bind has two rows.
    """
    parts = (_repeated, _averages, _counts, _sizes, _operations, _rates, _throughputs)
    rows = [row for part in parts for row in part(paper)]
    return pd.DataFrame(rows, columns=["table", "check", "cell", "printed", "recomputes"])


def by_check(found: pd.DataFrame) -> pd.DataFrame:
    """Return how many cells each check looks at, and how many of them recompute."""
    grouped = found.groupby(["table", "check"], sort=False)["recomputes"]
    return grouped.agg(checked="size", recompute="sum").sort_index(level="table", sort_remaining=False)


def totals(paper: Published, found: pd.DataFrame) -> dict[str, int]:
    """Return how many cells the tables print, how many are checked, and how many of these recompute throughout."""
    whole = found.groupby(["table", "cell"])["recomputes"].all()
    cells = sum(len(table) for table in paper.tables.values())
    return {"printed": cells, "checked": len(whole), "recompute": int(whole.sum())}


def agrees(text: str, value: float) -> bool:
    """Say whether a number prints as `text`, its last digit rounded or cut off."""
    return abs(float(text) - value) < unit(text) * (1 + 1e-9)


def unit(text: str) -> float:
    """Return the worth of the last digit of a printed number: 0.01 for "57.40"."""
    return 10.0 ** -len(text.partition(".")[2])


def _rows(paper: Published, number: int, **keys: str | tuple[str, ...]) -> Iterable[pd.Series]:
    """Go through the cells of a table whose keys have one of these values."""
    frame = paper.tables[number]
    for key, wanted in keys.items():
        frame = frame[frame[key].isin([wanted] if isinstance(wanted, str) else wanted)]
    return (row for _, row in frame.iterrows())


def _row(number: int, check: str, row: pd.Series, recomputes: bool) -> tuple:
    cell = " ".join(row[key] for key in COLUMNS[number] if key != "arrow_in_header")
    return number, check, cell, row["printed"], recomputes


def _repeated(paper: Published) -> list[tuple]:
    """Cells that stand in two tables: Table 1's accuracy in Table 2, Table 3's BP-High among BERT-Small's scores."""
    found = []
    for row in _rows(paper, 1, metric="Acc_RACE_Middle"):
        again = paper.value(2, model=row["model"], algorithm=row["algorithm"], metric="RACE_Middle")
        found.append(_row(1, "accuracy is that of Table 2", row, again == row["value"]))
    for metric, number, task in (("QNLI_Acc", 8, "QNLI"), ("SQuAD_Acc", 2, "SQuAD")):
        for row in _rows(paper, 3, algorithm="BP-High", metric=metric):
            again = paper.value(number, model="Small", algorithm="High", metric=task)
            found.append(_row(3, "BP-High is BERT-Small's", row, again == row["value"]))
    return found


def _averages(paper: Published) -> list[tuple]:
    """Means over the nine GLUE tasks, in Tables 2 and 8."""
    means = frames.table(paper, 8)[list(frames.TASKS)].mean(axis=1)
    return [
        _row(number, "mean of Table 8's nine tasks", row, agrees(row["printed"], means[row["model"], row["algorithm"]]))
        for number, metric in ((2, "GLUE"), (8, "Avg"))
        for row in _rows(paper, number, metric=metric)
    ]


def _counts(paper: Published) -> list[tuple]:
    """Accuracies that some number of right answers gives, where the items are few enough for others to give none."""
    named = [(2, "RACE_Middle", "RACE_Middle"), (3, "QNLI_Acc", "QNLI")]
    named += [(7, "RACE_middle_Acc", "RACE_Middle"), (7, "BoolQ_Acc", "BoolQ")]
    named += [
        (8, task, task) for task in arithmetic.LABEL_COUNTS if arithmetic.grim_rate(arithmetic.ITEMS[task]) < BLIND
    ]
    return [
        _row(number, f"a count of {task.replace('_', '-')}'s {arithmetic.ITEMS[task]:,} items", row,
             bool(arithmetic.grim(row["value"], arithmetic.ITEMS[task])))
        for number, metric, task in named
        for row in _rows(paper, number, metric=metric)
    ]  # fmt: skip


def _sizes(paper: Published) -> list[tuple]:
    """Table 4's parameters, in millions."""
    millions = {size: round(arithmetic.parameters(shape), -6) for size, shape in frames.shapes(paper).items()}
    return [
        _row(4, "parameters of the architecture", row, millions[row["model"]] == row["value"])
        for row in _rows(paper, 4, metric="params")
    ]


def _operations(paper: Published) -> list[tuple]:
    """Table 9's counts of operations."""
    formula = frames.operations(paper).set_index(["model", "algorithm", "phase"])["formula"]
    return [
        _row(9, "operations of the architecture", row,
             agrees(row["printed"], formula[row["model"], row["algorithm"], row["phase"]]))
        for row in _rows(paper, 9, metric="FLOPs (GFLOPs)")
    ]  # fmt: skip


def _rates(paper: Published) -> list[tuple]:
    """Table 9's rates: with the time beside it each gives one amount of work, as far as both are printed."""
    found = []
    for phase, rate, time, amount in (
        ("train", "tok_per_s (tok/s)", "step_per_s (ms)", arithmetic.LENGTH),
        ("inference", "Throughput samples/s", "Latency/batch (ms)", SEQUENCES),
    ):
        for row in _rows(paper, 9, phase=phase, metric=rate):
            beside = paper.cell(9, model=row["model"], algorithm=row["algorithm"], phase=phase, metric=time)
            reach = row["value"] * unit(beside["printed"]) + beside["value"] * unit(row["printed"])
            off = abs(row["value"] * beside["value"] - 1000 * amount)
            found.append(_row(9, f"rate × time is {amount}", row, off < reach))
    return found


def _throughputs(paper: Published) -> list[tuple]:
    """Table 9's throughput in tokens, beside the one in sequences."""
    samples = frames.times(paper)["inference", "Throughput samples/s"]
    tokens = samples * arithmetic.LENGTH / 1e6
    return [
        _row(
            9,
            f"{arithmetic.LENGTH} tokens a sequence",
            row,
            agrees(row["printed"], tokens[row["model"], row["algorithm"]]),
        )
        for row in _rows(paper, 9, metric="Throughput (Mtok/s)")
    ]
