"""Rows of the paper's tables: a model, an algorithm and a seed, from pretraining to the last record.

With a time budget a copy of the study is fitted to the machine: as many steps of pretraining as half of the time holds,
and as many items of tasks and samples of attention as the rest does. The copy is `build/<study>/<study>.yaml`; later
rows of the same budget are made by it, so that all algorithms have the same steps.
"""

import io
import time
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil
from pathlib import Path
from typing import Any

import torch
from ruamel.yaml import YAML
from torch import Tensor, nn

from saobp.measure.graph import graph_measures
from saobp.measure.gtd_and_entropy import measure
from saobp.study.data import corpora, sources
from saobp.study.data.masking import SeededMasking
from saobp.study.setup import paths, typed_by_hand
from saobp.study.setup.recipes import Finetuning, Pretraining, Schedule
from saobp.study.setup.sizes_and_strengths import SIZES
from saobp.study.setup.studies import Study, StudyError, find, load_study
from saobp.study.training import finetuning, precision, pretraining

SHARE = 0.5  # of a row's time, for pretraining
LOAD = 1.3  # a step with its optimizer, data and checkpoints, over forward and backward alone
START = 40.0  # seconds of a notebook that are not the study's training or measuring
FEW = 8  # sequences that are timed where a whole batch takes long
LONG = 1.0  # seconds from which on a step is not timed whole
CHECKS = 0.15  # of the steps' time, at most, for held-out checks
STAND_INS = "narrow"  # the study whose splits stand in where a mirror lacks the published ones
STOOD_IN = ("splits", "length_of")  # what is taken of it
WIDE = {"choice": 4, "span": 2}  # sequences of an item: options, windows


@dataclass(frozen=True)
class Row:
    """One row: what is trained."""

    model: str
    algorithm: str
    seed: int

    def named(self, stage: str, *rest: Any) -> str:
        """Return the workflow's record of a stage."""
        return f"records/{'-'.join(map(str, (stage, self.model, self.algorithm, self.seed, *rest)))}.json"

    def records(self, study: Study) -> list[str]:
        """Return all records of the row, pretraining first."""
        heads = [(group, head) for group in study.finetune.groups for head in study.finetune.seeds]
        tasks = [task for model, name, task in study.looked_at() if (model, name) == (self.model, self.algorithm)]
        tuned = [self.named("05-finetune", *head) for head in heads]
        return [self.named("04-pretrain"), *tuned, *(self.named("06-attention", task) for task in tasks)]


def chosen(study: Study, texts: Sequence[str]) -> list[Row]:
    """Read rows as they are typed, "mini/high/42". Raises StudyError for one that the study cannot train."""
    known, found = study.pairs(), []
    for text in texts:
        model, algorithm, seed = (text.split("/") + ["", ""])[:3]
        if text.count("/") != 2 or (model, algorithm) not in known or not typed_by_hand.DECIMAL.fullmatch(seed):
            rows = ", ".join("/".join(pair) for pair in known)
            raise StudyError(f"--rows: no row {text!r} in study {study.name}; give one of {rows}, and /SEED")
        found.append(Row(model, algorithm, int(seed)))
    return list(dict.fromkeys(found))


def planned(name: str, texts: Sequence[str], minutes: int | None, tokens: Path | None, cores: int) -> tuple[Path, list]:
    """Return the study's file, a fitted copy where time is short, and the records of the rows.

    Raises StudyError or DataError, one line, before anything is trained.
    """
    path, study = find(name).resolve(), load_study(name)
    rows = chosen(study, texts)
    if minutes or tokens:
        path, study = _own_copy(study, minutes, tokens, [row.model for row in rows], cores)
    return path, [record for row in rows for record in row.records(study)]


