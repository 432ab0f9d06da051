"""GTD against clustering and betweenness of the token graph: of BERT-Mini Original (Figure 2), of
all (Figure 5).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from companion.figures import style
from companion.paper import numbers as printed
from companion.records import select
from companion.records.schema import Record
from companion.setup import labels
from companion.setup.tasks_and_metrics import GRAPHS_OF
from companion.statistics import estimates
from companion.statistics.trajectories import LEAST
from companion.tables import cells

GRAPH_TITLES = {
    "clustering": "Clustering (Barrat)",
    "onnela": "Clustering (Onnela)",
    "betweenness": "Betweenness",
}
# the paper's r; of which clustering is open
CLAIM_OF = {"clustering": "C18", "onnela": "C18", "betweenness": "C19"}
COLUMNS = ["model", "algorithm", "seed", "measure", "gtd", "value"]
# points up to which each is drawn
DRAWN_ALONE = 500
BINNED = [*COLUMNS, "r", "n"]
# hexagons of a cloud, both axes from 0 to 1
GRID = {"gridsize": (75, 40), "extent": (0, 1, 0, 1), "mincnt": 1}


def points(records: Sequence[Record]) -> pd.DataFrame:
    """Figure 2: one row a point, a head on a sample (of Onnela's clustering a head, mean over
    samples).
    """
    (model, *_), parts = estimates.models(records), []
    for name in estimates.algorithms(records):
        for run in select(records, "attention", model=model, algorithm=name, task=GRAPHS_OF):
            matrix, graph = estimates.matrix(run), run["metrics"]["graph"]
            gtd, onnela = (np.ravel(matrix.get(key) or []) for key in ("gtd", "clustering_onnela"))
            pairs = {
                measure: (graph["gtd"], graph[measure]) for measure in ("clustering", "betweenness")
            }
            for measure, pair in (pairs | {"onnela": (gtd[: len(onnela)], onnela)}).items():
                about = {
                    "model": model,
                    "algorithm": name,
                    "seed": run["parameters"].get("seed"),
                    "measure": measure,
                }
                parts.append(
                    pd.DataFrame(np.array(pair, dtype=float).T, columns=COLUMNS[-2:]).assign(
                        **about
                    )
                )
    return pd.concat(parts, ignore_index=True)[COLUMNS]


def binned(records: Sequence[Record]) -> pd.DataFrame:
    """Figure 5: r and n per measure, algorithm and seed; the clouds' hexagons, n points in each."""
    found = points(records)
    parts = [correlations(found)]
    for algorithm, own in (
        found[found["measure"] == "clustering"].dropna().groupby("algorithm", sort=False)
    ):
        hexagons = Figure().subplots().hexbin(own["gtd"], own["value"], **GRID)
        x, y = hexagons.get_offsets().T.round(4)
        cloud = {
            "algorithm": algorithm,
            "measure": "clustering",
            "gtd": x,
            "value": y,
            "n": hexagons.get_array(),
        }
        parts.append(pd.DataFrame(cloud).astype({"n": int}))
    whole = pd.concat(parts, ignore_index=True).assign(model=found["model"].iloc[0])
    return whole.reindex(columns=BINNED).astype({"seed": "Int64"})


def correlations(frame: pd.DataFrame) -> pd.DataFrame:
    """Pearson's r of GTD and each measure within each seed: measure, algorithm, seed, r (NaN:
    undefined), n.
    """
    if "r" in frame:
        return frame[frame["gtd"].isna()][["measure", "algorithm", "seed", "r", "n"]]
    groups = frame.dropna().groupby(["measure", "algorithm", "seed"], sort=False)
    r = groups[["gtd", "value"]].corr(min_periods=LEAST).xs("gtd", level=-1)["value"]
    return pd.DataFrame({"r": r, "n": groups.size()}).reset_index()


def numbers(frame: pd.DataFrame) -> dict[str, Any]:
    """For the caption: the span of r over seeds (and algorithms) of each measure, the paper's, how
    many of both.
    """
    found, paper = correlations(frame), printed.load()
    return {name: _span(found[found["measure"] == name]["r"]) for name in GRAPH_TITLES} | {
        "paper_clustering": paper.claim("C18"),
        "paper_betweenness": paper.claim("C19"),
        "seeds": labels.counted(found["seed"].nunique(), "seed"),
        "algorithms": found["algorithm"].nunique(),
    }


def _span(r: pd.Series) -> str:
    return cells.span(r.dropna(), 2) if r.notna().any() else "undefined"


