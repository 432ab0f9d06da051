"""The page to open: what was run, the result, the explorer, the notebooks; tables, figures, claims and runs below."""

import base64
import json
import shutil
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import nbformat
from markupsafe import Markup

from saobp.measure.prose import prose
from saobp.models import public
from saobp.study.publication import executed, formulas, pages
from saobp.study.publication.executed import Executed
from saobp.study.publication.results import SUMMARIES
from saobp.study.setup import labels, paths, records
from saobp.study.setup.sizes_and_strengths import strength_of
from saobp.study.setup.studies import EXERCISE
from saobp.study.texts import runs as written

GLANCE, FOREST = "figure-glance", "figure-claims"  # drawn from all tracked studies
TITLES = {"model": labels.model_title, "algorithm": labels.algorithm_title}


def write(folder: Path) -> Path:
    """Write `<folder>/index.html`, the pages that it leads to, and a copy of the tracked results; returns the index.

    Reads the executed notebooks, the records, and the tables and figures that notebooks 10 and 11 left.
    Raises FileNotFoundError if the folder holds no records.
    """
    found = {record["name"]: record for record in records.load(folder / "records")}
    if not found:
        remedy = f"run `make reproduce PROFILE={folder.name}` first"
        raise FileNotFoundError(f"{folder / 'records'}: no records there; {remedy}")
    runs = executed.read((folder / "notebooks").glob("[!.]*.ipynb"))  # not what a run has begun
    with pages.converted(runs) as bodies:
        explorer = _explorer()
        pages.write(runs, bodies, folder / "pages")
    with paths.new_folder(folder / "tracked") as tracked:
        shutil.copytree(paths.figures(), tracked, dirs_exist_ok=True)
    study, made, tracked = next(iter(found.values()))["profile"], folder / "figures", folder / "tracked"
    shown, drawn = tracked if study == EXERCISE else made, _figures(tracked)
    ended = [run for run in runs if run.name in found]
    lines = [line for run in ended for cell in run.node.cells for line in cell.source.splitlines()]
    apart = written.departures(found.values())
    text = pages.render(
        "report.html",
        study=study,
        exercise=study == EXERCISE,
        processors=processors(found.values()),
        minutes=round(sum(record["seconds"] for record in found.values()) / 60),
        checked={
            "notebooks": len({run.notebook for run in ended}),
            "assertions": sum(line.lstrip().startswith("assert ") for line in lines),
            "tables": len([*made.glob("table*.md")]),
            "figures": len([*made.glob("figure*.png")]),
        },
        folder=folder,
        outdated=outdated(folder),
        glance=drawn.get(GLANCE),
        explorer=explorer,
        notebooks=_notebooks(runs, found),
        tables=_tables(shown, "table*.md"),
        figures=[figure for name, figure in _figures(shown).items() if name not in (GLANCE, FOREST)],
        claims=_tables(tracked, "claims.md"),
        forest=drawn.get(FOREST),
        departures=[*apart.groupby((apart["of"] + ", ").where(apart["of"] != "", "") + apart["matter"])],
        runs=[{**record, "failures": failures(record)} for _, record in sorted(found.items())],
    )
    return paths.write_text(folder / "index.html", text.replace(f"{paths.root()}/", ""))


def outdated(folder: Path) -> list[str]:
    """Return the names of the records that the tables and figures here were not made from."""
    manifest = folder / "figures" / "manifest.json"
    if not manifest.exists():
        return []
    made_from, now = json.loads(manifest.read_text(encoding="utf-8"))["records"], records.hashes(folder / "records")
    return sorted({name for name, _ in made_from.items() ^ now.items()} - set(SUMMARIES))


def failures(record: dict[str, Any]) -> dict[str, str]:
    """Return the tasks of a run that failed, and why."""
    tasks = record["metrics"].get("tasks", {}).items()
    return {name: scores["failed"]["reason"] for name, scores in tasks if "failed" in scores}


