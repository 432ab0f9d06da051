"""The page to open: claims, every notebook with its runs, tables, figures, departures, in one folder."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat
from markupsafe import Markup

from saobp.study import figures
from saobp.study.publication import executed, formulas, layout, links, pages
from saobp.study.publication.executed import Executed
from saobp.study.publication.results import SUMMARIES
from saobp.study.setup import labels, paths, records
from saobp.study.tables import context

SPLITS = re.compile(r"((?:[^\s,]+ \w+ \([\d,]+ (?:of [\d,]+ )?rows[^)]*\)(?:, )?){5,})")
DEPARTURES, LONG = "Departures from the paper: ", 300


def write(folder: Path) -> Path:
    """Write `<folder>/index.html` and the pages that it leads to below `pages/`; returns the index.

    Reads the executed notebooks, the records, and the tables and figures that notebooks 10 and 11 left.
    Raises FileNotFoundError if the folder holds no records.
    """
    found = records.load(folder / "records")
    if not found:
        raise FileNotFoundError(f"{folder / 'records'}: no records there; run `make reproduce` first")
    runs = pages.write(sorted((folder / "notebooks").glob("*.ipynb")), folder / "pages")
    text = layout.render(
        "report.html",
        title=f"SAOBP: {found[0]['profile']}",
        profile=found[0]["profile"],
        device=processors(found),
        minutes=round(sum(record["seconds"] for record in found) / 60),
        notebooks=_notebooks(runs, found),
        departures=context.departures(found),
        outdated=outdated(folder),
        claims=_tables(folder / "figures", "claims.md"),
        tables=_tables(folder / "figures", "table*.md"),
        figures=_figures(folder / "figures"),
        runs=[{**record, "failures": failures(record)} for record in _in_order(found, runs)],
    )
    return paths.write_text(folder / "index.html", text.replace(f"{paths.root()}/", ""))


def outdated(folder: Path) -> str:
    """Say which records tables and figures were not made from, and the command that makes them anew; empty for none.

    `figures/manifest.json` has the hashes of the records that they were made from. A folder of older code has
    hashes of another kind there, and so is out of date.
    """
    manifest = folder / "figures" / "manifest.json"
    if not manifest.exists():
        return ""
    made_from, now = json.loads(manifest.read_text(encoding="utf-8"))["records"], records.hashes(folder / "records")
    names = sorted((made_from.keys() | now.keys()) - set(SUMMARIES))
    other = [name for name in names if made_from.get(name) != now.get(name)]
    if not other:
        return ""
    listed = ", ".join(other[:3]) + (" …" if len(other) > 3 else "")
    remedy = f"rm {folder}/records/1[01]-*.json; make reproduce PROFILE={folder.name}"
    differ = f"{len(other)} of {len(names)} differ: {listed}"
    return f"tables and figures were made from other records than are here now ({differ}); run: {remedy}"


def failures(record: dict[str, Any]) -> str:
    """Name the tasks of a run that failed, with the reason; empty if none did."""
    tasks = record["metrics"].get("tasks", {})
    if not isinstance(tasks, dict):
        return ""
    failed = {name: scores["failed"]["reason"] for name, scores in tasks.items() if "failed" in scores}
    return "; ".join(f"{name}: {reason}" for name, reason in failed.items())


def processors(found: Sequence[dict[str, Any]]) -> str:
    """Name each processor once, with the numbers of threads that runs had: "EPYC (1 or 2 of 2 threads)"."""
    threads: dict[str, set[int]] = {}
    for record in found:
        threads.setdefault(record["device"]["name"], set()).add(record["device"]["threads"])
    words = {name: " or ".join(map(str, sorted(used))) for name, used in sorted(threads.items())}
    return ", ".join(f"{name} (threads: {used})" for name, used in words.items())


def label(values: dict[str, Any]) -> str:
    """Name a run for readers by its parameters: "BERT-Mini (twin), High, seed 42, task race"."""
    titles = {"model": labels.model_title, "algorithm": labels.algorithm_title}
    named = [title(values[name]) for name, title in titles.items() if name in values]
    rest = {name: value for name, value in values.items() if name not in (*titles, "profile", "record")}
    return ", ".join([*named, *filter(None, [executed.parameters(rest)])])


def caption(text: str) -> dict[str, Any]:
    """Take a long list, of splits or of departures, out of a caption or note: what remains as HTML, and the list."""
    what, items, short = "", [], text
    if found := SPLITS.search(text):
        what, items = "splits", re.split(r"(?<=\)), ", found[1])
        short = text.replace(found[1], f"{len(items)} splits, listed below")
    elif text.startswith(DEPARTURES) and len(text) > LONG:
        what, items = "departures from the paper", text.removeprefix(DEPARTURES).strip(" .").split("; ")
        short = ""
    return {"html": Markup(formulas.markdown(short)), "what": what, "items": items}


def _notebooks(runs: Sequence[Executed], found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return every notebook of the repository, title and claim, with its runs in the paper's order."""
    named = {record["name"]: record for record in found}
    listed = []
    for path in sorted((paths.root() / "notebooks").glob("*.ipynb")):
        title, claim = executed.head(nbformat.read(path, as_version=4))
        own = [_run(run, named.get(run.name)) for run in runs if run.notebook == path.stem]
        listed.append({"name": path.stem, "title": title, "claim": Markup(formulas.markdown(claim)), "runs": own})
    return listed


