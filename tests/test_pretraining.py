"""One pretraining run of a profile: its start, and what its record holds."""

import pytest
import torch

from saobp.study import models, pretraining, sources
from saobp.study.profile import load_profile

STUDY = load_profile("smoke")


@pytest.fixture(scope="module")
def tokenizer():
    return pretraining.texts(STUDY, "mini-twin", sources.resolve("synthetic"))[0]


@pytest.mark.parametrize("algorithm", ["high", "low", "elemmul", "entropy_reg", "eigen_reg"])
def test_every_algorithm_starts_from_the_same_weights(tokenizer, algorithm):
    ours, plain = (pretraining.untrained(STUDY, "mini-twin", name, 1, tokenizer) for name in (algorithm, "original"))
    assert pretraining.same_weights(ours, plain)
    assert not pretraining.same_weights(ours, pretraining.untrained(STUDY, "mini-twin", "original", 2, tokenizer))


def test_a_weight_that_the_other_lacks_is_another_start():
    assert not pretraining.same_weights(torch.nn.Linear(2, 2, bias=False), torch.nn.Linear(2, 2))


def test_a_record_holds_curve_size_and_recipe(tokenizer):
    network = pretraining.untrained(STUDY, "mini-twin", "high", 1, tokenizer)
    held_out = {"loss": 5.0, "perplexity": 148.4, "seconds": 1.0, "entropy": [4.0], "gtd": [0.9]}
    found = pretraining.metrics(STUDY, "mini-twin", network, [{"step": 0, "heldout": held_out}])
    assert found["parameters"] == models.body_parameters("mini-twin", len(tokenizer)) < found["parameters_trained"]
    assert found["tokens"] == STUDY.pretrain.steps * STUDY.pretrain.batch * STUDY.pretrain.length
    assert found["recipe"]["masking"] == 0.3 and found["size"]["twin_of"] == "mini" and found["perplexity"] == 148.4
