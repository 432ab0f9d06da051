"""What the README files say of our runs, written from the tracked records: the top one in short, theirs at length."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from saobp.study import budgets, controlled, figures, labels, losses, paths, records, repeats, tables
from saobp.study.figures import grids
from saobp.study.tables import context
from saobp.study.tables.evidence import OPEN
from saobp.study.tables.verdicts import CORRECTED

PICTURE = ("<!-- picture: written by `make figures`, not by hand -->", "<!-- end of picture -->")
RESULTS = ("<!-- results: written by `make figures`, not by hand -->", "<!-- end of results -->")
PICTURED = """![Curves of GTD, indirect entropy and entropy by layer, and of entropy by head](figures/figure4.png)

*The paper's Figure 4 from our own runs: attention on RACE-Middle, as it multiplies the values, by layer and (right)
by head of the last layer. GTD: share of paths of two to four hops in the squared norm of all, from 0 to 1. Entropy:
over how many keys a query spreads; indirect entropy: over how many tokens those paths end."""
CONTROLLED_STATEMENTS = ("Q18",)  # what they were made to judge
WEIGHT = ("paper", "narrow", "laptop", "smoke")  # profiles, those that say most first


AT_LENGTH = """# What the records say

*Written by `make figures` from the records below this folder. [The folder above](../README.md) says what a record
holds.* The [top README](../../README.md#results-so-far) has the verdicts, what was run and the controlled studies; here
is what each study says, what differs from the paper, Tables 7 and 8, the cost by length and other strengths. All
tables and figures, as files: [figures](../../figures).
"""
MORE = """What each study says, in a paragraph, and with it held-out perplexities, runs made again, Tables 7 and 8, the
cost by length and other strengths: **[data/results](data/results/README.md)**."""
JUDGED = """**Verdicts.** {} What the paper states and what our runs show, those that are decided first. {} Runs of
profile `{}` unless a line names another; [the same table](figures/verdicts.md) names its data."""
SHORT = "in-short.md"  # of data/readings/: what all of it comes to


def published_profile() -> str:
    """Return the profile whose results `figures/` shows: the first of those that say most, with tracked records.

    One that has not yet trained High beside Original compares nothing, and waits.
    Raises FileNotFoundError when nothing is tracked.
    """
    for name in WEIGHT:
        if all(any(paths.results(name).glob(f"04-pretrain-*-{side}-*.json")) for side in ("original", "high")):
            return name
    raise FileNotFoundError(f"{paths.results('laptop').parent}: no records there; publish a profile first")


def with_results(readme: str) -> str:
    """Return the top README with picture and results of the tracked records, each between its two markers."""
    found = records.load(paths.results(published_profile()))
    for markers, text in ((PICTURE, picture_text(found)), (RESULTS, results_text(found))):
        start, end = (readme.index(marker) for marker in markers)
        readme = readme[: start + len(markers[0])] + "\n" + text + readme[end:]
    return readme


def picture_text(found: list[dict[str, Any]]) -> str:
    """Show Figure 4 and say what is in it and of which runs; nothing where the records cannot draw it."""
    try:
        frame = figures.data(4, found)
    except figures.FigureError:
        return ""
    models, algorithms = (list(dict.fromkeys(frame[column])) for column in ("model", "algorithm"))
    means = frame[frame["seed"].isna() & frame["panel"].isin(grids.PANELS)]
    few, many = int(means["runs"].min()), int(means["runs"].max())
    least = f"{few} to " if few < many else ""
    runs = "one run each, so no interval" if many == 1 else f"{least}{many} runs each"
    of = f"{', '.join(map(labels.model_title, models))}; {', '.join(map(labels.algorithm_title, algorithms))}"
    about = f"Profile `{found[0]['profile']}`: {of} (Original is plain attention); {runs}."
    return f"{PICTURED} {about} {figures.caption(4, found)}*\n"


def results_text(found: list[dict[str, Any]]) -> str:
    """Say in short what the runs say: verdicts, what was run, the controlled studies, Table 2 beside the paper's."""
    name, cost = found[0]["profile"], budgets.words(_trained())
    cost += [MORE, ""] if cost else []
    short = (paths.root() / "data" / budgets.READINGS / SHORT).read_text(encoding="utf-8")
    table = context.without_departures(tables.table(2, found)).to_markdown()
    gains = figure_text("gains", found)
    differs = departures_text([name, controlled.PROFILE])
    return "\n".join([short, *verdicts_text(found), *cost, *controlled_text(), *differs, table, *gains])


def verdicts_text(found: list[dict[str, Any]]) -> list[str]:
    """Show the table of verdicts, those that are decided first."""
    whole = judged(found)
    ordered = replace(whole, rows=tuple(sorted(whole.rows, key=lambda row: row.verdict == OPEN)))
    return [JUDGED.format(whole.counts, CORRECTED, found[0]["profile"]), "", *ordered.lines(), ""]


def at_length(found: list[dict[str, Any]]) -> str:
    """Say at length what the runs say: a paragraph a study, held-out text, runs made again, the other tables."""
    trained = _trained()
    said = [line for name in trained for line in budgets.reading(name)]
    said += ["## Held-out text, and runs made again", "", *losses.words(trained), *repeats.words(trained)]
    said += ["## What the paper leaves open, in numbers", ""]
    for record in controlled.swept():
        said += [f"- {line}" for line in controlled.open_questions(record)] + [""]
    said += ["## What differs from the paper", "", *departures_text(trained), "## Tables and figures", ""]
    tabled = [8, *([7] if records.select(found, "decoder") else [])]
    said += [context.without_departures(tables.table(number, found)).to_markdown() for number in tabled]
    said += [wider_text(name) for name in trained if name not in (found[0]["profile"], controlled.PROFILE)]
    both = figures.beside(found, controlled.tracked())
    swept = context.relevant("figure-strength", found) or controlled.tracked()
    pictures = [*figure_text("length", found), *figure_text("strength", swept)]
    if "strength" in both:
        pictures += figure_text("strength", controlled.tracked(), file=both["strength"])
    said += [*begun_text(), *(line.replace("](figures/", "](../../figures/") for line in pictures)]
    return "\n".join([AT_LENGTH, *said])


def wider_text(name: str) -> str:
    """Show Table 8 with the scores of another profile, of a wider model; nothing where it has fine-tuned none."""
    other = records.load(paths.results(name))
    if not records.select(other, "finetune"):
        return ""
    return context.without_departures(tables.table(8, other)).to_markdown()


def _trained() -> list[str]:
    """The profiles that are told of: those that train in earnest."""
    return [*(name for name in WEIGHT if name != "smoke"), controlled.PROFILE]


def departures_text(profiles: Sequence[str]) -> list[str]:
    """List what differs from the paper in each of some profiles, folded; nothing of one without records."""
    said = []
    for name in profiles:
        if listed := context.departures(records.load(paths.results(name))):
            head = f"<details><summary>What differs from the paper in profile <code>{name}</code></summary>"
            said += [head, "", *(f"- {line}" for line in listed), "", "</details>", ""]
    return said


def figure_text(number: int | str, found: list[dict[str, Any]], *, file: str = "") -> list[str]:
    """Show a published figure of our own with its caption; nothing without runs."""
    name, title = figures.stem(number), figures.title(number)
    try:
        caption = figures.caption(number, context.relevant(name, found))
    except figures.FigureError:
        return []
    return [f"![{title}](figures/{file or name}.png)", "", f"*{title}. {caption}*", ""]


def begun_text() -> list[str]:
    """Show Tables 8 and 7 of profiles that weigh more than the one shown and have no encoders to compare yet."""
    said = []
    for name in WEIGHT[: WEIGHT.index(published_profile())]:
        if found := records.load(paths.results(name)):
            runs = [run["parameters"] for run in records.select(found, "pretrain")]
            trained = {f"{labels.algorithm_title(run['algorithm'])} (seed {run['seed']})" for run in runs}
            so_far = f"has trained {', '.join(sorted(trained))} so far of its encoders, and compares none."
            said += [f"**Begun.** Profile `{name}` {so_far}", ""]
            decoders = [7] if records.select(found, "decoder") else []
            said += [tables.table(number, found).to_markdown() for number in (8, *decoders)]
    return said


def judged(found: list[dict[str, Any]]) -> tables.Verdicts:
    """Judge the statements by these records, and those on hops by the controlled studies', once they are tracked.

    A row that is taken from there names its profile.
    """
    judged, other = tables.verdicts(found), records.load(paths.results(controlled.PROFILE))
    decided = {row.id: row for row in tables.verdicts(other).rows if row.id in CONTROLLED_STATEMENTS} if other else {}
    rows = [
        replace(decided[row.id], evidence=f"profile `{controlled.PROFILE}`: {decided[row.id].evidence}")
        if row.id in decided
        else row
        for row in judged.rows
    ]
    return replace(judged, rows=tuple(rows))


def controlled_text() -> list[str]:
    """Say what the controlled studies found, from the tracked records of their own profile; nothing without them."""
    found = controlled.tracked()
    said = [line for record in found for line in controlled.text(record)]
    return said + figure_text("hops", found, said=False) if said else []
