"""The page to open: tables, figures, every executed notebook, and the list of runs, in one folder."""

import base64
import json
from pathlib import Path
from typing import Any

import nbformat
from jinja2 import Environment, PackageLoader
from markupsafe import Markup
from nbconvert import HTMLExporter
from nbconvert.filters import markdown2html

from saobp.study import paths, records
from saobp.study.publication import is_progress


def write(folder: Path) -> Path:
    """Write `<folder>/index.html` and one page a notebook below `pages/`; returns the index.

    Reads the executed notebooks, the records, and the tables and figures that notebooks 10 and 11 left.
    Raises FileNotFoundError if the folder holds no records.
    """
    found = records.load(folder / "records")
    if not found:
        raise FileNotFoundError(f"{folder / 'records'}: no records there; run `make reproduce` first")
    pages = [_page(path, folder / "pages") for path in sorted((folder / "notebooks").glob("*.ipynb"))]
    template = Environment(loader=PackageLoader("saobp.study"), autoescape=True).get_template("report.html")
    text = template.render(
        profile=found[0]["profile"],
        device=", ".join(sorted({record["device"] for record in found})),
        minutes=round(sum(record["seconds"] for record in found) / 60),
        pages=pages,
        tables=_tables(folder / "figures"),
        figures=_figures(folder / "figures"),
        runs=[{**record, "failures": failures(record)} for record in found],
    )
    return paths.write_text(folder / "index.html", text)


def failures(record: dict[str, Any]) -> str:
    """Name the tasks of a run that failed, with the reason; empty if none did."""
    tasks = record["metrics"].get("tasks", {})
    if not isinstance(tasks, dict):
        return ""
    failed = {name: scores["failed"] for name, scores in tasks.items() if "failed" in scores}
    return "; ".join(f"{name}: {reason}" for name, reason in failed.items())


def _page(notebook: Path, folder: Path) -> dict[str, str]:
    """Write one notebook as a page and return its name and link."""
    exporter = HTMLExporter(template_name="lab", exclude_input_prompt=True, exclude_output_prompt=True)
    node = nbformat.read(notebook, as_version=4)
    for cell in node.cells:  # progress bars belong to the log
        cell["outputs"] = [output for output in cell.get("outputs", []) if not is_progress(output)]
    body, _ = exporter.from_notebook_node(node, {"metadata": {"name": notebook.stem}})
    page = paths.write_text(folder / f"{notebook.stem}.html", body)
    return {"name": notebook.stem, "link": f"{folder.name}/{page.name}"}


def _tables(folder: Path) -> list[dict[str, Any]]:
    """Return every table that was written, as rows of HTML with its caption and notes."""
    found = []
    for path in sorted(folder.glob("table*.md")):
        lines = path.read_text(encoding="utf-8").splitlines()
        rows = "\n".join(line for line in lines if line.startswith("|"))
        notes = [line.strip() for line in lines if line.strip() and not line.startswith("|")]
        title = path.stem.replace("table", "Table ")
        found.append({"name": path.stem, "title": title, "html": Markup(markdown2html(rows)), "notes": notes})
    return found


def _figures(folder: Path) -> list[dict[str, str]]:
    """Return every figure that was drawn, its picture inside the page, with the manifest's caption."""
    manifest = folder / "manifest.json"
    files = json.loads(manifest.read_text(encoding="utf-8"))["files"] if manifest.exists() else {}
    return [
        {
            "name": path.stem,
            "image": "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode(),
            "caption": files.get(path.name, {}).get("caption", path.stem),
        }
        for path in sorted(folder.glob("figure*.png"))
    ]
