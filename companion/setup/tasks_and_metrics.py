"""The paper's tasks as values: where each lies, what is read, which metrics score it (Tables 2, 3,
7, 8).
"""

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class TaskSpec:
    """One benchmark: its columns on the hub, its labels and its metrics, the headline first."""

    name: str
    # for readers; of a GLUE task also its column in data/published
    title: str
    dataset: str
    config: str
    kind: Literal["classification", "regression", "choice", "span"]
    # columns; choice: article, question (or none), options; span: question, context
    texts: tuple[str, ...]
    labels: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ("accuracy",)
    # the column that holds the answer
    gold: str = "label"
    # the column that several questions may be about; "" without one
    passage: str = ""
    train_split: str = "train"
    evaluation_split: str = "validation"

    @property
    def headline(self) -> str:
        """The metric that the paper's tables hold."""
        return self.metrics[0]

    @property
    def num_labels(self) -> int:
        """Outputs of the head: classes; one score for a regression or an option, two for a span's
        ends.
        """
        return {"classification": len(self.labels), "span": 2}.get(self.kind, 1)


def _glue(
    name: str, title: str, texts: tuple[str, ...], labels: tuple[str, ...], **more: Any
) -> TaskSpec:
    kind = "classification" if labels else "regression"
    return TaskSpec(name, title, "nyu-mll/glue", name, kind, texts, labels, **more)


_ENTAILMENT = ("entailment", "not_entailment")
# the paper's MRPC and QQP are accuracies
_PARAPHRASE = ("accuracy", "f1")
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
# the task whose attention graphs Figures 2 and 5 are of
GRAPHS_OF = "race"
# in Table 8's order
GLUE = {name: spec.title for name, spec in TASKS.items() if spec.dataset.endswith("glue")}
# Table 2's columns
BENCHMARKS = {"glue": "GLUE", "hellaswag": "HellaSwag", "race": "RACE_Middle", "squad": "SQuAD"}
# a task, or "glue", and its column in data/published
PRINTED = GLUE | BENCHMARKS | {"boolq": "BoolQ"}

# rows of the public splits, as the hub states them: what a local copy is measured against
HUB_ROWS: dict[tuple[str, str | None], dict[str, int]] = {
    ("nyu-mll/glue", "cola"): {"train": 8551, "validation": 1043},
    ("nyu-mll/glue", "sst2"): {"train": 67349, "validation": 872},
    ("nyu-mll/glue", "mrpc"): {"train": 3668, "validation": 408},
    ("nyu-mll/glue", "qqp"): {"train": 363846, "validation": 40430},
    ("nyu-mll/glue", "stsb"): {"train": 5749, "validation": 1500},
    ("nyu-mll/glue", "mnli"): {
        "train": 392702,
        "validation_matched": 9815,
        "validation_mismatched": 9832,
    },
    ("nyu-mll/glue", "qnli"): {"train": 104743, "validation": 5463},
    ("nyu-mll/glue", "rte"): {"train": 2490, "validation": 277},
    ("nyu-mll/glue", "wnli"): {"train": 635, "validation": 71},
    ("rajpurkar/squad", "plain_text"): {"train": 87599, "validation": 10570},
    ("Rowan/hellaswag", "default"): {"train": 39905, "validation": 10042},
    ("ehovy/race", "middle"): {"train": 25421, "validation": 1436, "test": 1436},
    ("google/boolq", "default"): {"train": 9427, "validation": 3270},
    ("bookcorpus/bookcorpus", None): {"train": 74004228},
    ("Skylion007/openwebtext", None): {"train": 8013769},
    ("Salesforce/wikitext", "wikitext-103-v1"): {
        "train": 1801350,
        "validation": 3760,
        "test": 4358,
    },
    ("Salesforce/wikitext", "wikitext-103-raw-v1"): {
        "train": 1801350,
        "validation": 3760,
        "test": 4358,
    },
}
