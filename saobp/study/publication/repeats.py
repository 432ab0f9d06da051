"""Runs that were made again from one seed: how far the same start is carried apart, and where it is not."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import pandas as pd

from saobp.study.beyond import strengths
from saobp.study.setup import labels, paths, records

Record = dict[str, Any]
FOLDER = "repeats"  # of data/: records of runs made again, a folder a profile, one file or more a run
HEAD = """**Made again.** Seed, text, recipe and the packages' versions are those of the run that a line names first,
which the tables keep; the others of a line were made before it or after. Processor and the commit that trained are
named; of an older run the latter is not known, and "recorded by" names that of its record. How far runs of one line
and one commit lie apart is what these do not fix. Step 0 is before the first update. Where runs of two commits differ
it is not said from which step on: they may be measured otherwise."""
RUN = ("stage", "parameters")  # what makes a record one of the same run


def tracked(profile: str) -> list[tuple[Record, list[Record]]]:
    """Return the tracked runs of a profile that were made again: the record that counts, and the later ones.

    Raises ValueError where one is not of the same recipe, text and versions.
    """
    again = records.load(paths.root() / "data" / FOLDER / profile)
    first = records.load(paths.results(profile)) if again else []
    found = [(one, _in_order(one, [run for run in again if all(run[key] == one[key] for key in RUN)])) for one in first]
    for one, others in found:
        for other in others:
            refuse_unlike(one, other)
    return [(one, others) for one, others in found if others]


def _in_order(first: Record, again: Sequence[Record]) -> list[Record]:
    """Put those trained by the first run's code first, then the others by their time."""
    return sorted(again, key=lambda run: (code(run) != code(first), run["started"]))


def code(record: Record) -> str:
    """Name the commit whose code trained a run: a record may be written anew by a later one, from a finished run."""
    sittings = record["metrics"].get("sittings") or [record["code"]]
    return sittings[-1]["commit"]


def device(record: Record) -> str:
    """Name what a run was trained on last, as the commit beside it is that of its last sitting."""
    sittings = record["metrics"].get("sittings") or [record]
    return sittings[-1]["device"]


def refuse_unlike(one: Record, other: Record) -> None:
    """Raise ValueError unless two records of a run are of the same versions, recipe and text."""
    unlike = ["packages"] if one["packages"] != other["packages"] else []
    unlike += [] if one["metrics"].get("recipe") == other["metrics"].get("recipe") else ["recipe"]
    unlike += [] if one["data"].get("fingerprint") == other["data"].get("fingerprint") else ["text"]
    if unlike:
        raise ValueError(
            f"data/{FOLDER}/{other['profile']}/{other['name']}.json: {labels.joined(unlike)} unlike those in "
            "data/results; a run made again keeps them: delete the file or make it again"
        )


def words(profiles: Sequence[str]) -> list[str]:
    """Show in Markdown what the runs of some profiles read that were made again, each time; nothing without one."""
    lines = []
    for one, others in (pair for name in profiles for pair in tracked(name)):
        if one["stage"] == "beyond":
            lines += [f"- {line}" for other in others for line in strength_words(one, other)]
        else:
            lines.append(f"- {_named(one)}: held-out perplexity {'; again '.join(_read(one, others))}")
    return [HEAD, "", *lines, ""] if lines else []


def strength_words(one: Record, other: Record) -> list[str]:
    """Say how far runs of a strength and seed lie apart that were made twice, beside strengths and beside seeds.

    Of one seed the losses themselves are said too. Nothing is said where not even two strengths were made twice.
    """
    found = strength_losses(one, other)
    if found["strength"].nunique() < 2:
        return []
    first, again = (labels.joined(found[found["made"] == made]["processor"].unique()) for made in (0, 1))
    given = one["parameters"]
    head = f"profile `{one['profile']}`, {labels.model_title(given['model'])}"
    which = labels.joined([str(strength) for strength in found["strength"].unique()])
    made = f"{len(found) // 2} runs of a strength and seed (λ = {which}), on {first} and again on {again}"
    return [f"{head}, {made}: standard deviation of held-out loss, nats: {_spread(found)}{_both_losses(found)}"]


