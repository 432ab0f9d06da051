import example_records as examples
import pandas as pd
import pytest

from saobp.study import trajectories


def test_the_pretraining_curve_gives_one_point_a_checkpoint():
    points = trajectories.checkpoints([examples.pretrain(points=7)], "mini", "wikitext")
    assert len(points) == 7
    assert points["gtd"].is_monotonic_increasing or points["gtd"].iloc[-1] > points["gtd"].iloc[0]


def test_a_task_without_checkpoints_falls_back_to_one_point_a_run():
    runs = examples.study(("mini",), ("original", "high"), (1, 2))
    points = trajectories.points(runs, "mini", "race")
    assert len(points) == 4
    assert points["step"].isna().all()


def test_a_task_with_checkpoints_uses_them():
    run = examples.finetune()
    curve = [{"step": k, "score": 40 + k, "gtd": [[0.5 + k / 100]]} for k in range(5)]
    run["metrics"]["tasks"]["race"]["curve"] = curve
    points = trajectories.points([run], "mini", "race")
    assert points["score"].tolist() == [40, 41, 42, 43, 44]


def test_runs_of_different_algorithms_do_not_make_a_correlation():
    rows = [("a", f"a{k}", 0.1 + s, 1 - s) for k, s in enumerate((0, 0.01, 0.02))]
    rows += [("b", f"b{k}", 0.9 + s, 9 - s) for k, s in enumerate((0, 0.01, 0.02))]
    points = pd.DataFrame(rows, columns=["algorithm", "run", "gtd", "score"])
    assert points["gtd"].corr(points["score"]) > 0.9
    assert trajectories.over_runs(points).value == pytest.approx(-1)


def test_one_run_an_algorithm_says_nothing_within_algorithms():
    rows = [("a", "a0", 0.1, 1.0), ("b", "b0", 0.5, 2.0), ("c", "c0", 0.9, 3.0)]
    points = pd.DataFrame(rows, columns=["algorithm", "run", "gtd", "score"])
    assert trajectories.over_runs(points) is None


def test_too_few_checkpoints_give_no_correlation():
    points = trajectories.checkpoints([examples.pretrain(points=2)], "mini", "wikitext")
    assert trajectories.over_checkpoints(points) is None
