"""What the paper's printed numbers give when they are held against each other: one number per statement.

A row has the place, the quantity in words, the number as the paper has it (NaN where it prints none) and the number
that its own tables give. Notebook 09 argues the findings one by one.
"""

from math import nan

import pandas as pd

from saobp.study.paper import arithmetic, frames
from saobp.study.paper.numbers import Published

Row = tuple[str, str, float, float]  # place, quantity, the paper's number, ours
COLUMNS = ["place", "quantity", "paper", "recomputed"]
SMALL_TASKS = ("RTE", "WNLI", "MRPC")  # few items, and most scores below the commonest label's share
COUNTED = (*SMALL_TASKS, "SST2", "QNLI")  # whose items are few enough for other accuracies to be no count
ROUNDED = 0.005  # half a hundredth, the last digit of a printed score


def findings(paper: Published) -> pd.DataFrame:
    """Return the seven findings that change how the paper's results read, one row each, in the notebook's order."""
    table1, table2, table8 = (frames.table(paper, number) for number in (1, 2, 8))
    gains, (original, three) = frames.gains(paper), frames.table3(paper)
    r = {name: frames.correlations(view, ["CC"], "GTD")["CC"][0] for name, view in frames.views(table1).items()}
    small = [frames.over_original(table)[list(names)].loc["Small"].mean() for table, names in (
        (table2, ["GLUE"]), (table8, frames.GLUE.values()))]  # fmt: skip
    points = paper.claim("C26"), arithmetic.points_needed(paper.claim("C24"), paper.claim("C25"))
    many, ahead = (gains["z"].abs() > 2).sum(), (three > original).any(axis=1).sum()
    above, added = frames.zero_shot(paper)["above a constant answer"] > 0, frames.added_operations(paper).loc["Mini"]
    left = round(float(added["by formula"] - added["Original's own attention"]), 6) + 0.0  # no minus before a zero
    rows: list[Row] = [
        ("Tables 2, 8", f"gains of High beyond two standard errors, of {len(gains)}", nan, many),
        ("Table 2", "gain of High on GLUE, BERT-Small (points)", *small),
        ("Table 1", "r of GTD and clustering; without the failed run", r["all 12 rows"], r["without Medium-Low"]),
        ("Figs. 3, 9", "checkpoints, if independent, that |r| > 0.5 at p < 0.02 needs", *points),
        ("Table 3", "methods more accurate than Original on QNLI or SQuAD, of 3", nan, ahead),
        ("Table 7", "zero-shot accuracies above a constant answer, of 12", nan, above.sum()),
        ("Table 9", "operations that High adds, BERT-Mini (10⁹)", added["printed"], left),
    ]
    return _framed(rows)


def others(paper: Published) -> pd.DataFrame:
    """Return the numbers of less weight, by table and section."""
    table1, table2, table8 = (frames.table(paper, number) for number in (1, 2, 8))
    rows = [*_of_table1(paper, table1), *_of_table2(table2, table8), *_of_table8(table8)]
    return _framed([*rows, *_of_section7(table2, table8), *_of_schedules(paper), *_of_table9(paper)])


def _framed(rows: list[Row]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=COLUMNS).astype({"paper": float, "recomputed": float})


def _of_table1(paper: Published, table1: pd.DataFrame) -> list[Row]:
    accuracy, said = table1["Acc_RACE_Middle"], int(paper.claim("C23"))
    fits = {n: sum(bool(arithmetic.grim(value, n)) for value in accuracy) for n in (said, 1436)}
    moved = frames.over_original(table1)
    equal = table1["GTD"].xs("High", level="algorithm") == table1["GTD"].xs("Low", level="algorithm")
    good = table1["GTD"].between(paper.claim("C30"), paper.claim("C31"))
    return [
        ("Table 1", f"accuracies that some count of {said:,} questions gives, of 12", len(accuracy), fits[said]),
        ("Table 1", "the same with all 1,436 questions of RACE-Middle", nan, fits[1436]),
        ("Table 1", "sizes at which High lowers betweenness, of 3", nan, int((moved["BC"] < 0).sum())),
        ("Table 1", "sizes at which High and Low have the same GTD, of 3", nan, int(equal.sum())),
        ("Sec. 7", "means in the range of GTD that is called good, of 12", nan, int(good.sum())),
    ]


def _of_table2(table2: pd.DataFrame, table8: pd.DataFrame) -> list[Row]:
    means = table8[list(frames.GLUE.values())].mean(axis=1)
    agree = (table2["GLUE"] - means).abs() < 2 * ROUNDED
    near = frames.against_chance(table2) < 2
    return [
        ("Table 2", "GLUE cells that are the mean of Table 8's nine tasks, of 12", len(agree), int(agree.sum())),
        ("Table 2", "HellaSwag and RACE-Middle within two errors of chance, of 24", nan, int(near.sum().sum())),
    ]


