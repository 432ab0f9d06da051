"""What the step does to a public encoder and to a public decoder that are not trained any
further.
"""

import math
import re
from itertools import combinations

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from scipy.stats import spearmanr

import saobp
from companion.data import sources
from companion.setup.studies import load_study
from companion.studies import plan
from companion.studies.retrofit import inserted
from companion.training import pretraining
from saobp.models import public
from saobp.models.apply import raw_attentions
from saobp.models.models_by_name import Opened

PLANNED = plan.section(plan.file(), "retrofit-untrained", inserted.Untrained)


def cosine(one, other):
    return sum(a * b for a, b in zip(one, other)) / math.hypot(*one) / math.hypot(*other)


def test_what_is_kept_of_embeddings_is_what_a_loop_over_texts_and_pairs_finds():
    plain, vectors = torch.randn(2, 5, 7, dtype=torch.float64)
    before, after = (
        [cosine(*pair) for pair in combinations(rows.tolist(), 2)] for rows in (plain, vectors)
    )
    same = sum(map(cosine, vectors.tolist(), plain.tolist())) / 5
    change = sum(after) / 10 - sum(before) / 10
    assert inserted.kept(plain, vectors) == pytest.approx(
        (same, change, spearmanr(before, after).statistic)
    )
    assert inserted.kept(plain, plain) == pytest.approx((1, 0, 1))

    with pytest.raises(ValueError, match="^texts: 2 is too few.*: take 3"):
        inserted.kept(plain[:2], plain[:2])


def test_one_layer_alone_refines_that_layer_and_no_other():
    model, tokenizer = public.load("minilm")
    saobp.apply(model, "high", 0.5)
    given = tokenizer("the cat sat on the mat", return_tensors="pt")
    with inserted.in_layer_alone(model, 2), raw_attentions(model) as pairs, torch.no_grad():
        model(**given)
    changed = [not torch.equal(raw, refined) for raw, refined in pairs]
    assert changed == [layer == 2 for layer in range(6)]


def test_the_interval_of_a_difference_holds_no_difference_between_equals():
    random = np.random.default_rng(0)
    gold = random.normal(size=200)
    predicted = gold + random.normal(size=200)
    assert inserted.paired_interval(predicted, predicted, gold, draws=20) == [0, 0]
    low, high = inserted.paired_interval(gold, predicted, gold, draws=200)
    assert 0 < low < 100 - inserted.spearman(predicted, gold) < high


def test_mean_pooling_does_not_see_padding():
    model, tokenizer = public.load("minilm")
    texts = [
        "a short one",
        "a sentence of rather more words than the first one has, so that it is padded",
    ]
    together, alone = (
        inserted.embeddings(model, tokenizer, texts),
        inserted.embeddings(model, tokenizer, texts[:1]),
    )
    assert torch.allclose(together[:1], alone, atol=1e-5)


@pytest.fixture(scope="module")
def decoder():
    study, source = load_study("smoke"), sources.resolve("synthetic")
    small = study.changed(
        decoder=study.decoder.changed(pretrain=study.decoder.pretrain.changed(limit_tokens=2_000))
    )
    tokenizer, *_ = pretraining.texts(small, "gpt2-mini-quarter", source)
    network = pretraining.untrained(small, "gpt2-mini-quarter", "original", 1, tokenizer)
    return Opened("a decoder", network.eval(), tokenizer, "weights of a file, dequantised")


def test_each_text_and_benchmark_has_a_record_per_strength_that_pairs_with_that_of_plain_attention(
    decoder, tmp_path, monkeypatch
):
    source = sources.resolve("synthetic")
    monkeypatch.setattr(inserted, "opened", lambda: decoder)
    monkeypatch.setattr(inserted.sources, "resolve", lambda name: source)
    given = {"TEXT": "saobp/stories:default", "TEXT_TOKENS": 130, "CONTEXT": 32, "LENGTH": 60}
    given["ASKED"] = {"boolq": 4, "race": 2}
    for name, value in given.items():
        monkeypatch.setattr(inserted, name, value)
    found = {}
    for name, make, _ in inserted.records_of(PLANNED):
        if name.endswith(("-0", "-0.1")):
            record = make(tmp_path / f"{name}.json", tmp_path)
            found[record["parameters"]["task"], record["parameters"]["factor"]] = record["metrics"]
            (split,), asked = (
                record["data"]["splits"],
                given["ASKED"].get(record["parameters"]["task"]),
            )
            said = rf"first {asked} rows" if asked else rf"cut at {given['TEXT_TOKENS']}\b"
            assert not split["complete"] and re.search(said, split["note"])
            assert asked is None or split["used"] == asked
    assert set(found) == {
        (task, factor) for task in ("wikipedia", "boolq", "race") for factor in ("none", "high")
    }
    assert found["wikipedia", "none"]["tokens"] == 128
    plain, refined = (found["wikipedia", factor]["losses"] for factor in ("none", "high"))
    assert len(plain) == len(refined) == 4 and all(
        one != other for one, other in zip(plain, refined)
    )
    assert [len(found["race", factor]["outcomes"]) for factor in ("none", "high")] == [2, 2]
    assert found["boolq", "high"]["items"] == 4


def test_a_decoder_that_is_not_there_is_one_line_with_what_brings_it(monkeypatch):
    monkeypatch.setattr(inserted, "WEIGHTS", "nowhere/*.gguf")
    with pytest.raises(FileNotFoundError, match="nowhere/.*CONTRIBUTING.md"):
        inserted.opened()


def test_the_command_keeps_the_encoder_s_record_where_the_decoder_is_not_there_and_says_so_in_one_line(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(inserted, "WEIGHTS", "nowhere/*.gguf")
    monkeypatch.setattr(
        inserted, "run", lambda study, path, folder: path.write_text("the encoder's")
    )
    (tmp_path / "records").mkdir()
    command = plan.command("retrofit-untrained", inserted.Untrained, inserted.records_of)
    encoder = tmp_path / "records" / "13-retrofit-untrained-minilm.json"
    for asked, code in (["--only", "minilm"], 0), ([], 1):
        encoder.unlink(missing_ok=True)
        told = CliRunner().invoke(command, ["--out", str(encoder.parent), *asked])
        assert (told.exit_code, len(told.output.splitlines())) == (code, code)
    assert (
        told.output.startswith("saobp: nowhere/*.gguf: not there")
        and encoder.read_text() == "the encoder's"
    )
    assert [*encoder.parent.iterdir()] == [encoder]
