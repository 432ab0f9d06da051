"""The leak experiment: what reaches the past, and that it is learnt."""

import math

import pytest
import torch

from saobp.study.evaluation.leaky_decoder import READINGS, Decoder, leak, sequence_interval


@pytest.mark.parametrize("reading", READINGS)
def test_only_the_all_rows_reading_lets_a_later_token_change_an_earlier_output(reading):
    torch.manual_seed(0)
    decoder = Decoder(reading, 1.0, length=6).double()
    tokens = torch.tensor([[0, 1, 2, 3, 4, 5]])
    other = torch.tensor([[0, 1, 2, 3, 4, 7]])
    change = (decoder(tokens) - decoder(other))[0, 1:5].abs().amax(-1)
    assert (change > 0).all() if reading == "all rows" else (change == 0).all()


SMALL = {"batch": 32, "sequences": 300, "vocabulary": 4, "length": 6, "width": 32}


@pytest.fixture(scope="module")
def leaking():
    return leak("all rows", 2.0, steps=120, **SMALL)


def test_the_leak_is_learnt(leaking):
    mean, half_width = sequence_interval(leaking)
    assert mean + half_width < 0.9 * math.log(4)


def test_a_first_token_alone_with_its_own_key_learns_nothing(leaking):
    assert leaking[:, 0].mean() > 0.98 * math.log(4)
    assert leaking[:, 1:-1].mean() < leaking[:, 0].mean()


def test_the_prefix_form_has_no_leak_to_learn():
    mean, half_width = sequence_interval(leak("prefix", 2.0, steps=60, **SMALL))
    assert mean + half_width > math.log(4)


def test_the_same_seed_gives_the_same_losses_and_leaves_the_global_seed_alone():
    torch.manual_seed(7)
    state = torch.get_rng_state()
    first, second = (leak("prefix", 0.2, steps=2, sequences=4) for _ in range(2))
    assert torch.equal(first, second)
    assert torch.equal(torch.get_rng_state(), state)


def test_an_unknown_reading_is_refused():
    with pytest.raises(ValueError, match="^reading"):
        leak("future", 0.2, steps=1)


def test_the_interval_is_over_sequences():
    losses = torch.tensor([[1.0, 3.0], [3.0, 5.0]])
    mean, half_width = sequence_interval(losses)
    assert mean == pytest.approx(3)
    assert half_width == pytest.approx(1.96 * math.sqrt(2) / math.sqrt(2))
