"""What the tracked studies cost: how many of a profile's runs were made, how large each is, how long all took."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from saobp.study.data.tasks import TASKS, rows_aside
from saobp.study.publication import repeats
from saobp.study.setup import paths, records
from saobp.study.setup.labels import counted
from saobp.study.setup.recipes import Finetuning
from saobp.study.setup.records import select
from saobp.study.setup.studies import Profile, load_profile
from saobp.study.tables.render import pipe

Record = dict[str, Any]
HEAD = ("Profile", "What", "Runs", "Steps each", "Read by each", "Hours of these")
READINGS = "readings"  # folder of data/: what a profile's records say, a paragraph a study, without numbers


@dataclass(frozen=True)
class Budget:
    """One kind of training of a profile: `runs` of `planned`, and what one of them takes."""

    what: str
    runs: int
    planned: int
    steps: tuple[int, ...] = ()  # of one run, every number that occurs
    read: tuple[str, ...] = ()
    seconds: float = 0.0  # of these runs, one after the other; a first try that was made again is in none
    at_least: bool = False  # whether a run's earlier sittings are missing from its seconds
    threads: int = 1  # of the run that had most

    def cells(self) -> list[str]:
        """The row of a table: what, runs, steps, text read by one run, hours."""
        made = f"{self.runs:,}" if self.runs == self.planned else f"{self.runs:,} of {self.planned:,}"
        steps, hours = ", ".join(f"{number:,}" for number in self.steps), f"{self.seconds / 3600:.1f}"
        hours = f"≥ {hours}" if self.at_least else "<0.1" if hours == "0.0" else hours
        hours += f" ({self.threads} threads)" if self.threads > 1 else ""
        return [self.what, made, steps or "–", ", ".join(self.read) or "–", hours]


def budgets(found: Sequence[Record], study: Profile) -> list[Budget]:
    """Return what a profile's records cost: encoders, fine-tuning, decoders, strengths, sizes, known hops."""
    beyond = select(list(found), "beyond")
    kinds = [_encoders(found, study), *_tuned(found, study), _decoders(found, study)]
    kinds += [make(run["metrics"], study) for run in beyond for make in (_strengths, _larger, _hops)]
    return [kind for kind in kinds if kind and kind.runs]


def _encoders(found: Sequence[Record], study: Profile) -> Budget:
    measured = [run["metrics"] for run in select(list(found), "pretrain")]
    planned = len(study.pairs()) * len(study.seeds)
    read = _tokens(m["tokens"] for m in measured)
    return Budget("encoders", len(measured), planned, _sizes(measured), read, _seconds(measured))


def _tuned(found: Sequence[Record], study: Profile) -> list[Budget]:
    plan, kinds = study.finetune, []
    for group, tasks in plan.groups.items():
        runs = select(list(found), "finetune", group=group)
        read = [_items(run, plan) for run in runs]
        steps = tuple(sorted({number for number, _ in read}))
        longest = max(map(plan.tokens, tasks))
        items = tuple(f"{count:,} items of at most {longest} tokens" for count in sorted({count for _, count in read}))
        planned = len(study.pairs()) * len(study.seeds) * len(plan.seeds)
        what = ", ".join(["fine-tuning", *(TASKS[task].title for task in tasks)])
        spent, whole = zip(*map(_spent, runs)) if runs else ((), ())
        kinds.append(Budget(what, len(runs), planned, steps, items, sum(spent), not all(whole)))
    return kinds


def _spent(run: Record) -> tuple[float, bool]:
    """Return the seconds of a fine-tuning run, and whether they hold every sitting.

    Older records do not time their tasks; their own seconds leave out tasks that an earlier sitting had finished.
    """
    seconds = [scores.get("seconds") for scores in run["metrics"]["tasks"].values()]
    return (run["seconds"], len(seconds) == 1) if None in seconds else (sum(seconds), True)


def _items(run: Record, plan: Finetuning) -> tuple[int, int]:
    """Return the steps of a run over all its tasks and epochs, and the items it read in them.

    As many as the bag of words beside it was fitted to; where there is none, nine tenths of the train split, which a
    task that keeps passages whole hits but for a passage.
    """
    steps = items = 0
    trained = [split["used"] for split in run["data"]["splits"] if split["role"] == "train"]
    for (task, scores), used in zip(run["metrics"]["tasks"].items(), trained, strict=True):
        kept = (scores.get("floor") or {}).get("trained_on") or used - rows_aside(used)
        epochs = plan.epochs_of.get(task, plan.epochs)
        steps, items = steps + epochs * ceil(kept / plan.batch), items + epochs * kept
    return steps, items


