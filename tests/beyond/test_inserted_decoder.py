"""A public decoder with the step and without, on text and on benchmarks: one record each."""

import json
from dataclasses import replace

import pytest

from saobp.models.opening import Opened
from saobp.study.beyond import inserted_decoder, plan
from saobp.study.beyond.inserted import Untrained
from saobp.study.data import sources
from saobp.study.setup.studies import load_study
from saobp.study.training import decoders

PLANNED = plan.section(plan.file(), "retrofit-untrained", Untrained)


@pytest.fixture(scope="module")
def decoder():
    study, source = load_study("smoke"), sources.resolve("synthetic")
    small = replace(study, decoder=replace(study.decoder, pretrain=replace(study.decoder.pretrain, limit_tokens=2_000)))
    tokenizer, *_ = decoders.texts(small, "mini-quarter", source)
    network = decoders.untrained(small, "mini-quarter", "original", 1, tokenizer)
    return Opened("a decoder", network.eval(), tokenizer, "weights of a file, dequantised")


def test_each_text_and_benchmark_has_a_record_per_strength_that_pairs_with_that_of_plain_attention(
    decoder, tmp_path, monkeypatch
):
    source = sources.resolve("synthetic")
    monkeypatch.setattr(inserted_decoder, "opened", lambda: decoder)
    monkeypatch.setattr(inserted_decoder.sources, "resolve", lambda name: source)
    given = {"TEXT": "saobp/stories:default", "TOKENS": 130, "CONTEXT": 32, "LENGTH": 60}
    given["ASKED"] = {"boolq": 4, "race": 2}
    for name, value in given.items():
        monkeypatch.setattr(inserted_decoder, name, value)
    made = dict(inserted_decoder.records_of(PLANNED))
    assert len(made) == 3 * len(PLANNED.decoder_strengths)
    found = {}
    for name in made:
        if name.endswith(("-0", "-0.1")):
            made[name](tmp_path / f"{name}.json", tmp_path)
            record = json.loads((tmp_path / f"{name}.json").read_text())
            found[record["parameters"]["task"], record["parameters"]["factor"]] = record["metrics"]
            (split,), asked = record["data"]["splits"], given["ASKED"].get(record["parameters"]["task"])
            assert not split["complete"] and (f"first {asked} rows" if asked else "cut at 130 tokens") in split["note"]
            assert asked is None or split["used"] == asked
    assert set(found) == {(task, factor) for task in ("wikipedia", "boolq", "race") for factor in ("none", "high")}
    assert found["wikipedia", "none"]["tokens"] == 128
    plain, refined = (found["wikipedia", factor]["losses"] for factor in ("none", "high"))
    assert len(plain) == len(refined) == 4 and all(one != other for one, other in zip(plain, refined))
    assert [len(found["race", factor]["outcomes"]) for factor in ("none", "high")] == [2, 2]
    assert found["boolq", "high"]["items"] == 4


def test_a_decoder_that_is_not_there_is_one_line_with_what_brings_it(monkeypatch):
    monkeypatch.setattr(inserted_decoder, "WEIGHTS", "nowhere/*.gguf")
    with pytest.raises(FileNotFoundError, match="nowhere/.*CONTRIBUTING.md"):
        inserted_decoder.opened()
