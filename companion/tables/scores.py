"""Tables 1, 2, 3, 7 and 8: scores, perplexities and measures of attention, beside a guess, a bag of
words and public models; and Table 6: the correlation of GTD with scores, over checkpoints as in the
paper, and over independent runs.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from math import inf, nan

from companion.paper.numbers import Published
from companion.records import select
from companion.records.schema import Record
from companion.setup import labels
from companion.setup.sizes_and_strengths import LEAKY
from companion.setup.tasks_and_metrics import BENCHMARKS, GLUE, PRINTED, TASKS
from companion.statistics import Estimate, estimates, on_scale, task_scores, trajectories
from companion.statistics.intervals import perplexity
from companion.statistics.seeds import seed_gap
from companion.tables import captions
from companion.tables.cells import Cell
from companion.tables.render import Table

# of Table 3 as the paper has it
SMALL = labels.model_title("small")
# columns that are no task
AVERAGE, PERPLEXITY = "glue", "perplexity"
# table -> the paper's column -> a task, `AVERAGE`, `PERPLEXITY` or a measure of attention
COLUMNS = {
    1: {
        "GTD": "gtd",
        "IE": "indirect_entropy",
        "Acc_RACE_Middle": "race",
        "CC": "clustering_barrat",
        "BC": "betweenness",
    },
    2: {column: kind for kind, column in BENCHMARKS.items()},
    3: {"PPL_WikiText": PERPLEXITY, "QNLI_Acc": "qnli", "SQuAD_Acc": "squad"},
    7: {"RACE_middle_Acc": "race", "BoolQ_Acc": "boolq", "PPL_WikiText": PERPLEXITY},
    8: {title: task for task, title in GLUE.items()} | {"Avg": AVERAGE},
}
# else the task's
TITLES = {"Acc_RACE_Middle": "Accuracy", "IE": "I.E. (nats)", "PPL_WikiText": "Perplexity"}
BESIDE_TITLES = {"luck": "majority or chance", "bag": "bag of words", "public": "public"}
# how many rows without a run a table has, a guess first
BESIDE = {1: 0, 2: 5, 3: 2, 7: 1, 8: 5}
REGULARIZERS = {
    "original": "",
    "high": "BP-High",
    "entropy_reg": "Entropy-Reg",
    "eigen_reg": "Eigen-Reg",
}
# in the text; the CSV has every algorithm with a run
SHOWN = {3: tuple(REGULARIZERS), 7: ("original", "high", LEAKY)}
# what a measure cannot exceed; none falls below 0
TOP = {"gtd": 1.0, "clustering_barrat": 1.0}
# columns of Table 6, by the tasks of `trajectories.FOLLOWED`
TASK_KEYS = {
    "wikitext": "WikiText_PPL",
    "sst2": "SST2_Acc",
    "hellaswag": "HellaSwag_Acc",
    "race": "RACE_middle_Acc",
}
KINDS = {"gtd": "Single GTD", "cross_gtd": "Cross GTD"}
# width of an interval that leaves a correlation open
WHOLE = 1.9


def table(number: int, records: Sequence[Record], published: Published) -> Table:
    """One of these tables; Table 3 with Original, and of BERT-Small where it has runs, as the
    paper's High row.
    """
    if number == 3:
        models = estimates.models(records) or ["small"]
        shown = next((name for name in models if labels.size(name) == "small"), models[-1])
        rows = [(shown, name, {"algorithm": printed}) for name, printed in REGULARIZERS.items()]
    else:
        looked = select(records, "attention") if number == 1 else records
        rows = [
            (
                model,
                name,
                {"model": labels.published_model(model), "algorithm": labels.algorithm_title(name)},
            )
            for model in estimates.sizes(records, decoder=number == 7)
            for name in _shown_algorithms(looked, model)
        ]
    beside = {("", "luck"): luck_cell, ("", "bag"): bag_cell}
    beside |= {
        ("", "public", size): partial(_public_cell, published, size) for size in labels.PAPER_SIZES
    }
    cells = {}
    for (model, name, keys), (key, kind) in product(rows, COLUMNS[number].items()):
        make = average_cell if kind == AVERAGE else score_cell if kind in TASKS else level_cell
        printed = published.printed(number, **keys, metric=key)
        cells[(model, name), key] = make(records, printed, model, name, kind)
    for row, make in [*beside.items()][: BESIDE[number]]:
        cells |= {(row, key): make(records, kind) for key, kind in COLUMNS[number].items()}
    called = _titles(row for row, _ in cells)
    if number == 3:
        # the paper has one size there
        for row in rows:
            model, *line = called[row[:2]]
            if labels.size(row[0]) != "small":
                called[row[:2]] = (f"the paper: {SMALL}; ours: {model}", *line)
    titles = {
        key: TASKS[kind].title if kind in TASKS else key for key, kind in COLUMNS[number].items()
    } | TITLES
    return Table(
        number,
        titles,
        called,
        cells,
        "Measure" if number == 1 else "Task",
        [labels.algorithm_title(name) for name in SHOWN.get(number, labels.PAPER_ALGORITHMS)],
    )


def _titles(rows: Iterable[tuple[str, ...]]) -> dict[tuple[str, ...], tuple[str, ...]]:
    """What rows are called: a model and algorithm, or what stands beside all models or beside one
    size.
    """
    titles = {}
    for model, name, *sizes in rows:
        line = labels.algorithm_title(name) if model else BESIDE_TITLES[name]
        titles[model, name, *sizes] = (
            model and labels.model_title(model),
            line,
            *map(labels.model_title, sizes),
        )
    return titles


def of_one_text(records: Sequence[Record]) -> list[Record]:
    """The runs, without their perplexity on WikiText if one was measured on held-out text alone: a
    column is of one.
    """
    if all(
        run["metrics"].get("wikitext")
        for run in records
        if run["metrics"].get("perplexity") is not None
    ):
        return [*records]
    return [run | {"metrics": run["metrics"] | {"wikitext": None}} for run in records]


def caption_values(records: Sequence[Record]) -> dict[str, str]:
    """What captions say of the runs that `of_one_text` returns: what perplexity is of, and the
    graphs of attention.
    """
    words, metrics = captions.of(), [run["metrics"] for run in records]
    most = max(
        (text for run in metrics if (text := run.get("wikitext"))),
        key=lambda text: text["tokens"],
        default={},
    )
    graphs = {captions.filled(words["graph"], **run) for run in metrics if run.get("graph_nodes")}
    text = captions.filled(words["perplexity"]["wikitext" if most else "held_out"], **most)
    return {"text": text, "graph": " or".join(sorted(graphs))}


def _shown_algorithms(records: Sequence[Record], model: str) -> list[str]:
    """The paper's rows of this model, and every other algorithm that has a run with it."""
    present = estimates.algorithms(select(records, model=model))
    printed = ("original", "high") if labels.is_decoder(model) else labels.PAPER_ALGORITHMS
    return [name for name in labels.ALGORITHMS if name in printed or name in present]


