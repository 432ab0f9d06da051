"""Tables 2, 3, 7 and 8: accuracies and perplexities."""

from collections.abc import Callable, Sequence
from functools import partial

from saobp.study.paper.numbers import Published
from saobp.study.setup import labels
from saobp.study.setup.records import select
from saobp.study.setup.schema import Record
from saobp.study.setup.tasks_and_metrics import GLUE
from saobp.study.statistics import Estimate, estimates, mean_interval, on_scale, task_scores
from saobp.study.tables import references
from saobp.study.tables.cells import Cell, Row, corrected
from saobp.study.tables.references import AVERAGE, PERPLEXITY
from saobp.study.tables.render import Table

MODEL_ROWS = ("Model", "Algorithm")
REGULARIZERS = {"original": "", "high": "BP-High", "entropy_reg": "Entropy-Reg", "eigen_reg": "Eigen-Reg"}


PAPER_COLUMNS = {  # table -> the paper's column -> a task, `AVERAGE` or `PERPLEXITY`
    2: {"GLUE": AVERAGE, "HellaSwag": "hellaswag", "RACE_Middle": "race", "SQuAD": "squad"},
    3: {"PPL_WikiText": PERPLEXITY, "QNLI_Acc": "qnli", "SQuAD_Acc": "squad"},
    7: {"RACE_middle_Acc": "race", "BoolQ_Acc": "boolq", "PPL_WikiText": PERPLEXITY},
    8: {title: task for task, title in GLUE.items()} | {"Avg": AVERAGE},
}
CAPTIONED = {
    "RACE_Middle": "RACE-Middle", "PPL_WikiText": "Perplexity", "QNLI_Acc": "QNLI", "SQuAD_Acc": "SQuAD",
    "RACE_middle_Acc": "RACE-Middle", "BoolQ_Acc": "BoolQ",
}  # fmt: skip


def of_encoders(number: int, records: Sequence[Record], published: Published) -> Table:
    """Table 2 (GLUE's mean, HellaSwag, RACE-Middle and SQuAD) or 8 (the nine GLUE tasks and their mean)."""
    below = references.rows(records, published, PAPER_COLUMNS[number])
    return _finish(number, _rows(records, published, number, estimates.sizes(records)), below)


def table3(records: Sequence[Record], published: Published) -> Table:
    """Attention-entropy regularisers, with the Original row that the paper leaves out.

    The paper's High row is BERT-Small's (Tables 2 and 8), so ours are that size's where it has runs.
    """
    models = estimates.models(records) or ["small"]
    model = next((name for name in models if labels.size(name) == "small"), models[-1])
    rows = [_row(records, published, 3, model, *names) for names in REGULARIZERS.items()]
    below = [references.luck_row(records, PAPER_COLUMNS[3]), references.bag_row(records, PAPER_COLUMNS[3])]
    return _finish(3, rows, below, text=_text(records))


def table7(records: Sequence[Record], published: Published) -> Table:
    """Decoders: zero-shot accuracy and perplexity."""
    rows = _rows(records, published, 7, estimates.sizes(records, decoder=True))
    return _finish(7, rows, [references.luck_row(records, PAPER_COLUMNS[7])], text=_text(records))


def _finish(number: int, rows: list[Row], below: list[Row], **given: str) -> Table:
    """The table with its comparisons corrected together, and what stands beside its rows."""
    titles = {key: CAPTIONED.get(key, key) for key in PAPER_COLUMNS[number]}
    return Table(number, MODEL_ROWS, titles, (*corrected(rows), *below), given=given)


def _rows(records, published, number, models) -> list[Row]:
    shown = [(model, name) for model in models for name in shown_algorithms(records, model)]
    return [_row(records, published, number, *names) for names in shown]


def _row(records, published, number, model, algorithm, printed_name=None) -> Row:
    """One model's row; `printed_name` is the algorithm's in the paper's table where it has another one there."""
    title = labels.algorithm_title(algorithm)
    keys = {"model": labels.published_model(model), "algorithm": title}
    keys = keys if printed_name is None else {"algorithm": printed_name}
    cells = {}
    for key, kind in PAPER_COLUMNS[number].items():
        make = CELLS.get(kind) or partial(score_cell, task=kind)
        cells[key] = make(records, published.printed(number, **keys, metric=key), model, algorithm)
    return Row((labels.model_title(model), title), cells)


def shown_algorithms(records: Sequence[Record], model: str) -> list[str]:
    """The paper's rows of this model, and every other algorithm that has a run with it."""
    present = estimates.algorithms(select(list(records), model=model))
    printed = ("original", "high") if labels.is_decoder(model) else labels.PAPER_ALGORITHMS
    return [name for name in labels.ALGORITHMS if name in printed or name in present]


