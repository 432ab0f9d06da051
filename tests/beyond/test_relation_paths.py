"""Paths of relations: a run's percentage is taken apart by what its questions ask it to follow."""

import dataclasses

import numpy as np
import pytest

from saobp.study.beyond import questions, relation_paths
from saobp.study.setup.studies import load_profile

PLAN = dataclasses.replace(load_profile("stories").multihop, items=40)


def run(right, seed=0, algorithm="high", plan=PLAN):
    """A run that answers the questions on the paths of `right` and, of the others, one chain in each story."""
    outcomes = {}
    for hops, paths in relation_paths.asked(plan).items():
        know = [hops == 1 or path in right for path in paths]
        outcomes[str(hops)] = [int(known or not chain) for known in know for chain in range(plan.chains)]
    return {"layers": 2, "algorithm": algorithm, "seed": seed, "chains": plan.chains, "outcomes": outcomes}


def test_the_paths_are_those_that_the_text_of_the_exam_asks_about():
    asked, told = relation_paths.asked(PLAN), questions.told(PLAN).splitlines()
    assert list(asked) == [1, 2, 3] and all(len(paths) == PLAN.items for paths in asked.values())
    for line in (line for line in told if "->" in line):
        words = line.split(" -> ")[0].split()
        relations = words[1 : words.index("[MASK]")]
        assert asked[len(relations)][0] == " ".join(relations)


def test_a_percentage_is_taken_apart_by_path():
    paths = sorted(set(relation_paths.asked(PLAN)[3]))
    found = relation_paths.accuracy([run(paths[:2])], relation_paths.asked(PLAN))
    three = found[found["hops"] == 3].set_index("path")
    assert (three.loc[paths[:2], "accuracy"] == 100).all()
    assert np.allclose(three.loc[paths[2:], "accuracy"], 100 / PLAN.chains)
    assert three["asked"].sum() == PLAN.items * PLAN.chains


def test_only_runs_that_know_some_paths_and_not_others_are_divided():
    paths = sorted(set(relation_paths.asked(PLAN)[3]))
    runs = [run(paths[:2], seed=0), run(paths, seed=1), run([], seed=2)]
    found = relation_paths.accuracy(runs, relation_paths.asked(PLAN))
    assert set(relation_paths.divided(found)["seed"]) == {0}
    shown = relation_paths.table(found, 3)
    assert list(shown.index) == [(2, "high", 0)] and list(shown.columns) == paths


def test_failed_runs_have_no_row_and_paths_of_another_exam_are_refused():
    gone = {"layers": 2, "algorithm": "high", "seed": 0, "chains": PLAN.chains, "outcomes": {}}
    found = relation_paths.accuracy([gone], relation_paths.asked(PLAN))
    assert found.empty
    with pytest.raises(ValueError, match="paths: 39 for 1 hop, but 40 stories were set"):
        relation_paths.accuracy([run([])], relation_paths.asked(dataclasses.replace(PLAN, items=39)))
