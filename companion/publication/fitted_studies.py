"""A study fitted to a machine and a time budget, for rows of the paper's tables:
`build/<study>/<study>.yaml`.

Half of a row's time is for pretraining, the rest for tasks and attention. All rows of a budget have
the same steps.
"""

import contextlib
import json
import time
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from math import ceil
from pathlib import Path

import torch
from torch import Tensor, nn

from companion.data import corpora, sources
from companion.data.masking import SeededMasking
from companion.setup import paths
from companion.setup.recipes import Pretraining, Schedule
from companion.setup.sizes_and_strengths import SIZES
from companion.setup.studies import STAND_INS, Study, StudyError, load_study
from companion.statistics.trajectories import FOLLOWED
from companion.training import checkpoints, finetuning, precision, pretraining
from saobp.measure.graph import graph_measures
from saobp.measure.gtd_and_entropy import measure

# of a row's time, for pretraining
SHARE = 0.5
# a step with its optimizer, data and checkpoints, over forward and backward alone
LOAD = 1.3
# seconds of a notebook that are not the study's training or measuring
START = 40.0
# sequences that are timed where a whole batch takes long
TIMED = 8
# seconds from which on a step is not timed whole
LONG = 1.0
# of the steps' time, at most, for held-out checks
CHECKS = 0.15
# sections that are no part of a row
APART = dict.fromkeys(("decoder", "cost", "beyond", "multihop"))
# sequences of an item: options, windows
WIDE = {"choice": 4, "span": 2}


def own_copy(
    study: Study, minutes: int | None, tokens: Path | None, models: Iterable[str], cores: int
) -> tuple[Path, Study]:
    """Return the file and the study's copy for a budget and a token file, with a schedule for each
    model.

    What this takes is part of the first row's minutes. Raises StudyError or DataError, one line,
    before anything is trained.
    """
    began = time.perf_counter()
    path, source = paths.build(study.name) / f"{study.name}.yaml", sources.resolve(study.data)
    wanted = {
        "minutes": minutes or study.minutes,
        "tokens": str(tokens.resolve()) if tokens else study.tokens,
    }
    made_of = checkpoints.marked(study.name, study.changed(**wanted, **APART).model_dump())
    # beside the copy: what it was fitted from
    mark = path.with_suffix(".made_of")
    if path.is_file():
        new, old = load_study(path), mark.read_text(encoding="utf-8") if mark.is_file() else ""
        # which may be the copy itself
        if old != made_of and new != study.changed(**wanted):
            given = f"{new.minutes} minutes, the token file {new.tokens} and {study.name} as it was then"
            raise StudyError(
                f"{path}: was made for {given}: give the same, or remove it to start anew"
            )
        made_of, first, unpacking = old, False, 0.0
    else:
        about = corpora.read_file(Path(wanted["tokens"]))[-1] if wanted["tokens"] else {}
        unpacking = time.perf_counter() - began if about else 0.0
        text = {"corpus": about["corpus"]} if tokens else {}
        new, first = at_hand(study.changed(**wanted, **text), source), True
    for model in dict.fromkeys(models):
        if not study.minutes and minutes and new.schedules.get(model) == study.schedules.get(model):
            new = fitted(new, model, source, cores, began, unpacking, first=first)
    paths.write_text(mark, made_of)
    paths.write_text(
        path,
        "# Fitted by `saobp reproduce --rows`: remove it to fit anew.\n"
        + json.dumps(new.model_dump(), indent=2),
    )
    return path, new


def at_hand(study: Study, source: sources.Source) -> Study:
    """Return what a study's rows need: one head per task, the tasks at hand, by substitute splits
    if it must be.
    """
    other, tuned, left_out = load_study(STAND_INS).finetune, study.finetune, []
    for task in dict.fromkeys([*sum(tuned.groups.values(), []), *study.attention.tasks]):
        theirs = {
            key: {task: own[task]}
            for key in ("splits", "length_of")
            if task in (own := getattr(other, key))
        }
        stood_in = tuned.changed(**{key: getattr(tuned, key) | own for key, own in theirs.items()})
        for way in (tuned, stood_in):
            with contextlib.suppress(sources.DataError):
                finetuning.task_of(task, way, source)
                tuned = way
                break
        else:
            left_out.append(task)
    if left_out:
        print(
            f"==> left out, for {source.name} has no splits of them: {', '.join(left_out)}",
            flush=True,
        )
    groups = {
        name: [task for task in group if task not in left_out]
        for name, group in tuned.groups.items()
    }
    tuned = tuned.changed(
        groups={name: group for name, group in groups.items() if group}, seeds=tuned.seeds[:1]
    )
    tasks = [task for task in study.attention.tasks if task not in left_out]
    return study.changed(finetune=tuned, attention=study.attention.changed(tasks=tasks), **APART)


