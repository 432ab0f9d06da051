"""Rows of the plan's sections `spare` and `dose`: public models with the sink spared, and λ by
length.
"""

from collections.abc import Iterator
from dataclasses import replace

from companion.results.row import Row
from companion.results.study import Study
from companion.setup import labels
from companion.setup.tasks_and_metrics import TASKS
from companion.studies import plan
from companion.studies.spare import curves, read

# arms of the plan, for readers
ARMS = {
    "high": "High",
    "first": "High without the first token",
    "edges": "High without first and last token",
    "share-0.3": "High without keys above a share of 0.3",
    "uniform": "Uniform",
    "sink-alone": "High on the first token alone",
    "damped": "damped step",
}
AXES = {"λ": "strength", "λ L": "dose", "λ n": "column sum"}
RULE = "plan: 90 % interval within the margin, else 95 % interval beyond 0"


def rows(study: Study) -> Iterator[Row]:
    """Yield the changes of a study's public models, and what its measurements of the dose say."""
    if study.runs("spare"):
        yield from _changes(study)
    if study.runs("dose"):
        yield from _dose(study)


def _changes(study: Study) -> Iterator[Row]:
    """Yield every change against plain attention, each with the outcome by the plan's rule."""
    for change in read.comparisons(study.records):
        arm, _, strength = change.contrast.removesuffix(" - original").partition(" at ")
        task = TASKS.get(change.endpoint)
        endpoint = f"score on {task.title}" if task else change.endpoint
        row = Row(
            study.name,
            f"{labels.model_title(change.model)}, {endpoint}",
            change.unit,
            f"{ARMS[arm]} at {strength} − Original",
            change.estimate,
            change.low,
            change.high,
            change.n,
            change.of_what,
            change.margin,
            scope=study.scope(change.model),
        )
        if change.planned == "exploratory":
            yield replace(row, note="exploratory")
        else:
            yield replace(row, planned=change.planned, rule=RULE, outcome=change.outcome)


def _dose(study: Study) -> Iterator[Row]:
    """Yield how well each axis tells the effect of a length from the others, the answer, and λ by
    length.
    """
    section = plan.studies()["dose"]
    passages = curves.measured(study.records)
    counts = passages.groupby("model")["passage"].nunique()
    intervals = curves.share_intervals(passages).set_index(["model", "curve"])
    shares = curves.shares(passages)
    for entry in shares.to_dict("records"):
        model, curve = entry["model"], entry["curve"]
        for axis, words in AXES.items():
            endpoint = f"{labels.model_title(model)}, R² of the {curve} by {words}"
            row = Row(study.name, endpoint, "1", "High", entry[axis], scope=section.scope)
            row = replace(row, n=int(counts[model]), of_what="passages")
            if axis == "λ L":
                row = replace(row, **intervals.loc[(model, curve)])
            yield row
    least = shares.loc[shares["λ L"].idxmin()]
    yield Row(
        study.name,
        "least R² by dose",
        "1",
        "High",
        least["λ L"],
        **intervals.loc[(least["model"], least["curve"])],
        n=int(counts[least["model"]]),
        of_what="passages",
        margin=section.primary.margin,
        planned="primary",
        rule="plan: all at least 0.9 and above those by strength",
        outcome="supported" if curves.answer(shares) == "λ L" else "contradicted",
        scope=section.scope,
    )
    for entry in curves.which_strength(passages).to_dict("records"):
        name = labels.model_title(entry["model"])
        for effect in ("halves", "harms"):
            endpoint = f"{name}, strength that {effect} at {entry['length']} tokens"
            yield Row(study.name, endpoint, "nats", "High", entry[effect], scope=section.scope)