def score_cell(
    records: Sequence[Record], printed: str, model: str, algorithm: str, task: str
) -> Cell:
    """One score beside the paper's characters."""
    shown = estimates.deciding(records)
    runs, failed = (
        find(shown, model, algorithm, task) for find in (task_scores.scores, task_scores.failures)
    )
    why = ", ".join(dict.fromkeys(failed))
    if not runs:
        reason = (
            captions.reason("score", "failed", why=why)
            if failed
            else _missing(records, model, algorithm)
        )
        return Cell(printed, reason=reason, failed=bool(failed))
    compared = shown if algorithm == "high" else records
    plain = [] if algorithm == "original" else task_scores.scores(compared, model, "original", task)
    ours = estimates.score_estimate(runs)
    flags = _below(ours, records, task) + ("constant predictor",) * any(
        run.constant for run in runs
    )
    counts = {"failed": len(failed), "runs": len(failed) + len(runs)}
    reason = captions.reason("score", "some failed", why=why, **counts) if failed else ""
    return Cell(printed, ours, estimates.score_difference(runs, plain), flags=flags, reason=reason)


def average_cell(
    records: Sequence[Record], printed: str, model: str, algorithm: str, kind: str
) -> Cell:
    """The mean over GLUE beside the paper's."""
    by_task, plain = (
        {task: task_scores.scores(records, model, name, task) for task in GLUE}
        for name in (algorithm, "original")
    )
    counts = {
        title: len(task_scores.failures(records, model, algorithm, task))
        for task, title in GLUE.items()
    }
    lost = ", ".join(f"{count} of {title}" for title, count in counts.items() if count)
    done = [GLUE[task] for task, runs in by_task.items() if runs]
    average = estimates.score_estimate(*by_task.values())
    gap = None if algorithm == "original" else estimates.average_difference(by_task, plain)
    reasons = [captions.reason("score", "failed tasks", lost=lost)] if lost else []
    if not average:
        some = captions.reason("score", "average", done=done, tasks=len(GLUE))
        reasons.insert(0, some if done else _missing(records, model, algorithm))
    return Cell(
        printed, average, gap, flags=_below(average, records, kind), reason="; ".join(reasons)
    )