def fitted(
    study: Study,
    model: str,
    source: sources.Source,
    cores: int,
    began: float,
    unpacking: float,
    *,
    first: bool,
) -> Study:
    """Return a study whose schedule for a model fits its minutes, since it `began`; of the `first`
    what follows, too.

    Of that time `unpacking` the token file took so many seconds, which an error tells.

    High, which takes longest, is timed whatever the row: the rows of a size have the same steps.
    """
    tokenizer, text, _ = pretraining.texts(study, model, source)
    recipe = study.recipe(model)
    network = pretraining.untrained(study, model, "high", 0, tokenizer)
    masking = SeededMasking(tokenizer, recipe.masking, 0)
    batch = masking([text[index] for index in range(min(recipe.batch, len(text)))])
    name, seconds = step_time(network, batch, recipe.precision)
    gone = time.perf_counter() - began
    schedule, sequences = within(
        recipe, seconds, study.minutes, model, START + SHARE * gone, unpacking
    )
    study = study.changed(schedules={**study.schedules, model: schedule})
    if not first:
        return study
    pretrain = study.pretrain.changed(precision=name, evaluation_sequences=sequences)
    few = {key: values[: study.finetune.batch] for key, values in batch.items()}
    item = (
        step_time(network, few, name)[1]
        / study.finetune.batch
        * study.finetune.length
        / recipe.length
    )
    count = len(study.finetune.groups) + len(study.attention.tasks)
    left = (60 * study.minutes - gone) * (1 - SHARE) * min(1, cores / count) - START
    limit = most_items(study, source, item, left)
    samples = min(
        study.attention.samples, max(TIMED, int(left / sample_time(model, study.attention.length)))
    )
    tuned = study.finetune.changed(precision=name, limit_train=limit, limit_evaluation=limit)
    return study.changed(
        pretrain=pretrain, finetune=tuned, attention=study.attention.changed(samples=samples)
    )


def within(
    recipe: Pretraining,
    seconds: float,
    minutes: int,
    model: str,
    start: float = START,
    unpacking: float = 0.0,
) -> tuple[Schedule, int]:
    """Return the schedule whose steps of so many seconds fit after the `start`, and a held-out
    check's sequences.

    The warm-up keeps its share of the steps. A check costs a third of a step per sequence. Raises
    StudyError where no step fits, with the seconds of the start that went into unpacking the token
    file.
    """
    whole = (SHARE * 60 * minutes - start) / (LOAD * seconds)
    # steps' time for one sequence of each
    checks = (recipe.evaluations + 2) / (3 * recipe.batch)
    sequences = min(recipe.evaluation_sequences, max(TIMED, int(CHECKS * whole / checks)))
    steps = min(recipe.steps, int(whole - checks * sequences))
    if steps < 1:
        least = ceil((start + LOAD * seconds * (1 + checks * TIMED)) / (SHARE * 60))
        also = f", unpacking the token file took {unpacking:.0f} s" if unpacking >= 1 else ""
        here = f"a step of {model} takes {seconds:.1f} s here{also}"
        raise StudyError(f"--minutes {minutes}: {here}; give at least {least}")
    warmup = round(steps * recipe.warmup / recipe.steps)
    return Schedule(steps=steps, learning_rate=recipe.learning_rate, warmup=warmup), sequences


def step_time(network: nn.Module, batch: Mapping[str, Tensor], wanted: str) -> tuple[str, float]:
    """Return the precision that a step is faster in, and its seconds; of a long step a few
    sequences are timed.

    A step that is not long is timed whole in each precision: a few sequences do not show what an
    accelerator gains.
    """
    names = [wanted] if wanted != "auto" else ["fp32", "bf16"] if precision.has_bf16() else ["fp32"]
    few = {key: values[:TIMED] for key, values in batch.items()}
    times = len(batch["input_ids"]) / len(few["input_ids"])
    seconds = {name: times * taken for name, taken in precision.timed(network, few, names).items()}
    if min(seconds.values()) <= LONG:
        seconds = precision.timed(network, batch, names)
    name = min(seconds, key=seconds.get)
    return name, seconds[name]


def most_items(study: Study, source: sources.Source, item: float, seconds: float) -> int | None:
    """Return how many items a task may have so that each group ends in time; None where all of them
    fit.
    """
    tuned, loaded = study.finetune, {}
    for task in sum(tuned.groups.values(), []):
        found = finetuning.task_of(task, tuned, source)
        loaded[task] = (
            found.spec.kind,
            len(found.train) + len(found.development),
            len(found.evaluation),
        )

    # items' training steps; an item that is only read takes half of one
    def steps(task: str, limit: int) -> float:
        kind, train, reported = loaded[task]
        reads = 1 + (tuned.curve if task in FOLLOWED else 0)
        trained = tuned.epochs_of.get(task, tuned.epochs) * min(train, limit)
        return WIDE.get(kind, 1) * (trained + reads * min(reported, limit) / 2)

    def spent(limit: int) -> float:
        return (
            LOAD
            * item
            * max(sum(steps(task, limit) for task in group) for group in tuned.groups.values())
        )

    largest = max(max(sizes) for _, *sizes in loaded.values())
    place = bisect_right(range(largest), seconds, key=spent) - 1
    return None if place == largest - 1 else max(TIMED, place)


def sample_time(model: str, length: int) -> float:
    """Return the seconds that the measures of one sample's attention take, before and after the
    refinement.
    """
    size = SIZES[model]
    maps, clock = (
        torch.rand(size.layers, size.heads, length, length).softmax(-1),
        time.perf_counter(),
    )
    for _ in range(2):
        measure(maps), graph_measures(maps[..., :40, :40])
    return LOAD * (time.perf_counter() - clock)
