"""The page to open: what was run, the result, the explorer, the notebooks; tables, figures, claims and runs below."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat
from markupsafe import Markup

from saobp.measure.prose import prose
from saobp.models import public
from saobp.study.publication import executed, formulas, links, pages
from saobp.study.publication.executed import Executed
from saobp.study.publication.results import SUMMARIES
from saobp.study.setup import labels, paths, records
from saobp.study.setup.sizes_and_strengths import strength_of
from saobp.study.tables import context
from saobp.study.texts import runs as written

EXERCISE = "smoke"  # the study whose models train for seconds: its page shows the tracked results
GLANCE, FOREST = "figure-glance", "figure-claims"  # drawn from all tracked studies
MADE = {"tables": "table*.md", "figures": "figure*.png"}


def write(folder: Path) -> Path:
    """Write `<folder>/index.html`, the pages that it leads to, and a copy of the tracked results; returns the index.

    Reads the executed notebooks, the records, and the tables and figures that notebooks 10 and 11 left.
    Raises FileNotFoundError if the folder holds no records.
    """
    found = records.load(folder / "records")
    if not found:
        raise FileNotFoundError(f"{folder / 'records'}: no records there; run `make reproduce` first")
    runs = executed.read(sorted((folder / "notebooks").glob("*.ipynb")))
    with pages.converted(runs) as bodies:
        explorer = _explorer()
        pages.write(runs, bodies, folder / "pages")
    with paths.new_folder(folder / "tracked") as tracked:
        shutil.copytree(paths.figures(), tracked, dirs_exist_ok=True)
    study, tracked = found[0]["profile"], folder / "tracked"
    shown, drawn = tracked if study == EXERCISE else folder / "figures", _figures(tracked)
    text = pages.render(
        "report.html",
        study=study,
        exercise=study == EXERCISE,
        device=processors(found),
        minutes=round(sum(record["seconds"] for record in found) / 60),
        checked=_checked(folder, runs, found),
        folder=folder,
        outdated=outdated(folder),
        glance=drawn.get(GLANCE),
        explorer=explorer,
        notebooks=_notebooks(runs, found),
        tables=_tables(shown, "table*.md"),
        figures=[figure for name, figure in _figures(shown).items() if name not in (GLANCE, FOREST)],
        claims=_tables(tracked, "claims.md"),
        forest=drawn.get(FOREST),
        departures=context.departures(found),
        runs=[{**record, "failures": failures(record)} for record in sorted(found, key=lambda record: record["name"])],
    )
    return paths.write_text(folder / "index.html", text.replace(f"{paths.root()}/", ""))


def outdated(folder: Path) -> list[str]:
    """Return the names of the records that the tables and figures here were not made from."""
    manifest = folder / "figures" / "manifest.json"
    if not manifest.exists():
        return []
    made_from, now = json.loads(manifest.read_text(encoding="utf-8"))["records"], records.hashes(folder / "records")
    return sorted({name for name, _ in made_from.items() ^ now.items()} - set(SUMMARIES))


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
    """Name a run for readers by its parameters: "BERT-Mini, High, seed 42, task race"."""
    titles = {"model": labels.model_title, "algorithm": labels.algorithm_title}
    named = [title(values[name]) for name, title in titles.items() if name in values]
    rest = {name: value for name, value in values.items() if name not in (*titles, "profile", "record")}
    return ", ".join([*named, *filter(None, [executed.parameters(rest)])])


def _checked(folder: Path, runs: Sequence[Executed], found: Sequence[dict[str, Any]]) -> dict[str, int]:
    """Count what a study did: notebooks and assertions in them that held, tables and figures."""
    finished = {record["name"] for record in found}
    ended = [run for run in runs if run.name in finished]
    lines = [line for run in ended for cell in run.node.cells for line in cell.source.splitlines()]
    made = {kind: len([*(folder / "figures").glob(names)]) for kind, names in MADE.items()}
    held = sum(line.lstrip().startswith("assert ") for line in lines)
    return {"notebooks": len({run.notebook for run in ended}), "assertions": held, **made}


def _explorer() -> Markup:
    """Return the attention explorer on MiniLM; nothing where MiniLM is not installed."""
    from transformers.utils import logging

    from saobp.measure import explorer

    logging.disable_progress_bar()
    try:
        model, tokenizer = public.load("minilm")
    except public.PublicModelError:
        return Markup()
    strength = strength_of("minilm")
    return Markup(explorer.fragment(explorer.collect(model, tokenizer, prose(), strength=strength)))


def _notebooks(runs: Sequence[Executed], found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return every notebook of the repository with its question, a picture, and its runs in the paper's order."""
    named = {record["name"]: record for record in found}
    listed = []
    for name, about in written.notebooks().items():
        mine = [run for run in runs if run.notebook == name]
        node = nbformat.read(paths.root() / "notebooks" / f"{name}.ipynb", as_version=4)
        picture, own = _picture([*(run.node for run in mine), node]), [_run(run, named.get(run.name)) for run in mine]
        listed.append({"name": name, "question": about["question"], "picture": picture, "runs": own})
    return listed


def _picture(nodes: Sequence[nbformat.NotebookNode]) -> str:
    """Return the first picture in some notebooks, as a link that holds it; empty without one."""
    outputs = (output for node in nodes for cell in node.cells for output in cell.get("outputs", []))
    drawn = (output.get("data", {}).get("image/png") for output in outputs)
    return next((f"data:image/png;base64,{''.join(one.split())}" for one in drawn if one), "")


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
    manifest = folder / "manifest.json"
    entries = json.loads(manifest.read_text(encoding="utf-8"))["entries"] if manifest.exists() else {}
    drawn = sorted(folder.glob("figure*.png"), key=lambda path: (path.stem.startswith("figure-"), path.stem))
    return {
        path.stem: {
            "name": path.stem,
            "title": entries.get(path.stem, {}).get("title", ""),
            "image": links.picture(path),
            "whole": f"{folder.name}/{path.name}",
            "files": _files(path),
            "caption": Markup(formulas.markdown(entries.get(path.stem, {}).get("caption", ""))),
        }
        for path in drawn
    }