def _missing(records: Sequence[Record], model: str, algorithm: str) -> str:
    """Why a score is none that no run failed to give."""
    return captions.reason(
        "score", "task" if select(records, model=model, algorithm=algorithm) else "model"
    )


def _below(ours: Estimate | None, records: Sequence[Record], kind: str) -> tuple[str, ...]:
    """Name what a score lies below: chance or else the majority class, as a whole interval; a bag
    of words.
    """
    if ours is None:
        return ()
    levels = {"below chance": ("chance",), "below majority": ("chance", "majority")}
    values = {flag: luck(records, kind, names) for flag, names in levels.items()}
    lost = [flag for flag, level in values.items() if level is not None and ours.high < level][:1]
    bag = bag_cell(records, kind).ours
    return (*lost, *(["below bag of words"] if bag and ours.value < float(bag) else []))


def level_cell(
    records: Sequence[Record], printed: str, model: str, algorithm: str, kind: str
) -> Cell:
    """A perplexity, whose difference is of logarithms (nats) as claims test it, or a measure of
    attention.
    """
    if kind == PERPLEXITY:
        runs, reason = select(records, model=model), captions.reason("measured", kind)
        read = lambda run: perplexity(run["metrics"].get("wikitext") or run["metrics"])  # noqa: E731
    else:
        runs, read = (
            select(records, "attention", model=model, task="race"),
            partial(_mean, measure=kind),
        )
        lacking = "measure" if select(runs, algorithm=algorithm) else "stage"
        reason = captions.reason("measured", lacking, stage="attention")
    shown = estimates.deciding(select(runs, algorithm=algorithm))
    ours = estimates.mean_over_runs(map(read, shown))
    value, sides = lambda run: getattr(read(run), "value", None), (algorithm, "original")
    compared = estimates.deciding(runs) if algorithm == "high" else runs
    gap = None
    if algorithm != "original":
        gap = seed_gap(compared, value, sides, log=kind == PERPLEXITY)
    return Cell(
        printed, ours and on_scale(ours, TOP.get(kind, inf)), gap, reason="" if ours else reason
    )


def _mean(run: Record, measure: str) -> Estimate:
    """A run's mean of a measure over its texts, layers and heads, with the interval over the
    texts.
    """
    mean = run["metrics"]["means"][measure]
    ends = (nan if mean[end] is None else mean[end] for end in ("mean", "low", "high"))
    return Estimate(*ends, 1, int(mean["samples"]))


def luck_cell(records: Sequence[Record], kind: str) -> Cell:
    """What a guess would score: the majority class or chance, whichever is higher; or why there is
    none.
    """
    level = luck(records, kind)
    if level is None:
        return Cell(reason=captions.reason("guess", "task" if kind in TASKS else kind))
    return Cell(ours=f"{level:.2f}")


