"""A tracked record, run again from scratch on its own kind of processor, gives the same numbers to the last digit."""

import pytest
import torch

from saobp.study.beyond import multihop
from saobp.study.setup import paths, records
from saobp.study.setup.studies import load_study


@pytest.fixture
def one_thread():
    """The tracked runs had one thread each; sums over several are taken in another order."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.slow
@pytest.mark.parametrize(("layers", "algorithm", "seed"), [(2, "original", 0), (2, "high", 0)])
def test_an_encoder_of_the_controlled_study_learns_the_same_again(tmp_path, one_thread, layers, algorithm, seed):
    (tracked,) = records.select(records.load(paths.results("stories")), "beyond")
    kept = next(
        run
        for run in tracked["metrics"]["multihop"]
        if (run["layers"], run["algorithm"], run["seed"]) == (layers, algorithm, seed)
    )
    if kept["device"]["name"] != records.device()["name"]:
        pytest.skip("trained on another processor, which computes otherwise (data/results/repeats.csv)")
    again = multihop.run(load_study("stories").multihop, layers, algorithm, seed, tmp_path)
    assert again["outcomes"] == kept["outcomes"], "every answer of the exam"
    assert [(point["step"], point["loss"]) for point in again["curve"]] == [
        (point["step"], point["loss"]) for point in kept["curve"]
    ]
