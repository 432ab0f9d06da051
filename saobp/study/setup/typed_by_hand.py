"""YAML and numbers as people type them, by the rules of YAML 1.2.

`010` is ten and `1:30` a text (YAML 1.1 reads eight and ninety), `1e-4` is a number, and a key that stands twice is an
error: nothing that was typed is changed or dropped silently.
"""

import ast
import re
from contextlib import suppress
from math import isfinite
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML, YAMLError

DECIMAL = re.compile(r"[-+]?[0-9]+")


def parse(text: str) -> Any:
    """Return the value of a YAML text. Raises ValueError, one line with the place, if it is none."""
    try:
        return YAML(typ="safe", pure=True).load(text)
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise ValueError(f"{problem.partition(' with value')[0]}{place}") from None


def read(path: Path) -> Any:
    """Return what a YAML file says. Raises ValueError that names the file if it cannot be read."""
    try:
        return parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or getattr(error, "reason", None) or str(error)
        raise ValueError(f"{path}: cannot be read as YAML ({reason})") from None


def value(text: str, like: Any) -> Any:
    """Return the value of a text typed for a parameter whose default is `like`, in the default's type.

    Texts stay as they are; whole numbers are decimal; a float may be typed as a whole number, and is finite.
    Raises ValueError if the text is of another type.
    """
    if isinstance(like, str):
        return text
    if type(like) is int and not DECIMAL.fullmatch(text.strip()):
        raise ValueError("not a whole number")
    return _in_type(parse(text), like)


def _in_type(found: Any, like: Any) -> Any:
    """Return a value in the type of `like`; entries of a list in the type of its first."""
    if isinstance(like, float) and type(found) is int:
        return float(found)
    if type(found) is not type(like) or isinstance(found, float) and not isfinite(found):
        raise ValueError(f"{found!r} is not {type(like).__name__}")
    return [_in_type(part, like[0]) for part in found] if isinstance(like, list) and like else found


def declared(source: str) -> dict[str, Any]:
    """Return the names that a cell gives literal values to: `a = 1`, `b: float = 0.5`, `c = d = ""`.

    Raises SyntaxError if the cell is no Python.
    """
    found = {}
    for name, node in assigned(source):
        with suppress(ValueError, TypeError):  # a computed value is no parameter
            found[name] = ast.literal_eval(node.value)
    return found


def assigned(source: str) -> list[tuple[str, ast.Assign | ast.AnnAssign]]:
    """Return each name that a cell gives a value to, with the statement; IPython's lines are passed over.

    papermill's own `inspect_notebook` loses a parameter whose line has a second `=`, in its comment say.
    """
    body = ast.parse(re.sub(r"^[%!].*$", "", source, flags=re.MULTILINE)).body
    nodes = [node for node in body if isinstance(node, ast.Assign | ast.AnnAssign) and node.value]
    targets = [(target, node) for node in nodes for target in getattr(node, "targets", None) or [node.target]]
    return [(target.id, node) for target, node in targets if isinstance(target, ast.Name)]
