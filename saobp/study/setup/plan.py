"""The plan of the studies (data/plan/*.yaml): read strictly, and its runs shared among processes."""

import fcntl
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from saobp.study.setup import paths, typed_by_hand

CURRENT = "2026-11"


class Endpoint(BaseModel):
    """What is compared, between what, in which unit; within ± `margin` a difference counts as none."""

    model_config = ConfigDict(extra="forbid")
    endpoint: str
    contrast: str
    unit: str
    margin: float | None = Field(None, gt=0)
    by: str | None = None


class Primary(Endpoint):
    """The one endpoint that a study decides, the sign that the paper claims, and when it is read."""

    direction: int = Field(ge=-1, le=1)
    margin: float = Field(gt=0)
    seeds: int = Field(gt=0)
    analyses: list[int]  # seeds at each analysis, the last one included


class Study(BaseModel):
    """One planned study; what only its runs read (arms, tasks, …) is in `model_extra`."""

    model_config = ConfigDict(extra="allow")
    question: str
    scope: str
    paper: str
    primary: Primary
    secondary: list[Endpoint]
    stopping: str
    outcomes: dict[str, str]


class Plan(BaseModel):
    """A plan: its studies by name, and what was done otherwise once runs had started."""

    name: str
    interim: str
    studies: dict[str, Study]
    departures: list[str]


def file(name: str = CURRENT) -> Path:
    """Return the file of a plan."""
    return paths.root() / "data" / "plan" / f"{name}.yaml"


def sections(path: Path) -> dict[str, Any]:
    """Return a plan's sections as they are written."""
    return typed_by_hand.read(path)


def read(path: Path) -> Plan:
    """Read a plan; ValueError if a key is missing or of a wrong type."""
    given = sections(path)
    head = {key: given.pop(key) for key in ("name", "interim", "departures")}
    return Plan(**head, studies=given)


def share(records: Iterable[tuple[Path, Callable[[Path], Any]]], work: Path) -> None:
    """Make every record that is not there yet; several processes share the work, one record each at a time.

    `records` gives each record's path and what makes it from a folder of its own below `work`. A process that dies
    leaves its record to the next one that comes by.
    """
    for path, make in records:
        folder = paths.own_folder(work / path.stem)
        with (folder / ".lock").open("a") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            if not path.exists():
                make(folder)
