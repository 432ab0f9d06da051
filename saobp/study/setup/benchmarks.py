"""The paper's benchmarks as values: where each lies, what is read, how it is scored (Tables 2, 3, 7, 8)."""

from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["classification", "regression", "choice", "span"]


@dataclass(frozen=True, kw_only=True)
class TaskSpec:
    """One benchmark: its columns on the hub, its labels and its metrics, the headline first."""

    name: str
    title: str  # the paper's column name
    dataset: str
    config: str
    kind: Kind
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


def _glue(name: str, title: str, *texts: str, labels: tuple[str, ...], **options: Any) -> TaskSpec:
    values = {"kind": "classification", "labels": labels, **options}
    return TaskSpec(name=name, title=title, dataset="nyu-mll/glue", config=name, texts=texts, **values)


_ENTAILMENT = ("entailment", "not_entailment")
_PARAPHRASE = ("accuracy", "f1")  # the paper's MRPC and QQP are accuracies
_SENTENCES = ("sentence1", "sentence2")

TASKS: dict[str, TaskSpec] = {
    spec.name: spec
    for spec in (
        _glue("cola", "CoLA", "sentence", labels=("unacceptable", "acceptable"), metrics=("matthews",)),
        _glue("mrpc", "MRPC", *_SENTENCES, labels=("different", "equivalent"), metrics=_PARAPHRASE),
        _glue("rte", "RTE", *_SENTENCES, labels=_ENTAILMENT),
        _glue("sst2", "SST2", "sentence", labels=("negative", "positive")),
        _glue("stsb", "STS-B", *_SENTENCES, labels=(), kind="regression", metrics=("pearson", "spearman")),
        _glue("wnli", "WNLI", *_SENTENCES, labels=("not_entailment", "entailment"), passage="sentence1"),
        _glue("qnli", "QNLI", "question", "sentence", labels=_ENTAILMENT, passage="sentence"),
        _glue(
            "mnli",
            "MNLI",
            "premise",
            "hypothesis",
            labels=("entailment", "neutral", "contradiction"),
            evaluation_split="validation_matched",
            passage="premise",
        ),
        _glue("qqp", "QQP", "question1", "question2", labels=("different", "duplicate"), metrics=_PARAPHRASE),
        TaskSpec(
            name="squad",
            title="SQuAD",
            dataset="rajpurkar/squad",
            config="plain_text",
            kind="span",
            texts=("question", "context"),
            passage="context",
            metrics=("exact_match", "f1"),
            gold="answers",
        ),
        TaskSpec(
            name="hellaswag",
            title="HellaSwag",
            dataset="Rowan/hellaswag",
            config="default",
            kind="choice",
            texts=("ctx", "", "endings"),
            labels=("0", "1", "2", "3"),
        ),
        TaskSpec(
            name="race",
            title="RACE-Middle",
            dataset="ehovy/race",
            config="middle",
            kind="choice",
            texts=("article", "question", "options"),
            passage="article",
            labels=("A", "B", "C", "D"),
            gold="answer",
        ),
        TaskSpec(
            name="boolq",
            title="BoolQ",
            dataset="google/boolq",
            config="default",
            kind="classification",
            texts=("question", "passage"),
            passage="passage",
            labels=("False", "True"),
            gold="answer",
        ),
    )
}