def _own_copy(
    study: Study, minutes: int | None, tokens: Path | None, models: list[str], cores: int
) -> tuple[Path, Study]:
    """Return the study's copy for this budget and token file, made or kept, with a schedule for each model."""
    path, source = paths.build(study.name) / f"{study.name}.yaml", sources.resolve(study.data)
    wanted = {"minutes": minutes or study.minutes, "tokens": str(tokens.resolve()) if tokens else study.tokens}
    copy = load_study(path) if path.is_file() else None
    if copy and any(getattr(copy, key) != value for key, value in wanted.items()):
        given = f"{copy.minutes} minutes and the token file {copy.tokens}"
        raise StudyError(f"{path}: was made for {given}: give the same, or remove it to start anew")
    if tokens and not copy:
        wanted["corpus"] = corpora.read_file(tokens).about["corpus"]
    new = copy or at_hand(replace(study, **wanted), source)
    for model in dict.fromkeys(models):
        if not study.minutes and minutes and new.recipe(model) == study.recipe(model):
            new = fitted(new, model, source, cores, first=copy is None)
    _write(path, new)
    return path, new


def _write(path: Path, study: Study) -> None:
    """Write a study as the YAML that it can be read from, without what is not set."""
    yaml, stream = YAML(typ="safe", pure=True), io.StringIO()
    yaml.dump(_set(asdict(study)), stream)
    paths.write_text(path, "# Fitted by `saobp reproduce --rows`: remove it to fit anew.\n" + stream.getvalue())


def _set(values: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in values.items() if value not in (None, {})}
    return {key: _set(value) if isinstance(value, dict) else value for key, value in kept.items()}


def at_hand(study: Study, source: sources.Source) -> Study:
    """Return what a study's rows need: one head per task, the tasks at hand, by substitute splits if it must be."""
    other, tuned, left_out = load_study(STAND_INS).finetune, study.finetune, []
    for task in dict.fromkeys([*(task for group in tuned.groups.values() for task in group), *study.attention.tasks]):
        theirs = {key: {name: one for name, one in getattr(other, key).items() if name == task} for key in STOOD_IN}
        stood_in = {key: getattr(tuned, key) | own for key, own in theirs.items()}
        ways = (tuned, replace(tuned, **stood_in))
        tuned = next((way for way in ways if _has(task, way, source)), tuned)
        left_out += [] if _has(task, tuned, source) else [task]
    if left_out:
        print(f"==> left out, for {source.name} has no splits of them: {', '.join(left_out)}", flush=True)
    groups = {name: [task for task in group if task not in left_out] for name, group in tuned.groups.items()}
    tuned = replace(tuned, groups={name: group for name, group in groups.items() if group}, seeds=tuned.seeds[:1])
    tasks = [task for task in study.attention.tasks if task not in left_out]
    apart = dict.fromkeys(("decoder", "cost", "beyond", "multihop"))  # no part of a row
    return replace(study, finetune=tuned, attention=replace(study.attention, tasks=tasks), **apart)


def _has(task: str, recipe: Finetuning, source: sources.Source) -> bool:
    try:
        finetuning.task_of(task, recipe, source)
    except sources.DataError:
        return False
    return True


def fitted(study: Study, model: str, source: sources.Source, cores: int, *, first: bool) -> Study:
    """Return a study whose schedule for a model fits its minutes; of the `first` model also what follows.

    High, which takes longest, is timed whatever the row: the rows of a size have the same steps. Raises StudyError
    if the time holds no step.
    """
    tokenizer, text, _ = pretraining.texts(study, model, source)
    recipe = study.recipe(model)
    network = pretraining.untrained(study, model, "high", 0, tokenizer)
    masking = SeededMasking(tokenizer, recipe.masking, 0)
    batch = masking([text[index] for index in range(min(recipe.batch, len(text)))])
    name, seconds = step_time(network, batch, recipe.precision)
    schedule, sequences = within(recipe, seconds, study.minutes, model)
    study = replace(study, schedules={**study.schedules, model: schedule})
    if not first:
        return study
    pretrain = replace(study.pretrain, precision=name, evaluation_sequences=sequences)
    item = step_time(network, _rows(batch, study.finetune.batch), name)[1] / study.finetune.batch
    item *= study.finetune.length / recipe.length
    count = len(study.finetune.groups) + len(study.attention.tasks)
    left = 60 * study.minutes * (1 - SHARE) * min(1, cores / count) - START
    limit = most_items(study, source, item, left)
    samples = min(study.attention.samples, max(FEW, int(left / sample_time(model, study.attention.length))))
    tuned = replace(study.finetune, precision=name, limit_train=limit, limit_evaluation=limit)
    return replace(study, pretrain=pretrain, finetune=tuned, attention=replace(study.attention, samples=samples))


