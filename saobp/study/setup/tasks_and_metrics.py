"""The paper's tasks as values: where each lies, what is read, which metrics score it (Tables 2, 3, 7, 8)."""

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class TaskSpec:
    """One benchmark: its columns on the hub, its labels and its metrics, the headline first."""

    name: str
    title: str  # the paper's column name
    dataset: str
    config: str
    kind: Literal["classification", "regression", "choice", "span"]
    texts: tuple[str, ...]  # columns; choice: article, question (or none), options; span: question, context
    labels: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ("accuracy",)
    gold: str = "label"  # the column that holds the answer
    passage: str = ""  # the column that several questions may be about; "" without one
    train_split: str = "train"
    evaluation_split: str = "validation"

    @property
    def headline(self) -> str:
        """The metric that the paper's tables hold."""
        return self.metrics[0]

    @property
    def num_labels(self) -> int:
        """Outputs of the head: classes; one score for a regression or an option, two for a span's ends."""
        return {"classification": len(self.labels), "span": 2}.get(self.kind, 1)


def _glue(name: str, title: str, texts: tuple[str, ...], labels: tuple[str, ...], **more: Any) -> TaskSpec:
    kind = "classification" if labels else "regression"
    return TaskSpec(name, title, "nyu-mll/glue", name, kind, texts, labels, **more)


_ENTAILMENT = ("entailment", "not_entailment")
_PARAPHRASE = ("accuracy", "f1")  # the paper's MRPC and QQP are accuracies
_SENTENCES = ("sentence1", "sentence2")

# fmt: off
TASKS: dict[str, TaskSpec] = {
    spec.name: spec
    for spec in (
        _glue("cola", "CoLA", ("sentence",), ("unacceptable", "acceptable"), metrics=("matthews",)),
        _glue("mrpc", "MRPC", _SENTENCES, ("different", "equivalent"), metrics=_PARAPHRASE),
        _glue("rte", "RTE", _SENTENCES, _ENTAILMENT),
        _glue("sst2", "SST2", ("sentence",), ("negative", "positive")),
        _glue("stsb", "STS-B", _SENTENCES, (), metrics=("pearson", "spearman")),
        _glue("wnli", "WNLI", _SENTENCES, ("not_entailment", "entailment"), passage="sentence1"),
        _glue("qnli", "QNLI", ("question", "sentence"), _ENTAILMENT, passage="sentence"),
        _glue("mnli", "MNLI", ("premise", "hypothesis"), ("entailment", "neutral", "contradiction"),
              evaluation_split="validation_matched", passage="premise"),
        _glue("qqp", "QQP", ("question1", "question2"), ("different", "duplicate"), metrics=_PARAPHRASE),
        TaskSpec("squad", "SQuAD", "rajpurkar/squad", "plain_text", "span", ("question", "context"),
                 metrics=("exact_match", "f1"), gold="answers", passage="context"),
        TaskSpec("hellaswag", "HellaSwag", "Rowan/hellaswag", "default", "choice", ("ctx", "", "endings"),
                 ("0", "1", "2", "3")),
        TaskSpec("race", "RACE-Middle", "ehovy/race", "middle", "choice", ("article", "question", "options"),
                 ("A", "B", "C", "D"), gold="answer", passage="article"),
        TaskSpec("boolq", "BoolQ", "google/boolq", "default", "classification", ("question", "passage"),
                 ("False", "True"), gold="answer", passage="passage"),
    )
}
# fmt: on
GLUE = {name: spec.title for name, spec in TASKS.items() if spec.dataset.endswith("glue")}  # in Table 8's order
