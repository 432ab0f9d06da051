"""The controlled studies of the profile `stories`, as its tracked records hold them (notebook 12)."""

from typing import Any

import pandas as pd

from saobp.study.beyond import accuracy_by_hops, gain_on_hops, message_rounds, model_sizes, relation_paths, strengths
from saobp.study.setup import paths, records
from saobp.study.setup.labels import algorithm_title, counted, joined, model_title
from saobp.study.setup.studies import available

PROFILE = "stories"  # questions of a known number of hops, and the strength; trained for hours


def tracked() -> list[dict[str, Any]]:
    """Return the tracked records of notebook 12 under `PROFILE`; none where it was never published."""
    return records.select(records.load(paths.results(PROFILE)), "beyond")


def swept() -> list[dict[str, Any]]:
    """Return the tracked records of notebook 12 with other strengths: those of every profile but smoke."""
    found = [record for name in available() if name != "smoke" for record in records.load(paths.results(name))]
    return [record for record in records.select(found, "beyond") if record["metrics"].get("strengths")]


def strength_words(record: dict[str, Any]) -> str:
    """Say of which runs a record's strengths are and what they show, the fixed ones and the learned."""
    runs = record["metrics"]["strengths"]
    last = [run["curve"][-1]["step"] for run in runs if run["curve"]] or [0]
    size = f"profile {record['profile']}, {model_title(record['parameters']['model'])}, {max(last):,} steps"
    return "; ".join([f"{size}: {strengths.words(strengths.sweep(runs))}", *strengths.all_learned_words(runs)])


def open_questions(record: dict[str, Any]) -> list[str]:
    """Say what a record found on other and learned strengths, rounds, heads and tokens of one model."""
    found = {name: pd.DataFrame(record["metrics"][name]) for name in ("rounds", "heads", "tokens")}
    near = pd.DataFrame(record["metrics"]["one_round"]["this model"])
    return [
        strength_words(record),
        f"High's own encoder, rounds: {message_rounds.round_words(found['rounds'])}",
        *(f"one round and many, {line}" for line in message_rounds.one_round_words(near)),
        f"heads: {message_rounds.head_words(found['heads'])}",
        f"tokens: {message_rounds.token_words(found['tokens'])}",
    ]


def size(record: dict[str, Any]) -> str:
    """Say how large a record's study of hops is: encoders, depths, algorithms, seeds and steps."""
    exam = record["metrics"]["multihop"]
    depths, algorithms = (sorted({run[key] for run in exam}) for key in ("layers", "algorithm"))
    last = [run["curve"][-1] for run in exam if run["curve"]]
    steps = sorted({point["step"] for point in last}) or [0]
    hours = sum(point.get("seconds", 0) for point in last) / 3600
    batch = f" of {exam[0]['stories']} stories" if "stories" in exam[0] else ""
    long = " or ".join(f"{number:,}" for number in steps)
    layers = " and ".join(str(depth) for depth in depths)
    return (
        f"profile {record['profile']}, {record['started'][:10]}: {counted(len(exam), 'encoder')} of {layers} layers, "
        f"{counted(len(algorithms), 'algorithm')}, {_seeds(exam)}, {long} steps{batch}, "
        f"{hours:.1f} hours of training"
    )


def _seeds(exam: list[dict[str, Any]]) -> str:
    """Say how many seeds the algorithms have: "5 seeds", or "21 seeds of Original and High, 5 of the others"."""
    alike: dict[int, list[str]] = {}
    for name, seeds in gain_on_hops.seeds_of(exam).items():
        alike.setdefault(len(seeds), []).append(algorithm_title(name))
    most, *fewer = sorted(alike, reverse=True)
    if not fewer:
        return counted(most, "seed")
    between = [f"{number} of {joined(alike[number])}" for number in fewer[:-1]]
    return ", ".join([f"{counted(most, 'seed')} of {joined(alike[most])}", *between, f"{fewer[-1]} of the others"])


def sentences(record: dict[str, Any]) -> list[str]:
    """Say what a record found on questions of each number of hops, and when it was learned."""
    exam = record["metrics"]["multihop"]
    found = accuracy_by_hops.words(
        accuracy_by_hops.scores(exam), accuracy_by_hops.differences(exam), 100 / exam[0]["chains"]
    )
    return [*found, *accuracy_by_hops.learning_words(exam)]


def by_path(record: dict[str, Any]) -> pd.DataFrame:
    """Return what a record's runs have right on each path of relations (`relation_paths.accuracy`)."""
    named = {int(number): paths for number, paths in record["metrics"]["paths"].items()}
    return relation_paths.accuracy(record["metrics"]["multihop"], named)


def summary(record: dict[str, Any]) -> list[str]:
    """Say what a record found on strengths, sizes and paths of relations, how far its runs came and which failed."""
    exam = record["metrics"]["multihop"]
    swept = strengths.words(strengths.sweep(record["metrics"]["strengths"]))
    followed = relation_paths.words(by_path(record), 1 / exam[0]["chains"])
    grown = [f"Size: {line}" for line in sizes(record)]
    runs = record["metrics"]["strengths"]
    taught = [f"Strength: {line}" for line in (*strengths.all_learned_words(runs), *strengths.processor_words(runs))]
    failed = [*strengths.failure_words(runs), *model_sizes.failure_words(record["metrics"].get("larger") or [])]
    asked = [
        *gain_on_hops.added_words(exam),
        *gain_on_hops.control_words(exam),
        *gain_on_hops.along_words(exam),
        *followed,
        *accuracy_by_hops.movement_words(exam),
        *accuracy_by_hops.failure_words(exam),
    ]
    return [f"Strength: {swept}", *taught, *grown, *failed, *asked]


def sizes(record: dict[str, Any]) -> list[str]:
    """Say of each size that a record trained by one recipe how it reads with the refinement and without."""
    runs = record["metrics"].get("larger") or []
    if not runs:
        return []
    own = model_sizes.with_own(runs, record["metrics"]["strengths"], record["parameters"]["model"])
    return model_sizes.words(model_sizes.gaps(own))