def _of_table8(table8: pd.DataFrame) -> list[Row]:
    means = table8[list(frames.GLUE.values())].mean(axis=1)
    floors = pd.Series({task: arithmetic.majority(task) for task in SMALL_TASKS})
    below = table8[list(SMALL_TASKS)] < floors - ROUNDED
    gain = frames.over_original(table8).loc["Mini", list(frames.GLUE.values())]
    counts = [bool(arithmetic.grim(value, arithmetic.ITEMS[task])) for task in COUNTED for value in table8[task]]
    rows = [
        ("Table 8", f"mean over nine tasks, BERT-{model} with {name}", table8["Avg"][model, name], means[model, name])
        for model, name in (("Small", "Low"), ("Medium", "Original"))
    ]
    return rows + [
        ("Table 8", "scores on RTE, WNLI, MRPC below the commonest label, of 36", nan, int(below.sum().sum())),
        ("Table 8", "accuracies on five tasks that are counts of the public files, of 60", len(counts), sum(counts)),
        ("Table 8", "points that MNLI and QQP bring to Mini's gain", nan, float(gain[["MNLI", "QQP"]].sum())),
        ("Table 8", "points that all nine tasks bring to it", nan, float(gain.sum())),
    ]


def _of_section7(table2: pd.DataFrame, table8: pd.DataFrame) -> list[Row]:
    gaps = frames.over_original(table2)[list(frames.BENCHMARKS)].loc[list(frames.MODELS)]
    falling = sum(gaps[name].is_monotonic_decreasing for name in gaps)
    short = table8.loc[("Mini", "High")] - table8.loc[("Small", "Original")]
    qnli = frames.over_original(table8).loc[["Mini", "Small"], "QNLI"]
    both = pd.concat([table2[["SQuAD", "RACE_Middle"]], table8[["SST2", "MNLI"]]], axis=1)
    lead = both.xs("High", level="algorithm") - both.xs("ElemMul", level="algorithm")
    behind, ahead = (lead[["SQuAD", "SST2"]] < 0).sum().sum(), (lead[["RACE_Middle", "MNLI"]] > 0).sum().sum()
    return [
        ("Sec. 7", "benchmarks on which the gain falls at each size, of 4", nan, falling),
        ("Sec. 7", "Mini with High − Small with Original, MNLI (points)", nan, short["MNLI"]),
        ("Sec. 7", "Mini with High − Small with Original, QQP (points)", nan, short["QQP"]),
        ("Sec. 7", "largest gain on QNLI of Mini and Small (points)", nan, qnli.max()),
        ("Sec. 7", "SQuAD and SST2: cells with ElemMul above High, of 6", nan, behind),
        ("Sec. 7", "RACE-Middle and MNLI: cells with High above ElemMul, of 6", nan, ahead),
    ]


def _of_schedules(paper: Published) -> list[Row]:
    rates = {size: paper.value(5, model=size, metric="learning_rate") for size in frames.MODELS}
    needed = [arithmetic.points_needed(r, paper.claim("C39")) for r in paper.tables[6]["value"]]
    layers = paper.value(4, model="Mini", metric="layers")
    return [
        ("Table 5", "learning rate of Small and Medium ÷ that of Mini", nan, rates["Small"] / rates["Mini"]),
        ("Table 6", "independent checkpoints that p < 0.015 needs, at most", nan, max(needed)),
        ("App. B", "layers of Mini, whose r with HellaSwag is positive", nan, layers),
    ]


def _of_table9(paper: Published) -> list[Row]:
    cells, times = frames.operations(paper), frames.times(paper)["train"]
    agree = (cells["formula"] - cells["printed"]).abs() <= ROUNDED + 1e-5
    wrong = cells[~agree].iloc[0]
    step = times["step_per_s (ms)"].unstack("algorithm")
    high, low = step["High"] / step["Original"], step["Low"] / step["High"]
    tokens = times["tok_per_s (tok/s)"] * times["step_per_s (ms)"] / 1000
    return [
        ("Table 9", "operations that the architecture gives, of 24", len(cells), int(agree.sum())),
        ("Table 9", "operations of ElemMul at inference, BERT-Medium (10⁹)", wrong["printed"], wrong["formula"]),
        ("Table 9", "tokens per training step", nan, float(tokens.median())),
        ("Table 9", "step of High ÷ step of Original, at most", nan, high.max()),
        ("Table 9", "step of Low ÷ step of High, the same work, at most", nan, low.max()),
    ]