def _run(run: Executed, record: dict[str, Any] | None) -> dict[str, Any]:
    """Return a line of the contents: where it leads, what the run was, how long it took, what failed."""
    model = record["parameters"].get("model") if record else None  # a decoder's says that it is one
    values = run.values | ({"model": model} if model and "model" in run.values else {})
    return {
        "link": f"pages/{run.name}.html",
        "label": label(values) if "model" in values else "",
        "seconds": record["seconds"] if record else None,
        "failures": failures(record) if record else "no record",
    }


def _in_order(found: Sequence[dict[str, Any]], runs: Sequence[Executed]) -> list[dict[str, Any]]:
    """Put records in the order of their notebooks' pages; those without a notebook last."""
    place = {run.name: number for number, run in enumerate(runs)}
    return sorted(found, key=lambda record: (place.get(record["name"], len(place)), record["name"]))


def _tables(folder: Path, names: str) -> list[dict[str, Any]]:
    """Return tables that were written, as rows of HTML with caption and notes."""
    found = []
    for path in sorted(folder.glob(names)):
        lines = path.read_text(encoding="utf-8").splitlines()
        rows = "\n".join(line for line in lines if line.startswith("|"))
        notes = [caption(line) for line in lines if line.strip() and not line.startswith("|")]
        title = path.stem.replace("table", "Table ")
        files = _files(path)
        entry = {"name": path.stem, "title": title, "html": Markup(formulas.markdown(rows)), "notes": notes}
        found.append(entry | {"files": files})
    return found


def _files(path: Path) -> list[str]:
    """Return the other forms of a table or figure, for reuse, as places below the build folder."""
    return [f"{path.parent.name}/{other.name}" for other in sorted(path.parent.glob(f"{path.stem}.*"))]


def _figures(folder: Path) -> list[dict[str, Any]]:
    """Return every figure that was drawn, its picture inside the page, with the manifest's caption."""
    manifest = folder / "manifest.json"
    entries = json.loads(manifest.read_text(encoding="utf-8"))["entries"] if manifest.exists() else {}
    return [
        {
            "name": path.stem,
            "title": title,
            "image": links.picture(path),
            "whole": next(file for file in _files(path)[::-1] if file.endswith((".svg", ".png"))),
            "files": _files(path),
            "alt": entries.get(path.stem, {}).get("caption", "").partition(". ")[0],
            "notes": [caption(part) for part in _parts(title, entries.get(path.stem, {}))],
        }
        for number in figures.FIGURES
        for path, title in [(folder / f"{figures.stem(number)}.png", figures.title(number))]
        if path.exists()
    ]


def _parts(title: str, entry: dict[str, Any]) -> list[str]:
    """A figure's caption, and its departures if it has some."""
    differs = entry.get("departures")
    return [f"**{title}.** {entry.get('caption', '')}", *([f"{DEPARTURES}{'; '.join(differs)}."] if differs else [])]
