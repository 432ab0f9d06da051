"""Runs that were made again stand beside the first, and are refused where they are not of the same recipe."""

import copy
import json

import example_records as examples
import pandas as pd
import pytest

from saobp.study.publication import repeats
from saobp.study.setup import paths, records


@pytest.fixture
def again(tmp_path, monkeypatch):
    """A repository with one record, and a function that tracks others as the same run made again."""
    monkeypatch.setattr(repeats.paths, "root", lambda: tmp_path)
    run = examples.pretrain("mini", "high")
    run["metrics"] |= {"perplexity": 24.44, "perplexity_interval": [22.0, 27.0], "recipe": {"steps": 60}}
    paths.write_text(tmp_path / f"data/results/smoke/{run['name']}.json", json.dumps(run))

    def track(time=1, **metrics):
        other = copy.deepcopy(run) | {"device": "another"}
        other["metrics"] |= metrics
        paths.write_text(tmp_path / f"data/repeats/smoke/{run['name']}-{time}.json", json.dumps(other))

    return track


def test_both_runs_are_read_with_their_intervals_and_machines(again):
    assert repeats.words(["smoke"]) == []
    again(perplexity=34.9, perplexity_interval=[32.0, 38.0])
    *head, line, _ = repeats.words(["smoke"])
    said = "seed 42: held-out perplexity 24.4 [22.0, 27.0] on cpu recorded by abc123; "
    said += "again 34.9 [32.0, 38.0] on another recorded by abc123"
    assert line == f"- profile `smoke`, BERT-Mini, High, {said}, unlike that on cpu from step 120 on"
    assert head[0].startswith("**Made again.**")


def test_a_run_like_the_one_before_is_called_the_same_and_another_from_the_first_step_that_differs(again):
    other = {"perplexity": 34.9, "perplexity_interval": [32.0, 38.0]}
    again(1, **other)
    again(2, **other)
    said = "; again on another recorded by abc123: the same to the last digit, at each step measured, as on another "
    said += "recorded by abc123"
    assert repeats.words(["smoke"])[2].endswith(said)
    again(3, **other)
    assert repeats.words(["smoke"])[2].endswith(said + " (2 runs)"), "said once"
    (_, (first, second, _)), *rest = repeats.tracked("smoke")
    assert not rest and repeats.parting(first, second) is None
    second["metrics"]["curve"][1]["loss"] += 1e-7
    assert repeats.parting(first, second) == second["metrics"]["curve"][1]["step"]


def test_runs_of_two_commits_are_not_compared_along_the_way_and_those_of_the_first_stand_beside_it(again):
    other = {"perplexity": 34.9, "perplexity_interval": [32.0, 38.0]}
    sat = [{"step": 0, "commit": "abc123", "device": "first"}, {"step": 20, "commit": "def456", "device": "last"}]
    later = {"sittings": sat}
    again(1, **other, **later)
    again(2, **other)
    assert repeats.words(["smoke"])[2].count("the same to the last digit") == 1, "whatever code wrote it"
    again(2, **other | {"perplexity": 35.0})
    line = repeats.words(["smoke"])[2]
    assert line.index("35.0 [32.0, 38.0] on another recorded by abc123, unlike") < line.index("on last by def456")
    assert line.endswith("; again 34.9 [32.0, 38.0] on last by def456"), "the last sitting's processor and code"


def test_a_run_of_another_recipe_is_not_the_same_run_made_again(again):
    again(recipe={"steps": 61})
    with pytest.raises(ValueError, match="data/repeats/smoke/.*json: recipe unlike those in data"):
        repeats.tracked("smoke")


def test_each_tracked_repeat_is_of_a_tracked_run():
    folders = [folder for folder in (paths.root() / "data" / repeats.FOLDER).iterdir() if folder.is_dir()]
    for folder in folders:
        assert sum(len(again) for _, again in repeats.tracked(folder.name)) == len(records.load(folder))
    readme = (paths.results("narrow").parent / "README.md").read_text(encoding="utf-8")
    for line in repeats.words([folder.name for folder in folders]):
        assert line in readme


def test_strengths_made_again_show_how_far_one_seed_is_carried_apart():
    def record(losses, device):
        runs = [
            {"strength": level, "seed": seed, "device": f"{device}, 1 of 2 threads", "curve": [{"loss": loss}]}
            for (level, seed), loss in losses.items()
        ]
        sides = {"raw": {}, "refined": {}, "accuracy": 0.1}
        ends = [run | {"curve": [run["curve"][0] | sides]} for run in runs]
        return {"profile": "stories", "parameters": {"model": "mini-twin"}, "metrics": {"strengths": ends}}

    losses = {(0.0, 1): 3.0, (0.2, 1): 3.1, (0.0, 2): 4.0, (0.2, 2): 4.1, ("learned", 1): 9.0}
    moved = {key: loss + 0.02 for key, loss in losses.items() if key != ("learned", 1)}
    (line,) = repeats.strength_words(record(losses, "one"), record(moved, "two"))
    assert line.startswith("profile `stories`, BERT-Mini (twin), 4 runs of a strength and seed (λ = 0.0 and 0.2)")
    half = 0.5**0.5
    said = f"twice {0.02 * half:.3f}, one seed over strengths {0.1 * half:.3f}, one strength over seeds {half:.3f}"
    assert line.endswith(said)
    assert "), on one and again on two: " in line
    one_seed = {(0.0, 1): 3.3, (0.2, 1): 3.1}
    (line,) = repeats.strength_words(record(losses, "one"), record(one_seed, "two"))
    said = "twice 0.150, one seed over strengths 0.112"  # roots of (0.045 + 0) / 2 and (0.005 + 0.02) / 2
    assert line.endswith(f"{said}; the losses: λ = 0.0: 3.00 and 3.30, λ = 0.2: 3.10 and 3.10")
    for few in ({(0.0, 9): 1.0}, {(0.0, 1): 1.0, (0.0, 2): 2.0}, {}):
        assert repeats.strength_words(record(losses, "one"), record(few, "two")) == []
    assert len(repeats.strength_losses(record(losses, "one"), record(losses, "one"))) == 10, "learned ones too"
    uneven = pd.DataFrame({"seed": [1, 1, 2, 2], "loss": [0.0, 1.0, 0.0, 3.0]})
    assert repeats.within(uneven, ["seed"]) == pytest.approx(((0.5 + 4.5) / 2) ** 0.5)


def test_a_tracked_study_of_strengths_is_worded_and_no_perplexity_asked_of_it(monkeypatch):
    one = {"stage": "beyond"}
    monkeypatch.setattr(repeats, "tracked", lambda profile: [(one, [one, one])])
    monkeypatch.setattr(repeats, "strength_words", lambda first, other: ["said"])
    assert repeats.words(["stories"])[2:] == ["- said", "- said", ""]
