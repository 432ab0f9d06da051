"""Fills the templates of `texts/` with numbers from the records: the text of each Markdown page of the repository."""

from functools import partial
from pathlib import Path

from jinja2 import FileSystemLoader

from saobp.study.paper import numbers
from saobp.study.records import tracked
from saobp.study.setup import paths
from saobp.study.setup.sizes_and_strengths import SIZES
from saobp.study.tables import captions
from saobp.study.texts import (
    attention,
    costs,
    decoders,
    exam,
    planned,
    pretraining,
    public_encoder,
    runs,
    studies,
    tables,
)

SUFFIX = ".j2"
NUMBERS = {module.__name__.rpartition(".")[2]: module for module in (
    attention, costs, decoders, exam, planned, pretraining, public_encoder, runs, studies, tables)}  # fmt: skip


def folder() -> Path:
    """Return where the templates are; each has the path of its page in the repository, and `.j2` after it."""
    return paths.root() / "texts"


def pages() -> dict[Path, str]:
    """Return every page's path and its text, filled from the tracked records."""
    names = [path.relative_to(folder()).as_posix().removesuffix(SUFFIX) for path in folder().rglob(f"*.md{SUFFIX}")]
    return {paths.root() / name: page(name) for name in sorted(names)}


def page(name: str) -> str:
    """Return the text of one page, "RESULTS.md" say."""
    environment = captions.environment(FileSystemLoader(folder()))
    environment.globals |= {**NUMBERS, "paper": numbers.load(), "sizes": SIZES, "tracked": tracked}
    environment.globals |= {
        "holds": partial(_holds, name),
        "includes_zero": lambda found: found.low < 0 < found.high,
        "exists": lambda file: (paths.root() / file).exists(),
        "shape": lambda model: f"{SIZES[model].layers} layers, width {SIZES[model].hidden}",
    }
    return environment.get_template(name + SUFFIX).render()


def _holds(name: str, condition: bool, words: str) -> None:
    """Refuse to fill a page whose words the numbers no longer bear out."""
    if not condition:
        raise ValueError(f"texts/{name}{SUFFIX}: the records no longer say that {words}; write that passage anew")
