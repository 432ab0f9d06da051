"""The plan of the studies (data/plan/*.yaml): read strictly, and its runs shared among
processes.
"""

import contextlib
import re
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar

import click
from filelock import FileLock, Timeout
from pydantic import ConfigDict, Field, ValidationError, model_validator
from pydantic_core import to_jsonable_python

from companion import records
from companion.setup import environment, paths, typed_by_hand
from companion.setup.recipes import Positive
from saobp.measure.command import OneLine

# of a record: its name, what makes it at a path, working in a folder, and the recipe that its
# metrics tell, or {}
Entry = tuple[str, Callable[[Path, Path], Any], dict[str, Any]]
Kind = TypeVar("Kind", bound=typed_by_hand.Strict)


class Endpoint(typed_by_hand.Strict):
    """What is compared, between what, in which unit; within ± `margin` a difference counts as
    none.
    """

    endpoint: str
    contrast: str
    unit: str
    margin: float | None = Field(None, gt=0)
    by: str | None = None


class Primary(Endpoint):
    """The one endpoint that a study decides, the sign that the paper claims, and when it is
    read.
    """

    direction: Literal[-1, 0, 1]
    margin: float = Field(gt=0)
    seeds: Positive
    # seeds at each analysis, the last one included
    analyses: list[Positive]
    # what the plan's `readings` say of it
    read: list[Positive] = []

    @model_validator(mode="after")
    def _ends_with_all(self) -> "Primary":
        for name, seeds in (("analyses", self.analyses), ("read", self.readings)):
            if seeds != sorted(set(seeds)) or seeds[-1:] != [self.seeds]:
                raise ValueError(f"{name} must rise to the {self.seeds} seeds, not {seeds}")
        return self

    @property
    def readings(self) -> list[int]:
        """The seeds at each reading, planned or not: every one of them widens the interval of the
        others.
        """
        return self.read or self.analyses


class Question(typed_by_hand.Strict):
    """What every planned study says; a study's runs add what they read."""

    question: str
    scope: str
    paper: str
    primary: Primary
    secondary: list[Endpoint]
    stopping: str
    outcomes: dict[Literal["supported", "contradicted", "no effect", "imprecise"], str]


class Planned(Question):
    """One planned study; what only its runs read (arms, tasks, …) is in `model_extra`."""

    model_config = ConfigDict(extra="allow")


class Plan(typed_by_hand.Strict):
    """A plan: its studies by name. What was done otherwise is in data/plan/LOG.md."""

    name: str
    interim: str
    studies: dict[str, Planned]
    # seeds at which a study was read, where these are not its analyses
    readings: dict[str, list[Positive]] = {}

    @model_validator(mode="before")
    @classmethod
    def _as_read(cls, content: dict[str, Any]) -> dict[str, Any]:
        for name, seeds in content.get("readings", {}).items():
            if name not in content["studies"]:
                raise ValueError(f"readings: no study {name!r}")
            content["studies"][name]["primary"] |= {"read": seeds}
        return content


def file() -> Path:
    """Return the file of the plan in force."""
    return paths.root() / "data" / "plan" / "2026-11.yaml"


@cache
def read(path: Path) -> Plan:
    """Read a plan, once per process; ValueError that names the file and the key that is missing,
    unknown or wrong.
    """
    content = typed_by_hand.read(path)
    head = {key: content.pop(key) for key in ("name", "interim", "readings") if key in content}
    return _validated(path, "", Plan, head | {"studies": content})


def studies() -> dict[str, Planned]:
    """Return the studies of the plan in force."""
    return read(file()).studies


def section(path: Path, name: str, kind: type[Kind]) -> Kind:
    """Read one study of a plan as its runs do; ValueError that names the file and the key."""
    if name not in read(path).studies:
        raise ValueError(f"{path}: the plan has no study {name!r}")
    return _validated(path, name, kind, typed_by_hand.read(path)[name])


def _validated(path: Path, name: str, kind: type[Kind], content: Any) -> Kind:
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        key, first = typed_by_hand.first_flaw(error)
        key = f"{name}.{key}".strip(".").removeprefix("studies.")
        raise ValueError(f"{path}: key '{key}': {first['msg']}") from None


def command(
    name: str, kind: type[Kind], listed: Callable[[Kind], Iterable[Entry]]
) -> click.Command:
    """Return the command that makes every record of a planned study, as `listed`, that is not there
    yet.

    `python -m companion.studies.retrofit.run [--plan FILE] [--out FOLDER] [--only PATTERN]`
    """
    where = click.Path(path_type=Path)

    @click.command(
        cls=OneLine,
        help="Make every record that is not there yet; several of these commands share the work.",
    )
    @click.option("--plan", type=where, default=file, help="data/plan/*.yaml")
    @click.option(
        "--out",
        type=where,
        default=lambda: paths.build(name.removesuffix("-untrained")) / "records",
    )
    @click.option(
        "--only", default="", metavar="PATTERN", help="names of records, as a regular expression"
    )
    def run(plan: Path, out: Path, only: str) -> None:
        try:
            entries = listed(section(plan, name, kind))
            planned = [entry for entry in entries if re.search(only, entry[0])]
        except (ValueError, re.error) as error:
            raise click.ClickException(str(error)) from None
        with environment.cleared():
            share(planned, out)

    return run


def share(planned: Iterable[Entry], out: Path, *, wait: bool = False) -> None:
    """Make every record that is not in `out` yet; several processes share the work, one record each
    at a time.

    With `wait` it waits for the records that other processes make, so that all are there in the
    end. A process that dies leaves its record to the next. Raises click's error, one line, for a record
    that cannot be read or tells another recipe, and for what a run refuses or lacks; records that
    were made before it stay.
    """
    for name, make, recipe in planned:
        path, folder = out / f"{name}.json", paths.own_folder(out.parent / "work" / name)
        lock = FileLock(folder / ".lock", timeout=-1 if wait else 0)
        with contextlib.suppress(Timeout), lock:
            try:
                if not path.exists():
                    make(path, folder)
                    continue
                metrics = records.read(path)["metrics"]
            except (OSError, ValueError) as error:
                raise click.ClickException(str(error)) from error
            if _differ(metrics, to_jsonable_python(recipe)):
                message = "was made by another recipe than the plan's: remove it, or give another"
                raise click.ClickException(f"{path}: {message} --out")


def _differ(recorded: Any, wanted: Any) -> bool:
    """Compare what both tell of a recipe, but for the precision: a machine may not have the
    plan's.
    """
    if isinstance(recorded, dict) and isinstance(wanted, dict):
        keys = recorded.keys() & wanted.keys() - {"precision"}
        return any(_differ(recorded[key], wanted[key]) for key in keys)
    return recorded != wanted
