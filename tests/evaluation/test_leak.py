"""Who hears the future: the leak experiment on random tokens, and what a trained decoder gains by
it.
"""

import math

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from companion.evaluation import future_leak
from companion.evaluation.future_leak import sequence_interval, trained_losses
from companion.training.architectures import LEAKY, refine_with

SMALL = {"batch": 32, "sequences": 300, "vocabulary": 4, "length": 6, "width": 32}


def test_the_leak_is_learnt_and_not_by_a_first_token_alone_and_the_prefix_form_has_none_to_learn():
    losses = trained_losses("all rows", 2.0, steps=120, **SMALL)
    mean, half_width = sequence_interval(losses)
    assert mean + half_width < 0.9 * math.log(4)
    assert losses[:, 0].mean() > 0.98 * math.log(4)
    mean, half_width = sequence_interval(trained_losses("prefix", 2.0, steps=60, **SMALL))
    assert mean + half_width > math.log(4)


def test_the_same_seed_gives_the_same_losses_and_leaves_the_global_seed_alone_and_the_interval_is_over_sequences():
    state = torch.get_rng_state()
    first, second = (trained_losses("prefix", 0.2, steps=2, sequences=4) for _ in range(2))
    assert torch.equal(first, second) and torch.equal(torch.get_rng_state(), state)
    mean, half_width = sequence_interval(torch.tensor([[1.0, 3.0], [3.0, 5.0]]))
    assert (mean, half_width) == (3, pytest.approx(1.959964 * math.sqrt(2) / math.sqrt(2)))


SIZES = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64, "vocab_size": 50}
FORMS = [("original", False), ("high", False), (LEAKY, True)]


def gpt2(algorithm, **options):
    torch.manual_seed(0)
    network = GPT2LMHeadModel(
        GPT2Config(**SIZES, bos_token_id=None, eos_token_id=None, **options)
    ).eval()
    return refine_with(network, algorithm, 1.0)


@pytest.mark.parametrize("algorithm, hears", FORMS)
def test_only_the_all_rows_form_lets_a_later_token_reach_back_even_untrained(algorithm, hears):
    network = gpt2(algorithm).train()
    # the last word is followed by the first
    changed = future_leak.changes(network, torch.arange(41, 53) % 50, 8)
    assert network.training and network.dtype == torch.float32, "it is measured on a copy"
    # the first row has one key, whatever it hears
    assert changed.shape == (12,) and changed[0] == 0
    assert future_leak.looks_ahead(changed, 8) == hears
    assert (changed[1:8] > 1e-9).all() if hears else (changed[:8] == 0).all()
    assert (changed[8:] > 1e-6).all()


@pytest.mark.parametrize("algorithm, leaks", FORMS)
def test_the_leak_is_what_each_token_is_better_predicted_with_what_follows(algorithm, leaks):
    # sharp: uniform rows tell nothing
    network = gpt2(algorithm, initializer_range=0.5)
    ids = torch.randint(50, (3, 9))
    found = future_leak.leak(network, [{"input_ids": row} for row in ids])
    assert found["leak"] == pytest.approx(found["prefixes"] - found["full_pass"], abs=1e-6)
    assert (len(found["by_block"]), len(found["by_position"])) == (3, 8)
    differences = max(map(abs, found["by_block"]))
    assert differences > 1e-3 if leaks else differences < 1e-5
    # the token at this place is predicted by the row before it
    at = 4
    with torch.no_grad():
        whole, prefix = (
            network(input_ids=text).logits[:, at - 1].log_softmax(-1) for text in (ids, ids[:, :at])
        )
    gap = (whole - prefix).gather(1, ids[:, at : at + 1]).mean().item()
    assert found["by_position"][at - 1] == pytest.approx(gap, abs=1e-5)
    with pytest.raises(ValueError, match="blocks: none given"):
        future_leak.leak(network, [])
