"""What stands below the scores of Tables 2, 3, 7 and 8: a guess, a bag of words, the public models of the sizes."""

from collections.abc import Sequence

from saobp.study.paper.numbers import Published
from saobp.study.setup import labels
from saobp.study.setup.schema import Record
from saobp.study.setup.tasks_and_metrics import GLUE
from saobp.study.tables.cells import Cell, Row

BAG_ROW = ("", "bag of words")
AVERAGE, PERPLEXITY = "glue", "perplexity"  # columns that are no task
NO_GUESS = {PERPLEXITY: "a guess has no perplexity", AVERAGE: "not every GLUE task has a run"}


def rows(records: Sequence[Record], published: Published, columns: dict[str, str]) -> list[Row]:
    """All of them, for a table of columns, key -> task or `AVERAGE`; of public models the quoted GLUE test scores."""
    quoted = {
        (line.model, line.metric): Cell(line.printed, reason=f"quoted from the {line.source}, not run here")
        for line in published.references.itertuples()
    }
    titles, none = GLUE | {AVERAGE: "GLUE"}, Cell(reason="GLUE scores alone are quoted")
    found = [luck_row(records, columns), bag_row(records, columns)]
    for name in map(labels.published_model, labels.PAPER_SIZES):
        cells = {key: quoted.get((name, titles.get(kind)), none) for key, kind in columns.items()}
        found.append(Row(("", f"public BERT-{name}"), cells))
    return found


def luck_row(records: Sequence[Record], columns: dict[str, str]) -> Row:
    """What a guess would score: the majority class or chance, whichever is higher; or why a cell has none."""
    cells = {}
    for key, kind in columns.items():
        level = None if kind == PERPLEXITY else luck(records, GLUE if kind == AVERAGE else [kind])
        reason = NO_GUESS.get(kind, "no run of this task")
        cells[key] = Cell(reason=reason) if level is None else Cell(ours=f"{level:.2f}")
    return Row(("", "majority or chance"), cells)


def luck(
    records: Sequence[Record], tasks: Sequence[str], names: Sequence[str] = ("chance", "majority")
) -> float | None:
    """The mean over tasks of the highest of these levels, in percent; None unless every task has one."""
    levels = []
    for task in tasks:
        entries = [(record["metrics"].get("tasks") or {}).get(task) or {} for record in records]
        found = [entry[name] for entry in entries for name in names if entry.get(name) is not None]
        levels += [max(found)] if found else []
    return sum(levels) / len(levels) if len(levels) == len(tasks) else None


def bag_row(records: Sequence[Record], columns: dict[str, str]) -> Row:
    """What a bag of words scores on the same items, or why a cell has none."""
    return Row(BAG_ROW, {key: bag_cell(records, kind) for key, kind in columns.items()})


def bag_cell(records: Sequence[Record], kind: str) -> Cell:
    """What a bag of words scores in a column, in percent, or why it has no score there."""
    if kind == PERPLEXITY:
        return Cell(reason="a bag of words predicts no masked word")
    scores = []
    for task in GLUE if kind == AVERAGE else [kind]:
        entries = [entry for record in records if (entry := (record["metrics"].get("tasks") or {}).get(task))]
        none = {"reason": "the record keeps no bag of words" if entries else "no run of this task"}
        floor = next((entry["floor"] for entry in entries if entry.get("floor")), none)  # alike in every run
        if "reason" in floor:
            return Cell(reason=floor["reason"])
        scores.append(floor["headline"])
    return Cell(ours=f"{sum(scores) / len(scores):.2f}")
