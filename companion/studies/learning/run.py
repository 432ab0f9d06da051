"""Make the records of the study `learning`, one a run.

`python -m companion.studies.learning.run [--only PATTERN] [--out FOLDER] [--plan FILE]`; several of
these commands share the work. A run takes one thread. A run that was cut begins again from its
seed, and gives the same numbers.
"""

import math
import re
import time
from functools import partial
from pathlib import Path
from typing import Any

import click
import torch
from torch import nn
from transformers import get_constant_schedule_with_warmup

from companion import records
from companion.setup import paths
from companion.setup.recipes import MultiHop
from companion.studies import plan
from companion.studies.hops import run as multihop
from companion.studies.learning import arms, design
from companion.studies.learning.batches import batches
from companion.studies.learning.design import Learning, Run
from companion.training import departures, trainer
from saobp.measure.command import OneLine, show


def encoder(planned: Learning, stories: MultiHop, run: Run) -> nn.Module:
    """Return the untrained encoder of a run; all arms of a seed start from the same weights."""
    network = multihop.untrained(stories, planned.layers, run.seed)
    return arms.put_arm(network, run.arm, stories.strength)


def train(planned: Learning, run: Run, folder: Path) -> dict[str, Any]:
    """Train one encoder until it has learned two and three hops, or to the last step.

    `folder` keeps the stories of a seed. Returns the metrics of its record: "curve", a check every
    `planned.every` steps; "failed" where the loss was no number.
    """
    stories = planned.stories(run.width)
    network = encoder(planned, stories, run)
    optimizer = trainer.adamw(network, run.rate, stories.pretrain.weight_decay)
    warmup = planned.warmup_of(run.arm)
    schedule = get_constant_schedule_with_warmup(optimizer, warmup)
    exam = multihop.Exam(stories)
    curve = [check(exam, network, 0)]
    failed, seconds = None, 0.0
    network.train()
    start = time.perf_counter()
    for step, batch in enumerate(batches(stories, run.seed, planned.steps, folder), 1):
        loss = network(**batch).loss
        if not math.isfinite(loss.item()):
            failed = failure(step, run.rate)
            break
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), trainer.ADAM["max_grad_norm"])
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if step % planned.every == 0:
            seconds += time.perf_counter() - start
            curve.append(check(exam, network, step))
            if learned(planned, curve):
                break
            start = time.perf_counter()
    each = seconds / max(1, curve[-1]["step"])
    return {"recipe": planned.recipe(run), "curve": curve, "seconds": each, "failed": failed}


def check(exam: multihop.Exam, network: nn.Module, step: int) -> dict[str, Any]:
    """Ask the exam: the step, the loss in nats, and the share right by hops."""
    outcome = exam(network)
    accuracy = {str(hops): share for hops, share in outcome["accuracy"].items()}
    return {"step": step, "loss": outcome["loss"], "accuracy": accuracy}


def learned(planned: Learning, curve: list[dict[str, Any]]) -> bool:
    """Tell whether both numbers of hops of the endpoint have been known at some check."""
    for hops in design.HOPS:
        shares = [point["accuracy"][str(hops)] for point in curve]
        if max(shares) < planned.known:
            return False
    return True


def failure(step: int, rate: float) -> dict[str, str]:
    """Return what a record holds of a run that diverged."""
    reason = f"the loss is no number at step {step}"
    return {"reason": reason, "message": f"{reason}, with a learning rate of {rate:g}"}


def record(planned: Learning, run: Run, path: Path, folder: Path) -> None:
    """Make the record of one run at `path`; `folder` is its own, for the time that it runs."""
    begun = folder / "begun"
    if begun.exists():
        show(f"{run.name} was cut: it begins again from its seed")
    begun.touch()
    torch.set_num_threads(1)
    parameters = {"width": run.width, "arm": run.arm, "rate": run.rate, "seed": run.seed}
    made = records.Run(design.NAME, study_name=design.NAME, parameters=parameters)
    metrics = train(planned, run, folder.parent.parent / "stories")
    settings = {"learning rate": run.rate, "warm-up steps": planned.warmup_of(run.arm)}
    apart = [departures.differs("study", "questions of known hops in the story world")]
    apart += [departures.differs(*setting) for setting in settings.items()]
    made.save(path, metrics, departures=apart, precision="fp32")
    begun.unlink()
    last = metrics["curve"][-1]["step"]
    show(f"{run.name}: {last} steps, {1000 * metrics['seconds']:.0f} ms each")


def entries(planned: Learning, runs: list[Run], only: str) -> list[plan.Entry]:
    """Return what `plan.share` takes of the runs whose name has the pattern `only`."""
    chosen = [run for run in runs if re.search(only, run.name)]
    return [
        (run.name, partial(record, planned, run), {"recipe": planned.recipe(run)}) for run in chosen
    ]


def share_all(planned: Learning, out: Path, only: str) -> None:
    """Make every planned record that is not in `out` yet and whose name has the pattern `only`.

    Raises ValueError if no planned run has such a name, or if the records that choose the rates are
    not complete and the pattern keeps them from being made.
    """
    some = False
    try:
        for stage in design.stages(planned, out):
            chosen = entries(planned, stage.runs, only)
            some = some or bool(chosen)
            plan.share(chosen, out)
            if stage.awaited:
                plan.share(chosen, out, wait=True)
    except design.MissingRuns:
        # a pattern that asks for runs of the rates alone has made them
        if not some:
            raise
        return
    if not some:
        raise ValueError(f"--only {only}: the plan has no run of such a name, arm or rate")


@click.command(
    cls=OneLine, help="Make every record that is not there yet; several commands share the work."
)
@click.option("--plan", "file", type=click.Path(path_type=Path), default=plan.file)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=lambda: paths.build(design.NAME) / "records",
)
@click.option(
    "--only", default="", metavar="PATTERN", help="names of records, a regular expression"
)
def main(file: Path, out: Path, only: str) -> None:
    """Make the records of the plan's section `learning`."""
    try:
        planned = plan.section(file, design.NAME, Learning)
        refuse_unknown_arms(planned)
        share_all(planned, out, only)
    except (ValueError, re.error) as error:
        raise click.ClickException(str(error)) from None


def refuse_unknown_arms(planned: Learning) -> None:
    """Raise ValueError if the plan names an arm that `arms` does not know."""
    known = {*arms.ALGORITHMS, *arms.FORMS}
    unknown = [arm for arm in planned.arms if arm not in known]
    if unknown:
        raise ValueError(
            f"{design.NAME}.arms: '{unknown[0]}' is none of {', '.join(sorted(known))}"
        )


if __name__ == "__main__":
    main()
