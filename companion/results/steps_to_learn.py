"""Rows of the time to learn: steps until 90 % of the questions of several hops are right.

Found after the runs of these exams, whose planned endpoint was another one.
"""

from collections.abc import Iterable, Iterator
from math import log

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
    own = [run for stage in ("hops", "beyond") for run in study.runs(stage)]
    yield from _named(study, earlier.rows({study.name: own}) if own else ())


def of_both_exams() -> Iterator[Row]:
    """Yield the time to learn over the seeds of both tracked exams together, at the width that both
    have.
    """
    exams = {study.name: study.records for study in tracked_studies()}
    both = {name: exams[name] for name in earlier.STUDIES if name in exams}
    title = " and ".join(both)
    (one, *_) = (study for study in tracked_studies() if study.name in both)
    together = Study(title, (), data=one.scope())
    every = earlier.rows(both)
    yield from _named(together, (row for row in every if row.study == title and len(both) > 1))


def _named(study: Study, compared: Iterable[Compared]) -> Iterator[Row]:
    """Yield comparisons as rows of the table; those of runs that never get there are left out."""
    for found in compared:
        if found.endpoint.endswith(PAIRS_ALONE) or not found.n:
            continue
        endpoint = Endpoint(found.endpoint, "ratio of steps", -1, reference=1.0)
        sides = map(labels.algorithm_title, found.contrast.split(" / "))
        note = f"post hoc; never there: {len(found.unreached)}" if found.unreached else "post hoc"
        yield study.row(endpoint, " / ".join(sides), _estimate(found), note=note)


def _estimate(found: Compared) -> Estimate:
    """Return a ratio with its interval and the p-value that it has on the scale of logarithms."""
    p = float("nan")
    if found.n > 1:
        half = (log(found.high) - log(found.low)) / 2
        error = half / stats.t.ppf(TAILS[1], found.n - 1)
        p = float(2 * stats.t.sf(abs(log(found.estimate)) / error, found.n - 1)) if error else p
    return Estimate(found.estimate, found.low, found.high, found.n, sign_test=p)
