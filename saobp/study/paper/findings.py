"""What an audit found: each finding said where it is found, and all of them in one table at the end."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from textwrap import fill

import pandas as pd

WIDTH = 100  # characters of a printed line, which a page holds


@dataclass(frozen=True)
class Finding:
    """What was printed, what recomputes, and what a reader should do with it."""

    item: str
    printed: str
    recomputed: str
    advice: str


@dataclass
class Findings:
    """The findings of one notebook, in their order."""

    kept: list[Finding] = field(default_factory=list)

    def note(self, item: str, *, printed: str, recomputed: str, advice: str) -> None:
        """Print one finding and keep it for the table. Raises ValueError if there is one on this item."""
        if any(finding.item == item for finding in self.kept):
            raise ValueError(f"item: there is a finding on {item!r} already")
        self.kept.append(Finding(item, printed, recomputed, advice))
        text = f"{item}. Printed: {printed}. Recomputed: {recomputed}. Advice: {advice}."
        print(fill(text, WIDTH, initial_indent="▸ ", subsequent_indent="  "))

    def rows(self) -> list[dict[str, str]]:
        """Return the findings for a record: item, printed, recomputed, what to do."""
        return [{"what to do" if key == "advice" else key: text for key, text in asdict(finding).items()}
                for finding in self.kept]  # fmt: skip

    def markdown(self) -> str:
        """Return a pipe table, every column aligned left."""
        rows = [list(row.values()) for row in self.rows()]
        lines = ["| item | printed | recomputed | what to do |", "|:---|:---|:---|:---|"]
        return "\n".join([*lines, *("| " + " | ".join(_cell(text) for text in row) + " |" for row in rows)])


def say(*sentences: str) -> None:
    """Print sentences, each on a line of its own that is broken where a page ends."""
    print(*(fill(sentence, WIDTH) for sentence in sentences), sep="\n")


def listed(values: Mapping | pd.Series, form: str = "+.2f") -> str:
    """Write named numbers in one line: "Mini +0.02, Small -0.05"."""
    return ", ".join(f"{name} {value:{form}}" for name, value in values.items())


def span(values: pd.Series, form: str = ".2f") -> str:
    """Write the lowest and the highest of some numbers: "1.14 to 1.41"."""
    return f"{values.min():{form}} to {values.max():{form}}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*")
