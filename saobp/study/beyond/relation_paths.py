"""Which paths of relations the runs of `multihop` can follow: what lies behind a percentage of questions right."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from saobp.study.beyond import accuracy_by_hops, questions
from saobp.study.setup.labels import counted
from saobp.study.setup.recipes import MultiHop


def asked(plan: MultiHop | None) -> dict[int, list[str]]:
    """Return hops -> the path of relations that each story of the plan's exam asks about, "own at" say.

    Empty without a plan, where a profile sets no exam.
    """
    if plan is None:
        return {}
    words, found = questions.tokenizer(plan.entities), {}
    for item in questions.exam(plan):
        paths = {}
        for row, label in zip(item["input_ids"], item["labels"]):
            if label != -100:  # an entity, the relations to follow, a mask; every chain of a story has the same
                said = [word for word in words.convert_ids_to_tokens(row) if word != words.pad_token]
                paths[len(said) - 2] = " ".join(said[1:-1])
        for number, path in paths.items():
            found.setdefault(number, []).append(path)
    return dict(sorted(found.items()))


def accuracy(runs: Sequence[dict[str, Any]], paths: Mapping[int, Sequence[str]]) -> pd.DataFrame:
    """Return what runs have right on each path: layers, algorithm, seed, hops, path, accuracy (percent), asked.

    `paths` are those of the exam that the runs were set (`asked`); a column `asked` counts questions. A run that failed
    has no row. Raises ValueError if the exam had another number of stories.
    """
    parts = []
    for run in runs:
        for number, right in accuracy_by_hops.by_story(run).items():
            named = paths.get(number, ())
            if len(right) != len(named):
                raise ValueError(f"paths: {len(named)} for {counted(number, 'hop')}, but {len(right)} stories were set")
            by_path = pd.Series(right).groupby(list(named), sort=True)
            part = pd.DataFrame({"accuracy": by_path.mean(), "asked": by_path.size() * run["chains"]})
            part = part.rename_axis("path").reset_index()
            parts.append(part.assign(hops=number, **{key: run[key] for key in accuracy_by_hops.RUN}))
    columns = [*accuracy_by_hops.RUN, "hops", "path", "accuracy", "asked"]
    return pd.concat(parts)[columns].reset_index(drop=True) if parts else pd.DataFrame(columns=columns)


def divided(found: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of runs that know some paths of a number of hops (`KNOWN` or more) and others not."""
    known = found["accuracy"] >= accuracy_by_hops.KNOWN
    share = known.groupby([found[key] for key in (*accuracy_by_hops.RUN, "hops")]).transform("mean")
    return found[(share > 0) & (share < 1)]


def table(found: pd.DataFrame, number: int) -> pd.DataFrame:
    """Return percent right of the divided runs of a number of hops: a row a run, a column a path."""
    rows = divided(found)
    return (
        rows[rows["hops"] == number]
        .pivot_table(index=accuracy_by_hops.RUN, columns="path", values="accuracy", sort=False)
        .round()
    )