def _beside_paper(r: pd.DataFrame, measure: str, n: int = 0) -> tuple[str, bool]:
    """The heading that says where r over runs (of n points) lies beside the paper's, and whether as
    far from 0.
    """
    theirs, own = printed.load().claim(CLAIM_OF[measure]), r[r["measure"] == measure]["r"]
    where = "below" if own.max() < theirs else "above" if own.min() > theirs else "around"
    where = where if own.notna().any() else ""
    numbers = {"title": GRAPH_TITLES[measure], "span": _span(own), "paper": theirs, "n": n}
    said = style.heading(2, "measure", where=where, **numbers)
    return said, where in ("around", "above" if theirs > 0 else "below")


def plot(frame: pd.DataFrame, width: float) -> Figure:
    """Draw Figure 2, the three clouds of one algorithm and r of each seed; or r by algorithm
    (`every`).
    """
    algorithms = [name for name in labels.ALGORITHMS if name in set(frame["algorithm"])]
    if len(algorithms) > 1:
        return every(frame, width, algorithms)
    r, draws, reached, groups = correlations(frame), [], [], {}
    for measure, title in GRAPH_TITLES.items():
        own = frame[frame["measure"] == measure].dropna(subset=["gtd", "value"])
        head, reaches = _beside_paper(r, measure, len(own))
        draws.append((head, _cloud, own, algorithms[0], title))
        reached += [title] * reaches
        groups[title] = (r[r["measure"] == measure], CLAIM_OF[measure])
    seeds = labels.counted(r["seed"].nunique(), "seed")
    reach = style.heading(2, "reach", reached=reached, measures=[*groups], seeds=seeds)
    return style.headed(width, 2.1, [*draws, (reach, _strip, groups)], columns=2)


def every(frame: pd.DataFrame, width: float, algorithms: Sequence[str]) -> Figure:
    """Draw r of each seed by algorithm, a panel a measure; on a page the clouds of Barrat's
    clustering below.
    """
    r, draws = correlations(frame), []
    for measure in GRAPH_TITLES:
        own = r[r["measure"] == measure]
        rows = {labels.algorithm_title(name): own[own["algorithm"] == name] for name in algorithms}
        groups = {name: (found, CLAIM_OF[measure]) for name, found in rows.items()}
        draws.append((_beside_paper(r, measure)[0], _strip, groups))
    limits = {"xlim": (frame["gtd"].min() - 0.02, frame["gtd"].max() + 0.02), "ylim": (-0.03, 1.03)}
    for algorithm in algorithms if width >= style.NARROW else ():
        own = frame[frame["gtd"].notna() & (frame["algorithm"] == algorithm)]
        span = _span(r[(r["measure"] == "clustering") & (r["algorithm"] == algorithm)]["r"])
        said = style.heading(
            2, "algorithm", title=labels.algorithm_title(algorithm), span=span, n=own["n"].sum()
        )
        draws.append((said, _cloud, own, algorithm, GRAPH_TITLES["clustering"], limits))
    return style.headed(width, 1.9, draws, columns=3)


def _cloud(
    ax: Axes,
    points: pd.DataFrame,
    algorithm: str,
    title: str,
    limits: Mapping[str, Any] | None = None,
) -> None:
    """Draw the points of one algorithm and measure: hexagons, darker where more are; few points
    singly.
    """
    colour = style.LOOKS[algorithm].colour
    binned = {"C": points["n"], "reduce_C_function": np.sum, **GRID} if "n" in points else {}
    if binned or len(points) > DRAWN_ALONE:
        shades = LinearSegmentedColormap.from_list("cloud", ["#E8E8E8", colour, "black"])
        look = {"gridsize": 26, "mincnt": 1, "bins": "log", "cmap": shades, "lw": 0.1}
        ax.hexbin(points["gtd"], points["value"], **look | binned)
    else:
        ax.plot(points["gtd"], points["value"], "o", color=colour, ms=2.6, mfc="none", mew=0.6)
    ax.set(xlabel="GTD", ylabel=title, **(limits or {}))


def _strip(ax: Axes, groups: Mapping[str, tuple[pd.DataFrame, str]]) -> None:
    """Draw r of each seed as a dot, a row a group, and the paper's r (the name of its claim) as a
    bar.
    """
    paper = printed.load()
    for place, (rows, claim) in enumerate(groups.values()):
        for row in rows.dropna().itertuples():
            ax.plot(
                row.r,
                place,
                "o",
                color=style.LOOKS[row.algorithm].colour,
                ms=4,
                mfc="none",
                mew=0.8,
            )
        ax.vlines(paper.claim(claim), place - 0.32, place + 0.32, color="black", lw=1.6)
    ax.axvline(0, color="0.5", lw=0.8, ls=":")
    style.rows(ax, [*groups], 0.5, 0.5)
    ax.set(xlim=(-1, 1), xlabel="Pearson's r with GTD")
