"""YAML and numbers as people type them, by the rules of YAML 1.2.

`010` is ten and `1:30` a text (YAML 1.1 reads eight and ninety), `1e-4` is a number, and a key that stands twice is an
error: nothing that was typed is changed or dropped silently.
"""

import ast
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML, YAMLError

DECIMAL = re.compile(r"[-+]?[0-9]+(_[0-9]+)*")


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
    if isinstance(like, int) and not isinstance(like, bool) and not DECIMAL.fullmatch(text.strip()):
        raise ValueError(f"not a whole number: {text!r}")
    found = parse(text)
    if isinstance(like, float) and isinstance(found, int) and not isinstance(found, bool):
        found = float(found)
    if any(not math.isfinite(number) for number in _floats(found)):
        raise ValueError(f"not a finite number: {text!r}")
    if like is not None and type(found) is not type(like):
        raise ValueError(f"not {type(like).__name__}: {text!r}")
    return found


def _floats(value: Any) -> list[float]:
    """Return the floats in a value, those in its lists and mappings included."""
    if isinstance(value, list | dict):
        return [number for part in (value.values() if isinstance(value, dict) else value) for number in _floats(part)]
    return [value] if isinstance(value, float) else []


def literals(source: str) -> dict[str, Any]:
    """Return the literal values that a cell gives to names: `a = 1`, `b: float = 0.5`, `c = d = ""`.

    Raises SyntaxError or ValueError if a name is given anything else.
    """
    return {name: _literal(node.value) for name, node in _assigned(source)}


def assignments(source: str) -> list[tuple[str, range]]:
    """Return the names that a cell gives values to, each with the numbers of the lines where it does."""
    return [(name, range(node.lineno, node.end_lineno + 1)) for name, node in _assigned(source)]


def _assigned(source: str) -> Iterator[tuple[str, ast.Assign | ast.AnnAssign]]:
    """Yield each name with its assignment; IPython's lines (`%matplotlib inline`) are no Python and are passed over."""
    for node in ast.parse(re.sub(r"^[%!].*$", "", source, flags=re.MULTILINE)).body:
        if isinstance(node, ast.Assign) or (isinstance(node, ast.AnnAssign) and node.value is not None):
            for target in getattr(node, "targets", None) or [node.target]:
                if not isinstance(target, ast.Name):
                    raise ValueError("a value goes to one name")
                yield target.id, node


def _literal(node: ast.expr) -> Any:
    """Return the value of a literal, and of what papermill writes for a number that is not finite: `float('-inf')`."""
    written = re.fullmatch(r"float\('(nan|-?inf)'\)", ast.unparse(node))
    return float(written[1]) if written else ast.literal_eval(node)
