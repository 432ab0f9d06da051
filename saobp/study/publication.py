"""From a profile's records to tracked results, published figures and the README; and single files for a next paper."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from saobp.study import budgets, controlled, figures, labels, losses, paths, records, repeats, tables
from saobp.study.figures import grids
from saobp.study.labels import counted
from saobp.study.profile import load_profile
from saobp.study.tables import context

PICTURE = ("<!-- picture: written by `make figures`, not by hand -->", "<!-- end of picture -->")
RESULTS = ("<!-- results: written by `make figures`, not by hand -->", "<!-- end of results -->")
PICTURED = """![Curves of GTD, indirect entropy and entropy by layer, and of entropy by head](figures/figure4.png)

*The paper's Figure 4 from our own runs: attention on RACE-Middle, as it multiplies the values, by layer and (right)
by head of the last layer. GTD: share of paths of two to four hops in the squared norm of all, from 0 to 1. Entropy:
over how many keys a query spreads; indirect entropy: over how many tokens those paths end."""
CONTROLLED_STATEMENTS = ("Q18",)  # what they were made to judge
WEIGHT = ("paper", "narrow", "laptop", "smoke")  # profiles, those that say most first
SUMMARIES = ("10-tables", "11-figures")  # their records hold nothing that the others do not


def publish(profile: str) -> None:
    """Copy a finished profile's records to `data/results/<profile>/`, in place of those there, and rebuild `figures/`.

    Raises FileNotFoundError when the profile has not been run.
    """
    name = Path(profile).stem
    folder = paths.build(name) / "records"
    found = [path for path in sorted(folder.glob("*.json")) if path.stem not in SUMMARIES]
    if not found:
        raise FileNotFoundError(f"{folder}: no records there; run `make reproduce PROFILE={name}` first")
    for path in found:
        records.read(path)
    tracked = paths.results(name)
    gone = {path.stem for path in tracked.glob("*.json")} - {path.stem for path in found}
    with paths.new_folder(tracked) as target:
        for path in found:
            shutil.copyfile(path, target / path.name)
    print(f"{len(found)} records in {tracked}")
    if gone:
        print(f"no longer there, for {folder} has none of them: {', '.join(sorted(gone))}; git restores them")
    rebuild()


def published_profile() -> str:
    """Return the profile whose results `figures/` shows: the first of those that say most, with tracked records.

    One that has not yet trained High beside Original compares nothing, and waits.
    Raises FileNotFoundError when nothing is tracked.
    """
    for name in WEIGHT:
        if all(any(paths.results(name).glob(f"04-pretrain-*-{side}-*.json")) for side in ("original", "high")):
            return name
    raise FileNotFoundError(f"{paths.results('laptop').parent}: no records there; publish a profile first")


def rebuild() -> None:
    """Rebuild `figures/` from tracked records alone; the same records give the same bytes."""
    written = draw(paths.figures())
    for stale in set(paths.figures().iterdir()) - set(written):
        stale.unlink()  # of other records
    readme = paths.root() / "README.md"
    paths.write_text(readme, with_results(readme.read_text(encoding="utf-8")))
    source = paths.results(published_profile())
    print(f"{len(written)} files in {paths.figures()}, from {source}; README.md's results renewed")


def draw(folder: Path) -> list[Path]:
    """Draw every table and figure of the tracked records into a folder, the controlled studies' from their own."""
    source, others = paths.results(published_profile()), paths.results(controlled.PROFILE)
    found = records.load(source)
    return figures.publish(
        found, folder, records.hashes(source), judged=judged(found),
        others=controlled.tracked(), other_hashes=records.hashes(others),
    )  # fmt: skip


def with_results(readme: str) -> str:
    """Return the README with picture and results of the tracked records, each between its two markers."""
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
    return f"{PICTURED} {about} {figures.reading(4, frame)}*\n"


def results_text(found: list[dict[str, Any]]) -> str:
    """Say what was run and what it says; the verdicts, the controlled studies, Tables 2 and 8 beside the paper's."""
    runs = records.select(found, "pretrain")
    measured = [run["metrics"] for run in runs]
    sizes = sorted({f"{counted(m['steps'], 'step')}, {m['tokens'] / 1e6:.1f} million tokens" for m in measured})
    hours = sum(m["seconds"] for m in measured) / 3600
    small = (
        f"**Beside the paper's tables.** Profile `{found[0]['profile']}`: {counted(len(runs), 'pretraining run')} "
        f"({'; '.join(sizes)}), {hours:.1f} hours of pretraining in all. What differs from the paper:"
    )
    listed = "\n".join(f"- {line}" for line in context.departures(found))
    tabled = [7] if records.select(found, "decoder") else []
    trained = [*(name for name in WEIGHT if name != "smoke"), controlled.PROFILE]
    elsewhere = departures_text([name for name in trained if name != found[0]["profile"]])
    parts = [context.without_departures(tables.table(number, found)).to_markdown() for number in (2, 8, *tabled)]
    swept = context.relevant("figure-strength", found) or controlled.tracked()
    shown = {"gains": found, "length": found, "strength": swept}
    drawn = [line for name, behind in shown.items() for line in figure_text(name, behind, said=True)]
    read = [*losses.words(trained), *repeats.words(trained)]
    first = [*budgets.words(trained), *read, judged(found).to_markdown(), *controlled_text()]
    return "\n".join([*first, small, "", listed, "", *elsewhere, *parts, *begun_text(), *drawn, ""])


def departures_text(profiles: Sequence[str]) -> list[str]:
    """List what differs from the paper in each of some profiles, folded; nothing of one without records."""
    said = []
    for name in profiles:
        if listed := context.departures(records.load(paths.results(name))):
            head = f"<details><summary>What differs from the paper in profile <code>{name}</code></summary>"
            said += [head, "", *(f"- {line}" for line in listed), "", "</details>", ""]
    return said


def figure_text(number: int | str, found: list[dict[str, Any]], *, said: bool) -> list[str]:
    """Show a published figure of our own with its caption and, if `said`, what it shows; nothing without runs."""
    name, title = figures.stem(number), figures.title(number)
    try:
        caption = figures.caption(number, context.relevant(name, found))
    except figures.FigureError:
        return []
    caption = caption if said else figures.FIGURES[number].caption
    return [f"![{title}](figures/{name}.png)", "", f"*{title}. {caption}*", ""]


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


def single(kind: str, number: int | str, profile: str, file_format: str, width: float | None, folder: Path) -> Path:
    """Write one figure or table of a profile into a folder and return the file.

    Raises FileNotFoundError when the profile has no records, ValueError for an unknown profile or format or when the
    records cannot fill the figure.
    """
    found = records.load(profile)
    if not found:
        load_profile(profile)
        raise FileNotFoundError(f"profile '{profile}' has no records: run `make reproduce PROFILE={profile}` first")
    if number == "verdicts":
        return tables.write_verdicts(judged(found), folder, [file_format])[0]
    if kind == "table":
        return tables.write(number, found, folder, [file_format])[0]
    return figures.write(number, found, folder, [file_format], width=figures.PAGE if width is None else width)[0]
