"""The command of a planned study: `python -m saobp.study.beyond.retrofit [--plan FILE] [--out FOLDER]`."""

import argparse
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from saobp.study.setup import paths, plan

Make = Callable[[Path, Path], Any]  # makes the record at a path, working in a folder


def command(section: str, kind: type[plan.Kind], records: Callable[[plan.Kind], Iterable[tuple[str, Make]]]) -> None:
    """Make every record of the plan that is not there yet; several of these commands share the work.

    `records` lists, of the plan's section, the records' names, and what makes each of them.
    """
    parser = argparse.ArgumentParser(description=command.__doc__.splitlines()[0])
    parser.add_argument("--plan", type=Path, default=plan.file())
    parser.add_argument("--out", type=Path, default=paths.build(section.removesuffix("-untrained")) / "records")
    given = parser.parse_args()
    paths_and_makes = (
        (given.out / f"{name}.json", make) for name, make in records(plan.section(given.plan, section, kind))
    )
    plan.share(((path, partial(make, path)) for path, make in paths_and_makes), given.out.parent / "work")
