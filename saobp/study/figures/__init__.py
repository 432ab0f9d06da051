"""The paper's figures and some of our own, drawn from run records alone."""

from saobp.study.figures.drawing import FIGURES, FigureError, caption, data, figure, stem, title
from saobp.study.figures.publishing import FORMATS, beside, origin, publish, shown, write, write_claims
from saobp.study.figures.style import COLUMN, PAGE

__all__ = [
    "COLUMN",
    "FIGURES",
    "FORMATS",
    "PAGE",
    "FigureError",
    "beside",
    "caption",
    "data",
    "figure",
    "origin",
    "publish",
    "shown",
    "stem",
    "title",
    "write",
    "write_claims",
]
