"""Who hears the future, and what a trained decoder gains by it."""

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from companion.evaluation import future_leak
from companion.training.architectures import LEAKY, refine_with


@pytest.mark.parametrize("reading, hears", [("prefix", False), ("all rows", True)])
def test_the_small_decoder_of_notebook_07_reads_the_future_by_the_all_rows_form_alone(
    reading, hears
):
    torch.manual_seed(0)
    network = future_leak.decoder(reading, 1.0, vocabulary=8, length=12)
    changed = future_leak.changes(network, torch.arange(12) % 8, 8)
    assert future_leak.looks_ahead(changed, 8) == hears


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
