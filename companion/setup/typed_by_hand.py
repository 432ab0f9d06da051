"""YAML and numbers as people type them, by the rules of YAML 1.2, and models of what a file may
say.

`010` is ten and `1:30` a text (YAML 1.1 reads eight and ninety), `1e-4` is a number, a key that
stands twice an error.
"""

import ast
import json
import re
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails
from ruamel.yaml import YAML, YAMLError
from ruamel.yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent

# annotations of a parameter that are looked at
KINDS = {kind.__name__: kind for kind in (int, float, bool, str)}
# in one file
ALIASES = 100
# lists and mappings within one another
DEEPEST = 50
# what pydantic calls a key that is not known
UNKNOWN = "extra_forbidden"


class Strict(BaseModel):
    """What a file says: a key that it does not know, or a value of another type, is an error;
    nothing changes later.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    def __str__(self) -> str:
        # pydantic's lacks the class, and what a run depends on is told by this text
        return repr(self)

    def changed(self, **values: Any) -> Self:
        """Return a copy with other values, checked as a new one is: ValidationError, a ValueError,
        if one is wrong.
        """
        return type(self).model_validate(dict(self) | values)


def first_flaw(error: ValidationError) -> tuple[str, ErrorDetails]:
    """Return the place of the first thing that is wrong, "a.b", and what pydantic says of it.

    A key that is not known comes before one that is missing: it may be that one, misspelt.
    """
    errors = error.errors(include_url=False)
    first = next((entry for entry in errors if entry["type"] == UNKNOWN), errors[0])
    return ".".join(map(str, first["loc"])), first


def parse(text: str) -> Any:
    """Return the value of a YAML text. Raises ValueError, one line with the place, if it is
    none.
    """
    try:
        _refuse_to_fill_the_memory(text)
        return YAML(typ="safe", pure=True).load(text)
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise ValueError(f"{problem.partition(' with value')[0]}{place}") from None


def _refuse_to_fill_the_memory(text: str) -> None:
    """Raise ValueError for aliases of values with aliases in them, and for more than `ALIASES`: a
    few lines of these name billions of values.
    """
    anchors, aliases = [], 0
    for event in YAML(typ="safe", pure=True).parse(text):
        if isinstance(event, CollectionStartEvent):
            anchors.append(event.anchor)
            if len(anchors) > DEEPEST:
                line = event.start_mark.line + 1
                raise ValueError(f"too many brackets in brackets, line {line}")
        elif isinstance(event, CollectionEndEvent):
            anchors.pop()
        elif isinstance(event, AliasEvent):
            aliases += 1
            if any(anchors) or aliases > ALIASES:
                line = event.start_mark.line + 1
                raise ValueError(f"alias *{event.anchor}: write its value out, line {line}")


def read(path: Path) -> dict[str, Any]:
    """Return the keys and values of a YAML file. Raises ValueError that names the file if it has
    none.
    """
    try:
        content = parse(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise ValueError("it has no keys")
        return content
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or getattr(error, "reason", None) or str(error)
        raise ValueError(f"{path}: cannot be read as YAML ({reason})") from None


def value(text: str, like: Any) -> Any:
    """Return the value of a text typed for a parameter whose default is `like`, or of the type
    `like`.

    Texts stay as they are; whole numbers are decimal; a float may be typed as a whole number, and
    is finite.
    Raises ValueError if the text is of another type.
    """
    kind = like if isinstance(like, type) else object if like is None else type(like)
    if kind is str:
        return text
    if kind is list and like:
        kind = list[type(like[0])]
    parsed = parse(text)
    # a ValueError for what is not finite
    json.dumps(parsed, allow_nan=False, default=str)
    try:
        return TypeAdapter(kind, config=ConfigDict(strict=True)).validate_python(parsed)
    except ValidationError as error:
        first = error.errors()[0]
        entry = f"entry {first['input']!r} is not {type(like[0]).__name__}" if first["loc"] else ""
        raise ValueError(entry or f"not {kind.__name__}: {text!r}") from None


def declared(source: str) -> dict[str, Any]:
    """Return the parameters that a cell declares, with their defaults: `a = 1`, `b: float = 0.5`.

    For a default that the cell computes stands the type of its annotation, or `object`. An
    annotation `float` makes a whole number a float. Raises SyntaxError if the cell is no Python;
    IPython's own lines are passed over.
    """
    # papermill's `inspect_notebook` loses a parameter whose line has a second `=`, cuts a text at
    # its `#`, takes code below a parameter for its value, and refuses a notebook that names no
    # kernel
    values = {}
    for node in ast.parse(re.sub(r"^[%!].*$", "", source, flags=re.MULTILINE)).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value:
            kind, targets = object, getattr(node, "targets", [])
            if isinstance(node, ast.AnnAssign):
                kind, targets = KINDS.get(ast.unparse(node.annotation), object), [node.target]
            try:
                default = ast.literal_eval(node.value)
            except (ValueError, TypeError):
                default = kind
            if kind is float and type(default) is int:
                default = float(default)
            values |= {target.id: default for target in targets if isinstance(target, ast.Name)}
    return values
