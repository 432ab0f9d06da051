"""Fills the templates of `texts/` with numbers of the table of results, and with what records say of
the data.
"""

import json
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import FileSystemLoader, Template

from companion import tables
from companion.figures import drawing, style
from companion.records import tracked
from companion.results import claims, claims_file, table, written
from companion.setup import paths, studies, typed_by_hand
from companion.tables import captions, data_and_departures

SUFFIX = ".j2"


def folder() -> Path:
    """Return where the templates are; each has the path of its page in the repository, and `.j2`
    after it.
    """
    return paths.root() / "texts"


def template(name: str) -> Template:
    """Return a template of the folder with what it may call: numbers by key, and lists of data."""
    environment = captions.environment(FileSystemLoader(folder()))
    numbers = (written.effect, written.value, written.size, written.count, written.n)
    words = (written.outcome, written.expect, claims.linked, claims.scopes, claims.after_holm)
    for function in (*numbers, *words, tracked.study, notebooks, gallery):
        environment.globals[function.__name__] = function
    environment.globals |= {"row": table.find}
    environment.globals |= {"page": style.PAGE, "column": style.COLUMN}
    return environment.get_template(name + SUFFIX)


def pages() -> dict[Path, str]:
    """Return every page's path and its text; ValueError where a sentence no longer holds."""
    names = [
        path.relative_to(folder()).as_posix().removesuffix(SUFFIX)
        for path in folder().rglob(f"*.md{SUFFIX}")
    ]
    texts = {name: template(name).render() for name in sorted(names)}
    texts |= {name: frame.to_csv(index=False) for name, frame in data_tables().items()}
    return {paths.root() / name: text for name, text in texts.items()}


def data_tables() -> dict[str, pd.DataFrame]:
    """Return the tables beside data/README.md, by the paths of their CSV files."""
    runs = {name: tracked.study(name) for name in studies.TRACKED}
    real_text = {name: records for name, records in runs.items() if name != studies.EXAM}
    return {
        "data/splits.csv": data_and_departures.splits_of_studies(real_text),
        "data/departures.csv": data_and_departures.departures_of_studies(runs),
    }


def claim(name: str) -> str:
    """Return one claim for a terminal: its words, and the row that decides it.

    Raises ValueError that names the known ones.
    """
    known = claims_file.read(claims_file.file())
    if name not in known:
        raise ValueError(f"claim: no claim {name!r}; choose one of {', '.join(known)}")
    row = table.find(known[name].row)
    return template("claim.txt").render(id=name, claim=known[name], row=row).strip()


def gallery() -> list[dict[str, Any]]:
    """Return what stands of each figure and table in figures/: title, caption, picture, study and
    files; of one that was not run, the reason.
    """
    text = (paths.figures() / "manifest.json").read_text(encoding="utf-8")
    manifest = json.loads(text)
    entries, items = manifest["entries"], []
    for number in (*drawing.FIGURES, "claims"):
        name = drawing.stem(number)
        words = drawing.words(number)
        if name in entries:
            items.append(_shown(name, entries[name]))
        else:
            reason = manifest["missing"].get(name, "").partition(": ")[2]
            missing = {"picture": "", "caption": "", "reason": reason or "no run yet"}
            items.append({"title": words["title"]} | missing)
    for number in tables.TABLES:
        entry = entries[f"table{number}"]
        title = {"title": f"Table {number}", "caption": captions.of()[number].partition(". ")[0]}
        items.append(_shown(f"table{number}", entry | title))
    return items


def _shown(name: str, entry: dict[str, Any]) -> dict[str, Any]:
    files = sorted(entry["files"])
    picture = f"{name}.png" if f"{name}.pdf" in files else ""
    return {
        "title": entry["title"],
        "caption": entry["caption"],
        "alt": "; ".join(entry.get("heads", [])) or entry["title"],
        "picture": picture,
        "study": _studies(entry),
        "files": files,
        "reason": "",
    }


def _studies(entry: dict[str, Any]) -> str:
    """The studies behind an entry of the manifest, or what it shows instead."""
    studies = entry.get("study", "all that are tracked")
    return "a public model" if studies == "none" else studies


def notebooks() -> dict[str, dict[str, str]]:
    """Return name -> question, minutes, runtime of every notebook: texts/notebooks.yaml."""
    about = typed_by_hand.read(folder() / "notebooks.yaml")
    names = sorted(path.stem for path in (paths.root() / "notebooks").glob("*.ipynb"))
    return {name: about[name] for name in names}
