"""Rows of the time to learn: steps until 90 % of the questions of several hops are right.

Found after the runs of these exams, whose planned endpoint was another one.
"""

from collections.abc import Iterable, Iterator
from math import log, nan

from scipy import stats

from companion.results.row import Endpoint, Row
from companion.results.study import Study, tracked_studies
from companion.setup import labels
from companion.statistics import Estimate
from companion.statistics.intervals import TAILS
from companion.statistics.time_to_learn import Row as Compared
from companion.studies.learning import earlier

# the rows of pairs that both get there leave out the slowest runs
PAIRS_ALONE = "pairs that both get there"


def rows(study: Study) -> Iterator[Row]:
    """Yield the time to learn in one study's exams."""
    exams = [run for stage in ("hops", "beyond") for run in study.runs(stage)]
    yield from _named(study, earlier.rows({study.name: exams}) if exams else ())


def of_both_exams() -> Iterator[Row]:
    """Yield the time to learn over the seeds of both tracked exams together, at the width that both
    have.
    """
    studies = {study.name: study for study in tracked_studies()}
    names = [name for name in earlier.STUDIES if name in studies]
    if len(names) < 2:
        return
    title = " and ".join(names)
    together = Study(title, (), data=studies[min(names)].scope())
    compared = earlier.rows({name: studies[name].records for name in names})
    yield from _named(together, (row for row in compared if row.study == title))


def _named(study: Study, compared: Iterable[Compared]) -> Iterator[Row]:
    """Yield comparisons as rows of the table; those of runs that never get there are left out."""
    for ratio in compared:
        if ratio.endpoint.endswith(PAIRS_ALONE) or not ratio.n:
            continue
        endpoint = Endpoint(ratio.endpoint, "ratio of steps", -1, reference=1.0)
        sides = map(labels.algorithm_title, ratio.contrast.split(" / "))
        note = f"post hoc; never there: {len(ratio.unreached)}" if ratio.unreached else "post hoc"
        yield study.row(endpoint, " / ".join(sides), _estimate(ratio), note=note)


def _estimate(ratio: Compared) -> Estimate:
    """Return a ratio with its interval and the p-value that it has on the scale of logarithms."""
    p = nan
    if ratio.n > 1 and ratio.high > ratio.low:
        half = (log(ratio.high) - log(ratio.low)) / 2
        error = half / stats.t.ppf(TAILS[1], ratio.n - 1)
        p = float(2 * stats.t.sf(abs(log(ratio.estimate)) / error, ratio.n - 1))
    return Estimate(ratio.estimate, ratio.low, ratio.high, ratio.n, sign_test=p)
