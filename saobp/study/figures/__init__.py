"""The paper's figures, drawn from run records alone."""

from saobp.study.figures.drawing import FIGURES, FigureError, data, figure
from saobp.study.figures.publishing import FORMATS, publish, shown, write
from saobp.study.figures.readings import reading
from saobp.study.figures.style import COLUMN, PAGE

__all__ = [
    "COLUMN",
    "FIGURES",
    "FORMATS",
    "PAGE",
    "FigureError",
    "data",
    "figure",
    "publish",
    "reading",
    "shown",
    "write",
]
