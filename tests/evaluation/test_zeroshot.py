from unittest.mock import Mock

import datasets
import numpy as np
import pytest
import torch
from small_hub import race_rows, word_tokenizer
from transformers import GPT2Config, GPT2LMHeadModel

from companion.evaluation import zeroshot
from companion.evaluation.zeroshot import causal_perplexity, log_likelihoods, prompt, zero_shot
from companion.setup.tasks_and_metrics import TASKS
from companion.statistics import over_samples

BOOLQ = {"passage": "the hat is red .", "question": "is the hat red", "answer": True, "label": 1}
TOKENIZER = word_tokenizer(
    "article question answer yes no what colour is the hat", "red blue green black story"
)


@pytest.fixture(scope="module")
def decoder():
    torch.manual_seed(0)
    sizes = {
        "n_embd": 16,
        "n_layer": 2,
        "n_head": 2,
        "n_positions": 64,
        "vocab_size": len(TOKENIZER),
    }
    return GPT2LMHeadModel(GPT2Config(**sizes, initializer_range=0.5)).eval()


def by_hand(model, before, after):
    """Add up each token's log-probability, one forward pass without padding per token."""
    ids, total = list(before), 0.0
    for token in after:
        with torch.no_grad():
            total += float(model(torch.tensor([ids])).logits[0, -1].log_softmax(-1)[token])
        ids.append(token)
    return total


def test_log_likelihoods_equal_the_slow_sum_whatever_else_is_in_the_batch(decoder):
    random = np.random.default_rng(0)
    lengths = [(1, 1), (9, 3), (3, 12), (20, 1), (5, 5)]
    pairs = [
        [random.integers(0, len(TOKENIZER), count).tolist() for count in pair] for pair in lengths
    ]
    expected = [by_hand(decoder.eval(), *pair) for pair in pairs]
    for batch in (1, 2, 5):
        # dropout would show, and the model is left in its mode
        decoder.train()
        assert (
            log_likelihoods(decoder, pairs, batch=batch) == pytest.approx(expected, abs=1e-4)
            and decoder.training
        )
    decoder.eval()


@pytest.mark.parametrize(
    ("options", "sums"),
    [
        # over 16 bytes and 4, with a blank
        (["red red red red", "red", "green", "black"], [-6.0, -4.0, -9.0, -9.0]),
        # over 9 bytes and 6, of 5 letters and 6
        (["é" * 4, "aaaaa", "b", "c"], [-8.5, -6.0, -9.0, -9.0]),
    ],
)
def test_the_likeliest_option_is_chosen_and_by_the_bytes_a_long_one_is_not_at_a_loss(
    monkeypatch, options, sums
):
    data = datasets.Dataset.from_list([race_rows(1)[0] | {"options": options, "label": 0}])
    monkeypatch.setattr(zeroshot, "log_likelihoods", lambda model, pairs: sums)
    found = zero_shot(TASKS["race"], None, TOKENIZER, data, length=128)
    # the second is likeliest
    assert (found["headline"], found["outcomes"]) == (0, [0])
    assert (found["scores"]["accuracy_normalized"], found["outcomes_normalized"]) == (100, [1])


def test_boolq_is_asked_as_the_harness_asks_it_the_passage_is_cut_and_question_and_option_stay_whole(
    monkeypatch,
):
    passage, question, options = prompt(TASKS["boolq"], BOOLQ)
    assert (
        passage + question == "the hat is red .\nQuestion: is the hat red?\nAnswer:"
        and options == [" no", " yes"]
    )
    monkeypatch.setattr(zeroshot, "log_likelihoods", asked := Mock(return_value=[0.0, 0.0]))
    zero_shot(TASKS["boolq"], None, TOKENIZER, datasets.Dataset.from_list([BOOLQ]), length=13)
    _, seen = asked.call_args.args
    texts = [TOKENIZER.decode(before + after) for before, after in seen]
    assert [len(before + after) for before, after in seen] == [13, 13]
    assert texts[0].startswith("the hat is question : is the hat red?")
    assert texts[0].endswith("no") and texts[1].endswith("yes")
    with pytest.raises(ValueError, match="length=9 cannot hold the question and option"):
        zero_shot(TASKS["boolq"], None, TOKENIZER, datasets.Dataset.from_list([BOOLQ]), length=9)


def test_the_perplexity_of_a_decoder_has_an_interval_over_blocks_and_that_of_words_fewer_units(
    decoder,
):
    random = torch.Generator().manual_seed(0)
    blocks = [
        {"input_ids": torch.randint(5, len(TOKENIZER), (n,), generator=random)}
        for n in (6, 9, 12, 15)
    ]
    found = causal_perplexity(decoder, TOKENIZER, blocks, batch=2)
    nats = [
        -by_hand(decoder, ids[:1], ids[1:])
        for ids in (block["input_ids"].tolist() for block in blocks)
    ]
    expected = over_samples(nats, [5, 8, 11, 14])
    assert found["token_perplexity"] == pytest.approx(np.exp(sum(nats) / 38), rel=1e-4)
    assert found["perplexity_interval"] == pytest.approx(
        [np.exp(expected.low), np.exp(expected.high)], rel=1e-4
    )
    assert (found["tokens"], found["context"], found["sequences"]) == (38, 15, 4)
    ids = TOKENIZER("the hat is zq the hat", add_special_tokens=False)["input_ids"]
    found = causal_perplexity(decoder, TOKENIZER, [{"input_ids": torch.tensor(ids)}])
    assert found["words"] == 5
    assert found["word_perplexity"] == pytest.approx(
        np.exp(-by_hand(decoder, ids[:1], ids[1:]) / 5), rel=1e-4
    )
