"""The page to open, with the result and the notebooks; and beside it pages of figures, tables, claims,
the explorer and the runs.
"""

import base64
import json
import os
import re
import shutil
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import nbformat
from markupsafe import Markup
from nbformat import NotebookNode

from companion import records
from companion.publication import executed_notebooks, formulas, pages
from companion.publication.executed_notebooks import Executed
from companion.publication.results import SUMMARIES
from companion.setup import environment, labels, paths
from companion.setup.sizes_and_strengths import SIZES, strength_of
from companion.setup.studies import EXERCISE
from companion.tables import data_and_departures
from companion.texts import fill
from saobp.measure.prose import prose
from saobp.models import public

# runs that a process takes at a time, of the same notebook most often
AT_ONCE = 4
# of a cell of Markdown
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
# file -> what it is called
SECTIONS = {
    "index": "Result",
    "figures": "Figures",
    "tables": "Tables",
    "claims": "Claims",
    "explorer": "Explorer",
    "runs": "Runs",
}
TITLES = {"model": labels.model_title, "algorithm": labels.algorithm_title}


def write(folder: Path) -> Path:
    """Write `<folder>/index.html`, the pages that it leads to, and a copy of the tracked results;
    returns the index. A page of pictures and tables holds them in itself.

    Raises FileNotFoundError if the folder holds no records.
    """
    if not (results := records.load(folder / "records")):
        raise FileNotFoundError(
            f"{folder}/records: no records there; run `make reproduce STUDY={folder.name}` first"
        )
    # not what a run has begun
    runs = executed_notebooks.read((folder / "notebooks").glob("[!.]*.ipynb"))
    environment.make_room_for_sockets()
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("forkserver")) as processes:
        # made from now on, one per processor
        bodies = processes.map(pages.body, runs, chunksize=AT_ONCE)
        explorer = _explorer()
        pages.write(runs, bodies, folder / "pages")
    with paths.new_folder(folder / "tracked") as tracked:
        shutil.copytree(paths.figures(), tracked, dirs_exist_ok=True)
        paths.seal(tracked)
    exercise, made, tracked = (
        results[0]["study"] == EXERCISE,
        folder / "figures",
        folder / "tracked",
    )
    ended = [run for run in runs if any(run.name == record["name"] for record in results)]
    lines = [line for run in ended for cell in run.node.cells for line in cell.source.splitlines()]
    apart = data_and_departures.departures(results)
    context = dict(
        sections=SECTIONS if explorer else {k: v for k, v in SECTIONS.items() if k != "explorer"},
        folder=folder,
        exercise=exercise,
        checked={
            "notebooks": len({run.notebook for run in ended}),
            "assertions": sum(line.lstrip().startswith("assert ") for line in lines),
            "tables": len([*made.glob("table*.md")]),
            "figures": len([*made.glob("figure*.png")]),
        },
        outdated=outdated(folder),
        explorer=explorer,
        # of the model that the explorer shows
        layers=labels.spelled(SIZES["minilm"].layers),
        notebooks=_notebooks(runs, {record["name"]: record for record in results}),
        tables=_tables(tracked if exercise else made, "table*.md"),
        figures=_figures(tracked if exercise else made),
        missing=_manifest(tracked if exercise else made)["missing"],
        claims=_tables(tracked, "claims.md"),
        of_all=_figures(tracked),
        departures=[
            *apart.groupby((apart["of"] + ", ").where(apart["of"] != "", "") + apart["matter"])
        ],
        runs=results,
        picture=_picture(paths.root() / "texts" / "explorer.png"),
    )
    study = results[0]["study"]
    for name, section in context["sections"].items():
        template = "report.html" if name == "index" else f"{name}.html"
        title = f"{section} · saobp, study {study}"
        text = pages.render(template, title=title, **context)
        paths.write_text(folder / f"{name}.html", text.replace(f"{paths.root()}/", ""))
    return folder / "index.html"


def outdated(folder: Path) -> list[str]:
    """Return the names of the records that the tables and figures here were not made from."""
    manifest = folder / "figures" / "manifest.json"
    if not manifest.exists():
        return []
    made_from, now = (
        json.loads(manifest.read_text(encoding="utf-8"))["records"],
        records.hashes(folder / "records"),
    )
    return sorted({name for name, _ in made_from.items() ^ now.items()} - set(SUMMARIES))


