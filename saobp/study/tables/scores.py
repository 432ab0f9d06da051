"""Tables 2, 3, 7 and 8: accuracies and perplexities."""

from collections.abc import Sequence
from typing import Any

from saobp.study import estimates, labels
from saobp.study.published import Published
from saobp.study.records import select
from saobp.study.tables import context
from saobp.study.tables.cells import Cell, Row, Table, corrected

Record = dict[str, Any]
MODEL_ROWS = ("Model", "Algorithm")
GLUE_TITLES = {
    "cola": "CoLA", "mrpc": "MRPC", "rte": "RTE", "sst2": "SST2", "stsb": "STS-B", "wnli": "WNLI",
    "qnli": "QNLI", "mnli": "MNLI", "qqp": "QQP",
}  # fmt: skip
REGULARIZERS = {"original": "", "high": "BP-High", "entropy_reg": "Entropy-Reg", "eigen_reg": "Eigen-Reg"}


def table2(records: Sequence[Record], published: Published) -> Table:
    """Accuracy on GLUE (mean of nine), HellaSwag, RACE-Middle and SQuAD."""
    columns = {"GLUE": None, "HellaSwag": "hellaswag", "RACE_Middle": "race", "SQuAD": "squad"}
    rows = _score_rows(records, published, 2, columns)
    titles = {key: key.replace("_", "-") for key in columns}
    below = [_floor_row(records, columns), *_public_rows(published, estimates.models(records))]
    caption = (
        "Accuracy on multiple evaluation tasks; public BERT: the released models of these sizes, their GLUE average."
    )
    return _finish(2, caption, titles, rows, records, below)


def table8(records: Sequence[Record], published: Published) -> Table:
    """The nine GLUE tasks and their mean."""
    columns = {title: task for task, title in GLUE_TITLES.items()} | {"Avg": None}
    rows = _score_rows(records, published, 8, columns)
    titles = {key: key for key in columns}
    return _finish(8, "The nine GLUE tasks.", titles, rows, records, [_floor_row(records, columns)])


def _score_rows(records, published, number, columns) -> list[Row]:
    rows = []
    for model in estimates.models(records) or ["mini"]:
        for algorithm in shown_algorithms(records, model):
            name, shown = labels.algorithm_title(algorithm), labels.published_model(model)
            cells = {}
            for key, task in columns.items():
                printed = published.printed(number, model=shown, algorithm=name, metric=key)
                cells[key] = score_cell(records, printed, model, algorithm, task)
            rows.append(Row((labels.model_title(model), name), cells))
    return rows


def shown_algorithms(records: Sequence[Record], model: str) -> list[str]:
    """Original and High always, every other algorithm that has a run with this model."""
    present = estimates.algorithms(select(list(records), model=model))
    return [name for name in labels.ALGORITHMS if name in ("original", "high") or name in present]


def score_cell(records: Sequence[Record], printed: str, model: str, algorithm: str, task: str | None) -> Cell:
    """One score beside the paper's characters; `task` None is the mean over GLUE."""
    if task is None:
        return _average_cell(records, printed, model, algorithm)
    runs = estimates.scores(records, model, algorithm, task)
    if not runs:
        return Cell(printed, reason=missing(records, model, algorithm))
    plain = [] if algorithm == "original" else estimates.scores(records, model, "original", task)
    flags = tuple(dict.fromkeys(flag for run in runs for flag in run.flags))
    return Cell(printed, estimates.score_estimate(runs), estimates.score_difference(runs, plain), flags=flags)


def _average_cell(records: Sequence[Record], printed: str, model: str, algorithm: str) -> Cell:
    by_task = {task: estimates.scores(records, model, algorithm, task) for task in estimates.GLUE}
    done = [GLUE_TITLES[task] for task, runs in by_task.items() if runs]
    if len(done) < len(by_task):
        some = f"{len(done)} of 9 GLUE tasks run ({', '.join(done)})" if done else ""
        return Cell(printed, reason=some or missing(records, model, algorithm))
    average = estimates.average_estimate(by_task)
    if algorithm == "original":
        return Cell(printed, average, reason="" if average else "no seed has all nine tasks")
    plain = {task: estimates.scores(records, model, "original", task) for task in estimates.GLUE}
    gap = estimates.average_difference(by_task, plain)
    return Cell(printed, average, gap, reason="" if average else "no seed has all nine tasks")


