"""The paper's tables as the audit looks at them: one frame a question, from the printed numbers alone."""

from collections.abc import Sequence
from itertools import combinations

import pandas as pd
from scipy import stats

from saobp.study import audit
from saobp.study.published import Published

SIZES = ("Mini", "Small", "Medium")
ALGORITHMS = ("Original", "High", "Low", "ElemMul")
TASKS = ("CoLA", "MRPC", "RTE", "SST2", "STS-B", "WNLI", "QNLI", "MNLI", "QQP")  # GLUE, in the order of Table 8
BENCHMARKS = ("GLUE", "HellaSwag", "RACE_Middle", "SQuAD")
FAILED = ("Medium", "Low")  # the run that gives one answer to everything


def table(paper: Published, number: int) -> pd.DataFrame:
    """Return Table 1, 2 or 8, a row a model and algorithm and a column a metric, small models first."""
    wide = paper.tables[number].pivot(index=["model", "algorithm"], columns="metric", values="value")
    return wide.reindex(pd.MultiIndex.from_product([SIZES, ALGORITHMS], names=wide.index.names))


def over_original(frame: pd.DataFrame, algorithm: str = "High") -> pd.DataFrame:
    """Return by size how far an algorithm is above Original, in the frame's own units."""
    ours, plain = (frame.xs(name, level="algorithm") for name in (algorithm, "Original"))
    return ours - plain


def nearest_subset(tasks: pd.DataFrame, means: pd.Series) -> tuple[int, float]:
    """Try every subset of the tasks; return how many, and how far the best one's means stay from the given ones.

    The distance is the largest over the rows, in points.
    """
    subsets = [list(some) for size in range(1, len(TASKS) + 1) for some in combinations(TASKS, size)]
    return len(subsets), min((tasks[some].mean(axis=1) - means).abs().max() for some in subsets)


def constant_answers(scores: pd.Series) -> pd.DataFrame:
    """Return for each task the printed score, and the share of the one label that comes nearest to it (percent)."""
    rows = []
    for task, counts in audit.LABEL_COUNTS.items():
        shares = [100 * count / sum(counts) for count in counts]
        rows.append((task, scores[task], min(shares, key=lambda share: abs(share - scores[task]))))
    return pd.DataFrame(rows, columns=["task", "printed", "share of one label"])


def gains(paper: Published) -> pd.DataFrame:
    """Return BP-High minus Original in every accuracy cell with a known number of items, with its error and z.

    Points of a percent; the error is that of the items alone, for one seed and unpaired.
    """
    cells = [(2, task) for task in BENCHMARKS[1:]] + [(8, task) for task in audit.LABEL_COUNTS]
    rows = []
    for model in SIZES:
        for number, task in cells:
            high, plain = (
                paper.value(number, model=model, algorithm=name, metric=task) for name in ("High", "Original")
            )
            items = audit.ITEMS[task]
            error = audit.error_of_difference(high, plain, items)
            rows.append((model, task, items, round(high - plain, 2), error, (high - plain) / error))
    return pd.DataFrame(rows, columns=["model", "task", "items", "gain", "error", "z"])


def named(cells: pd.DataFrame) -> str:
    """Name cells of `gains` with their z, largest first: "Mini QQP +4.48 (z 16.1)"."""
    ordered = cells.sort_values("z", key=abs, ascending=False)
    return ", ".join(f"{row.model} {row.task} {row.gain:+.2f} (z {row.z:.1f})" for row in ordered.itertuples())


def views(table1: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the twelve rows of Table 1 four times: all, without the failed run, without BP-Low, centred by size."""
    rows = table1.rename(columns={"Acc_RACE_Middle": "accuracy"})
    return {
        "all 12 rows": rows,
        "without Medium-Low": rows.drop(FAILED),
        "without BP-Low": rows.drop(FAILED[1], level="algorithm"),
        "centred by size": rows - rows.groupby("model").transform("mean"),
    }


def correlations(rows: pd.DataFrame, measures: Sequence[str], other: str) -> dict[str, tuple[float, float]]:
    """Return Pearson's r and its two-sided p of each measure with another column, as if rows were independent."""
    found = {measure: stats.pearsonr(rows[measure], rows[other]) for measure in measures}
    return {measure: (float(test.statistic), float(test.pvalue)) for measure, test in found.items()}


def shapes(paper: Published) -> dict[str, audit.Shape]:
    """Return the sizes of Table 4."""
    keys = ("layers", "hidden", "heads", "ffn")
    return {size: audit.Shape(*(int(paper.value(4, model=size, metric=key)) for key in keys)) for size in SIZES}


def operations(paper: Published) -> pd.DataFrame:
    """Return the 24 counts of Table 9 as printed and by the formula of `audit.macs`, in units of 10^9."""
    rows = []
    for size, shape in shapes(paper).items():
        for algorithm in ALGORITHMS:
            for phase in ("train", "inference"):
                keys = {"model": size, "algorithm": algorithm, "phase": phase, "metric": "FLOPs (GFLOPs)"}
                count = audit.macs(shape, algorithm, training=phase == "train")
                rows.append((size, algorithm, phase, paper.value(9, **keys), count))
    return pd.DataFrame(rows, columns=["model", "algorithm", "phase", "printed", "formula"])


def times(paper: Published) -> pd.DataFrame:
    """Return the times of Table 9, a row a model and algorithm, columns by phase and metric."""
    wide = paper.tables[9].pivot(index=["model", "algorithm"], columns=["phase", "metric"], values="value")
    return wide.reindex(pd.MultiIndex.from_product([SIZES, ALGORITHMS], names=wide.index.names))
