"""The paper's figures and some of our own, drawn from run records alone."""

from companion.figures.drawing import FIGURES, FigureError, caption, data, read, stem
from companion.figures.publishing import (
    Beside,
    Form,
    listed,
    origin,
    publish,
    redrawn,
    remove,
    shown,
    write,
    write_claims,
    write_frame,
)
from companion.figures.style import COLUMN, PAGE

__all__ = [
    "COLUMN",
    "FIGURES",
    "Beside",
    "PAGE",
    "FigureError",
    "Form",
    "caption",
    "data",
    "listed",
    "origin",
    "publish",
    "read",
    "redrawn",
    "remove",
    "shown",
    "stem",
    "write",
    "write_claims",
    "write_frame",
]
