"""Figures 2 and 5: GTD against clustering and betweenness of the token graph.

Figure 2 is BERT-Mini Original, as the paper's evidence for GTD; Figure 5 shows every algorithm.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from saobp.study.figures import style
from saobp.study.paper import numbers as printed
from saobp.study.setup import labels
from saobp.study.setup.schema import Record
from saobp.study.statistics import estimates

TASK = "race"
GRAPH_MEASURES = {"clustering": "Clustering (Barrat)", "onnela": "Clustering (Onnela)", "betweenness": "Betweenness"}
PRINTED = {"clustering": "C18", "onnela": "C18", "betweenness": "C19"}  # the paper's r; of which clustering is open
COLUMNS = ["model", "algorithm", "seed", "measure", "gtd", "value"]
LEAST = 4  # points that a correlation takes
BINNED = [*COLUMNS, "r", "n"]
GRID = {"gridsize": (75, 40), "extent": (0, 1, 0, 1), "mincnt": 1}  # hexagons of a cloud, both axes from 0 to 1


def points(records: Sequence[Record]) -> pd.DataFrame:
    """Figure 2: one row a point: model, algorithm, seed, measure, gtd, value (empty where undefined).

    A point of Barrat's clustering and of betweenness is a head on a sample; of Onnela's a head, mean over samples.
    """
    model, parts = next(iter(estimates.models(records)), None), []
    for algorithm in estimates.algorithms(records):
        for run in estimates.attention_runs(records, model, algorithm, TASK):
            if graph := run["metrics"].get("graph"):
                where = {"model": model, "algorithm": algorithm, "seed": run["parameters"].get("seed")}
                matrix = estimates.matrix(run)
                heads = {name: np.ravel(matrix.get(name) or []) for name in ("gtd", "clustering_onnela")}
                pairs = {name: (graph["gtd"], graph[name]) for name in ("clustering", "betweenness")}
                pairs["onnela"] = (heads["gtd"][: len(heads["clustering_onnela"])], heads["clustering_onnela"])
                for measure, (gtd, values) in pairs.items():
                    pair = {"gtd": np.array(gtd, dtype=float), "value": np.array(values, dtype=float)}
                    parts.append(pd.DataFrame(pair).assign(measure=measure, **where))
    return pd.concat(parts, ignore_index=True)[COLUMNS] if parts else pd.DataFrame(columns=COLUMNS)


def binned(records: Sequence[Record]) -> pd.DataFrame:
    """Figure 5: r and n per measure, algorithm and seed; the clouds' hexagons, n points in each."""
    found, clouds = points(records), []
    if found.empty:
        return found
    for algorithm, own in found[found["measure"] == "clustering"].dropna().groupby("algorithm", sort=False):
        hexagons = Figure().subplots().hexbin(own["gtd"].astype(float), own["value"].astype(float), **GRID)
        x, y = hexagons.get_offsets().T.round(4)
        cell = {"gtd": x, "value": y, "n": hexagons.get_array().astype(int)}
        clouds.append(pd.DataFrame(cell).assign(algorithm=algorithm, measure="clustering"))
    whole = pd.concat([correlations(found), *clouds], ignore_index=True).assign(model=found["model"].iloc[0])
    return whole.reindex(columns=BINNED).astype({"seed": "Int64"})


def correlations(frame: pd.DataFrame) -> pd.DataFrame:
    """Pearson's r of GTD and each measure within each seed: measure, algorithm, seed, r (NaN: undefined), n."""
    if "r" in frame:
        return frame[frame["gtd"].isna()][["measure", "algorithm", "seed", "r", "n"]]
    rows = []
    for (measure, algorithm, seed), points in frame.dropna().groupby(["measure", "algorithm", "seed"], sort=False):
        moves = len(points) >= LEAST and np.ptp(points["gtd"]) > 0 and np.ptp(points["value"]) > 0
        r = float(np.corrcoef(points["gtd"], points["value"])[0, 1]) if moves else np.nan
        rows.append((measure, algorithm, seed, r, len(points)))
    return pd.DataFrame(rows, columns=["measure", "algorithm", "seed", "r", "n"])


def numbers(frame: pd.DataFrame) -> dict[str, Any]:
    """For the caption: the span of r over seeds (and algorithms) of each measure, the paper's, seeds and points."""
    found, paper = correlations(frame), printed.load()
    return {name: _span(found[found["measure"] == name]) for name in GRAPH_MEASURES} | {
        "paper_clustering": paper.claim("C18"), "paper_betweenness": paper.claim("C19"),
        "seeds": found["seed"].nunique(), "n": int(found["n"].max()), "algorithms": found["algorithm"].nunique(),
    }  # fmt: skip


def _span(rows: pd.DataFrame) -> str:
    return f"{rows['r'].min():.2f} to {rows['r'].max():.2f}"


def _beside_paper(r: pd.DataFrame, measure: str) -> tuple[str, str]:
    """Where the span of r over runs lies beside the paper's r, and a heading that says so."""
    theirs, rows = printed.load().claim(PRINTED[measure]), r[r["measure"] == measure]
    where = "below" if rows["r"].max() < theirs else "above" if rows["r"].min() > theirs else "around"
    return where, f"{GRAPH_MEASURES[measure]}: r {_span(rows)}, {where} the paper's {theirs:.2f}"


