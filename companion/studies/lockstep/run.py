"""Train the branches of the study `lockstep` in step, and leave one record a trunk.

`python -m companion.studies.lockstep.run --text FILE --out FOLDER [--trial SHARE] [--seconds N]`,
FILE as `companion.studies.lockstep.text` writes it. The records are written anew at every check, so
that a run that is cut leaves its last one.
"""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

import click
import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from companion import records
from companion.data import corpora
from companion.data.corpora import Blocks
from companion.data.masking import SeededMasking, masked
from companion.evaluation.heldout import HeldOut
from companion.setup import paths
from companion.studies import plan
from companion.studies.lockstep import design, text
from companion.studies.lockstep.design import Lockstep
from companion.training import architectures, departures, trainer
from saobp.measure.command import OneLine, show

# seconds of a trial, of which the timing takes a ninth as in the plan
TRIAL_SECONDS = 240
# nats; a trunk above it has not started to learn
STARTED = 6.5


@dataclass
class Place:
    """Where models train, and on what: shared by all of them."""

    planned: Lockstep
    tokenizer: PreTrainedTokenizerBase
    device: torch.device
    # (block, token) without [CLS] and [SEP]
    tokens: Tensor
    measure: HeldOut

    @property
    def precision(self) -> str:
        """What training computes in: bfloat16 autocast on an accelerator."""
        return "fp32" if self.device.type == "cpu" else "bf16"

    def untrained(self, arm: str, seed: int) -> nn.Module:
        """Return a model before training, with the attention of an arm."""
        network = architectures.encoder(self.planned.model, self.tokenizer, dropout=0.0, seed=seed)
        return architectures.refine_with(network, arm, self.planned.strength).to(self.device)


