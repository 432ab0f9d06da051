"""What the records of the plan's section `dose` say: the curves, the axis they fall on one, and
which λ.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.optimize import isotonic_regression

from companion import records
from companion.records.schema import Record
from companion.statistics.intervals import TAILS

# of the plan's `axes`, as columns
AXES = {"λ": "strength", "λ L": "tokens", "λ n": "sums"}
# the curves that decide, and whether they rise with the dose
DECIDING = {"sink": False, "harm": True}
# of the largest column sum of the original
HALF = 0.5
# nats of loss, and 1 - cosine
HARM = {"smollm2": 0.05, "minilm": 0.05}
# R² from which on a curve counts as one
ENOUGH = 0.9
DRAWS = 200


def measured(selected: Sequence[Record]) -> pd.DataFrame:
    """Return one row per model, strength, length and passage: the means over layers."""
    rows = []
    for record in records.select(selected, "dose"):
        about = {name: record["parameters"][name] for name in ("model", "strength")}
        for cell in record["metrics"]["cells"]:
            place = {name: cell[name] for name in ("length", "passage", "harm")}
            sink, entropy = (
                float(np.mean(cell[f"{name}_by_layer"])) for name in ("sink", "entropy")
            )
            rows.append(about | place | {"sink": sink, "entropy": entropy})
    return pd.DataFrame(rows)


def cells(passages: pd.DataFrame, weights: np.ndarray | None = None) -> pd.DataFrame:
    """Return one row per strength and length of one model, against the original's of that length.

    `sink` is a ratio, `entropy` and `harm` are differences; `tokens` and `sums` are the strength
    times the length and times the original's largest column sum. `weights` are the passages' in
    the means, equal ones where there are none.
    """
    wide = passages.pivot(index=["strength", "length"], columns="passage")
    if weights is None:
        weights = np.ones(passages["passage"].nunique())
    passage_shares = weights / weights.sum()
    means = {name: wide[name].to_numpy() @ passage_shares for name in ("sink", "entropy", "harm")}
    table = pd.DataFrame(means, index=wide.index).reset_index()
    plain = table[table["strength"] == 0].set_index("length")
    table = table[table["strength"] > 0].reset_index(drop=True)
    before = plain.loc[table["length"]].reset_index(drop=True)
    table["tokens"] = table["strength"] * table["length"]
    table["sums"] = table["strength"] * before["sink"]
    table["sink"] /= before["sink"]
    table["entropy"] -= before["entropy"]
    table["harm"] -= before["harm"]
    return table


def predicted_share(table: pd.DataFrame, curve: str, axis: str) -> float:
    """Return R² of the cells of each length, predicted from those of the other lengths.

    By a monotone curve through them over the axis; cells beyond its ends are left out. 1 where all
    lengths lie on one curve, 0 or less where the others say nothing.
    """
    places, values = table[axis].to_numpy(), table[curve].to_numpy()
    lengths = table["length"].to_numpy()
    predicted = np.full(len(values), np.nan)
    for length in np.unique(lengths):
        of_length = lengths == length
        points, point_of = np.unique(places[~of_length], return_inverse=True)
        counts = np.bincount(point_of)
        means = np.bincount(point_of, values[~of_length]) / counts
        fit = isotonic_regression(means, weights=counts, increasing=DECIDING[curve]).x
        predicted[of_length] = np.interp(places[of_length], points, fit, np.nan, np.nan)
    within = np.isfinite(predicted)
    values, predicted = values[within], predicted[within]
    return float(1 - ((values - predicted) ** 2).sum() / ((values - values.mean()) ** 2).sum())


def shares(passages: pd.DataFrame) -> pd.DataFrame:
    """Return R² by model, curve and axis."""
    rows = []
    for model, of_model in passages.groupby("model"):
        table = cells(of_model.drop(columns="model"))
        for curve in DECIDING:
            row = {axis: predicted_share(table, curve, column) for axis, column in AXES.items()}
            rows.append({"model": model, "curve": curve} | row)
    return pd.DataFrame(rows)


def share_intervals(passages: pd.DataFrame, draws: int = DRAWS) -> pd.DataFrame:
    """Return the 95 % interval over passages of R² over λ L, by model and curve: `low`, `high`."""
    rows = []
    for model, of_model in passages.groupby("model"):
        passage_count = of_model["passage"].nunique()
        equal = np.full(passage_count, 1 / passage_count)
        # how often each passage stands in draws of all of them with replacement
        weights = np.random.default_rng(0).multinomial(passage_count, equal, size=draws)
        drawn = [cells(of_model.drop(columns="model"), each) for each in weights]
        for curve in DECIDING:
            of_draws = [predicted_share(table, curve, AXES["λ L"]) for table in drawn]
            low, high = np.quantile(of_draws, TAILS)
            rows.append({"model": model, "curve": curve, "low": low, "high": high})
    return pd.DataFrame(rows)


def answer(table: pd.DataFrame) -> str:
    """Return which axis all curves of `shares` fall on one over, by the plan's rule: "λ L", "λ n"
    or "".
    """
    for axis in ("λ L", "λ n"):
        if ((table[axis] >= ENOUGH) & (table[axis] > table["λ"])).all():
            return axis
    return ""


def crossing(strengths: Sequence[float], values: Sequence[float], level: float) -> float:
    """Return the strength at which a curve first reaches a level, between two on a logarithmic
    axis.

    0 where it is beyond the level at the smallest strength already, infinity where it never is.
    """
    beyond = np.asarray(values) >= level
    if not beyond.any():
        return float("inf")
    place = int(beyond.argmax())
    if place == 0:
        return 0.0
    logs = np.log(strengths[place - 1 : place + 1])
    return float(np.exp(np.interp(level, values[place - 1 : place + 1], logs)))


def which_strength(passages: pd.DataFrame) -> pd.DataFrame:
    """Return by model and length the λ that halves the largest column sum and the λ that harms.

    0 stands for less than the smallest λ of the plan, infinity for more than the largest.
    """
    rows = []
    for model, of_model in passages.groupby("model"):
        table = cells(of_model.drop(columns="model"))
        for length, curve in table.sort_values("strength").groupby("length"):
            strengths = curve["strength"].to_numpy()
            # rising, as harm does
            lost = 1 - curve["sink"].to_numpy()
            halves = crossing(strengths, lost, 1 - HALF)
            harms = crossing(strengths, curve["harm"].to_numpy(), HARM[model])
            rows.append({"model": model, "length": length, "halves": halves, "harms": harms})
    return pd.DataFrame(rows)