def within(recipe: Pretraining, seconds: float, minutes: int, model: str) -> tuple[Schedule, int]:
    """Return the schedule whose steps of so many seconds fit, and the sequences of a held-out check.

    The warm-up keeps its share of the steps. A check costs a third of a step per sequence.
    """
    whole = (SHARE * 60 * minutes - START) / (LOAD * seconds)
    checks = (recipe.evaluations + 2) / (3 * recipe.batch)  # steps' time for one sequence of each
    sequences = min(recipe.evaluation_sequences, max(FEW, int(CHECKS * whole / checks)))
    steps = min(recipe.steps, int(whole - checks * sequences))
    if steps < 1:
        least = ceil((START + LOAD * seconds * (1 + checks * FEW)) / (SHARE * 60))
        raise StudyError(f"--minutes {minutes}: a step of {model} takes {seconds:.1f} s here; give at least {least}")
    warmup = round(steps * recipe.warmup / recipe.steps)
    return Schedule(steps=steps, learning_rate=recipe.learning_rate, warmup=warmup), sequences


def step_time(network: nn.Module, batch: Mapping[str, Tensor], wanted: str) -> tuple[str, float]:
    """Return the precision that a step is faster in, and its seconds; of a long step a few sequences are timed."""
    names = [wanted] if wanted != "auto" else ["fp32", "bf16"] if precision.has_bf16() else ["fp32"]
    count, few = len(batch["input_ids"]), _rows(batch, FEW)
    seconds = precision.timed(network, few, names)
    name = min(seconds, key=seconds.get)
    scaled = seconds[name] * count / len(few["input_ids"])
    return (name, scaled) if scaled > LONG else (name, precision.timed(network, batch, [name])[name])


def _rows(batch: Mapping[str, Tensor], count: int) -> dict[str, Tensor]:
    return {key: values[:count] for key, values in batch.items()}


def most_items(study: Study, source: sources.Source, item: float, seconds: float) -> int | None:
    """Return how many items a task may have so that each group ends in time; None where all of them fit."""
    tuned, loaded = study.finetune, {}
    for task in (task for group in tuned.groups.values() for task in group):
        found = finetuning.task_of(task, tuned, source)
        loaded[task] = (found.spec.kind, len(found.train) + len(found.development), len(found.evaluation))

    def spent(limit: int) -> float:
        return LOAD * item * max(
            sum(_passes(tuned, task, *loaded[task], limit) for task in group) for group in tuned.groups.values()
        )  # fmt: skip

    largest = max(max(sizes) for _, *sizes in loaded.values())
    place = bisect_right(range(largest), seconds, key=spent) - 1
    return None if place == largest - 1 else max(FEW, place)


def _passes(tuned: Finetuning, task: str, kind: str, train: int, reported: int, limit: int) -> float:
    """Return how many items' training steps a task takes; an item that is only read takes half of one."""
    epochs = tuned.epochs_of.get(task, tuned.epochs)
    reads = 1 + (tuned.curve if task in finetuning.FOLLOWED else 0)
    return WIDE.get(kind, 1) * (epochs * min(train, limit) + reads * min(reported, limit) / 2)


def sample_time(model: str, length: int) -> float:
    """Return the seconds that the measures of one sample's attention take, before and after the refinement."""
    size = SIZES[model]
    maps, clock = torch.rand(size.layers, size.heads, length, length).softmax(-1), time.perf_counter()
    for _ in range(2):
        measure(maps), graph_measures(maps[..., :40, :40])
    return LOAD * (time.perf_counter() - clock)
