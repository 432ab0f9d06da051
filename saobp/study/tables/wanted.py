"""What would decide a statement that the runs leave open: other models, parts, seeds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil, log10
from typing import TYPE_CHECKING

from saobp.study.setup import labels
from saobp.study.tables import quantifiers

if TYPE_CHECKING:
    from saobp.study.tables.evidence import Part


def words(parts: Sequence[Part]) -> str:
    """Name what the parts of a statement lack: the paper's sizes, runs, seeds; "" where they lack nothing.

    The seeds are as many as each interval needs to leave what it holds now, each part by itself, if its gap and
    its spread stay as they are; two or three seeds tell little of either, so it is a size and no plan.
    """
    seen = [part for part in parts if part.estimate is not None]
    said = ["runs of the paper's own sizes"] * any(part.twin for part in seen)
    if len(seen) < len(parts):
        said.append(f"runs of {labels.counted(len(parts) - len(seen), 'more part')}")
    return "; ".join(said + _seeds(seen))


def overturning(low: float, high: float, digits: int) -> str:
    """Say what would open a decided statement again; "" for an open one."""
    nearest = low if low > 0 else -high
    return f"a gap smaller by {nearest:.{digits}f} at the same spread" if nearest > 0 else ""


def _seeds(seen: Sequence[Part]) -> list[str]:
    said = ["several seeds"] * any(part.estimate.seeds < 2 for part in seen)
    needed = {part: part.seeds_needed(len(seen)) for part in seen if part.open(len(seen))}
    if known := sorted({about(number) for number in needed.values() if number}):
        range_ = f"{known[0]:,} to {known[-1]:,} seeds, by part," if len(known) > 1 else f"{known[0]:,} seeds"
        said.append(f"about {range_} if gap and spread stay")
    beyond = [part for part, number in needed.items() if not number]
    items, others = (_names(part for part in beyond if bool(part.estimate.items) == few) for few in (True, False))
    said += [f"more items of {items}, where at this gap not even {quantifiers.MANY:,} seeds would do"] * bool(items)
    return said + [f"more than {quantifiers.MANY:,} seeds for {others}"] * bool(others)


def _names(parts: Iterable[Part]) -> str:
    return labels.joined([part.name or "it" for part in parts])


def about(number: int) -> int:
    """Round up to two digits."""
    step = 10 ** max(0, ceil(log10(number + 1)) - 2)
    return ceil(number / step) * step