def luck(
    records: Sequence[Record], kind: str, names: Sequence[str] = ("chance", "majority")
) -> float | None:
    """The highest of these levels in percent, of GLUE its mean over tasks; None unless every task
    has one.
    """
    levels = []
    for task in GLUE if kind == AVERAGE else [kind]:
        entries = task_scores.entries(records, task)
        levels.append(
            [entry[name] for entry in entries for name in names if entry.get(name) is not None]
        )
    return sum(map(max, levels)) / len(levels) if all(levels) else None


def bag_cell(records: Sequence[Record], kind: str) -> Cell:
    """What a bag of words scores on the same items, in percent, or why it has no score there."""
    scores = []
    for task in GLUE if kind == AVERAGE else [kind]:
        entries = task_scores.entries(records, task)
        lacking = kind if kind == PERPLEXITY else "record" if entries else "task"
        none = {"reason": captions.reason("bag of words", lacking)}
        # alike in every run
        floor = next((entry["floor"] for entry in entries if entry.get("floor")), none)
        if "reason" in floor:
            return Cell(reason=floor["reason"])
        scores.append(floor["headline"])
    return Cell(ours=f"{sum(scores) / len(scores):.2f}")


def _public_cell(published: Published, size: str, records: Sequence[Record], kind: str) -> Cell:
    quoted = {(line.model, line.metric): line for line in published.references.itertuples()}
    if line := quoted.get((labels.published_model(size), PRINTED.get(kind))):
        return Cell(line.printed, reason=captions.reason("public", "quoted", source=line.source))
    return Cell(reason=captions.reason("public", "other"))


def correlations(number: int, records: Sequence[Record], published: Published) -> Table:
    """Table 6: the correlation of GTD with performance, over checkpoints (the paper's) and over
    independent runs.
    """
    rows, cells = {}, {}
    for model in estimates.models(records) or ["mini"]:
        trained = [
            run["parameters"]["algorithm"] for run in select(records, "pretrain", model=model)
        ]
        # of several seeds
        ways = ("checkpoints", "runs") if len(trained) > len(set(trained)) else ("checkpoints",)
        for (measure, title), way, task in product(KINDS.items(), ways, trajectories.FOLLOWED):
            printed = (
                published.printed(number, gtd_kind=title, task=TASK_KEYS[task])
                if way == "checkpoints"
                else ""
            )
            runs = estimates.fresh_alone(records, "pretrain") if task == "wikitext" else records
            if way == "checkpoints":
                points = trajectories.checkpoints(runs, model, task)
                ours = trajectories.over_checkpoints(points, measure)
            else:
                points = trajectories.runs(runs, model, task)
                ours = trajectories.over_runs(points, measure)
            if ours and ours.seeds < trajectories.FEW:
                # as among the claims
                ours = replace(ours, low=nan, high=nan)
            reason = ""
            if not ours:
                known = points.dropna(subset=[measure, "score"])
                lacking = "both" if known.empty else trajectories.lacking(known, measure)
                context = {"least": trajectories.LEAST, "measure": measure, "way": way}
                reason = captions.reason("correlation", lacking, **context)
            cell = Cell(printed, ours, flags=_flags(ours, printed), reason=reason)
            row = (model, f"{measure}-{way}")
            rows[row], cells[row, task] = (labels.model_title(model), f"{title}, {way}"), cell
    return Table(number, trajectories.FOLLOWED, rows, cells, "Score")


def sign_of(estimate: Estimate, printed: float) -> str:
    """Whether an r has the "same" sign as the paper's or the "opposite", is "open" (0 in its
    interval) or of "few".
    """
    if estimate.seeds < trajectories.FEW:
        return "few"
    if estimate.low <= 0 <= estimate.high:
        return "open"
    return "same" if estimate.value * printed > 0 else "opposite"


def _flags(ours: Estimate | None, printed: str) -> tuple[str, ...]:
    """Mark an r that says nothing, or else one whose whole interval has another sign than the
    paper's.
    """
    if ours and (ours.seeds < trajectories.FEW or ours.high - ours.low > WHOLE):
        return ("says nothing",)
    return (
        ("opposite sign",)
        if ours and printed and sign_of(ours, float(printed)) == "opposite"
        else ()
    )