def score_cell(records: Sequence[Record], printed: str, model: str, algorithm: str, task: str) -> Cell:
    """One score beside the paper's characters."""
    runs = task_scores.scores(records, model, algorithm, task)
    failed = task_scores.failures(records, model, algorithm, task)
    if not runs:
        return Cell(printed, reason=missing(records, model, algorithm, failed), failed=bool(failed))
    plain = [] if algorithm == "original" else task_scores.scores(records, model, "original", task)
    ours = estimates.score_estimate(runs)
    flags = _below(ours, records, [task], task)
    flags += ("constant predictor",) if any(run.constant for run in runs) else ()
    why = ", ".join(dict.fromkeys(failed))
    reason = f"{len(failed)} of {len(failed) + len(runs)} runs failed ({why})" if failed else ""
    return Cell(printed, ours, estimates.score_difference(runs, plain), flags=flags, reason=reason)


def _below(ours: Estimate | None, records: Sequence[Record], tasks: Sequence[str], kind: str) -> tuple[str, ...]:
    """Name what a score lies below: chance or else the majority class, as a whole interval; a bag of words."""
    if ours is None:
        return ()
    levels = {"below chance": ("chance",), "below majority": ("chance", "majority")}
    found = {flag: references.luck(records, tasks, names) for flag, names in levels.items()}
    luck = [flag for flag, level in found.items() if level is not None and ours.high < level][:1]
    bag = references.bag_cell(records, kind).ours
    return (*luck, *(["below bag of words"] if bag and ours.value < float(bag) else []))


def average_cell(records: Sequence[Record], printed: str, model: str, algorithm: str) -> Cell:
    """The mean over GLUE beside the paper's."""
    by_task, plain = (
        {task: task_scores.scores(records, model, name, task) for task in GLUE} for name in (algorithm, "original")
    )
    done = [GLUE[task] for task, runs in by_task.items() if runs]
    failed = _failed_tasks(records, model, algorithm)
    if len(done) < len(by_task):
        some = f"{len(done)} of 9 GLUE tasks run ({', '.join(done)})" if done else missing(records, model, algorithm)
        return Cell(printed, reason="; ".join(filter(None, [some, failed])))
    average = estimates.average_estimate(by_task)
    gap = None if algorithm == "original" else estimates.average_difference(by_task, plain)
    reason = "; ".join(filter(None, ["" if average else "no seed has all nine tasks", failed]))
    return Cell(printed, average, gap, flags=_below(average, records, GLUE, AVERAGE), reason=reason)


def missing(records: Sequence[Record], model: str, algorithm: str, failed: Sequence[str] = ()) -> str:
    """Why a score is absent: the runs `failed`, for these reasons, or nothing of that kind was run."""
    if failed:
        return f"failed: {', '.join(dict.fromkeys(failed))}"
    return "no run of this task" if select(list(records), model=model, algorithm=algorithm) else "no run"


def _failed_tasks(records: Sequence[Record], model: str, algorithm: str) -> str:
    """How many runs of which GLUE tasks failed: "failed runs: 2 of RTE"; empty if none did."""
    counts = {title: len(task_scores.failures(records, model, algorithm, task)) for task, title in GLUE.items()}
    words = ", ".join(f"{count} of {title}" for title, count in counts.items() if count)
    return f"failed runs: {words}" if words else ""


def perplexity(record: Record, *, wikitext: bool = False) -> Estimate | None:
    """A run's perplexity on held-out text or on WikiText, with its interval over sequences; None where it has none."""
    found = record["metrics"].get("wikitext", {}) if wikitext else record["metrics"]
    if found.get("perplexity") is None:
        return None
    return Estimate(found["perplexity"], *found["perplexity_interval"], 1, found["sequences"])


def perplexity_cell(records: Sequence[Record], printed: str, model: str, algorithm: str) -> Cell:
    """Perplexity of the pretrained model, over sequences and seeds: on WikiText if all runs were measured there."""
    runs, wikitext = select(list(records), model=model, algorithm=algorithm), bool(_wikitext(records))
    read = partial(perplexity, wikitext=wikitext)
    ours = estimates.mean_over_runs(map(read, runs))
    plain = select(list(records), model=model, algorithm="original")
    gap = None if algorithm == "original" else by_seed(runs, plain, read)
    return Cell(printed, ours and on_scale(ours), gap, reason="" if ours else "no held-out perplexity")


def by_seed(
    runs: Sequence[Record], plain: Sequence[Record], measured: Callable[[Record], Estimate | None]
) -> Estimate | None:
    """A measure's mean minus Original's, seed by seed; Student's t over seeds, None without a seed of both."""
    ours, theirs = (
        {run["parameters"].get("seed"): one.value for run in side if (one := measured(run))} for side in (runs, plain)
    )
    gaps = [ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())]
    return mean_interval(gaps) if gaps else None


def _wikitext(records: Sequence[Record]) -> list[Record]:
    """What the runs with a perplexity say of WikiText; empty unless all do: one column is of one text."""
    runs = [run["metrics"] for run in records if run["metrics"].get("perplexity") is not None]
    return [run["wikitext"] for run in runs] if all(run.get("wikitext") for run in runs) else []


def _text(records: Sequence[Record]) -> str:
    """What the column of perplexity is of, in a caption's words."""
    if texts := _wikitext(records):
        return f"the first {max(text['tokens'] for text in texts):,} tokens of {texts[0]['config']}"
    return "the held-out part of the training text"


CELLS = {AVERAGE: average_cell, PERPLEXITY: perplexity_cell}  # of the columns that are no task
