"""What the paper's printed numbers give when they are held against each other: one number per
statement.

A row: place, quantity in words, the paper's number (NaN where it prints none), and what its own
tables give.
"""

from math import nan
from pathlib import Path

import numpy as np
import pandas as pd

from companion.paper import arithmetic, comparisons
from companion.paper.numbers import Published
from companion.setup import typed_by_hand

# by the key of `audit.yaml`: ours, or the paper's and ours
Values = dict[str, float | tuple[float, float]]
FINDING = ["place", "quantity", "paper", "recomputed"]
# few items, and most scores below the commonest label's share
SMALL_TASKS = ("RTE", "WNLI", "MRPC")
# whose items are few enough for other accuracies to be no count
COUNTED = (*SMALL_TASKS, "SST2", "QNLI")
GLUE_COLUMNS = [*comparisons.GLUE.values()]
# half a hundredth, the last digit of a printed score
ROUNDED = 0.005


def findings(paper: Published) -> pd.DataFrame:
    """Return the seven findings that change how the paper's results read, one row each, in the
    notebook's order.
    """
    table1, table2, table8 = (comparisons.table(paper, number) for number in (1, 2, 8))
    gains, (original, three) = comparisons.gains(paper), comparisons.table3(paper)
    views = comparisons.views(table1)
    r = {name: view["CC"].corr(view["GTD"]) for name, view in views.items()}
    small = [comparisons.over_original(table).loc["Small"] for table in (table2, table8)]
    added = comparisons.added_operations(paper).loc["Mini"]
    # no minus before a zero
    left = round(float(added["formula"] - added["attention"]), 6) + 0.0
    values = {
        "gains": (gains["z"].abs() > 2).sum(),
        "glue": (small[0]["GLUE"], small[1][GLUE_COLUMNS].mean()),
        "failed": (r["all"], r["without_failed"]),
        "points": (
            paper.claim("C26"),
            arithmetic.points_needed(paper.claim("C24"), paper.claim("C25")),
        ),
        "ahead": (three > original).any(axis=1).sum(),
        "zero_shot": (comparisons.zero_shot(paper)["above"] > 0).sum(),
        "added": (added["printed"], left),
    }
    return _framed("findings", values, gains=len(gains))


def others(paper: Published) -> pd.DataFrame:
    """Return the numbers of less weight, by table and section."""
    table1, table2, table8 = (comparisons.table(paper, number) for number in (1, 2, 8))
    values = _of_table1(paper, table1) | _of_scores(table2, table8)
    values |= _of_section7(table2, table8) | _of_costs(paper)
    return _framed("others", values, said=int(paper.claim("C23")))


def _framed(section: str, values: Values, **counts: int) -> pd.DataFrame:
    """Put the words of `audit.yaml` before the numbers: of each (the paper's, ours), or ours
    alone.
    """
    words = typed_by_hand.read(Path(__file__).with_name("audit.yaml"))[section]
    rows = []
    for key, numbers in values.items():
        place, quantity = words.pop(key)
        pair = numbers if np.ndim(numbers) else (nan, numbers)
        rows.append((place, quantity.format(**counts), *pair))
    assert not words, f"audit.yaml, {section}: nothing computes {', '.join(words)}"
    return pd.DataFrame(rows, columns=FINDING).astype({"paper": float, "recomputed": float})


def _of_table1(paper: Published, table1: pd.DataFrame) -> Values:
    accuracy, gtd, printed = table1["Acc_RACE_Middle"], table1["GTD"], int(paper.claim("C23"))
    items = arithmetic.ITEMS["RACE_Middle"]
    return {
        "counts": (len(accuracy), sum(bool(arithmetic.grim(v, printed)) for v in accuracy)),
        "all_counts": sum(bool(arithmetic.grim(value, items)) for value in accuracy),
        "betweenness": (comparisons.over_original(table1)["BC"] < 0).sum(),
        "same_gtd": gtd.unstack("algorithm").eval("High == Low").sum(),
        "good": gtd.between(paper.claim("C30"), paper.claim("C31")).sum(),
    }


def _of_scores(table2: pd.DataFrame, table8: pd.DataFrame) -> Values:
    both = pd.concat([table8["Avg"], means := table8[GLUE_COLUMNS].mean(axis=1)], axis=1)
    labels = {task: arithmetic.LABEL_COUNTS[task] for task in SMALL_TASKS}
    floors = pd.Series({task: 100 * max(counts) / sum(counts) for task, counts in labels.items()})
    counts = [
        bool(arithmetic.grim(value, arithmetic.ITEMS[task]))
        for task in COUNTED
        for value in table8[task]
    ]
    gain = comparisons.over_original(table8).loc["Mini", GLUE_COLUMNS]
    return {
        "means": (len(means), ((table2["GLUE"] - means).abs() < 2 * ROUNDED).sum()),
        "chance": (comparisons.against_chance(table2) < 2).sum().sum(),
        "low_mean": tuple(both.loc[("Small", "Low")]),
        "original_mean": tuple(both.loc[("Medium", "Original")]),
        "below": (table8[list(SMALL_TASKS)] < floors - ROUNDED).sum().sum(),
        "public": (len(counts), sum(counts)),
        "large": gain[["MNLI", "QQP"]].sum(),
        "all": gain.sum(),
    }


def _of_section7(table2: pd.DataFrame, table8: pd.DataFrame) -> Values:
    gaps = comparisons.over_original(table2)[list(comparisons.TABLE_2)].loc[
        list(comparisons.MODELS)
    ]
    short = table8.loc[("Mini", "High")] - table8.loc[("Small", "Original")]
    both = pd.concat([table2[["SQuAD", "RACE_Middle"]], table8[["SST2", "MNLI"]]], axis=1)
    lead = both.xs("High", level="algorithm") - both.xs("ElemMul", level="algorithm")
    return {
        "falling": sum(gaps[name].is_monotonic_decreasing for name in gaps),
        "mnli": short["MNLI"],
        "qqp": short["QQP"],
        "qnli": comparisons.over_original(table8).loc[["Mini", "Small"], "QNLI"].max(),
        "behind": (lead[["SQuAD", "SST2"]] < 0).sum().sum(),
        "before": (lead[["RACE_Middle", "MNLI"]] > 0).sum().sum(),
    }


def _of_costs(paper: Published) -> Values:
    rates = {
        size: paper.value(5, model=size, metric="learning_rate") for size in comparisons.MODELS
    }
    cells, times = comparisons.operations(paper), comparisons.times(paper)["train"]
    agree = (cells["formula"] - cells["printed"]).abs() <= ROUNDED + 1e-5
    step = times["step_per_s (ms)"].unstack("algorithm")
    return {
        "rates": rates["Small"] / rates["Mini"],
        "needed": max(
            arithmetic.points_needed(r, paper.claim("C39")) for r in paper.tables[6]["value"]
        ),
        "layers": paper.value(4, model="Mini", metric="layers"),
        "operations": (len(cells), agree.sum()),
        "elemmul": tuple(cells[~agree].iloc[0][["printed", "formula"]]),
        "tokens": (times["tok_per_s (tok/s)"] * times["step_per_s (ms)"] / 1000).median(),
        "high": (step["High"] / step["Original"]).max(),
        "low": (step["Low"] / step["High"]).max(),
    }