def plot(frame: pd.DataFrame, width: float) -> Figure:
    """Draw Figure 2, the three clouds and r of each seed, or for several algorithms r by algorithm and their clouds."""
    algorithms = [name for name in labels.ALGORITHMS if name in set(frame["algorithm"])]
    return one(frame, width) if len(algorithms) == 1 else every(frame, width, algorithms)


def one(frame: pd.DataFrame, width: float) -> Figure:
    """Draw the clouds of one algorithm, and r of each seed beside the paper's."""
    figure, axes = style.panels(width, 4, 2.1, columns=2)
    r = correlations(frame)
    for letter, ax, measure in zip("abc", axes, GRAPH_MEASURES):
        own = frame[frame["measure"] == measure]
        cloud_axes(ax, own, measure)
        style.head(ax, letter, f"{_beside_paper(r, measure)[1]} (n = {len(own.dropna()):,})")
    groups = [r[r["measure"] == name] for name in GRAPH_MEASURES]
    strip_axes(axes[3], groups, [*GRAPH_MEASURES.values()], [*PRINTED.values()])
    around = [title for name, title in GRAPH_MEASURES.items() if _beside_paper(r, name)[0] == "around"]
    reach = f"Only {labels.joined(around)} reach{'es' * (len(around) == 1)}" if around else "No measure reaches"
    style.head(axes[3], "d", f"{reach} the paper's r (bar; dots: {r['seed'].nunique()} seeds)")
    return figure


def every(frame: pd.DataFrame, width: float, algorithms: Sequence[str]) -> Figure:
    """Draw r of each seed by algorithm, a panel a measure; on a page the clouds of Barrat's clustering below."""
    clouds = list(algorithms) if width >= style.NARROW else []
    figure, axes = style.panels(width, 3 + len(clouds), 1.9, columns=3)
    r, names = correlations(frame), list(map(labels.algorithm_title, algorithms))
    for letter, ax, measure in zip("abc", axes, GRAPH_MEASURES):
        own = r[r["measure"] == measure]
        strip_axes(ax, [own[own["algorithm"] == name] for name in algorithms], names, [PRINTED[measure]] * len(names))
        style.head(ax, letter, _beside_paper(r, measure)[1])
    for letter, ax, algorithm in zip("defghijklm", axes[3:], clouds):
        own = frame[frame["gtd"].notna() & (frame["algorithm"] == algorithm)]
        hexagons(ax, own["gtd"], own["value"], algorithm, C=own["n"], reduce_C_function=np.sum, **GRID)
        ax.set(xlim=(frame["gtd"].min() - 0.02, frame["gtd"].max() + 0.02), ylim=(-0.03, 1.03))
        ax.set(xlabel="GTD", ylabel=GRAPH_MEASURES["clustering"])
        span = _span(r[(r["measure"] == "clustering") & (r["algorithm"] == algorithm)])
        style.head(ax, letter, f"{labels.algorithm_title(algorithm)}: r {span} (n = {own['n'].sum():,.0f})")
    return figure


def cloud_axes(ax: Axes, frame: pd.DataFrame, measure: str) -> Axes:
    """Draw the points of one algorithm and measure: hexagons, darker where more are; few points singly."""
    points = frame.dropna().astype({"gtd": float, "value": float})
    if len(points) > 500:
        hexagons(ax, points["gtd"], points["value"], frame["algorithm"].iloc[0], gridsize=26, mincnt=1)
    else:
        colour = style.LOOKS[frame["algorithm"].iloc[0]].colour if len(frame) else "0.5"
        ax.plot(points["gtd"], points["value"], "o", color=colour, ms=2.6, mfc="none", mew=0.6)
    ax.set(xlabel="GTD", ylabel=GRAPH_MEASURES[measure])
    return ax


def hexagons(ax: Axes, x: pd.Series, y: pd.Series, algorithm: str, **options: Any) -> None:
    """Draw a cloud in the colour of an algorithm, darker where more points are; `options` are matplotlib's hexbin's."""
    shades = ["#E8E8E8", style.LOOKS[algorithm].colour, "black"]
    colours = LinearSegmentedColormap.from_list("cloud", shades)
    ax.hexbin(x.astype(float), y.astype(float), bins="log", cmap=colours, lw=0.1, **options)


def strip_axes(ax: Axes, groups: Sequence[pd.DataFrame], names: Sequence[str], claims: Sequence[str]) -> Axes:
    """Draw r of each seed as a dot, a row a group, and the paper's r as a bar."""
    paper = printed.load()
    for place, (rows, claim) in enumerate(zip(groups, claims)):
        for row in rows.dropna().itertuples():
            ax.plot(row.r, place, "o", color=style.LOOKS[row.algorithm].colour, ms=4, mfc="none", mew=0.8)
        ax.vlines(paper.claim(claim), place - 0.32, place + 0.32, color="black", lw=1.6)
    ax.axvline(0, color="0.5", lw=0.8, ls=":")
    ax.set_yticks(range(len(names)), names)
    ax.set(xlim=(-1, 1), ylim=(len(names) - 0.5, -0.5), xlabel="Pearson's r with GTD")
    ax.grid(axis="y", visible=False)
    return ax
