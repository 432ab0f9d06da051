"""Fills the templates of `texts/` with numbers from the records and writes the repository's Markdown pages."""

from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from saobp.study.paper import numbers
from saobp.study.setup import labels, paths
from saobp.study.setup.sizes_and_strengths import SIZES
from saobp.study.setup.tasks_and_metrics import TASKS
from saobp.study.statistics import Estimate
from saobp.study.tables import cells
from saobp.study.texts import attention, costs, decoders, exam, planned, pretraining, public_encoder, runs, tables

SUFFIX = ".j2"
NUMBERS = {module.__name__.rpartition(".")[2]: module for module in (
    attention, costs, decoders, exam, planned, pretraining, public_encoder, runs, tables)}  # fmt: skip


def folder() -> Path:
    """Return where the templates are; each has the path of its page in the repository, and `.j2` after it."""
    return paths.root() / "texts"


def pages() -> dict[Path, str]:
    """Return every page's path and its text, filled from the tracked records."""
    names = [path.relative_to(folder()).as_posix().removesuffix(SUFFIX) for path in folder().rglob(f"*.md{SUFFIX}")]
    return {paths.root() / name: page(name) for name in sorted(names)}


def page(name: str) -> str:
    """Return the text of one page, "RESULTS.md" say."""
    options = {"trim_blocks": True, "lstrip_blocks": True, "keep_trailing_newline": True}
    environment = Environment(loader=FileSystemLoader(folder()), undefined=StrictUndefined, **options)
    for filter_ in (fixed, signed, percent, effect, interval, measured, span, labels.joined, labels.counted):
        environment.filters[filter_.__name__] = filter_
    environment.filters |= {"model": labels.model_title, "algorithm": labels.algorithm_title}
    environment.filters |= {"task": lambda task: TASKS[task].title}
    environment.globals |= {**NUMBERS, "paper": numbers.load(), "sizes": SIZES}
    environment.globals |= {
        "exists": lambda file: (paths.root() / file).exists(),
        "include_file": lambda file: (paths.root() / file).read_text(encoding="utf-8").strip(),
        "shape": lambda model: f"{SIZES[model].layers} layers, width {SIZES[model].hidden}",
    }
    return environment.get_template(name + SUFFIX).render()


def write() -> list[Path]:
    """Write every page and return their paths."""
    return [paths.write_text(path, text) for path, text in pages().items()]


def fixed(value: float, digits: int = 0) -> str:
    """A number with so many digits after the point: "3.3"; thousands with commas, no minus before a zero."""
    return f"{round(value, digits) + 0.0:,.{digits}f}".replace("-", "−")


def signed(value: float, digits: int = 0) -> str:
    """A number with its sign: "+3.3"."""
    return ("+" if round(value, digits) >= 0 else "") + fixed(value, digits)


def percent(share: float, digits: int = 0) -> str:
    """A share from 0 to 1 in percent: "45 %"."""
    return f"{fixed(100 * share, digits)} %"


def effect(found: Estimate, digits: int = 1, unit: str = "") -> str:
    """A difference with its unit and 95 % interval: "+3.3 points [1.1, 5.5]"."""
    digits = cells.digits(digits, found.low, found.high)
    said = signed(found.value, digits) + (f" {unit}" if unit else "")
    return f"{said} {interval(found, digits)}".rstrip()


def interval(found: Estimate, digits: int = 1) -> str:
    """A 95 % interval: "[1.1, 5.5]"; empty where there is none."""
    return f"[{fixed(found.low, digits)}, {fixed(found.high, digits)}]" if found.low <= found.high else ""


def measured(found: Estimate, digits: int = 1) -> str:
    """A number without a sign, and its 95 % interval: "0.71 [0.60, 0.80]"."""
    digits = cells.digits(digits, found.low, found.high)
    return f"{fixed(found.value, digits)} {interval(found, digits)}".rstrip()


def span(values: Sequence[float], digits: int = 1) -> str:
    """The ends of some numbers: "6.9 to 11.7"; one number where they are alike."""
    low, high = fixed(min(values), digits), fixed(max(values), digits)
    return low if low == high else f"{low} to {high}"
