"""The paper's tables as the audit looks at them: one frame per question, from the printed numbers
alone.
"""

from collections.abc import Sequence
from itertools import combinations, product

import numpy as np
import pandas as pd

from companion.paper import arithmetic
from companion.paper.numbers import Published
from companion.setup import labels, tasks_and_metrics
from companion.setup.sizes_and_strengths import Size
from companion.setup.tasks_and_metrics import GLUE

MODELS = tuple(map(labels.published_model, labels.PAPER_SIZES))
METHODS = tuple(map(labels.algorithm_title, labels.PAPER_ALGORITHMS))
OUR_SIZES = dict(zip(MODELS, labels.PAPER_SIZES))
OUR_ALGORITHMS = dict(zip(METHODS, labels.PAPER_ALGORITHMS))
TABLE_2 = tuple(tasks_and_metrics.BENCHMARKS.values())
# the run that gives one answer to everything
FAILED = ("Medium", "Low")
# of Table 1's rows
VIEWS = {
    "all": "all 12 rows",
    "without_failed": "without Medium-Low",
    "without_low": "without BP-Low",
    "centred": "centred by size",
    "centred_without_failed": "centred, without Medium-Low",
}
# of columns, for readers
TITLES = {
    "constant": "constant answer",
    "above": "above a constant answer",
    "formula": "by formula",
    "attention": "Original's own attention",
}
# that has a count of operations in Table 9
COUNTED = ["model", "algorithm", "phase"]


def table(paper: Published, number: int, columns: Sequence[str] | str = "metric") -> pd.DataFrame:
    """Return Table 1, 2, 8 or 9, a row a model and algorithm and a column a metric, small models
    first.
    """
    wide = paper.tables[number].pivot(index=["model", "algorithm"], columns=columns, values="value")
    return wide.reindex(pd.MultiIndex.from_product([MODELS, METHODS], names=wide.index.names))


def over_original(frame: pd.DataFrame, algorithm: str = "High") -> pd.DataFrame:
    """Return by size how far an algorithm is above Original, in the frame's own units."""
    ours, plain = (frame.xs(name, level="algorithm") for name in (algorithm, "Original"))
    return ours - plain


def nearest_subset(tasks: pd.DataFrame, means: pd.Series) -> tuple[int, float]:
    """Try every subset of the tasks; return how many, and the best one's largest distance from the
    means, in points.
    """
    distances = []
    for size in range(1, len(GLUE) + 1):
        for subset in combinations(GLUE.values(), size):
            distance = tasks[[*subset]].mean(axis=1) - means
            distances.append(distance.abs().max())
    return len(distances), min(distances)


def constant_answers(scores: pd.Series) -> pd.DataFrame:
    """Return for each task the printed score, and the share of the one label that comes nearest to
    it (percent).
    """
    rows = []
    for task, counts in arithmetic.LABEL_COUNTS.items():
        shares = 100 * np.array(counts) / sum(counts)
        nearest = shares[np.abs(shares - scores[task]).argmin()]
        rows.append((task, scores[task], nearest))
    return pd.DataFrame(rows, columns=["task", "printed", "share of one label"])


def gains(paper: Published) -> pd.DataFrame:
    """Return BP-High minus Original in every accuracy cell with a known number of items, in points,
    with error and z.

    The error is that of the items alone, as of two independent shares; a single seed has more than
    this.
    """
    both = pd.concat(
        [table(paper, 2)[list(TABLE_2[1:])], table(paper, 8)[list(arithmetic.LABEL_COUNTS)]], axis=1
    )
    high, plain = (both.xs(name, level="algorithm").stack() for name in ("High", "Original"))
    rows = pd.DataFrame({"gain": high - plain}).rename_axis(["model", "task"]).reset_index()
    items = rows["task"].map(arithmetic.ITEMS)
    error = (sum(side * (100 - side) for side in (high, plain)).to_numpy() / items) ** 0.5
    return rows.assign(items=items, error=error, z=rows["gain"] / error, gain=rows["gain"].round(2))