def processors(found: Iterable[dict[str, Any]]) -> dict[str, list[int]]:
    """Return each processor that worked, with the numbers of threads that runs had."""
    pairs = sorted({(record["device"]["name"], record["device"]["threads"]) for record in found})
    return {name: [threads for _, threads in own] for name, own in groupby(pairs, itemgetter(0))}


def _explorer() -> Markup:
    """Return the attention explorer on MiniLM; nothing where MiniLM is not installed."""
    from transformers.utils import logging

    from saobp.measure import explorer

    logging.disable_progress_bar()
    try:
        model, tokenizer = public.load("minilm")
    except public.PublicModelError:
        return Markup()
    return Markup(explorer.fragment(explorer.collect(model, tokenizer, prose(), strength=strength_of("minilm"))))


def _notebooks(runs: Sequence[Executed], found: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return every notebook of the repository: its question, its first picture, its runs in the paper's order."""
    listed = []
    for name, about in written.notebooks().items():
        own = nbformat.read(paths.root() / "notebooks" / f"{name}.ipynb", as_version=4)
        mine = [run for run in runs if run.notebook == name]
        cells = [cell for node in (*(run.node for run in mine), own) for cell in node.cells]
        drawn = [output.get("data", {}).get("image/png") for cell in cells for output in cell.get("outputs", [])]
        picture = next((f"data:image/png;base64,{''.join(one.split())}" for one in drawn if one), "")
        shown = [_run(run, found.get(run.name)) for run in mine]
        listed.append({"name": name, "question": about["question"], "picture": picture, "runs": shown})
    return listed


def _run(run: Executed, record: dict[str, Any] | None) -> dict[str, Any]:
    """Return a run's name, what failed (None without a record), its model and algorithm, and the other parameters."""
    values = executed.named(run.values)
    if record and "model" in values:  # a decoder's record says that it is one
        values["model"] = record["parameters"]["model"]
    titles = [title(values[key]) for key, title in TITLES.items() if key in values]
    rest = {key: value for key, value in values.items() if key not in (*TITLES, *executed.UNNAMED)}
    return {"name": run.name, "titles": titles, "rest": rest, "failures": failures(record) if record else None}


def _tables(folder: Path, names: str) -> list[dict[str, Any]]:
    """Return tables that were written: rows, caption and notes as HTML, and the files for reuse."""
    found = []
    for path in sorted(folder.glob(names)):
        head, *rest = path.read_text(encoding="utf-8").split("\n\n")
        rows = next(part for part in rest if part.startswith("|"))
        parts = {"caption": head, "rows": rows, "notes": "\n\n".join(part for part in rest if part != rows)}
        html = {name: Markup(formulas.markdown(part)) for name, part in parts.items()}
        found.append({"name": path.stem, "files": _files(path), **html})
    return found


def _files(path: Path) -> list[str]:
    """Return the forms of a table or figure, one as wide as a column among them, as places below the build folder."""
    found = {*path.parent.glob(f"{path.stem}.*"), *path.parent.glob(f"{path.stem}-column.*")}
    return [f"{path.parent.name}/{other.name}" for other in sorted(found)]


def _figures(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the figures that were drawn by name, the paper's first: picture, caption of the manifest, files."""
    manifest, found = folder / "manifest.json", {}
    entries = json.loads(manifest.read_text(encoding="utf-8"))["entries"] if manifest.exists() else {}
    for path in sorted(folder.glob("figure*.png"), key=lambda path: (path.stem.startswith("figure-"), path.stem)):
        entry = {"title": "", "caption": "", **entries.get(path.stem, {})}
        found[path.stem] = {
            "name": path.stem,
            "title": entry["title"],
            "image": f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}",
            "whole": f"{folder.name}/{path.name}",
            "files": _files(path),
            "caption": Markup(formulas.markdown(entry["caption"])),
        }
    return found
