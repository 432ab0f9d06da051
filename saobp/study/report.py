"""The page to open: tables, figures, every executed notebook, and the list of runs, in one folder."""

import base64
import json
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader
from markupsafe import Markup
from nbconvert.filters import markdown2html

from saobp.study import pages, paths, records


def write(folder: Path) -> Path:
    """Write `<folder>/index.html` and one page a notebook below `pages/`; returns the index.

    Reads the executed notebooks, the records, and the tables and figures that notebooks 10 and 11 left.
    Raises FileNotFoundError if the folder holds no records.
    """
    found = records.load(folder / "records")
    if not found:
        raise FileNotFoundError(f"{folder / 'records'}: no records there; run `make reproduce` first")
    executed = sorted((folder / "notebooks").glob("*.ipynb"))
    template = Environment(loader=PackageLoader("saobp.study"), autoescape=True).get_template("report.html")
    text = template.render(
        profile=found[0]["profile"],
        device=", ".join(sorted({record["device"] for record in found})),
        minutes=round(sum(record["seconds"] for record in found) / 60),
        pages=pages.write(executed, folder / "pages"),
        verdicts=_tables(folder / "figures", "verdicts.md"),
        tables=_tables(folder / "figures", "table*.md"),
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


def _tables(folder: Path, names: str) -> list[dict[str, Any]]:
    """Return tables that were written, as rows of HTML with caption and notes."""
    found = []
    for path in sorted(folder.glob(names)):
        lines = path.read_text(encoding="utf-8").splitlines()
        rows = "\n".join(line for line in lines if line.startswith("|"))
        notes = [Markup(markdown2html(line)) for line in lines if line.strip() and not line.startswith("|")]
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
