"""YAML and numbers as people type them, by the rules of YAML 1.2.

`010` is ten and `1:30` a text (YAML 1.1 reads eight and ninety), `1e-4` is a number, and a key that stands twice is an
error: nothing that was typed is changed or dropped silently.
"""

import ast
import math
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
    if isinstance(like, float) and isinstance(found, int) and not isinstance(found, bool):
        found = float(found)
    if any(not math.isfinite(number) for number in _floats(found)):
        raise ValueError(f"not a finite number: {text!r}")
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


def _floats(value: Any) -> list[float]:
    """Return the floats in a value, those in its lists and mappings included."""
    if isinstance(value, list | dict):
        return [number for part in (value.values() if isinstance(value, dict) else value) for number in _floats(part)]
    return [value] if isinstance(value, float) else []


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
    found: dict[str, Any] = {}
    for node in _assigned(source):
        kind = ast.unparse(node.annotation) if isinstance(node, ast.AnnAssign) else node.type_comment or ""
        for target in getattr(node, "targets", None) or [node.target]:
            for name, value in _named(target, node.value):
                found[name] = _default(value, kind)
    return found


def literals(source: str) -> dict[str, Any]:
    """Return the names that a cell gives literal values to, with these. Raises SyntaxError if it is no Python."""
    return {name: value for name, value in declared(source).items() if not isinstance(value, Computed)}


def assignments(source: str) -> list[tuple[str, range]]:
    """Return the names that a cell gives values to, each with the numbers of the lines where it does."""
    lines = [(node, range(node.lineno, node.end_lineno + 1)) for node in _assigned(source)]
    targets = [(target, where) for node, where in lines for target in getattr(node, "targets", None) or [node.target]]
    return [(target.id, where) for target, where in targets if isinstance(target, ast.Name)]


def _assigned(source: str) -> list[ast.Assign | ast.AnnAssign]:
    """Return a cell's assignments; IPython's lines (`%matplotlib inline`) are no Python and are passed over."""
    body = ast.parse(re.sub(r"^[%!].*$", "", source, flags=re.MULTILINE), type_comments=True).body
    return [node for node in body if isinstance(node, ast.Assign) or (isinstance(node, ast.AnnAssign) and node.value)]


def _named(target: ast.expr, value: ast.expr | None) -> list[tuple[str, ast.expr | None]]:
    """Return the names in a target, each with its value where that stands beside it."""
    if isinstance(target, ast.Name):
        return [(target.id, value)]
    if isinstance(target, ast.Starred):
        return _named(target.value, None)
    if not isinstance(target, ast.Tuple | ast.List):
        return []  # an attribute or an item is no parameter
    paired = isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts)
    paired = paired and not any(isinstance(part, ast.Starred) for part in (*target.elts, *value.elts))
    values = value.elts if paired else [None] * len(target.elts)
    return [pair for part, own in zip(target.elts, values) for pair in _named(part, own)]


def _default(node: ast.expr | None, kind: str) -> Any:
    """Return the value of a literal, and of what papermill writes for a number that is not finite: `float('-inf')`."""
    if node is None:
        return Computed(kind)
    written = re.fullmatch(r"float\('(nan|-?inf)'\)", ast.unparse(node))
    try:
        found = float(written[1]) if written else ast.literal_eval(node)
    except (ValueError, TypeError):
        return Computed(kind)
    return float(found) if kind == "float" and type(found) is int else found
