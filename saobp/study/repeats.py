"""Runs that were made twice from one seed: how far the same start is carried apart."""

from collections.abc import Sequence
from typing import Any

from saobp.study import labels, paths, records

Record = dict[str, Any]
FOLDER = "repeats"  # of data/: records of runs made again, a folder a profile, named as in data/results/
HEAD = """**Made again.** Seed, text, recipe and versions are those of the first run. How far the two lie apart is what
they do not fix. The tables keep the first."""
SAME = ("stage", "parameters", "packages")  # of a record and the one made again


def tracked(profile: str) -> list[tuple[Record, Record]]:
    """Return the tracked runs of a profile that were made again: the record that counts, and the later one.

    Raises ValueError where the two are not of the same parameters, recipe, text and versions.
    """
    again = records.load(paths.root() / "data" / FOLDER / profile)
    first = {record["name"]: record for record in records.load(paths.results(profile))} if again else {}
    pairs = [(first[record["name"]], record) for record in again if record["name"] in first]
    for one, other in pairs:
        refuse_unlike(one, other)
    return pairs


def refuse_unlike(one: Record, other: Record) -> None:
    """Raise ValueError unless two records are of the same parameters, versions, recipe and text."""
    unlike = [key for key in SAME if one[key] != other[key]]
    unlike += [] if one["metrics"].get("recipe") == other["metrics"].get("recipe") else ["recipe"]
    unlike += [] if one["data"].get("fingerprint") == other["data"].get("fingerprint") else ["text"]
    if unlike:
        raise ValueError(
            f"data/{FOLDER}/{other['profile']}/{other['name']}.json: {labels.joined(unlike)} unlike those in "
            "data/results; a run made again keeps them: delete the file or make it again"
        )


def words(profiles: Sequence[str]) -> list[str]:
    """Show in Markdown what the runs of some profiles read that were made again, both times; nothing without one."""
    found = [pair for name in profiles for pair in tracked(name)]
    lines = [f"- {_named(one)}: held-out perplexity {_read(one)}; again {_read(other)}" for one, other in found]
    return [HEAD, "", *lines, ""] if lines else []


def _named(record: Record) -> str:
    given = record["parameters"]
    model, algorithm = labels.model_title(given["model"]), labels.algorithm_title(given["algorithm"])
    return f"profile `{record['profile']}`, {model}, {algorithm}, seed {given['seed']}"


def _read(record: Record) -> str:
    low, high = record["metrics"]["perplexity_interval"]
    return f"{record['metrics']['perplexity']:.1f} [{low:.1f}, {high:.1f}] on {record['device']}"