def _decoders(found: Sequence[Record], study: Profile) -> Budget | None:
    measured, plan = [run["metrics"] for run in select(list(found), "decoder")], study.decoder
    if plan is None:
        return None
    read = _tokens(m["tokens_trained"] for m in measured)
    return Budget(
        "decoders", len(measured), len(plan.pairs()) * len(plan.seeds), _sizes(measured), read, _seconds(measured)
    )


def _strengths(metrics: Record, study: Profile) -> Budget | None:
    plan, last = study.beyond, [run["curve"][-1] for run in metrics.get("strengths") or [] if run["curve"]]
    if plan is None:
        return None
    planned = (len(plan.strengths) + len(plan.learned)) * len(plan.seeds)
    steps = tuple(sorted({end["step"] for end in last}))
    read = _tokens(step * plan.pretrain.batch * plan.pretrain.length for step in steps)
    threads = max((_threads(run) for run in metrics.get("strengths") or []), default=1)
    return Budget("encoders at other strengths", len(last), planned, steps, read, _seconds(last), threads=threads)


def _threads(run: Record) -> int:
    """How many threads a run had, by its device: "EPYC, 1 of 2 threads"; 1 where it does not say."""
    found = re.search(r"(\d+) of \d+ threads", run.get("device") or "")
    return int(found[1]) if found else 1


def _larger(metrics: Record, study: Profile) -> Budget | None:
    plan, last = study.beyond, [run["curve"][-1] for run in metrics.get("larger") or [] if run["curve"]]
    if plan is None or not plan.larger:
        return None
    planned = 2 * sum(len(one.seeds) for one in plan.larger)  # without the refinement and with it
    steps = tuple(sorted({end["step"] for end in last}))
    read = _tokens(step * plan.pretrain.batch * plan.pretrain.length for step in steps)
    return Budget("larger encoders", len(last), planned, steps, read, _seconds(last))


def _hops(metrics: Record, study: Profile) -> Budget | None:
    plan, last = study.multihop, [run["curve"][-1] for run in metrics.get("multihop") or [] if run["curve"]]
    if plan is None:
        return None
    planned = len(plan.runs())
    steps = tuple(sorted({end["step"] for end in last}))
    stories = {run.get("stories") for run in metrics.get("multihop") or []} - {None}
    read = tuple(f"{step * many:,} stories" for step in steps for many in sorted(stories))
    return Budget("encoders for questions of known hops", len(last), planned, steps, read, _seconds(last))


def _sizes(measured: Iterable[Record]) -> tuple[int, ...]:
    return tuple(sorted({m["steps"] for m in measured}))


def _tokens(counts: Iterable[int]) -> tuple[str, ...]:
    return tuple(f"{count / 1e6:.1f} million tokens" for count in sorted(set(counts)))


def _seconds(measured: Iterable[Record]) -> float:
    return sum(m.get("seconds") or 0.0 for m in measured)


def words(profiles: Sequence[str]) -> list[str]:
    """Show what the tracked studies of some profiles cost, as a table in Markdown; nothing without one."""
    found = {name: records.load(paths.results(name)) for name in profiles}
    rows = [[f"`{name}`", *kind.cells()] for name in found for kind in budgets(found[name], load_profile(name))]
    if not rows:
        return []
    lines = [pipe(HEAD), pipe(["---"] * 2 + ["---:"] * 2 + ["---"] + ["---:"]), *map(pipe, rows), ""]
    untimed = any(cells[-1].startswith("≥") for cells in rows)
    lines += ["≥: not every run was timed in its earlier sittings.", ""] * untimed
    return ["**What was run.**", "", *lines, *again_words(profiles)]


def again_words(profiles: Sequence[str]) -> list[str]:
    """Say how many runs of some profiles were made again and how long they took, which no row of the table counts."""
    said, folder = [], paths.root() / "data" / repeats.FOLDER
    for name in profiles:
        runs = [run for record in records.load(folder / name) for run in _trained(record)]
        hours = sum(run.get("seconds") or 0.0 for run in runs) / 3600
        said += [f"`{name}` {counted(len(runs), 'run')} of {hours:.1f} hours"] if runs else []
    return [f"Made again, in no row above: {'; '.join(said)}.", ""] if said else []


def _trained(record: Record) -> list[Record]:
    """What timed each training of a record: the metrics of an encoder, or the last points of its strengths."""
    runs = record["metrics"].get("strengths")
    return [record["metrics"]] if runs is None else [run["curve"][-1] for run in runs if run["curve"]]


def reading(profile: str) -> list[str]:
    """Return what a profile's records say, a paragraph a study, from `data/readings/`; none where nobody wrote it."""
    path = paths.root() / "data" / READINGS / f"{profile}.md"
    return [f"## Profile `{profile}`", "", path.read_text(encoding="utf-8").strip(), ""] if path.is_file() else []