def _spread(found: pd.DataFrame) -> str:
    over = {"one strength and seed made twice": ["strength", "seed"], "one seed over strengths": ["seed", "made"]}
    if found["seed"].nunique() > 1:
        over["one strength over seeds"] = ["strength", "made"]
    return ", ".join(f"{what} {within(found, by):.3f}" for what, by in over.items())


def _both_losses(found: pd.DataFrame) -> str:
    """The loss of each strength, first and again, where there is one seed; of several seeds there are too many."""
    if found["seed"].nunique() > 1:
        return ""
    pairs = found.pivot(index="strength", columns="made", values="loss")
    said = [f"λ = {strength}: {first:.2f} and {again:.2f}" for strength, first, again in pairs.itertuples()]
    return f"; the losses: {', '.join(said)}"


def strength_losses(one: Record, other: Record) -> pd.DataFrame:
    """Return the losses at the end of the strengths and seeds that two records both have: strength, seed, made, loss.

    "made" is 0 or 1, whose it is; "processor" what it was made on. A run that failed in either counts in neither.
    """
    names = ["strength", "seed", "made", "processor", "loss"]
    swept = [strengths.sweep(record["metrics"].get("strengths") or []) for record in (one, other)]
    both = pd.concat(frame.assign(made=made) for made, frame in enumerate(swept)).reindex(columns=names).dropna()
    twice = both.groupby(["strength", "seed"])["made"].transform("nunique") == 2
    return both[twice].reset_index(drop=True)


def within(found: pd.DataFrame, by: list[str]) -> float:
    """Return the standard deviation (nats) of the losses that share `by`: the root of their mean variance."""
    return float(found.groupby(by)["loss"].var().mean() ** 0.5)


def parting(one: Record, other: Record) -> int | None:
    """Return the first step at which two runs of one recipe read unlike, to the last digit; None where they never do.

    0 is before the first update: two runs of one code that part there were carried apart by how the machines compute.
    """
    curves = zip(one["metrics"]["curve"], other["metrics"]["curve"], strict=True)
    steps = [before["step"] for before, after in curves if before["loss"] != after["loss"]]
    alike_at_the_end = one["metrics"]["perplexity"] == other["metrics"]["perplexity"]
    return steps[0] if steps else None if alike_at_the_end else one["metrics"]["steps"]


def _named(record: Record) -> str:
    given = record["parameters"]
    model, algorithm = labels.model_title(given["model"]), labels.algorithm_title(given["algorithm"])
    return f"profile `{record['profile']}`, {model}, {algorithm}, seed {given['seed']}"


def _read(first: Record, again: Sequence[Record]) -> list[str]:
    """Say what each run read, on what and by which code; which are the same, and of one code where two part."""
    said, runs = [_perplexity(first)], [first, *again]
    for place, run in enumerate(again, start=1):
        alike = [earlier for earlier in runs[:place] if parting(earlier, run) is None]
        of_one_code = [earlier for earlier in runs[:place] if code(earlier) == code(run)]
        if alike:
            said.append(f"{_made(run)}: the same to the last digit, at each step measured, as {_made(alike[0])}")
        elif of_one_code:
            step = parting(of_one_code[-1], run)
            said.append(f"{_perplexity(run)}, unlike that on {device(of_one_code[-1])} from step {step:,} on")
        else:
            said.append(_perplexity(run))
    alike = [(text, len([*same])) for text, same in groupby(said)]
    return [f"{text} ({number} runs)" if number > 1 else text for text, number in alike]


def _perplexity(record: Record) -> str:
    low, high = record["metrics"]["perplexity_interval"]
    return f"{record['metrics']['perplexity']:.1f} [{low:.1f}, {high:.1f}] {_made(record)}"


def _made(record: Record) -> str:
    by = "by" if record["metrics"].get("sittings") else "recorded by"  # who trained an older one is not known
    return f"on {device(record)} {by} {code(record)}"
