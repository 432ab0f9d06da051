"""The paper's tables as the audit looks at them: one frame a question, from the printed numbers alone."""

from collections.abc import Sequence
from itertools import combinations
from math import ceil, hypot

import pandas as pd
from scipy import stats

from saobp.study.data.splits import PUBLISHED_ROWS
from saobp.study.paper import arithmetic
from saobp.study.paper.numbers import Published

SIZES = ("Mini", "Small", "Medium")
ALGORITHMS = ("Original", "High", "Low", "ElemMul")
TASKS = ("CoLA", "MRPC", "RTE", "SST2", "STS-B", "WNLI", "QNLI", "MNLI", "QQP")  # GLUE, in the order of Table 8
BENCHMARKS = ("GLUE", "HellaSwag", "RACE_Middle", "SQuAD")
FAILED = ("Medium", "Low")  # the run that gives one answer to everything
SPARSITIES = {"Mini": ("C41", "C42"), "Small": ("C43", "C44"), "Medium": ("C45", "C46")}  # Original, High; App. E


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
    for task, counts in arithmetic.LABEL_COUNTS.items():
        shares = [100 * count / sum(counts) for count in counts]
        rows.append((task, scores[task], min(shares, key=lambda share: abs(share - scores[task]))))
    return pd.DataFrame(rows, columns=["task", "printed", "share of one label"])


def gains(paper: Published) -> pd.DataFrame:
    """Return BP-High minus Original in every accuracy cell with a known number of items, with its error and z.

    Points of a percent; the error is that of the items alone, for one seed and unpaired.
    """
    cells = [(2, task) for task in BENCHMARKS[1:]] + [(8, task) for task in arithmetic.LABEL_COUNTS]
    rows = []
    for model in SIZES:
        for number, task in cells:
            high, plain = (
                paper.value(number, model=model, algorithm=name, metric=task) for name in ("High", "Original")
            )
            items = arithmetic.ITEMS[task]
            error = arithmetic.error_of_difference(high, plain, items)
            rows.append((model, task, items, round(high - plain, 2), error, (high - plain) / error))
    return pd.DataFrame(rows, columns=["model", "task", "items", "gain", "error", "z"])


def average_gains(table8: pd.DataFrame) -> pd.DataFrame:
    """Return by size and algorithm how far its mean over GLUE is above Original's (points), with error and z.

    The nine columns are averaged anew. The error is that of the items of the seven accuracies alone, unpaired; CoLA's
    and STS-B's are left out, so it is too small. "WNLI alone" is what that one task puts in, in points of the mean.
    """
    rows = {}
    for model, algorithm in table8.index.drop([(size, "Original") for size in SIZES]):
        ours, plain = table8.loc[(model, algorithm)], table8.loc[(model, "Original")]
        errors = {task: arithmetic.error_of_difference(ours[task], plain[task], arithmetic.ITEMS[task]) / len(TASKS)
                  for task in arithmetic.LABEL_COUNTS}  # fmt: skip
        gain, error = (ours - plain)[list(TASKS)].mean(), hypot(*errors.values())
        rows[model, algorithm] = {"gain": gain, "error": error, "z": gain / error, "WNLI alone": errors["WNLI"]}
    return pd.DataFrame(rows).T.rename_axis(["model", "algorithm"])


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
    """Return Pearson's r and its two-sided p of each measure with another column, as if rows were independent.

    Rows that are deviations from the means of their sizes (`views`) have a degree of freedom less for each mean.
    """
    sizes = rows[other].groupby("model") if "model" in rows.index.names else ()
    lost = len(sizes) - 1 if len(sizes) and (sizes.mean().abs() < 1e-9).all() else 0
    found = {measure: float(stats.pearsonr(rows[measure], rows[other]).statistic) for measure in measures}
    half = (len(rows) - lost) / 2 - 1
    law = stats.beta(half, half, loc=-1, scale=2)  # of r where there is no correlation
    return {measure: (r, float(2 * law.sf(abs(r)))) for measure, r in found.items()}


def against_chance(table2: pd.DataFrame, choices: int = 4) -> pd.DataFrame:
    """Return the distance from chance, in standard errors, of the two benchmarks that offer four answers."""
    tasks = ("HellaSwag", "RACE_Middle")
    return table2[list(tasks)].apply(
        lambda column: [
            arithmetic.z_from_chance(value, 100 / choices, arithmetic.ITEMS[column.name]) for value in column
        ]
    )


