"""Accuracy along training, a panel for each depth and number of hops (notebook 12)."""

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from saobp.study import labels
from saobp.study.figures import style


def accuracy(curves: pd.DataFrame, chance: float) -> Figure:
    """Draw what `hops.curves` returns, a line an algorithm with its 95 % band over seeds; the dotted line is chance.

    `chance` is in percent. One seed has no band. Where every run diverged the picture is blank and says so.
    """
    if curves.empty:
        figure, ax = plt.subplots(figsize=(4, 1))
        style.blank(ax, "every run diverged")
        return figure
    names = [name for name in labels.ALGORITHMS if name in set(curves["algorithm"])]
    looks = {labels.algorithm_title(name): labels.ALGORITHMS[name] for name in names}
    grid = sns.relplot(
        curves.assign(algorithm=curves["algorithm"].map(labels.algorithm_title)),
        x="step", y="accuracy", hue="algorithm", style="algorithm", col="hops", row="layers", kind="line",
        hue_order=list(looks), palette={title: look.colour for title, look in looks.items()},
        dashes={title: "" if look.dash == "solid" else look.dash for title, look in looks.items()},
        errorbar=("ci", 95), seed=0, height=2.2, aspect=1.3,
    )  # fmt: skip
    grid.refline(y=chance, color="0.5", linestyle=":")
    grid.set_axis_labels("step", "right (%)").set(ylim=(0, 102), yticks=range(0, 101, 25)).set_titles(
        "{row_name} layers, hops: {col_name}"
    )
    return grid.figure
