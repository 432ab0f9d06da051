import example_records as examples
import numpy as np
import pandas as pd
import pytest

from companion.figures import correlations
from companion.results import table
from companion.setup import paths
from companion.statistics import trajectories


def test_a_point_is_a_checkpoint_of_pretraining_or_a_task_or_else_a_run_read_at_its_last_check():
    trained = examples.pretrain(points=7)
    points = trajectories.checkpoints([trained], "mini", "wikitext")
    assert points["gtd"].tolist() == pytest.approx(
        [np.mean(one["gtd"]) for one in trained["metrics"]["curve"]]
    )
    run = examples.finetune()
    curve = [{"step": k, "score": 40 + k, "gtd": [[0.5 + k / 100]]} for k in range(5)]
    run["metrics"]["tasks"]["race"]["curve"] = curve
    assert trajectories.points([run], "mini", "race")["score"].tolist() == [40, 41, 42, 43, 44]
    points = trajectories.points(
        examples.study(("mini",), ("original", "high"), (1, 2)), "mini", "race"
    )
    assert len(points) == 4 and points["step"].isna().all()
    first, *between, last = trained["metrics"]["curve"]
    # one row, and no mixture of two
    for point in (first, *between):
        point["cross_layer_gtd"] = [0.5]
    (row,) = trajectories.runs([trained], "mini", "wikitext").itertuples()
    assert row.score == last["perplexity"] != first["perplexity"] and np.isnan(row.cross_gtd)


def test_algorithms_and_the_runs_of_one_pretraining_seed_make_no_correlation_over_runs():
    found = 0
    # nothing ties GTD to the score, but a seed is in all algorithms and an algorithm in all
    for world in range(60):
        random = np.random.default_rng(world)
        shared, own = random.normal(size=(5, 2)), random.normal(size=(6, 2))
        rows = [
            (
                name,
                f"{name}{seed}",
                seed,
                *(shared[seed] + own[place] + 0.3 * random.normal(size=2)),
            )
            for place, name in enumerate("abcdef")
            for seed in range(5)
        ]
        frame = pd.DataFrame(rows, columns=["algorithm", "run", "seed", "gtd", "score"])
        one = trajectories.over_runs(frame)
        found += one.low > 0 or one.high < 0
    assert found <= 0.1 * 60


def test_one_run_an_algorithm_and_too_few_checkpoints_give_no_correlation():
    rows = [(name, f"{name}0", 0.2 * place, 1.0 + place) for place, name in enumerate("abcde")]
    assert (
        trajectories.over_runs(pd.DataFrame(rows, columns=["algorithm", "run", "gtd", "score"]))
        is None
    )
    points = trajectories.checkpoints([examples.pretrain(points=2)], "mini", "wikitext")
    assert trajectories.over_checkpoints(points) is None


def curves_of(scores, seeds):
    """Points of several runs, a seed each: four checkpoints with the same rise of GTD and their own
    scores.
    """
    rows = [
        (f"a{n}", f"run {n}", seed, step, 0.1 * step, score)
        for n, (curve, seed) in enumerate(zip(scores, seeds))
        for step, score in enumerate(curve)
    ]
    return pd.DataFrame(rows, columns=["algorithm", "run", "seed", "step", "gtd", "score"])


def test_neither_copies_of_a_run_under_one_seed_narrow_its_interval_nor_decides_one_perfect_run_the_mean():
    curve = [50.0, 52.0, 51.0, 55.0]
    one, three = (trajectories.over_checkpoints(curves_of([curve] * n, [42] * n)) for n in (1, 3))
    assert (three.value, three.low, three.high) == pytest.approx((one.value, one.low, one.high))
    apart = trajectories.over_checkpoints(curves_of([curve] * 3, [42, 43, 44]))
    assert apart.high - apart.low < three.high - three.low and (three.seeds, apart.seeds) == (1, 3)
    rising, falling = [50.0, 51.0, 52.0, 53.0], [53.0, 52.0, 51.0, 50.1]
    assert abs(trajectories.over_checkpoints(curves_of([rising, falling], [42, 42])).value) < 0.01


def test_a_panel_gives_r_over_checkpoints_beside_the_paper_s_and_names_an_opposite_sign():
    random = np.random.default_rng(3)
    rows = [
        (
            "a",
            f"a{seed}",
            seed,
            step,
            0.5 + 0.01 * random.normal() + step / 100,
            50 + random.normal() + step,
        )
        for seed in range(5)
        for step in range(12)
    ]
    points = pd.DataFrame(rows, columns=["algorithm", "run", "seed", "step", "gtd", "score"])
    found = trajectories.over_checkpoints(points)
    assert f"r {found.value:.2f} [" in correlations.heading(
        correlations.correlation(points), "SST2", -0.97
    )
    said = correlations.numbers(points.assign(model="mini", task="wikitext"))
    assert said["opposite"] == "Perplexity" and found.value > 0 > correlations.paper("wikitext")
    assert correlations.numbers(points.assign(model="mini", task="sst2"))["opposite"] == "none"


def test_the_results_the_table_and_the_figure_have_one_r_of_gtd_and_perplexity():
    row = table.find("scratch/gtd-and-perplexity/over-checkpoints")
    cells = (
        pd.read_csv(paths.figures() / "table6.csv")
        .query("model_key == 'mini-narrow'")
        .set_index(["line_key", "column"])
    )
    cell = cells.loc[("gtd-checkpoints", "wikitext")]
    expected = (float(cell["ours"]), cell["low"], cell["high"])
    assert (row["estimate"], row["low"], row["high"]) == pytest.approx(expected, abs=1e-5)
