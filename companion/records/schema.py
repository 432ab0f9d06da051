"""The form of a run record: what each key holds, checked when a record is written and when it is
read.

What a stage measures has its form in `training_metrics` or `evaluation_metrics`.
"""

from typing import Any, Literal, NotRequired, Required

from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from companion.records import evaluation_metrics, training_metrics
from companion.records.training_metrics import Device, ExamRun, Failure, Share, Sitting, exact
from companion.setup.typed_by_hand import first_flaw

SCHEMA = 3
Value = str | int | float | None


class Departure(TypedDict):
    """One thing that a run does otherwise than the paper, or that the paper leaves open."""

    # "learning rate"
    matter: str
    ours: Value
    # None where the paper gives none
    paper: Value
    # where `paper` comes from: "BERT", "Figure 6", "inferred from Table 9"
    basis: NotRequired[str]
    # the part of a record that it is of, where a record has several: "hops"
    part: NotRequired[str]
    task: NotRequired[str]
    # where it is not that of the record's parameters
    model: NotRequired[str]


class Split(TypedDict):
    """How much of a public split a run read, and what for."""

    dataset: str
    config: str | None
    split: str
    rows: int
    # None where the hub has nothing under this name
    hub_rows: int | None
    complete: bool
    # what the source says of it, for people
    note: str
    role: NotRequired[Literal["train", "development", "evaluation"]]
    used: NotRequired[int]


class Text(TypedDict):
    """How pretraining text was mixed."""

    weights: dict[str, float]
    # of the characters read, 0 to 1
    shares: dict[str, Share]
    documents: int
    paragraphs: int
    # paragraphs that occurred before, or that held-out text has
    dropped: int


class Data(TypedDict, total=False):
    """Where data come from; empty for a run without data."""

    source: str
    fingerprint: str
    splits: list[Split]
    text: Text


@with_config(ConfigDict(strict=True))
class Parameters(TypedDict, total=False, extra_items=Any):
    """What tells one run from another; what else was chosen is as the notebook declares it."""

    model: str
    algorithm: str
    # None for the size's own
    strength: float | None
    seed: int
    finetune_seed: int
    task: str
    group: str
    arm: str
    factor: str


class Pretrained(Parameters):
    """What tells which pretrained model a run is of."""

    model: Required[str]
    algorithm: Required[str]
    seed: Required[int]


@exact
class Record(TypedDict):
    """One execution of one notebook; `parameters` and `metrics` are its stage's, of `PARAMETERS`
    and `METRICS`.
    """

    schema: Literal[3]
    stage: str
    study: str
    name: str
    parameters: dict[str, Any]
    metrics: dict[str, Any]
    data: Data
    code: dict[str, str]
    packages: dict[str, str]
    device: Device
    # what may change numbers and could not be cleared
    environment: NotRequired[dict[str, str]]
    # ISO 8601
    started: str
    seconds: float
    departures: list[Departure]


class Failed(Exception):
    """A run, or one task of it, that has no result: a reason, and what is left and what to do."""

    def __init__(self, reason: str, advice: str = ""):
        super().__init__(reason + advice)
        self.reason = reason

    def failure(self) -> Failure:
        """Return what a record holds of it."""
        return {"reason": self.reason, "message": str(self)}


# of the stages that tables, figures and claims read; the others' metrics are as their notebooks
# have them
FORMS = {
    "pretrain": training_metrics.PretrainMetrics,
    "branched": training_metrics.BranchedMetrics,
    "hops": training_metrics.HopsMetrics,
    "learning": training_metrics.LearningMetrics,
    "beyond": training_metrics.BeyondMetrics,
    "decoder": evaluation_metrics.DecoderMetrics,
    "finetune": evaluation_metrics.FinetuneMetrics,
    "attention": evaluation_metrics.AttentionMetrics,
    "retrofit": evaluation_metrics.CheckedResult,
    "retrofit-untrained": evaluation_metrics.UntrainedMetrics,
    "spare": evaluation_metrics.SpareMetrics,
    "dose": evaluation_metrics.DoseMetrics,
    "cost": evaluation_metrics.CostMetrics,
    "alternations": evaluation_metrics.CostMetrics,
    **dict.fromkeys(
        ("derivation", "variants", "diagnostics", "audit", "tables", "figures", "inserted"),
        dict[str, Any],
    ),
}
PARAMETERS = dict.fromkeys(FORMS, TypeAdapter(Parameters))
PARAMETERS |= dict.fromkeys(
    ("pretrain", "attention", "finetune", "decoder"), TypeAdapter(Pretrained)
)
METRICS = {stage: TypeAdapter(form) for stage, form in FORMS.items()}
RECORD, EXAM_RUN, SITTING = (TypeAdapter(form) for form in (Record, ExamRun, Sitting))


def flaw(record: Any) -> str:
    """Return the first thing that makes a value no record, with its place: empty for a record."""
    if problem := flaw_in(RECORD, record, "record"):
        return problem
    if (stage := record["stage"]) not in FORMS:
        return f"stage: '{stage}' is none of {', '.join(FORMS)}"
    parts = {"parameters": PARAMETERS[stage], "metrics": METRICS[stage]}
    return next(
        filter(None, (flaw_in(form, record[part], part, part) for part, form in parts.items())), ""
    )


def flaw_in(form: TypeAdapter, value: Any, what: str, *within: str) -> str:
    """Return the first thing in which a value has not a form, with its place (`what` is the
    whole's): empty if none.
    """
    try:
        form.validate_python(value)
    except ValidationError as error:
        place, first = first_flaw(error)
        return f"{'.'.join(filter(None, (*within, place))) or what}: {first['msg']}"
    return ""
