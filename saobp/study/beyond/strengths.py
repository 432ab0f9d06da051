"""Other strengths than the paper's, and learned ones (notebook 12): the same model, text and masks at each λ."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

import saobp
from saobp.study.setup import paths
from saobp.study.setup.recipes import Beyond
from saobp.study.setup.sizes import strength_of
from saobp.study.statistics import holm, mean_interval

LEARNED, BY_LAYER = "learned", "learned-by-layer"
TAUGHT = {LEARNED: "head", BY_LAYER: "layer"}  # strengths that are parameters, and what has one of its own


def strengths_of(model: Any) -> list[list[float]]:
    """Return the strength of every layer's heads, in nats (one value where a layer's heads share it)."""
    import torch

    from saobp.models.module import Refinement

    found = [module(torch.device("cpu")) for module in model.modules() if isinstance(module, Refinement)]
    return [torch.as_tensor(strength).detach().flatten().tolist() for strength in found]


class Watch:
    """What is followed of a strength: held-out loss and accuracy; raw and refined entropy, GTD, fullest column."""

    def __init__(self, held_out: Any, tokenizer: Any, plan: Beyond):
        from saobp.study.data.masking import SeededMasking
        from saobp.study.training.heldout import HeldOut

        recipe = plan.pretrain
        masking = SeededMasking(tokenizer, recipe.masking, 0)
        self.held_out = HeldOut(held_out, masking, recipe.evaluation_sequences, recipe.batch)
        self.tokens = self.held_out.shown["input_ids"]

    def __call__(self, model: Any) -> dict[str, Any]:
        from saobp.study.beyond import message_rounds

        raw, refined = message_rounds.matrices(model, self.tokens.to(next(model.parameters()).device))
        sides = {"raw": message_rounds.shape(raw), "refined": message_rounds.shape(refined)}
        found = {"loss": self.held_out(model)["loss"], "accuracy": self.held_out.accuracy(model)}
        return {**found, **sides, "strengths": strengths_of(model)}


def run(
    plan: Beyond, strength: float | str, seed: int, *, text: Any, held_out: Any, tokenizer: Any, folder: Path,
) -> dict[str, Any]:  # fmt: skip
    """Train one model at a strength, or with one of `TAUGHT` that starts from the size's own, and follow it.

    Returns strength, seed, "curve": step, loss, accuracy, raw and refined shape, strengths, "failed": a
    `Failure` if there is no curve, else None, and "device". A finished run is read from `folder`; one that was cut off
    is continued.
    """
    from saobp.study.data.masking import SeededMasking
    from saobp.study.training import architectures, checkpoints, curves, trainer
    from saobp.study.training.watch import Diverged

    made_of = (asdict(plan.pretrain), plan.sequences, text.fingerprint)
    name = checkpoints.marked(f"{plan.model}-{strength}-{seed}", made_of)
    done = folder / f"{name}.json"
    if not done.exists():
        network = architectures.encoder(plan.model, tokenizer, dropout=plan.pretrain.dropout, seed=seed)
        learn = TAUGHT.get(strength)
        saobp.apply(network, "high", strength_of(plan.model) if learn else strength, learn=learn)
        try:
            log, failed = trainer.pretrain(
                network, text, SeededMasking(tokenizer, plan.pretrain.masking, seed), plan.pretrain,
                folder=folder / name, seed=seed, measure=Watch(held_out, tokenizer, plan), title=name,
            ), None  # fmt: skip
        except Diverged as error:
            log, failed = [], error.failure()
        curve = [{"step": entry["step"], **entry["heldout"]} for entry in log if "heldout" in entry]
        found = {"strength": strength, "seed": seed, "curve": curve, "failed": failed, "device": curves.device(log)}
        paths.write_text(done, json.dumps(found))
    return json.loads(done.read_text(encoding="utf-8"))


def study(plan: Beyond, *, text: Any, held_out: Any, tokenizer: Any, folder: Path) -> list:
    """Run every strength of a plan, and the learned ones, with every seed."""
    taught = [name for name, by in TAUGHT.items() if by in plan.learned]
    return [
        run(plan, strength, seed, text=text, held_out=held_out, tokenizer=tokenizer, folder=folder)
        for strength in (*plan.strengths, *taught)
        for seed in plan.seeds
    ]


def sweep(runs: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Return one row a run: strength, seed, processor, loss, accuracy (0 to 1), raw_ and refined_ shapes at the end.

    A run that failed has no row.
    """
    rows = []
    for run in (run for run in runs if run["curve"]):
        last = run["curve"][-1]
        sides = {f"{side}_{name}": value for side in ("raw", "refined") for name, value in last[side].items()}
        ends = {name: last[name] for name in ("loss", "accuracy")}
        which = {"strength": run["strength"], "seed": run["seed"], "processor": processor(run)}
        rows.append({**which, **ends, **sides})
    return pd.DataFrame(rows)


def learned(runs: Sequence[dict[str, Any]], name: str = LEARNED) -> pd.DataFrame:
    """Return where learned strengths of a name in `TAUGHT` went; a failed run nowhere.

    Columns: seed, step, layer, head (from 1; 1 alone where a layer's heads share theirs), strength (nats).
    """
    rows = [
        (run["seed"], point["step"], layer, head, value)
        for run in runs
        if run["strength"] == name
        for point in run["curve"]
        for layer, heads in enumerate(point["strengths"], 1)
        for head, value in enumerate(heads, 1)
    ]
    return pd.DataFrame(rows, columns=["seed", "step", "layer", "head", "strength"])


def processor(run: dict[str, Any]) -> str:
    """Name the kind of processor that a run was trained on."""
    return run["device"]["name"]


def _shared(swept: pd.DataFrame) -> pd.DataFrame:
    """The held-out losses of the seeds that every strength has: a row a seed and processor, a column a strength.

    Runs on another kind of processor than those at λ = 0 are left out: kinds of processor compute apart.
    """
    if swept.empty:
        return swept
    plain = swept[swept["strength"] == 0.0]["processor"]
    comparable = swept[swept["processor"].isin(plain)] if len(plain) else swept
    return comparable.pivot(index=["seed", "processor"], columns="strength", values="loss").dropna()


def against_plain(swept: pd.DataFrame) -> pd.DataFrame:
    """Compare the held-out loss at every strength with that at λ = 0 of the same seeds and processor.

    There is no row without two seeds.
    Columns: strength, difference, low, high (nats; 95 %, Student's t over seeds), p, p_holm (over all rows), seeds.
    """
    losses = _shared(swept)
    rows = []
    for strength in losses.columns.drop(0.0) if 0.0 in losses and len(losses) > 1 else ():
        found = mean_interval((losses[strength] - losses[0.0]).tolist())
        rows.append((strength, found.value, found.low, found.high, found.p, found.seeds))
    frame = pd.DataFrame(rows, columns=["strength", "difference", "low", "high", "p", "seeds"])
    return frame.assign(p_holm=holm(frame["p"].tolist()))