def token_graphs(table1: pd.DataFrame, nodes: int) -> pd.DataFrame:
    """Return what Table 1's betweenness implies of its token graphs, were they unweighted and each in one piece."""
    rows = {
        "BC": table1["BC"], "mean hops": arithmetic.mean_hops(table1["BC"], nodes),
        "least density": arithmetic.least_density(table1["BC"], nodes),
        "least CC": arithmetic.least_clustering(table1["BC"], nodes), "CC": table1["CC"],
    }  # fmt: skip
    return pd.DataFrame(rows)


def sparsities(paper: Published) -> pd.DataFrame:
    """Return Appendix E's mean sparsity by size, its change, and the keys of a row that are not sparse.

    The keys are out of the most tokens that Fig. 6 allows, so they are an upper bound.
    """
    tokens = paper.claim("C47")
    said = {size: [paper.claim(id) for id in ids] for size, ids in SPARSITIES.items()}
    frame = pd.DataFrame(said, index=["Original", "High"]).T
    keys = ((1 - frame) * tokens).add_prefix("keys, ")
    return frame.assign(change=frame["High"] - frame["Original"]).join(keys)


def text_seen(paper: Published) -> pd.DataFrame:
    """Return by size the 10^6 tokens that Table 5's steps read if each is Table 9's one sequence of 128 tokens.

    Beside it tokens a parameter, and how many such sequences a step would have to hold to pass over a corpus once;
    a word is at least one token, so that those are lower bounds.
    """
    steps = pd.Series({size: paper.value(5, model=size, metric="max_steps") for size in SIZES})
    tokens = steps * arithmetic.LENGTH
    weights = pd.Series({size: arithmetic.parameters(shape) for size, shape in shapes(paper).items()})
    passes = {f"sequences for {name}": words / tokens for name, words in arithmetic.CORPUS_WORDS.items()}
    return pd.DataFrame({"steps": steps.astype(int), "tokens": tokens / 1e6, "a parameter": tokens / weights, **passes})


def fine_tuning_epochs(paper: Published, batches: Sequence[int]) -> pd.DataFrame:
    """Return how many epochs of RACE-Middle's training questions Fig. 5's step is, by batch.

    With the whole number of epochs next to it, the questions that would make it whole: fewest and most, or NA.
    """
    step, items = int(paper.claim("C38")), PUBLISHED_ROWS["ehovy/race", "middle"]["train"]
    rows = {}
    for batch in batches:
        epochs = step / ceil(items / batch)
        nearest = max(1, round(epochs))
        fit = arithmetic.items_of_epochs(step, nearest, batch)
        ends = {"fewest": min(fit, default=None), "most": max(fit, default=None)}
        rows[batch] = {"epochs": epochs, "nearest": nearest, **ends}
    counts = dict.fromkeys(("nearest", "fewest", "most"), "Int64")
    return pd.DataFrame.from_dict(rows, orient="index").astype(counts).rename_axis("batch")


def shapes(paper: Published) -> dict[str, arithmetic.Shape]:
    """Return the sizes of Table 4."""
    keys = ("layers", "hidden", "heads", "ffn")
    return {size: arithmetic.Shape(*(int(paper.value(4, model=size, metric=key)) for key in keys)) for size in SIZES}


def operations(paper: Published) -> pd.DataFrame:
    """Return the 24 counts of Table 9 as printed and by the formula of `audit.macs`, in units of 10^9."""
    rows = []
    for size, shape in shapes(paper).items():
        for algorithm in ALGORITHMS:
            for phase in ("train", "inference"):
                keys = {"model": size, "algorithm": algorithm, "phase": phase, "metric": "FLOPs (GFLOPs)"}
                count = arithmetic.macs(shape, algorithm, training=phase == "train")
                rows.append((size, algorithm, phase, paper.value(9, **keys), count))
    return pd.DataFrame(rows, columns=["model", "algorithm", "phase", "printed", "formula"])


def times(paper: Published) -> pd.DataFrame:
    """Return the times of Table 9, a row a model and algorithm, columns by phase and metric."""
    wide = paper.tables[9].pivot(index=["model", "algorithm"], columns=["phase", "metric"], values="value")
    return wide.reindex(pd.MultiIndex.from_product([SIZES, ALGORITHMS], names=wide.index.names))


def speeds(paper: Published) -> pd.DataFrame:
    """Return the 10^12 operations a second behind Table 9, in training and at inference, and their ratio.

    Two operations a multiply-accumulate, and three passes a training step, of which the table counts the forward one.
    """
    rows = times(paper)
    train, serve = rows["train"], rows["inference"]
    steps = 3 * 2 * train["FLOPs (GFLOPs)"] / train["step_per_s (ms)"]  # 10^9 a thousandth of a second
    served = 2 * serve["FLOPs (GFLOPs)"] * serve["Throughput samples/s"] / 1000
    return pd.DataFrame({"training": steps, "inference": served, "ratio": served / steps})
