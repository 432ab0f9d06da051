"""Fills the templates of `texts/` with numbers from the records, and tells what was run and what
data were read.
"""

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import FileSystemLoader

from companion import verdicts
from companion.data.splits import base_splits
from companion.paper import numbers
from companion.records import tracked
from companion.records.schema import Record, Value
from companion.setup import labels, paths, studies, typed_by_hand
from companion.setup.sizes_and_strengths import SIZES
from companion.setup.tasks_and_metrics import HUB_ROWS
from companion.tables import captions
from companion.texts import (
    attention,
    costs,
    decoders,
    exam,
    planned,
    pretraining,
    public_encoder,
    tables,
)
from saobp.measure.prose import prose

SUFFIX = ".j2"
# before their departures
NAMED_STAGES = {
    "finetune": "fine-tuning",
    "attention": "attention",
    "cost": "cost",
    "alternations": "cost",
}
# kind of training -> what it is called
WHAT = {
    "pretrain": "encoders",
    "decoder": "decoders",
    "branched": "trunks and branches",
    "finetune": "fine-tuned tasks",
    "untrained": "public models as they are",
    "timed": "settings timed",
    "strengths": "encoders at other strengths",
    "larger": "larger encoders",
    "multihop": "encoders for known hops",
}
NO_STEPS = ("finetune", "untrained", "timed")


def folder() -> Path:
    """Return where the templates are; each has the path of its page in the repository, and `.j2`
    after it.
    """
    return paths.root() / "texts"


def pages() -> dict[Path, str]:
    """Return every page's path and its text, filled from the tracked records."""
    names = [
        path.relative_to(folder()).as_posix().removesuffix(SUFFIX)
        for path in folder().rglob(f"*.md{SUFFIX}")
    ]
    return {paths.root() / name: page(name) for name in sorted(names)}


def page(name: str) -> str:
    """Return the text of one page, "RESULTS.md" say; ValueError where its words are no longer borne
    out by numbers.
    """

    def holds(condition: bool, words: str) -> None:
        if not condition:
            raise ValueError(
                f"texts/{name}{SUFFIX}: the records no longer say that {words}; write that passage anew"
            )

    rooms = (attention, costs, decoders, exam, planned, pretraining, public_encoder, tables)
    others = (studies, tracked, verdicts, departures, holds, notebooks, runs, splits, took)
    environment = captions.environment(FileSystemLoader(folder()))
    environment.globals |= {each.__name__.rpartition(".")[2]: each for each in (*rooms, *others)}
    environment.globals |= {
        "paper": numbers.load(),
        "sizes": SIZES,
        # of each paragraph of the novel
        "prose_words": [len(paragraph.split()) for paragraph in prose()],
        "includes_zero": lambda found: found.low < 0 < found.high,
        "exists": lambda file: (paths.root() / file).exists(),
        "shape": lambda model: f"{SIZES[model].layers} layers, width {SIZES[model].hidden}",
    }
    return environment.get_template(name + SUFFIX).render()


def runs() -> pd.DataFrame:
    """Return one row a study and kind of training: study, what, runs, steps (of one run) and hours
    (of all).
    """
    rows = []
    for name in studies.TRACKED:
        of = partial(tracked.metrics, name)
        kinds = {
            "pretrain": of("pretrain"),
            "decoder": of("decoder"),
            "branched": [part for run in of("branched") for part in _parts(run)],
            "finetune": [scores for run in of("finetune") for scores in run["tasks"].values()]
            + tracked.select(name, "retrofit"),
            "untrained": tracked.select(name, "retrofit-untrained"),
            "timed": tracked.select(name, "alternations"),
        }
        for key in ("strengths", "larger", "multihop"):
            trained = (
                run for metrics in (*of("beyond"), *of("hops")) for run in metrics.get(key) or []
            )
            kinds[key] = [run["curve"][-1] for run in trained if run["curve"]]
        for kind, measured in kinds.items():
            if measured:
                steps = (
                    0
                    if kind in NO_STEPS
                    else max(run.get("steps") or run["step"] for run in measured)
                )
                hours = sum(run.get("seconds") or 0 for run in measured) / 3600
                rows.append((name, WHAT[kind], len(measured), steps, hours))
    return pd.DataFrame(rows, columns=["study", "what", "runs", "steps", "hours"])


def _parts(metrics: dict[str, Any]) -> list[dict[str, Any]]:
    """A trunk and its branches, each with its own steps and seconds."""
    trunk = metrics["trunk"]
    begun = [
        {key: branch[key] - trunk[key] for key in ("steps", "seconds")}
        for branch in metrics["branches"]
    ]
    return [trunk, *begun]


def took(command: str) -> pd.Series:
    """Return how long a command takes or what it writes: low, high, unit, cores, from
    data/results/commands.csv.
    """
    return pd.read_csv(paths.root() / "data" / "results" / "commands.csv", index_col="command").loc[
        command
    ]


def splits(study: str) -> list[dict[str, Any]]:
    """Return every split that a study read which is not the public one, or of which it asked a
    part.

    Of each: name, rows that were used, public rows (the hub's where known: some records count a
    split once per slice), note.
    """
    found = {}
    for split in (
        split for record in tracked.study(study) for split in record["data"].get("splits") or []
    ):
        used = split.get("used", split["rows"])
        if split["complete"] and not (split.get("role") == "evaluation" and used < split["rows"]):
            continue
        config, bases = split.get("config"), set(base_splits(split["split"]))
        name = split["dataset"] + (f" ({config})" if config and config != "default" else "")
        known = HUB_ROWS.get((split["dataset"], config), {})
        rows = sum(known[base] for base in bases) if bases <= set(known) else split["hub_rows"]
        key = (name, split["split"], split.get("role") or "")
        found.setdefault(key, split | {"name": name, "rows": used, "hub_rows": rows})
    return [found[key] for key in sorted(found)]


def notebooks() -> dict[str, dict[str, str]]:
    """Return name -> question, reads, writes, runtime of every notebook that is there:
    texts/notebooks.yaml.
    """
    written = typed_by_hand.read(folder() / "notebooks.yaml")
    names = sorted(path.stem for path in (paths.root() / "notebooks").glob("*.ipynb"))
    return {name: written[name] for name in names}


def departures(records: Iterable[Record]) -> pd.DataFrame:
    """Return one row a distinct departure, as text: of, matter, ours, paper ("" for none), models;
    in a fixed order.
    """
    rows = []
    for record in records:
        for entry in record["departures"]:
            of = ", ".join(
                filter(
                    None, [NAMED_STAGES.get(record["stage"]), entry.get("part"), entry.get("task")]
                )
            )
            basis = f" ({entry['basis']})" if "basis" in entry else ""
            paper = "" if entry["paper"] is None else _shown(entry["paper"]) + basis
            model = entry.get("model") or record["parameters"].get("model")
            title = labels.model_title(model) if model else None
            rows.append((of, entry["matter"], _shown(entry["ours"]), paper, title))
    keys = ["of", "matter", "ours", "paper"]
    frame = pd.DataFrame(rows, columns=[*keys, "models"], dtype=str)
    return (
        frame.groupby(keys)["models"]
        .agg(lambda names: ", ".join(sorted(set(names.dropna()))))
        .reset_index()
    )


def _shown(value: Value) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
