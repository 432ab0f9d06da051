"""The fifteen claims as data/claims.yaml has them."""

from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from companion.setup import paths, typed_by_hand
from companion.setup.typed_by_hand import Strict


class Claim(Strict):
    """One claim: the paper's words, and the row of the table of results that decides it."""

    title: str
    sentence: str
    place: str
    # the section of RESULTS.md that answers it
    question: str
    # what a reader should do with the outcome
    advice: str
    row: str
    # the key of what the paper prints
    paper: str = ""
    margin: float | None = Field(None, gt=0)
    # in place of the row's outcome
    word: Literal["", "not run"] = ""
    note: str = ""


def file() -> Path:
    """Return the file of the claims."""
    return paths.root() / "data" / "claims.yaml"


@cache
def read(path: Path) -> dict[str, Claim]:
    """Read all claims, by their ids. Raises ValueError, one line that names the file and the key."""
    claims = {}
    for name, entry in typed_by_hand.read(path).items():
        try:
            claims[name] = Claim.model_validate(entry)
        except ValidationError as error:
            key, first = typed_by_hand.first_flaw(error)
            raise ValueError(f"{path}: {name}.{key}: {first['msg']}") from None
    return claims


def margins() -> dict[str, float]:
    """Return the margin of each endpoint that a claim gives one, by the endpoint's part of a key."""
    margins = {}
    for claim in read(file()).values():
        if claim.margin is not None:
            margins[claim.row.split("/")[1]] = claim.margin
    return margins
