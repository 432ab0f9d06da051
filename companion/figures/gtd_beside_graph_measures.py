"""GTD against clustering and betweenness of the token graph: of BERT-Mini Original (Figure 2), of
every algorithm (Figure 5).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, LogNorm
from matplotlib.figure import Figure

from companion.figures import style
from companion.paper import numbers as printed
from companion.records import select
from companion.records.schema import Record
from companion.results import gtd_correlations
from companion.setup import labels
from companion.setup.tasks_and_metrics import GRAPHS_OF
from companion.statistics import Estimate, estimates

TITLES = {
    "clustering_barrat": "Clustering (Barrat)",
    "clustering_onnela": "Clustering (Onnela)",
    "betweenness": "Betweenness",
}
# in headings
SHORT = {name: title.partition(" (")[2].rstrip(")") or title for name, title in TITLES.items()}
# measured on every sample of a head; the other one is a head's mean over samples
BY_SAMPLE = {"clustering_barrat": "clustering", "betweenness": "betweenness"}
# the paper's r; of which clustering is open
CLAIM_OF = {"clustering_barrat": "C18", "clustering_onnela": "C18", "betweenness": "C19"}
COLUMNS = ["model", "algorithm", "seed", "measure", "gtd", "value", "r", "n"]
# edges of the cells in which points are counted; betweenness of 40 tokens stays below 1,000
GTD_EDGES = np.linspace(0, 1, 81)
EDGES = {
    "clustering_barrat": np.linspace(0, 1, 51),
    "betweenness": np.expm1(np.linspace(0, np.log1p(1000), 51)),
}
# of a panel's height and width that its histograms take
MARGIN = 0.14
# r of 1 has no z
NEARLY_ONE = 1 - 1e-9


def data(records: Sequence[Record]) -> pd.DataFrame:
    """Two kinds of rows: r over the heads of a run (n heads); and cells with n points, a head on a
    sample (of Onnela's clustering a head).
    """
    model = estimates.models(records)[0]
    parts = []
    for name in estimates.algorithms(records):
        runs = select(records, "attention", model=model, algorithm=name, task=GRAPHS_OF)
        for measure in TITLES:
            parts += [_r(run, measure) for run in runs]
            parts.append(_points(runs, measure).assign(algorithm=name))
    whole = pd.concat(parts, ignore_index=True).assign(model=model)
    return whole.reindex(columns=COLUMNS).astype({"seed": "Int64", "n": int})


def _r(run: Record, measure: str) -> pd.DataFrame:
    """The row of a run's r over heads."""
    z = gtd_correlations.fisher(run, measure)
    row = {
        "algorithm": run["parameters"]["algorithm"],
        "seed": run["parameters"]["seed"],
        "measure": measure,
        "r": np.nan if z is None else np.tanh(z),
        "n": np.size(estimates.matrix(run).get("gtd") or []),
    }
    return pd.DataFrame([row])


def _points(runs: Sequence[Record], measure: str) -> pd.DataFrame:
    """The cells of a measure: gtd and value in their middle, and how many points lie there."""
    gtd, value = [np.array([])], [np.array([])]
    by_sample = measure in BY_SAMPLE
    key = BY_SAMPLE.get(measure, measure)
    for run in runs:
        source = run["metrics"]["graph"] if by_sample else estimates.matrix(run)
        if source.get(key):
            gtd.append(np.ravel(source["gtd"]).astype(float))
            value.append(np.ravel(source[key]).astype(float))
    points = pd.DataFrame({"gtd": np.hstack(gtd), "value": np.hstack(value)}).dropna()
    if not by_sample:
        return points.assign(measure=measure, n=1)
    edges = (GTD_EDGES, EDGES[measure])
    counts, *_ = np.histogram2d(points["gtd"], points["value"], edges)
    x, y = ((edge[1:] + edge[:-1]) / 2 for edge in edges)
    rows, columns = np.nonzero(counts)
    cells = {"gtd": x[rows], "value": y[columns], "n": counts[rows, columns].astype(int)}
    return pd.DataFrame(cells).round(5).assign(measure=measure)


def of_runs(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of r over the heads of a run."""
    return frame[frame["gtd"].isna()]


def over_seeds(frame: pd.DataFrame, measure: str) -> Estimate | None:
    """Mean r of a measure with its interval, over the seeds that High has, as the table of results
    has it; None where no run has one.
    """
    runs = of_runs(frame)
    runs = runs[runs["measure"] == measure].dropna(subset="r")
    names = pooled(runs)
    if not names:
        return None
    alike = runs[runs["algorithm"].isin(names)]
    z = np.arctanh(alike["r"].clip(-NEARLY_ONE, NEARLY_ONE))
    by_seed = [list(values) for _, values in z.groupby(alike["seed"])]
    return gtd_correlations.over_heads(by_seed, alike["n"].median())


def pooled(runs: pd.DataFrame) -> list[str]:
    """The paper's algorithms that have the seeds of High, or of the first where High was not run."""
    seeds = runs.dropna(subset="r").groupby("algorithm")["seed"].agg(set)
    names = [name for name in labels.PAPER_ALGORITHMS if name in seeds]
    if not names:
        return []
    first = "high" if "high" in names else names[0]
    return [name for name in names if seeds[name] == seeds[first]]


def sides(frame: pd.DataFrame) -> str:
    """Of which algorithms r is given: "Original and High"."""
    return labels.joined([labels.algorithm_title(name) for name in pooled(of_runs(frame))])


def paper(measure: str) -> float:
    """The paper's r."""
    return printed.load().claim(CLAIM_OF[measure])


def where(r: Estimate | None, theirs: float) -> str:
    """Whether an r's interval lies "below" the paper's r, "above" it or holds it ("at"); "just
    below" or "just above" where both read alike; "alone" of one seed, "none" without an r.
    """
    if r is None:
        return "none"
    if r.seeds < 2:
        return "alone"
    if r.high < theirs:
        return "below" if round(r.high, 2) < round(theirs, 2) else "just below"
    if r.low > theirs:
        return "above" if round(r.low, 2) > round(theirs, 2) else "just above"
    return "at"


def numbers(frame: pd.DataFrame) -> dict[str, Any]:
    """For the caption: r of each measure with its interval, the paper's, and how many of what."""
    runs = of_runs(frame)
    r = {measure: over_seeds(frame, measure) for measure in TITLES}
    known = [estimate for estimate in r.values() if estimate is not None]
    return r | {
        "paper_clustering": paper("clustering_barrat"),
        "paper_betweenness": paper("betweenness"),
        "seeds": labels.counted(max((estimate.seeds for estimate in known), default=0), "seed"),
        "algorithms": runs["algorithm"].nunique(),
        "sides": sides(frame),
    }


def heading(frame: pd.DataFrame, measure: str) -> str:
    """Where the interval of r lies beside the paper's."""
    r, theirs = over_seeds(frame, measure), paper(measure)
    return style.heading(2, where(r, theirs), title=SHORT[measure], r=r, paper=theirs)


def original(frame: pd.DataFrame, width: float) -> Figure:
    """Draw Figure 2: three clouds of Original with their histograms, and r of each seed."""
    draws, covering = [], []
    for measure, title in TITLES.items():
        cells = frame[frame["gtd"].notna() & (frame["measure"] == measure)]
        cells = cells[cells["algorithm"] == "original"]
        draws.append((heading(frame, measure), _cloud, cells, measure))
        if where(over_seeds(frame, measure), paper(measure)) == "at":
            covering.append(title)
    panel = style.heading(2, "held", held=covering, sides=sides(frame))
    draws.append((panel, _strip, frame, list(TITLES)))
    figure = style.headed(width, 2.0 if width >= style.NARROW else 1.72, draws, columns=2)
    for ax, measure in zip(figure.axes, TITLES):
        ax.set(xlabel="GTD", ylabel=TITLES[measure])
    return figure


def every(frame: pd.DataFrame, width: float) -> Figure:
    """Draw Figure 5: a row an algorithm, the clouds of clustering and betweenness, and r of each
    seed.
    """
    shown = [name for name in labels.ALGORITHMS if name in set(frame["algorithm"])]
    figure = style.new_figure(width, min(7.0, 0.5 + 1.05 * len(shown)))
    grid = figure.subplots(len(shown), 3, sharex="col", squeeze=False)
    points = frame[frame["gtd"].notna()]
    reach = (points["gtd"].min() - 0.02, min(1, points["gtd"].max() + 0.08))
    for row, (axes, name) in enumerate(zip(grid, shown)):
        for ax, measure in zip(axes, BY_SAMPLE):
            cells = points[(points["algorithm"] == name) & (points["measure"] == measure)]
            _cloud(ax, cells, measure)
            ax.set_xlim(reach)
        _strip(
            axes[2], frame[frame["algorithm"] == name], list(TITLES), named=width >= style.NARROW
        )
        named = {"color": style.LOOKS[name].text, "fontsize": 7}
        axes[0].set_ylabel(f"{labels.algorithm_title(name)}\nClustering", **named)
        axes[1].set_ylabel("Betweenness", fontsize=7)
        if row == len(shown) - 1:
            axes[0].set_xlabel("GTD")
            axes[1].set_xlabel("GTD")
        else:
            axes[2].set_xlabel("")
    for letter, ax, measure in zip("ab", grid[0], BY_SAMPLE):
        style.head(ax, letter, style.heading(5, 0, title=TITLES[measure]))
    style.head(grid[0][2], "c", style.heading(5, 1))
    return figure


def _cloud(ax: Axes, cells: pd.DataFrame, measure: str) -> None:
    """Draw how many points lie where, in the colour of their algorithm, darker: more; a histogram
    of each axis at the top and on the right.
    """
    if cells.empty:
        ax.text(0.5, 0.5, "undefined", ha="center", transform=ax.transAxes, color="0.35")
        return
    colour = style.LOOKS[cells["algorithm"].iloc[0]].colour
    if measure in EDGES:
        edges = (GTD_EDGES, EDGES[measure])
        counts, *_ = np.histogram2d(cells["gtd"], cells["value"], edges, weights=cells["n"])
        shades = LinearSegmentedColormap.from_list("cloud", [style.tint(colour), colour, "black"])
        masked = np.ma.masked_equal(counts.T, 0)
        ax.pcolormesh(*edges, masked, norm=LogNorm(1, counts.max()), cmap=shades, rasterized=True)
    else:
        high = cells["value"].max() * 1.05
        edges = (GTD_EDGES, np.linspace(0, high, 31))
        counts, *_ = np.histogram2d(cells["gtd"], cells["value"], edges)
        ax.plot(cells["gtd"], cells["value"], "o", color=colour, ms=2.4, mfc="none", mew=0.5)
    if measure == "betweenness":
        ax.set_yscale("function", functions=(np.log1p, np.expm1))
        ax.set_yticks([0, 1, 10, 100], ["0", "1", "10", "100"])
    elif measure in EDGES:
        ax.set_yticks([0, 0.5, 1])
    used = np.flatnonzero(counts.sum(0))[-1] + 1
    low, high = edges[1][0], edges[1][used]
    top = np.expm1(np.log1p(high) * 1.25) if measure == "betweenness" else high * 1.25
    ax.set_ylim(low - 0.02 * top * (measure != "betweenness"), top)
    ax.set_xlim(cells["gtd"].min() - 0.02, cells["gtd"].max() + 0.08)
    _histograms(ax, counts, edges, colour)


def _histograms(
    ax: Axes, counts: np.ndarray, edges: tuple[np.ndarray, np.ndarray], colour: str
) -> None:
    """Draw the sums of a panel's cells along its top and its right side."""
    look = {"color": colour, "alpha": 0.45, "lw": 0}
    across, up = counts.sum(1), counts.sum(0)
    heights = 1 - MARGIN + MARGIN * across / across.max()
    kept = across > 0
    ax.bar(
        edges[0][:-1][kept],
        heights[kept] - (1 - MARGIN),
        np.diff(edges[0])[kept],
        bottom=1 - MARGIN,
        align="edge",
        transform=ax.get_xaxis_transform(),
        **look,
    )
    kept = up > 0
    ax.barh(
        edges[1][:-1][kept],
        MARGIN * up[kept] / up.max(),
        np.diff(edges[1])[kept],
        left=1 - MARGIN,
        align="edge",
        transform=ax.get_yaxis_transform(),
        **look,
    )


def _strip(ax: Axes, frame: pd.DataFrame, measures: Sequence[str], *, named: bool = True) -> None:
    """Draw r over the heads of each run as a dot, a row a measure, the mean's interval where there
    are several algorithms, and the paper's r as a bar.
    """
    runs = of_runs(frame).dropna(subset="r")
    several = runs["algorithm"].nunique() > 1
    for place, measure in enumerate(measures):
        points = runs[runs["measure"] == measure]
        for side, (name, dots) in enumerate(points.groupby("algorithm", sort=False)):
            look, apart = style.LOOKS[name], 0.18 * side * several
            mark = {"color": look.colour, "ms": 3, "mfc": "none", "mew": 0.6}
            ax.plot(dots["r"], [place + apart] * len(dots), look.marker, **mark)
        r = over_seeds(frame, measure) if several else None
        if r is not None and r.seeds > 1:
            ax.hlines(place - 0.18, r.low, r.high, color="black", lw=1.4)
            ax.plot(r.value, place - 0.18, "o", color="black", ms=3)
        ax.vlines(paper(measure), place - 0.36, place + 0.36, color=style.PAPER, lw=1.6)
    ax.axvline(0, color="0.5", lw=0.8, ls=":")
    if several:
        mean = {"ha": "left", "va": "bottom", "fontsize": 6.5, "transform": ax.transAxes}
        ax.text(0.01, 0.01, f"black: mean of {sides(frame)}", **mean)
    short = {"clustering_barrat": "CC", "clustering_onnela": "Onnela", "betweenness": "BC"}
    names = [TITLES[name] if named else short[name] for name in measures]
    style.rows(ax, names, 0.5, 0.9 if several else 0.5)
    ax.set(xlim=(-1, 1), xlabel="Pearson's r with GTD" if named else "r with GTD")