def views(table1: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return Table 1 by the keys of `VIEWS`: all rows, without the failed run or Low; centred, all
    and without it.
    """
    rows = table1.rename(columns={"Acc_RACE_Middle": "accuracy"})
    frames = {
        "all": rows,
        "without_failed": rows.drop(FAILED),
        "without_low": rows.drop(FAILED[1], level="algorithm"),
    }
    for name, centred in (("all", "centred"), ("without_failed", "centred_without_failed")):
        means = frames[name].groupby("model").transform("mean")
        frames[centred] = frames[name] - means
    return frames


def against_chance(table2: pd.DataFrame) -> pd.DataFrame:
    """Return the distance from chance, in standard errors, of the two benchmarks that offer four
    answers.
    """
    errors = pd.Series({task: (25 * 75 / arithmetic.ITEMS[task]) ** 0.5 for task in TABLE_2[1:3]})
    return (table2[list(errors.index)] - 25) / errors


def shapes(paper: Published) -> dict[str, Size]:
    """Return the sizes of Table 4."""
    keys = ("layers", "hidden", "heads", "ffn")
    return {
        size: Size(*(int(paper.value(4, model=size, metric=key)) for key in keys), strength=0.0)
        for size in MODELS
    }


def operations(paper: Published) -> pd.DataFrame:
    """Return the 24 counts of Table 9 as printed and by the formula of `arithmetic.macs`, in units
    of 10^9.
    """
    rows, sizes = (
        pd.DataFrame(product(MODELS, METHODS, ("train", "inference")), columns=COUNTED),
        shapes(paper),
    )
    keys = rows.to_dict("records")
    printed = [paper.value(9, metric="FLOPs (GFLOPs)", **key) for key in keys]
    formula = [
        arithmetic.macs(sizes[a], b, training=c == "train")
        for a, b, c in rows.itertuples(index=False)
    ]
    return rows.assign(printed=printed, formula=formula)


def times(paper: Published) -> pd.DataFrame:
    """Return the times of Table 9, a row a model and algorithm, columns by phase and metric."""
    return table(paper, 9, ["phase", "metric"])


def added_operations(paper: Published) -> pd.DataFrame:
    """Return by size what High counts above Original in a training step, printed and by formula
    (10^9).

    Beside it Original's own two products, 2 n^2 h per layer, which no counter sees in a fused
    kernel.
    """
    cells = (
        operations(paper)
        .query("phase == 'train'")
        .set_index(["model", "algorithm"])[["printed", "formula"]]
    )
    rows = over_original(cells).loc[list(MODELS)].rename_axis(None)
    products = [arithmetic.attention_products(shape) for shape in shapes(paper).values()]
    return rows.assign(attention=products)


def table3(paper: Published) -> tuple[pd.Series, pd.DataFrame]:
    """Return the accuracies of BERT-Small's Original, which Table 3 leaves out, and those of its
    three methods.
    """
    three = paper.tables[3].pivot(index="algorithm", columns="metric", values="value")[
        ["QNLI_Acc", "SQuAD_Acc"]
    ]
    cells = ((8, "QNLI"), (2, "SQuAD"))
    small = [
        paper.value(number, model="Small", algorithm="Original", metric=task)
        for number, task in cells
    ]
    return pd.Series(small, three.columns), three


def zero_shot(paper: Published) -> pd.DataFrame:
    """Return Table 7's accuracies in percent, beside a guess among four or the commoner of yes and
    no.
    """
    no = 100 * arithmetic.BOOLQ_NO / arithmetic.ITEMS["BoolQ"]
    cells = paper.tables[7].query("metric in ('RACE_middle_Acc', 'BoolQ_Acc')")
    rows = cells[["model", "algorithm", "metric", "value"]].rename(columns={"value": "accuracy"})
    rows["constant"] = [
        25.0 if metric == "RACE_middle_Acc" else max(no, 100 - no) for metric in rows["metric"]
    ]
    rows["above"] = rows["accuracy"] - rows["constant"]
    return rows.reset_index(drop=True)


def perplexities(paper: Published) -> pd.DataFrame:
    """Return Table 7's perplexities by size, and how far High's logarithm is below Original's (nats
    per token).
    """
    cells = paper.tables[7].query("metric == 'PPL_WikiText'")
    wide = cells.pivot(index="model", columns="algorithm", values="value")
    wide = wide.loc[["GPT2-" + size for size in MODELS], ["Original", "High"]]
    return wide.assign(fall=np.log(wide["Original"] / wide["High"]))
