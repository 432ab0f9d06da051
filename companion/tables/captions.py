"""Captions and headings: Jinja templates of a `captions.yaml`, filled with numbers; and Jinja as
pages use it.
"""

from functools import cache, partial
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from jinja2 import BaseLoader, Environment, StrictUndefined, Template

from companion.setup import labels
from companion.setup.tasks_and_metrics import TASKS
from companion.statistics import Estimate, mean_interval
from companion.statistics.intervals import LEVEL, perplexity
from companion.tables.cells import decimal, effect, interval, measured, span

TABLES = Path(__file__).with_name("captions.yaml")
# 12,345.6
fixed = partial(decimal, form=",")
# +3.3
signed = partial(decimal, form="+")


class Missing(StrictUndefined):
    """A number that a template lacks: the error names it, also where a filter would round it."""

    __round__ = StrictUndefined._fail_with_undefined_error


def percent(share: float, digits: int = 0) -> str:
    """A share from 0 to 1 in percent: "45 %"."""
    return f"{fixed(100 * share, digits)} %"


def environment(loader: BaseLoader | None = None) -> Environment:
    """Return Jinja with filters that write numbers and names; a template whose number is missing is
    an error.
    """
    options = {"trim_blocks": True, "lstrip_blocks": True, "keep_trailing_newline": True}
    made = Environment(loader=loader, undefined=Missing, **options)
    named = (labels.joined, labels.counted, labels.spelled)
    written = (percent, effect, interval, measured, span, mean_interval, perplexity, *named)
    titles = {
        "task": lambda task: TASKS[task].title,
        "algorithm": labels.algorithm_title,
        "model": labels.model_title,
    }
    made.filters |= {each.__name__: each for each in written} | titles
    made.filters |= {"fixed": fixed, "signed": signed, "frame": pd.DataFrame, "r": written_r}
    made.globals["level"] = LEVEL
    return made


def written_r(r: Estimate | None) -> str:
    """A correlation with its interval, where it has one: "0.11 [−0.11, 0.32]"."""
    if r is None:
        return "undefined"
    return measured(r, 2) if r.seeds > 1 else fixed(r.value, 2)


@cache
def of(file: Path = TABLES) -> dict[int | str, Any]:
    """The captions of all tables (or figures), with a place for each number; under "marks" what
    each symbol means.
    """
    return yaml.safe_load(file.read_text(encoding="utf-8"))


@cache
def _template(text: str) -> Template:
    return environment().from_string(text)


def filled(template: str, **numbers: Any) -> str:
    """Return a caption or heading with its numbers. Raises jinja2.UndefinedError, which names it,
    if one is missing.
    """
    return _template(template).render(numbers)


def reason(kind: str, which: str, **numbers: Any) -> str:
    """Why a cell of a table is empty or lacks runs: `which` of the reasons that `captions.yaml` has
    for its `kind`.
    """
    return filled(of()["reasons"][kind][which], **numbers)
