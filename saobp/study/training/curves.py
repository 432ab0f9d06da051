"""Learning curves: what a pretraining log says, as tables for plots and as the record's metrics."""

import math
from pathlib import Path
from typing import Any

import pandas as pd

from saobp.study.setup import paths, records
from saobp.study.setup.schema import Device
from saobp.study.statistics import Estimate
from saobp.study.statistics.intervals import perplexity_interval


def held_out_curve(log: list[dict[str, Any]]) -> pd.DataFrame:
    """Return one row a held-out check: step, loss (nats), perplexity."""
    checks = [{"step": entry["step"], **entry["heldout"]} for entry in log if "heldout" in entry]
    return pd.DataFrame(checks)[["step", "loss", "perplexity"]]


def layer_curve(log: list[dict[str, Any]]) -> pd.DataFrame:
    """Return one row a held-out check and layer: step, layer (from 1), entropy (nats), gtd."""
    return pd.DataFrame(
        {"step": entry["step"], "layer": layer, "entropy": entropy, "gtd": gtd}
        for entry in log
        if "heldout" in entry
        for layer, (entropy, gtd) in enumerate(zip(entry["heldout"]["entropy"], entry["heldout"]["gtd"]), start=1)
    )


def write(log: list[dict[str, Any]], folder: Path, name: str) -> list[Path]:
    """Write a run's curves as CSV: NAME-training (step, loss, learning_rate) and NAME-heldout (one row a layer)."""
    steps = pd.DataFrame(summary(log)["training"])
    layers = layer_curve(log).merge(held_out_curve(log), on="step")
    return [
        paths.write_text(folder / f"{name}-{kind}.csv", frame.to_csv(index=False))
        for kind, frame in (("training", steps), ("heldout", layers))
    ]


def summary(log: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what a pretraining record holds: the curve, its last point, the training losses.

    "sittings": from which step on which code trained, on what, since when; a record's own `code` and
    `started` are those of its writing, which may be long after the training.
    """
    curve = [{"step": entry["step"], **entry["heldout"]} for entry in log if "heldout" in entry]
    losses = [entry for entry in log if "loss" in entry]
    return {
        "steps": curve[-1]["step"],
        "loss": losses[-1]["loss"] if losses else None,
        "perplexity": curve[-1]["perplexity"],
        "seconds": curve[-1]["seconds"],
        "curve": curve,
        "training": [{key: entry[key] for key in ("step", "loss", "learning_rate")} for entry in losses],
        "sittings": [{"step": entry["step"], **entry["sitting"]} for entry in log if "sitting" in entry],
    }


def device(log: list[dict[str, Any]]) -> Device:
    """Return what trained last, by the log; the processor that is here for a log that tells of none."""
    noted = [entry["sitting"]["device"] for entry in log if "sitting" in entry]
    return noted[-1] if noted else records.device()


def perplexity(loss: Estimate) -> dict[str, Any]:
    """Return what a record holds of a loss over sequences (nats per token): its exponential, with the interval."""
    return {"perplexity": math.exp(min(loss.value, 700)), **perplexity_interval(loss)}