def missing(records: Sequence[Record], model: str, algorithm: str) -> str:
    """Why a score is absent: nothing of that kind was run, or a run of it failed."""
    runs = select(list(records), model=model, algorithm=algorithm)
    failed = any(run["metrics"].get("failed") for run in runs)
    return "the run failed" if failed else "no run of this task" if runs else "no run"


def perplexity_cell(records: Sequence[Record], printed: str, model: str, algorithm: str) -> Cell:
    """Held-out perplexity of the pretrained model, over seeds."""
    runs = select(list(records), model=model, algorithm=algorithm)
    ours = estimates.mean_over_runs(run["metrics"].get("perplexity") for run in runs)
    return Cell(printed, ours, reason="" if ours else "no held-out perplexity")


def table3(records: Sequence[Record], published: Published) -> Table:
    """Attention-entropy regularisers, with the Original row that the paper leaves out.

    The paper's High row is BERT-Small's (Tables 2 and 8), so ours are that size's where it has runs.
    """
    models = estimates.models(records) or ["small"]
    model = next((name for name in models if labels.size(name) == "small"), models[-1])
    columns = {"PPL_WikiText": None, "QNLI_Acc": "qnli", "SQuAD_Acc": "squad"}
    rows = []
    for algorithm, name in REGULARIZERS.items():
        printed = {key: published.printed(3, algorithm=name, metric=key) for key in columns}
        cells = _with_perplexity(records, printed, columns, model, algorithm)
        rows.append(Row((labels.model_title(model), labels.algorithm_title(algorithm)), cells))
    titles = {"PPL_WikiText": "Perplexity", "QNLI_Acc": "QNLI", "SQuAD_Acc": "SQuAD"}
    caption = "Attention-entropy regularisers; the paper prints no Original row and no model size."
    return _finish(3, caption, titles, rows, records)


def table7(records: Sequence[Record], published: Published) -> Table:
    """Decoders: zero-shot accuracy and perplexity."""
    columns = {"RACE_middle_Acc": "race", "BoolQ_Acc": "boolq", "PPL_WikiText": None}
    rows = []
    for model in estimates.models(records, decoder=True) or ["gpt2-mini"]:
        for algorithm in shown_algorithms(records, model):
            name, shown = labels.algorithm_title(algorithm), labels.published_model(model)
            printed = {key: published.printed(7, model=shown, algorithm=name, metric=key) for key in columns}
            cells = _with_perplexity(records, printed, columns, model, algorithm)
            rows.append(Row((labels.model_title(model), name), cells))
    titles = {"RACE_middle_Acc": "RACE-Middle", "BoolQ_Acc": "BoolQ", "PPL_WikiText": "Perplexity"}
    return _finish(
        7,
        "Decoders, zero-shot; a message comes from earlier rows only, but for the form of all rows.",
        titles,
        rows,
        records,
    )


def _with_perplexity(records, printed, columns, model, algorithm) -> dict[str, Cell]:
    cells = {}
    for key, task in columns.items():
        if task is None:
            cells[key] = perplexity_cell(records, printed[key], model, algorithm)
        else:
            cells[key] = score_cell(records, printed[key], model, algorithm, task)
    return cells


def _finish(number, caption, titles, rows, records, below=()) -> Table:
    caption = f"{caption} {context.describe(records)}"
    return Table(number, caption, MODEL_ROWS, titles, (*corrected(rows), *below), context.notes(records))


def _floor_row(records: Sequence[Record], columns: dict[str, str | None]) -> Row:
    """What a guess would score: the majority class or chance, whichever is higher."""
    floors = {key: _floor(records, task) for key, task in columns.items() if task}
    averages = [_floor(records, task) for task in estimates.GLUE]
    floors |= {
        key: None if None in averages else sum(averages) / len(averages)
        for key, task in columns.items() if task is None
    }  # fmt: skip
    cells = {key: Cell(ours=None if value is None else f"{value:.2f}") for key, value in floors.items()}
    return Row(("", "majority or chance"), cells)


def _floor(records: Sequence[Record], task: str) -> float | None:
    entries = [(record["metrics"].get("tasks") or {}).get(task) or {} for record in records]
    found = [entry[name] for entry in entries for name in ("majority", "chance") if entry.get(name) is not None]
    return max(found, default=None)


def _public_rows(published: Published, models: Sequence[str]) -> list[Row]:
    """The public models of the same sizes (their GLUE test average), for scale."""
    lines = published.references.set_index("model")
    shown = [name for name in map(labels.published_model, models) if name in lines.index]
    return [
        Row(("", f"public BERT-{name}"), {lines.at[name, "metric"]: Cell(lines.at[name, "printed"])}) for name in shown
    ]
