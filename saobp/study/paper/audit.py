"""What the paper's printed numbers give when they are held against each other: one number per statement.

A row has the place, the quantity in words, the number as the paper has it (NaN where it prints none) and the number
that its own tables give. Notebook 09 argues the findings one by one.
"""

from math import nan
from pathlib import Path

import numpy as np
import pandas as pd

from saobp.study.paper import arithmetic, comparisons
from saobp.study.paper.numbers import Published
from saobp.study.setup import typed_by_hand

Values = dict[str, float | tuple[float, float]]  # by the key of `audit.yaml`: ours, or the paper's and ours
FINDING = ["place", "quantity", "paper", "recomputed"]
SMALL_TASKS = ("RTE", "WNLI", "MRPC")  # few items, and most scores below the commonest label's share
COUNTED = (*SMALL_TASKS, "SST2", "QNLI")  # whose items are few enough for other accuracies to be no count
ROUNDED = 0.005  # half a hundredth, the last digit of a printed score


def findings(paper: Published) -> pd.DataFrame:
    """Return the seven findings that change how the paper's results read, one row each, in the notebook's order."""
    table1, table2, table8 = (comparisons.table(paper, number) for number in (1, 2, 8))
    gains, (original, three) = comparisons.gains(paper), comparisons.table3(paper)
    views = comparisons.views(table1)
    r = {name: comparisons.correlations(view, ["CC"], "GTD")["CC"][0] for name, view in views.items()}
    small = [comparisons.over_original(table)[list(names)].loc["Small"].mean() for table, names in (
        (table2, ["GLUE"]), (table8, comparisons.GLUE.values()))]  # fmt: skip
    points = paper.claim("C26"), arithmetic.points_needed(paper.claim("C24"), paper.claim("C25"))
    many, ahead = (gains["z"].abs() > 2).sum(), (three > original).any(axis=1).sum()
    above = comparisons.zero_shot(paper)["above a constant answer"] > 0
    added = comparisons.added_operations(paper).loc["Mini"]
    left = round(float(added["by formula"] - added["Original's own attention"]), 6) + 0.0  # no minus before a zero
    values = {
        "gains": many, "glue": small, "failed": (r["all 12 rows"], r["without Medium-Low"]), "points": points,
        "ahead": ahead, "zero_shot": above.sum(), "added": (added["printed"], left),
    }  # fmt: skip
    return _framed("findings", values, gains=len(gains))


def others(paper: Published) -> pd.DataFrame:
    """Return the numbers of less weight, by table and section."""
    table1, table2, table8 = (comparisons.table(paper, number) for number in (1, 2, 8))
    values = _of_table1(paper, table1) | _of_scores(table2, table8)
    values |= _of_section7(table2, table8) | _of_schedules(paper) | _of_table9(paper)
    return _framed("others", values, said=int(paper.claim("C23")))


def _framed(section: str, values: Values, **counts: int) -> pd.DataFrame:
    """Put the words of `audit.yaml` before the numbers: of each (the paper's, ours), or ours alone."""
    words = typed_by_hand.read(Path(__file__).with_name("audit.yaml"))[section]
    said = [(place, quantity.format(**counts)) for place, quantity in (words.pop(key) for key in values)]
    assert not words, f"audit.yaml, {section}: nothing computes {', '.join(words)}"
    rows = [(*one, *(found if np.ndim(found) else (nan, found))) for one, found in zip(said, values.values())]
    return pd.DataFrame(rows, columns=FINDING).astype({"paper": float, "recomputed": float})


def _of_table1(paper: Published, table1: pd.DataFrame) -> Values:
    accuracy, said = table1["Acc_RACE_Middle"], int(paper.claim("C23"))
    fits = {n: sum(bool(arithmetic.grim(value, n)) for value in accuracy) for n in (said, 1436)}
    moved = comparisons.over_original(table1)
    equal = table1["GTD"].xs("High", level="algorithm") == table1["GTD"].xs("Low", level="algorithm")
    good = table1["GTD"].between(paper.claim("C30"), paper.claim("C31"))
    return {
        "counts": (len(accuracy), fits[said]), "all_counts": fits[1436], "betweenness": (moved["BC"] < 0).sum(),
        "same_gtd": equal.sum(), "good": good.sum(),
    }  # fmt: skip


def _of_scores(table2: pd.DataFrame, table8: pd.DataFrame) -> Values:
    means = table8[list(comparisons.GLUE.values())].mean(axis=1)
    floors = pd.Series({task: arithmetic.majority(task) for task in SMALL_TASKS})
    below = table8[list(SMALL_TASKS)] < floors - ROUNDED
    gain = comparisons.over_original(table8).loc["Mini", list(comparisons.GLUE.values())]
    counts = [bool(arithmetic.grim(value, arithmetic.ITEMS[task])) for task in COUNTED for value in table8[task]]
    both = pd.concat([table8["Avg"], means], axis=1)
    agree, near = (table2["GLUE"] - means).abs() < 2 * ROUNDED, comparisons.against_chance(table2) < 2
    return {
        "means": (len(agree), agree.sum()), "chance": near.sum().sum(),
        "low_mean": tuple(both.loc[("Small", "Low")]), "original_mean": tuple(both.loc[("Medium", "Original")]),
        "below": below.sum().sum(), "public": (len(counts), sum(counts)), "large": gain[["MNLI", "QQP"]].sum(),
        "all": gain.sum(),
    }  # fmt: skip


def _of_section7(table2: pd.DataFrame, table8: pd.DataFrame) -> Values:
    gaps = comparisons.over_original(table2)[list(comparisons.BENCHMARKS)].loc[list(comparisons.MODELS)]
    falling = sum(gaps[name].is_monotonic_decreasing for name in gaps)
    short = table8.loc[("Mini", "High")] - table8.loc[("Small", "Original")]
    qnli = comparisons.over_original(table8).loc[["Mini", "Small"], "QNLI"]
    both = pd.concat([table2[["SQuAD", "RACE_Middle"]], table8[["SST2", "MNLI"]]], axis=1)
    lead = both.xs("High", level="algorithm") - both.xs("ElemMul", level="algorithm")
    behind, ahead = (lead[["SQuAD", "SST2"]] < 0).sum().sum(), (lead[["RACE_Middle", "MNLI"]] > 0).sum().sum()
    return {
        "falling": falling, "mnli": short["MNLI"], "qqp": short["QQP"], "qnli": qnli.max(), "behind": behind,
        "before": ahead,
    }  # fmt: skip


def _of_schedules(paper: Published) -> Values:
    rates = {size: paper.value(5, model=size, metric="learning_rate") for size in comparisons.MODELS}
    needed = [arithmetic.points_needed(r, paper.claim("C39")) for r in paper.tables[6]["value"]]
    layers = paper.value(4, model="Mini", metric="layers")
    return {"rates": rates["Small"] / rates["Mini"], "needed": max(needed), "layers": layers}


def _of_table9(paper: Published) -> Values:
    cells, times = comparisons.operations(paper), comparisons.times(paper)["train"]
    agree = (cells["formula"] - cells["printed"]).abs() <= ROUNDED + 1e-5
    wrong = cells[~agree].iloc[0]
    step = times["step_per_s (ms)"].unstack("algorithm")
    high, low = step["High"] / step["Original"], step["Low"] / step["High"]
    tokens = times["tok_per_s (tok/s)"] * times["step_per_s (ms)"] / 1000
    return {
        "operations": (len(cells), agree.sum()), "elemmul": (wrong["printed"], wrong["formula"]),
        "tokens": tokens.median(), "high": high.max(), "low": low.max(),
    }  # fmt: skip