def _explorer() -> Markup:
    """Return the attention explorer on MiniLM; nothing where MiniLM is not installed."""
    from transformers.utils import logging

    from saobp.measure.inspection import explorer

    logging.disable_progress_bar()
    try:
        model, tokenizer = public.load("minilm")
    except public.PublicModelError:
        return Markup()
    return Markup(
        explorer.fragment(
            explorer.collect(model, tokenizer, prose(), strength=strength_of("minilm"))
        )
    )


def _notebooks(
    runs: Sequence[Executed], by_name: dict[str, dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return every notebook of the repository: its question, its first picture, its runs in the
    paper's order.
    """
    listed = []
    for name, about in fill.notebooks().items():
        source = nbformat.read(paths.root() / "notebooks" / f"{name}.ipynb", as_version=4)
        mine = [run for run in runs if run.notebook == name]
        cells = [cell for node in (*(run.node for run in mine), source) for cell in node.cells]
        entry = {"name": name, "question": about["question"]} | _first_picture(cells)
        listed.append(entry | {"runs": [_run(run, by_name.get(run.name)) for run in mine]})
    return listed


def _first_picture(cells: Iterable[NotebookNode]) -> dict[str, str]:
    """Return the first picture that a cell drew, and the heading that it stands under."""
    heading = ""
    for cell in cells:
        if cell.cell_type == "markdown":
            heading = (HEADING.findall(cell.source) or [heading])[-1]
        for output in cell.get("outputs", []):
            if drawn := output.get("data", {}).get("image/png"):
                coded = "".join(drawn.split())
                return {"picture": f"data:image/png;base64,{coded}", "under": heading}
    return {"picture": "", "under": ""}


def _run(run: Executed, record: dict[str, Any] | None) -> dict[str, Any]:
    """Return a run's name and record, its model's and algorithm's titles, and the other
    parameters.
    """
    rest = {
        key: value for key, value in executed_notebooks.named(run.values).items() if key != "study"
    }
    # a decoder's record says that it is one
    if record and "model" in rest:
        rest["model"] = record["parameters"]["model"]
    titles = [title(rest.pop(key)) for key, title in TITLES.items() if key in rest]
    return {"name": run.name, "record": record, "titles": titles, "rest": rest}


def _tables(folder: Path, names: str) -> list[dict[str, Any]]:
    """Return tables that were written, caption and notes with them, as HTML, and the files for
    reuse.
    """
    files = sorted(folder.glob(names))
    texts = [Markup(formulas.markdown(path.read_text(encoding="utf-8"))) for path in files]
    return [
        {"name": path.stem, "files": _files(path), "text": text} for path, text in zip(files, texts)
    ]


def _picture(path: Path) -> str:
    """Return a picture as a part of a page."""
    return f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}"


def _files(path: Path) -> list[str]:
    """Return the forms of a table or figure, one as wide as a column among them, as places below
    the build folder.
    """
    files = {*path.parent.glob(f"{path.stem}.*"), *path.parent.glob(f"{path.stem}-column.*")}
    return [f"{path.parent.name}/{file.name}" for file in sorted(files)]


def _manifest(folder: Path) -> dict[str, Any]:
    """Return what the manifest of a folder says of its figures; of none there, nothing."""
    file = folder / "manifest.json"
    if not file.exists():
        return {"entries": {}, "missing": {}}
    return json.loads(file.read_text(encoding="utf-8"))


def _figures(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the figures that were drawn by name, the paper's first: picture, caption of the
    manifest, files.
    """
    entries, shown = _manifest(folder)["entries"], {}
    for path in sorted(
        folder.glob("figure*.png"), key=lambda path: (path.stem.startswith("figure-"), path.stem)
    ):
        # as README shows it to phones
        if path.stem.endswith("-column"):
            continue
        entry, narrow = entries.get(path.stem, {}), path.with_stem(f"{path.stem}-column")
        shown[path.stem] = {
            "name": path.stem,
            "title": entry.get("title", ""),
            "image": _picture(path),
            "narrow": _picture(narrow) if narrow.exists() else "",
            "alt": "; ".join(entry.get("heads", [])) or entry.get("title", path.stem),
            "whole": f"{folder.name}/{path.name}",
            "files": _files(path),
            "caption": Markup(formulas.markdown(entry.get("caption", ""))),
        }
    return shown
