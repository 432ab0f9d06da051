"""Who hears the future: one token changed, the same text by prefixes, and what the numbers are said to mean."""

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from saobp.study.evaluation.future_leak import changes, leak, looks_ahead
from saobp.study.training.architectures import LEAKY, refine_with

SIZES = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64, "vocab_size": 50}
FORMS = [("original", False), ("high", False), (LEAKY, True)]


def decoder(algorithm, **options):
    torch.manual_seed(0)
    network = GPT2LMHeadModel(GPT2Config(**SIZES, bos_token_id=None, eos_token_id=None, **options)).eval()
    return refine_with(network, algorithm, 1.0)


@pytest.mark.parametrize("algorithm, hears", FORMS)
def test_only_the_all_rows_form_lets_a_later_token_reach_back_even_untrained(algorithm, hears):
    changed = changes(decoder(algorithm), torch.arange(12), 8)
    assert changed.shape == (12,) and changed[0] == 0  # the first row has one key, whatever it hears
    assert looks_ahead(changed, 8) == hears
    assert (changed[1:8] > 1e-9).all() if hears else (changed[:8] == 0).all()
    assert (changed[8:] > 1e-6).all()


def test_the_model_is_measured_on_a_copy():
    network = decoder("high").train()
    changes(network, torch.arange(12), 8)
    assert network.training and network.dtype == torch.float32


def test_the_last_word_of_the_vocabulary_has_a_next_one_too():
    assert changes(decoder("original"), torch.full((6,), 49), 3)[3] > 0


def test_a_place_outside_the_text_is_refused():
    with pytest.raises(ValueError, match="place=12 is not one of the 12 positions"):
        changes(decoder("original"), torch.arange(12), 12)


@pytest.mark.parametrize("algorithm, leaks", FORMS)
def test_the_leak_is_what_each_token_is_better_predicted_with_what_follows(algorithm, leaks):
    network = decoder(algorithm, initializer_range=0.5)  # sharp: uniform rows tell nothing
    ids = torch.randint(50, (3, 9))
    found = leak(network, [{"input_ids": row} for row in ids])
    assert found["leak"] == pytest.approx(found["prefixes"] - found["full_pass"], abs=1e-6)
    assert (len(found["by_block"]), len(found["by_position"])) == (3, 8)
    assert sum(found["by_position"]) / 8 == pytest.approx(found["leak"], abs=1e-6)
    differences = max(map(abs, found["by_block"]))
    assert differences > 1e-3 if leaks else differences < 1e-5
    at = 4  # the token at this place is predicted by the row before it
    with torch.no_grad():
        whole, prefix = (network(input_ids=text).logits[:, at - 1].log_softmax(-1) for text in (ids, ids[:, :at]))
    gap = (whole - prefix).gather(1, ids[:, at : at + 1]).mean().item()
    assert found["by_position"][at - 1] == pytest.approx(gap, abs=1e-5)


def test_no_sequence_is_refused():
    with pytest.raises(ValueError, match="blocks: none given"):
        leak(None, [])