class Batches:
    """The batches of a trunk and its branches: order and masks are drawn from its seed.

    Every pass over the text has an order of its own, and every step its own masks.
    """

    def __init__(self, place: Place, seed: int):
        self.place, self.seed = place, seed
        self.order, self.epoch = torch.empty(0), -1

    def __call__(self, step: int) -> dict[str, Tensor]:
        """Return the batch of a step, from 0."""
        planned, tokens = self.place.planned, self.place.tokens
        epoch, place = divmod(step, len(tokens) // planned.batch)
        if epoch != self.epoch:
            generator = torch.Generator().manual_seed(self.seed * 1000 + epoch)
            self.order = torch.randperm(len(tokens), generator=generator).to(tokens.device)
            self.epoch = epoch
        rows = tokens[self.order[place * planned.batch : (place + 1) * planned.batch]].long()
        first = rows.new_full((len(rows), 1), self.place.tokenizer.cls_token_id)
        last = rows.new_full((len(rows), 1), self.place.tokenizer.sep_token_id)
        rows = torch.cat([first, rows, last], dim=1)
        generator = torch.Generator(rows.device).manual_seed(self.seed * 10**7 + step)
        draws = torch.rand((3, *rows.shape), generator=generator, device=rows.device)
        batch = masked(rows, draws, self.place.tokenizer, planned.masking)
        # nothing is padded, and without a mask attention is quicker
        del batch["attention_mask"]
        return batch


@dataclass
class Learner:
    """A model that trains: its optimizer, and what was seen of it."""

    place: Place
    arm: str
    network: nn.Module
    optimizer: torch.optim.Optimizer
    losses: list[Tensor] = field(default_factory=list)
    curve: list[dict[str, Any]] = field(default_factory=list)
    training: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def new(cls, place: Place, arm: str, seed: int) -> "Learner":
        """Return one before its first step."""
        network = place.untrained(arm, seed).train()
        return cls(place, arm, network, trainer.adamw(network, rate=0.0, decay=0.01))

    def branch(self, arm: str, seed: int) -> "Learner":
        """Return one with the same weights and state of the optimizer, and another attention."""
        learner = Learner.new(self.place, arm, seed)
        learner.network.load_state_dict(self.network.state_dict())
        # a copy, or all would share one state
        learner.optimizer.load_state_dict(copy.deepcopy(self.optimizer.state_dict()))
        learner.curve = list(self.curve)
        learner.training = list(self.training)
        return learner

    def step(self, batch: dict[str, Tensor], rate: float) -> None:
        """Make one training step at a learning rate."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        bf16 = self.place.precision == "bf16"
        with torch.autocast(self.place.device.type, torch.bfloat16, enabled=bf16):
            loss = self.network(**batch).loss
        loss.backward()
        nn.utils.clip_grad_norm_(self.network.parameters(), trainer.ADAM["max_grad_norm"])
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.losses.append(loss.detach())

    def check(self, step: int, seconds: float) -> None:
        """Measure the held-out loss after so many steps and seconds of the phase.

        Raises ValueError if it is no number.
        """
        if self.losses:
            mean = torch.stack(self.losses).mean().item()
            rate = self.optimizer.param_groups[0]["lr"]
            self.training.append({"step": step, "loss": mean, "learning_rate": rate})
            self.losses.clear()
        point = {"step": step, **self.place.measure(self.network), "seconds": seconds}
        if not math.isfinite(point["loss"]):
            raise ValueError(f"{self.arm}: the held-out loss is no number at step {step}")
        self.curve.append(point)

    def trained(self) -> dict[str, Any]:
        """Return what a record holds of it."""
        last = self.curve[-1]
        summary = {key: last[key] for key in ("perplexity", "seconds")}
        loss = self.training[-1]["loss"] if self.training else None
        curves = {"curve": self.curve, "training": self.training}
        return {"steps": last["step"], "loss": loss, **summary, **curves}


@dataclass
class Group:
    """A trunk's seed, its batches, and what trains on them: the trunk, later its branches."""

    seed: int
    batches: Batches
    learners: list[Learner]
    trunk: dict[str, Any] = field(default_factory=dict)


def advance(groups: Sequence[Group], first: int, rates: Sequence[float]) -> None:
    """Let every learner make the steps from `first` on, a trunk after the other."""
    for group in groups:
        for step, rate in enumerate(rates, first):
            batch = group.batches(step)
            for learner in group.learners:
                learner.step(batch, rate)


def measured_speed(place: Place, seconds: float) -> float:
    """Return the tokens per second that the arms train together, on models that are thrown away.

    The first turn is not counted: it compiles and warms up.
    """
    planned = place.planned
    learners = [Learner.new(place, arm, 0) for arm in planned.arms]
    group = Group(0, Batches(place, 0), learners)
    began, turns = monotonic(), 0
    started = began
    while turns < 2 or monotonic() - began < seconds:
        if turns == 1:
            started = _finished(place)
        advance([group], turns * planned.turn, [planned.learning_rate] * planned.turn)
        turns += 1
    steps = (turns - 1) * planned.turn * len(learners)
    return steps * planned.batch * planned.length / (_finished(place) - started)


def _finished(place: Place) -> float:
    """Return the time when the device has done what it was given."""
    if place.device.type == "cuda":
        torch.cuda.synchronize()
    return monotonic()


def grow(place: Place, seconds: float) -> tuple[list[Group], int]:
    """Train the trunks in turn for so many seconds, and check them: the groups and their step."""
    planned, step = place.planned, 0
    groups = []
    for seed in planned.trunks:
        trunk = Learner.new(place, "original", seed)
        groups.append(Group(seed, Batches(place, seed), [trunk]))
    began = monotonic()
    for group in groups:
        group.learners[0].check(0, 0.0)
    while step == 0 or _finished(place) - began < seconds:
        warmup = max(1, planned.warmup)
        rates = []
        for n in range(1, planned.turn + 1):
            rates.append(planned.learning_rate * min(1.0, (step + n) / warmup))
        advance(groups, step, rates)
        step += planned.turn
    for group in groups:
        group.learners[0].check(step, monotonic() - began)
        group.trunk = group.learners[0].trained()
    return groups, step


@dataclass
class Course:
    """The branches on their way: the step that all of them have, and when the rate falls."""

    start: int
    step: int
    # the first step at a falling rate, and the last of all
    falls_at: int | None = None
    end: int | None = None

    def rates(self, rate: float, turn: int) -> list[float]:
        """Return the rates of the next turn."""
        steps = range(self.step, self.step + turn)
        if self.falls_at is None:
            return [rate] * turn
        whole = self.end - self.falls_at
        return [rate * (self.end - step) / whole for step in steps]

    def settle(self, elapsed: float, seconds: float, turn: int) -> None:
        """Let the rate fall from here on, over the turns that the seconds left allow, one at
        least.
        """
        turns = (self.step - self.start) // turn
        left = max(1, int((seconds - elapsed) / (elapsed / turns)))
        self.falls_at, self.end = self.step, self.step + left * turn


def continue_branches(
    place: Place, groups: list[Group], start: int, seconds: float, save: "Saving"
) -> Course:
    """Train every branch in turn for so many seconds: all have the same step at every check."""
    planned, course = place.planned, Course(start, start)
    for group in groups:
        trunk = group.learners[0]
        group.learners = [trunk.branch(arm, group.seed) for arm in save.arms]
    began = monotonic()
    checked = 0
    while course.step != course.end:
        advance(groups, course.step, course.rates(planned.learning_rate, planned.turn))
        course.step += planned.turn
        elapsed = _finished(place) - began
        if course.falls_at is None and elapsed >= planned.falling * seconds:
            course.settle(elapsed, seconds, planned.turn)
        due = int(planned.checks * elapsed / seconds)
        if due > checked and course.step != course.end:
            checked = due
            save.check(groups, course, elapsed, ended=False)
    save.check(groups, course, monotonic() - began, ended=True)
    return course


@dataclass
class Saving:
    """Writes the records of a run, one a trunk."""

    place: Place
    out: Path
    arms: list[str]
    made: dict[int, records.Run]
    # of all records: speed, size, whether it is a trial
    about: dict[str, Any]
    data: dict[str, Any]

    def check(self, groups: list[Group], course: Course, seconds: float, *, ended: bool) -> None:
        """Measure every branch, and write what there is."""
        for group in groups:
            for learner in group.learners:
                learner.check(course.step, seconds)
        falls = {"falls_at": course.falls_at, "ended": ended}
        losses = []
        for group in groups:
            self._write(group, course, falls)
            for learner in group.learners:
                loss = learner.curve[-1]["loss"]
                losses.append(f"{group.seed} {learner.arm} {loss:.4f}")
        show(f"step {course.step}, {seconds:.0f} s: {', '.join(losses)}")

    def _write(self, group: Group, course: Course, falls: dict[str, Any]) -> None:
        branches = []
        for learner in group.learners:
            nats, tokens = self.place.measure.by_sequence(learner.network)
            losses = {"algorithm": learner.arm, "nats": nats, "tokens": tokens}
            branches.append(learner.trained() | losses | {"held_out": sum(nats) / sum(tokens)})
        recipe = self.place.planned.recipe(course.step, self.place.precision)
        metrics = {
            "start": course.start,
            "trunk": group.trunk,
            "branches": branches,
            "recipe": recipe.model_dump(),
            "lockstep": self.about | falls,
        }
        apart = [departures.differs("study", "branches of one trunk that advance in step")]
        path = self.out / f"12-{design.NAME}-{group.seed}.json"
        about = {"data": self.data, "departures": apart, "precision": self.place.precision}
        self.made[group.seed].save(path, metrics, **about)


def run(planned: Lockstep, file: Path, out: Path, trial: float | None) -> dict[str, Any]:
    """Run the study, or a trial of a share of its size, and return what it tells of itself.

    Raises ValueError, one line, before anything is trained: records that are there already, a token
    file of another plan, a machine that is too slow.
    """
    kept = sorted(out.glob(f"12-{design.NAME}-*.json"))
    if kept:
        raise ValueError(f"{kept[0]}: is there already: give another --out")
    tokenizer, train, held_out = text.read(planned, file)
    if trial:
        planned = smaller(planned, trial)
    place = prepared(planned, tokenizer, train, held_out)
    trunks = {}
    for seed in planned.trunks:
        parameters = {"model": planned.model, "seed": seed}
        trunks[seed] = records.Run("branched", study_name=design.NAME, parameters=parameters)
    speed = measured_speed(place, planned.timing)
    show(f"{speed:.0f} tokens per second")
    arms = planned.arms if trial else design.arms_at(planned, speed)
    about = {"speed": speed, "seconds": planned.seconds, "trial": bool(trial)}
    about |= {"sources": held_out.about["sources"], "text_tokens": train.tokens}
    left = planned.seconds - planned.timing
    groups, start = grow(place, planned.trunk_share * left)
    for group in groups:
        loss = group.trunk["curve"][-1]["loss"]
        word = "has started to learn" if loss < STARTED else "has not started to learn"
        show(f"trunk {group.seed}, step {start}: {loss:.4f} nats, it {word}")
    data = corpora.provenance(None, train, held_out)
    save = Saving(place, out, list(arms), trunks, about, data)
    course = continue_branches(place, groups, start, (1 - planned.trunk_share) * left, save)
    return about | {"steps": course.step, "falls_at": course.falls_at}


def smaller(planned: Lockstep, share: float) -> Lockstep:
    """Return a plan of a share of the sequences a step, of the held-out ones, and of a turn."""
    return planned.changed(
        turn=max(1, round(share * planned.turn)),
        batch=max(1, round(share * planned.batch)),
        held_out=max(len(planned.corpus), round(share * planned.held_out)),
        warmup=max(1, round(share * planned.warmup)),
    )


def prepared(
    planned: Lockstep, tokenizer: PreTrainedTokenizerBase, train: Blocks, held_out: Blocks
) -> Place:
    """Put the text where models train, and the held-out sequences under their masks.

    Raises ValueError for a text of fewer sequences than a batch.
    """
    if len(train) < planned.batch:
        raise ValueError(f"text: {len(train)} sequences are fewer than a batch of {planned.batch}")
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    device = accelerator or torch.device("cpu")
    tokens = torch.from_numpy(train.body().astype("int32")).to(device)
    masks = SeededMasking(tokenizer, planned.masking, 0)
    measure = HeldOut(held_out, masks, planned.held_out, min(planned.batch, 256))
    return Place(planned, tokenizer, device, tokens, measure)


@click.command(
    cls=OneLine, help="Train the branches of the study in step, and leave one record a trunk."
)
@click.option("--text", "file", type=click.Path(path_type=Path), required=True)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=lambda: paths.build(design.NAME) / "records",
)
@click.option("--plan", "plan_file", type=click.Path(path_type=Path), default=plan.file)
@click.option(
    "--trial",
    type=click.FloatRange(0, 1, min_open=True),
    metavar="SHARE",
    help="of the batch and of the held-out sequences; its records are none of the study's",
)
@click.option("--seconds", type=click.IntRange(9), help="of a trial, a ninth for the timing")
def main(file: Path, out: Path, plan_file: Path, trial: float | None, seconds: int | None) -> None:
    """Run the study."""
    try:
        planned = plan.section(plan_file, design.NAME, Lockstep)
        if seconds and not trial:
            raise ValueError("--seconds is for a trial: the plan says how long the study takes")
        if trial:
            seconds = seconds or TRIAL_SECONDS
            planned = planned.changed(seconds=seconds, timing=seconds // 9)
        summary = run(planned, file, out, trial)
    except (ValueError, OSError) as error:
        raise click.ClickException(str(error)) from None
    show(f"ended at step {summary['steps']}, the rate fell from step {summary['falls_at']}")


if __name__ == "__main__":
    main()
