"""Held-out text, seed by seed: what is compared, with what interval, and where on the way a run is looked at."""

from math import exp

import example_records as examples
import pytest
from scipy import stats

from saobp.study.tables import losses


def run(algorithm, seed, end, early=5.0, model="mini", steps=12000):
    """A pretraining record with three checks: the first, one before half of the steps, the last."""
    metrics = {
        "steps": steps,
        "perplexity": exp(end),
        "curve": [{"step": step, "loss": loss} for step, loss in ((0, 7.6), (4226, early), (steps, end))],
    }
    return examples.record("pretrain", model, algorithm, seed, metrics)


RUNS = [
    *(run("high", seed, end) for seed, end in ((42, 3.2), (43, 3.1), (44, 3.4))),
    *(run("original", seed, end) for seed, end in ((42, 3.0), (43, 3.0), (44, 3.1))),
]


def test_a_gap_is_the_mean_over_seeds_of_both_with_the_interval_of_students_t():
    ((names, gap),) = losses.gaps([*RUNS, run("high", 45, 9.0)]).items()
    reach = stats.t.ppf(0.975, 2) * 0.1 / 3**0.5
    assert (*names, gap.seeds) == ("mini", "high", 3)
    assert (gap.value, gap.low, gap.high) == pytest.approx((0.2, 0.2 - reach, 0.2 + reach))
    assert gap.p == pytest.approx(2 * stats.t.sf(0.2 / (0.1 / 3**0.5), 2))


def test_one_seed_has_a_gap_and_no_interval_and_no_plain_attention_no_gap():
    (gap,) = losses.gaps([RUNS[0], RUNS[3]]).values()
    assert gap.value == pytest.approx(0.2) and all(value != value for value in (gap.low, gap.high, gap.p))
    assert losses.gaps(RUNS[:3]) == {}
    assert losses.table([RUNS[0], RUNS[3]])["Beside Original, nats"].tolist() == ["", "+0.20 (one seed)"]
    found = [run("high", 42, 3.0), run("original", 42, 3.001)]
    assert losses.table(found)["Beside Original, nats"].tolist() == ["", "0.00 (one seed)"], "a zero has no sign"


def test_a_difference_is_marked_only_after_correction_over_all_of_them():
    def shown(*others):
        apart = {"original": (3.0, 0.0), "high": (3.2, 0.05), **dict.fromkeys(others, (3.0, 0.02))}
        seeds = [(name, seed) for name in apart for seed in (42, 43, 44)]
        found = [run(name, seed, apart[name][0] + (seed - 43) * apart[name][1]) for name, seed in seeds]
        return losses.table(found)["Beside Original, nats"].tolist()

    assert shown() == ["", "+0.20 [0.08, 0.32]*"]
    assert shown("low", "elemmul")[:2] == ["", "+0.20 [0.08, 0.32]"], "p is 0.02, and three are compared"


def test_a_run_is_looked_at_before_half_of_its_steps():
    assert losses.early(run("high", 42, 3.0))["step"] == 4226
    assert losses.early(run("high", 42, 3.0, steps=8452))["step"] == 4226, "half of them is no more than half"
    assert losses.early(run("high", 42, 3.0, steps=8000))["step"] == 0


def test_a_profile_of_several_sizes_has_the_smallest_first_and_its_own_comparison_a_size():
    ends = {"high": 3.1, "original": 3.0}
    found = [run(name, 42, end, model=model) for model in ("small", "mini") for name, end in ends.items()]
    assert losses.table(found)["Model"].tolist() == ["BERT-Mini"] * 2 + ["BERT-Small"] * 2
    assert [gap.value for gap in losses.gaps(found).values()] == pytest.approx([0.1, 0.1])
