"""Accuracy along training, a panel for each depth and algorithm (notebook 12)."""

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from saobp.study.figures import style
from saobp.study.setup import labels


def accuracy(curves: pd.DataFrame, chance: float) -> Figure:
    """Draw what `hops.curves` returns: a panel a depth and algorithm, a line a seed and number of hops.

    `chance` is in percent, the dotted line. Runs may have unlike steps, so nothing is averaged; steps are on a log
    scale, without the first, 0. Where no run has a curve the picture is blank and says so.
    """
    if curves.empty:
        figure, ax = plt.subplots(figsize=(4, 1))
        style.blank(ax, "no run has a curve")
        return figure
    curves = curves[curves["step"] > 0]
    names = [name for name in labels.ALGORITHMS if name in set(curves["algorithm"])]
    grid = sns.relplot(
        curves.assign(algorithm=curves["algorithm"].map(labels.algorithm_title)),
        x="step", y="accuracy", hue="hops", palette="crest", units="seed", estimator=None, kind="line",
        col="algorithm", col_order=list(map(labels.algorithm_title, names)), row="layers", height=1.8, aspect=0.9,
        linewidth=1, alpha=0.8,
    )  # fmt: skip
    grid.refline(y=chance, color="0.5", linestyle=":")
    grid.set_axis_labels("step", "right (%)").set(ylim=(0, 102), yticks=range(0, 101, 25), xscale="log")
    ends = sorted({curves["step"].min(), curves["step"].max()})
    for ax in grid.axes.flat:
        ax.set_xticks(ends, labels=[f"{step:,}" for step in ends])
        ax.set_xticks([], minor=True)
        for label, side in zip(ax.get_xticklabels(), ("left", "right")):
            label.set_horizontalalignment(side)
    return grid.set_titles("{row_name} layers, {col_name}").figure
