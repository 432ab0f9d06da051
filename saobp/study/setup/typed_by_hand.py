"""YAML and numbers as people type them, by the rules of YAML 1.2.

`010` is ten and `1:30` a text (YAML 1.1 reads eight and ninety), `1e-4` is a number, and a key that stands twice is an
error: nothing that was typed is changed or dropped silently.
"""

import ast
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML, YAMLError
from ruamel.yaml.constructor import ConstructorError, SafeConstructor

DECIMAL = re.compile(r"[-+]?[0-9]+")


class Decimal(SafeConstructor):
    """Takes decimal numbers alone: no `0x1F`, `0o17` or `1_000`."""

    def whole(self, node: Any) -> int:
        """Return a whole number."""
        if not DECIMAL.fullmatch(node.value):
            raise ConstructorError(None, None, f"not a decimal number: '{node.value}'", node.start_mark)
        return int(node.value)

    def fraction(self, node: Any) -> float:
        """Return a number with a point or an exponent."""
        if "_" in node.value:
            raise ConstructorError(None, None, f"not a decimal number: '{node.value}'", node.start_mark)
        return self.construct_yaml_float(node)


Decimal.add_constructor("tag:yaml.org,2002:int", Decimal.whole)
Decimal.add_constructor("tag:yaml.org,2002:float", Decimal.fraction)


def parse(text: str) -> Any:
    """Return the value of a YAML text. Raises ValueError, one line with the place, if it is none."""
    try:
        yaml = YAML(typ="safe", pure=True)
        yaml.Constructor = Decimal
        return yaml.load(text)
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

    Texts stay as they are; whole numbers are decimal; a float may be typed as a whole number, and is finite. A
    `Computed` default has the type of its annotation; without one any value is taken.
    Raises ValueError if the text is of another type.
    """
    like = SAMPLES.get(like.kind) if isinstance(like, Computed) else like
    if isinstance(like, str):
        return text
    if isinstance(like, int) and not isinstance(like, bool) and not DECIMAL.fullmatch(text.strip()):
        raise ValueError(f"not a whole number: {text!r}")
    found = parse(text)
    if isinstance(like, float) and type(found) is int:
        found = float(found)
    json.dumps(found, allow_nan=False, default=str)  # a ValueError for what is not finite
    if like is not None and type(found) is not type(like):
        raise ValueError(f"not {type(like).__name__}: {text!r}")
    return [_entry(part, like[0]) for part in found] if isinstance(like, list) and like else found


def _entry(part: Any, like: Any) -> Any:
    """Return an entry of a list in the type of the default's first."""
    if isinstance(like, float) and type(part) is int:
        return float(part)
    if type(part) is not type(like):
        raise ValueError(f"entry {part!r} is not {type(like).__name__}")
    return part


@dataclass(frozen=True)
class Computed:
    """The default of a parameter whose cell computes it: unknown until it runs, its type as annotated, if at all."""

    kind: str = ""


SAMPLES = {"int": 0, "float": 0.0, "bool": False, "str": ""}


def declared(source: str) -> dict[str, Any]:
    """Return the names that a cell gives values to, with the literal values: `a = 1`, `b: float = 0.5`, `c = d = ""`.

    A name that is given anything else has a `Computed` one. An annotation `float` makes a whole number a float.
    Raises SyntaxError if the cell is no Python.
    """
    return {name: _default(node) for name, node in assigned(source)}


def assigned(source: str) -> list[tuple[str, ast.Assign | ast.AnnAssign]]:
    """Return each name that a cell gives a value to, with the statement; IPython's lines are no Python and passed over.

    papermill's own `inspect_notebook` loses a parameter whose line has a second `=` (in its comment,
    in `a = b = 1`, after `;`), cuts a text at its `#`, and takes what is no Python.
    """
    body = ast.parse(re.sub(r"^[%!].*$", "", source, flags=re.MULTILINE), type_comments=True).body
    nodes = [node for node in body if isinstance(node, ast.Assign | ast.AnnAssign) and node.value]
    targets = [(target, node) for node in nodes for target in getattr(node, "targets", None) or [node.target]]
    return [(target.id, node) for target, node in targets if isinstance(target, ast.Name)]


def _default(node: ast.Assign | ast.AnnAssign) -> Any:
    """Return the value of a literal, and of what papermill writes for a number that is not finite: `float('-inf')`."""
    kind = ast.unparse(node.annotation) if isinstance(node, ast.AnnAssign) else node.type_comment or ""
    written = re.fullmatch(r"float\('(nan|-?inf)'\)", ast.unparse(node.value))
    try:
        found = float(written[1]) if written else ast.literal_eval(node.value)
    except (ValueError, TypeError):
        return Computed(kind)
    return float(found) if kind == "float" and type(found) is int else found
