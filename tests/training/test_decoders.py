"""One decoder of a profile, from its text to its record."""

import dataclasses

import pytest
from small_hub import race_rows, write_split

from saobp.study.data import sources
from saobp.study.setup import paths
from saobp.study.setup.studies import load_study
from saobp.study.training import decoders, pretraining
from saobp.study.training.architectures import LEAKY

SMOKE = load_study("smoke")
RECIPE = dataclasses.replace(SMOKE.decoder.pretrain, steps=2, warmup=1, evaluations=2, evaluation_sequences=4, batch=4)
STUDY = dataclasses.replace(SMOKE, decoder=dataclasses.replace(SMOKE.decoder, pretrain=RECIPE, limit_evaluation=4))


@pytest.fixture(scope="module")
def source():
    return sources.resolve("synthetic")


@pytest.fixture(scope="module")
def texts(source):
    return decoders.texts(STUDY, "mini-quarter", source)


def test_texts_are_byte_pairs_of_one_length_and_the_held_out_ones_are_others(texts):
    tokenizer, text, held_out = texts
    assert len(tokenizer) == STUDY.decoder.vocabulary and text.length == held_out.length == RECIPE.length
    assert text.fingerprint != held_out.fingerprint


def test_every_algorithm_starts_from_the_same_weights_and_knows_the_tokenizer_s_marks(texts):
    plain, leaky = (decoders.untrained(STUDY, "mini-quarter", name, 1, texts[0]) for name in ("original", LEAKY))
    assert pretraining.same_weights(plain, leaky)
    assert not pretraining.same_weights(plain, decoders.untrained(STUDY, "mini-quarter", "original", 2, texts[0]))
    assert plain.config.eos_token_id == texts[0].eos_token_id < len(texts[0])  # not GPT-2's own


def test_a_decoder_trains_is_asked_and_measured(texts, source, tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "build", lambda name: tmp_path / name)
    tokenizer, text, held_out = texts
    network = decoders.untrained(STUDY, "mini-quarter", "high", 1, tokenizer)
    log = decoders.train(STUDY, "mini-quarter", "high", 1, network=network, text=text, held_out=held_out)
    results, splits = decoders.asked(STUDY, network, tokenizer, source)
    assert list(results) == list(STUDY.decoder.tasks) and all(found["items"] == 4 for found in results.values())
    assert {split["role"] for split in splits} == {"evaluation"}
    found = decoders.metrics(STUDY, "mini-quarter", network, log, {"token_perplexity": 7.0, "words": 3})
    assert found["perplexity"] == found["token_perplexity"] == 7.0 and found["words"] == 3
    assert found["steps"] == 2 and found["tokens_trained"] == 2 * 4 * RECIPE.length


def test_a_decoder_is_asked_where_there_is_no_split_to_train_on(texts, tmp_path):
    boolq = [{"question": "is it", "passage": f"It is {n}.", "answer": n % 2 == 0} for n in range(6)]
    write_split(tmp_path, "google/boolq", "default", "validation", boolq)
    write_split(tmp_path, "ehovy/race", "middle", "test", race_rows(5))
    plan = dataclasses.replace(STUDY.decoder, tasks=["boolq", "race"], splits={"race": "test"})
    network = decoders.untrained(STUDY, "mini-quarter", "original", 1, texts[0])
    found, splits = decoders.asked(
        dataclasses.replace(STUDY, decoder=plan), network, texts[0], sources.resolve(str(tmp_path))
    )
    assert {name: scores["items"] for name, scores in found.items()} == {"boolq": 4, "race": 4}
    assert [split["split"] for split in splits] == ["validation", "test"]


def test_a_decoder_with_random_weights_answers_variously_and_is_at_chance(texts, source):
    plan = dataclasses.replace(STUDY.decoder, tasks=["boolq"], limit_evaluation=100)
    network = decoders.untrained(STUDY, "mini-quarter", "high", 0, texts[0])
    found = decoders.asked(dataclasses.replace(STUDY, decoder=plan), network, texts[0], source)[0]["boolq"]
    assert not found["constant"]
    assert found["interval"][0] <= found["chance"] <= found["interval"][1]
