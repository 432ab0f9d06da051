"""The paper's figures and some of our own, drawn from run records alone."""

from companion.figures.drawing import FIGURES, FigureError, caption, data, stem
from companion.figures.publishing import (
    listed,
    origin,
    publish,
    remove,
    shown,
    write,
    write_claims,
)
from companion.figures.style import COLUMN, PAGE

__all__ = [
    "COLUMN",
    "FIGURES",
    "PAGE",
    "FigureError",
    "caption",
    "data",
    "listed",
    "origin",
    "publish",
    "remove",
    "shown",
    "stem",
    "write",
    "write_claims",
]
