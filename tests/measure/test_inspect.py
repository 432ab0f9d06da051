"""`saobp inspect`: its numbers are those of the library, its files whole, and bad input one
line.
"""

import html
import json
import os
import platform
import re
import shutil
import subprocess
import sys

import huggingface_hub
import model_folders
import numpy as np
import pandas as pd
import pytest
import torch
import transformers as hf
from families import SIZES, TOKENS, build, seen, sharpened
from PIL import Image
from safetensors.torch import load_file, save_file
from small_models import word_tokenizer

import saobp
from companion.publication.cli import main
from saobp.measure import gtd_and_entropy
from saobp.measure import inspect as inspecting
from saobp.measure.inspection import by_name, explorer, maps, predictions
from saobp.measure.inspection.maps import one_step
from saobp.measure.inspection.measures import MEASURES
from saobp.measure.observed import Seen, observed
from saobp.measure.streams import StreamedBootstrap
from saobp.models import models_by_name


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    base = tmp_path_factory.mktemp("models")
    return {kind: model_folders.folder(kind, base / kind) for kind in ("gpt2", "modernbert", "vit")}


@pytest.fixture
def texts(tmp_path):
    return model_folders.text_file(tmp_path / "texts.txt")


def test_every_number_is_the_library_s_own():
    model, tokenizer = model_folders.decoder(), word_tokenizer()
    table = saobp.inspect(
        model, tokenizer, model_folders.TEXTS, strengths=np.array([0.3, 0.3]), samples=3
    ).to_frame()
    saobp.apply(model, "none")
    measures, found = (saobp.gtd, saobp.attention_entropy), []
    for text in model_folders.TEXTS[:3]:
        raw = torch.cat([pair[0] for pair in seen(model, **tokenizer(text, return_tensors="pt"))])
        sides = (raw, saobp.refine(raw, "high", 0.3, causal=True))
        found.append([[measure(side).numpy() for measure in measures] for side in sides])
    expected = np.array(found).mean(0)
    for m, measure in enumerate(("gtd", "entropy")):
        heads = table[(table.measure == measure) & table["head"].notna()].sort_values(
            ["layer", "head"]
        )
        assert heads.before.to_numpy() == pytest.approx(expected[0, m].ravel(), abs=1e-5)
        assert heads.after.to_numpy() == pytest.approx(expected[1, m].ravel(), abs=1e-5)
        layers = table[(table.measure == measure) & table["head"].isna()].sort_values("layer")
        assert layers.after.to_numpy() == pytest.approx(expected[1, m].mean(-1), abs=1e-5)
        assert ((layers.low <= layers.change) & (layers.change <= layers.high)).all()


def test_the_model_is_left_as_it_was_and_no_more_texts_are_read_than_asked_for():
    model, left = model_folders.decoder(), iter(model_folders.TEXTS)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    saobp.inspect(model, word_tokenizer(), left, strengths=torch.tensor(0.5), samples=2)
    assert [*left] == model_folders.TEXTS[2:]
    assert model.config._attn_implementation == "sdpa" and not hasattr(model.config, "saobp")
    assert model.state_dict().keys() == before.keys()
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


def test_no_texts_no_strengths_and_attention_that_is_no_number_are_refused_by_their_names():
    with pytest.raises(ValueError, match="^texts must be several texts"):
        saobp.inspect(model_folders.decoder(), word_tokenizer(), None)
    for call in (explorer.collect, lambda *given: predictions.perplexities(*given, "high", [0.1])):
        with pytest.raises(ValueError, match="^texts: none of two tokens or more$"):
            call(model_folders.decoder(), word_tokenizer(), [])
    with pytest.raises(ValueError, match="^strengths must hold one at least$"):
        predictions.perplexities(
            model_folders.decoder(), word_tokenizer(), model_folders.TEXTS, "high", []
        )
    model = model_folders.decoder()
    model.transformer.h[0].attn.c_attn.weight.data.fill_(torch.nan)
    with pytest.raises(
        ValueError, match="^model: GPT2LMHeadModel gives attention that is no number"
    ):
        saobp.inspect(model, word_tokenizer(), model_folders.TEXTS[:1])


def test_a_probability_that_came_to_0_in_one_head_is_not_hidden():
    """ElemMul gives such a key what `saobp.apply` does: sharp scores leave only zeros beside a
    row's largest.
    """
    model = hf.BertModel(hf.BertConfig(**TOKENS, **SIZES)).eval()
    for name, weight in model.named_parameters():
        if name.endswith(("query.weight", "key.weight")):
            weight.data.mul_(60)
    found = saobp.inspect(model, word_tokenizer(), model_folders.TEXTS[:1], factor="elemmul")
    rows = found.to_frame().query("layer == 1 and measure == 'entropy'").dropna(subset="head")
    saobp.apply(model, "elemmul")
    raw, refined = seen(model, **word_tokenizer()(model_folders.TEXTS[0], return_tensors="pt"))[0]
    assert (raw == 0).any() and np.allclose(
        rows["after"], saobp.attention_entropy(refined)[0], atol=1e-5
    )


@pytest.mark.parametrize(
    ("kind", "spare"),
    [("modernbert", "first"), ("modernbert", "edges"), ("modernbert", 0.2), ("gpt2", "first")],
)
def test_spared_keys_are_those_of_apply_in_the_table_and_in_the_perplexity(kind, spare, folders):
    head = hf.GPT2LMHeadModel if kind == "gpt2" else hf.ModernBertForMaskedLM
    model = head.from_pretrained(folders[kind])
    text, tokenizer = model_folders.TEXTS[:1], word_tokenizer()
    table = saobp.inspect(model, tokenizer, text, strengths=0.5, spare=spare).to_frame()
    rows = table.query("layer == 1 and measure == 'entropy'").dropna(subset="head")
    told = predictions.perplexities(model, tokenizer, text, "high", [0.0, 0.5], spare=spare)
    unspared = saobp.inspect(model, tokenizer, text, strengths=0.5).to_frame()
    assert not table.after.equals(unspared.after)
    refined = saobp.apply(model, "high", 0.5, spare=spare)
    _, first_layer = seen(refined, **tokenizer(text[0], return_tensors="pt"))[0]
    entropy = saobp.attention_entropy(first_layer)[0]
    assert rows.after.to_numpy() == pytest.approx(entropy.numpy(), abs=1e-5)
    if kind == "gpt2":
        inputs = tokenizer(text[0], return_tensors="pt")
        with torch.no_grad():
            loss = refined(**inputs, labels=inputs["input_ids"]).loss.item()
        assert told[1]["perplexity"] == pytest.approx(np.exp(loss), rel=1e-4)


def test_the_strength_of_a_model_follows_the_paper_s_rule():
    sizes = {11.17e6: 0.2, 28.8e6: 0.08, 41.4e6: 0.05, 22.7e6: 0.1, 1e6: 0.2}
    for parameters, strength in sizes.items():
        model = torch.nn.ParameterList(
            [torch.nn.Parameter(torch.empty(int(parameters), device="meta"))]
        )
        assert inspecting.strength_for(model) == strength


def test_a_causal_tower_is_measured_as_one_and_a_model_of_several_stacks_is_refused_in_one_line():
    tokenizer = word_tokenizer(50)
    ids = {"vocab_size": len(tokenizer), "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
    tower = sharpened(hf.CLIPTextModel(hf.CLIPTextConfig(**SIZES, **ids, projection_dim=16)))
    assert saobp.inspect(tower, tokenizer, model_folders.TEXTS[:2]).causal
    assert explorer.collect(tower, tokenizer, model_folders.TEXTS[:2], tokens=12)["causal"]
    sizes = {
        "image_size": 32,
        "patch_size": 4,
        "embed_dim": 16,
        "depths": [1, 1],
        "num_heads": [2, 4],
    }
    pictures = (
        hf.ViTImageProcessor(size={"height": 32, "width": 32}),
        [np.zeros((32, 32, 3), dtype=np.uint8)] * 2,
    )
    with pytest.raises(
        ValueError, match="^model: SwinModel gives no attention maps of one stack of layers$"
    ):
        saobp.inspect(hf.SwinModel(hf.SwinConfig(**sizes, window_size=4)), *pictures)


def test_what_a_window_hides_stays_hidden():
    maps = torch.rand(2, 6, 6).triu(-1).tril(1)
    maps = maps / maps.sum(-1, keepdim=True)
    for factor in inspecting.FACTORS:
        refined = one_step(maps, factor, 0.3, causal=False)
        assert (refined[maps == 0] == 0).all()
        assert torch.allclose(refined.sum(-1), torch.ones(2, 6))
    # of the at most three rows that may look at a key
    shares = maps.sum(-2) / (maps > 0).sum(-2)
    refined = saobp.refine(maps, strength=0.3, spare=shares > 0.4).masked_fill(maps == 0, 0)
    spared = one_step(maps, "high", 0.3, causal=False, spare=0.4)
    assert 0 < (shares > 0.4).sum() < shares.numel()
    torch.testing.assert_close(spared, refined / refined.sum(-1, keepdim=True))


def test_perplexity_at_no_strength_is_the_plain_model_s_and_later_ones_the_refined_model_s():
    model, tokenizer = model_folders.decoder(), word_tokenizer()
    found = predictions.perplexities(
        model, tokenizer, model_folders.TEXTS, "high", (0.0, 0.5), samples=2
    )
    for factor, strength, told in (("none", 0.5, found[0]), ("high", 0.5, found[1])):
        refined, losses, count = saobp.apply(model_folders.decoder(), factor, strength), 0.0, 0
        for text in model_folders.TEXTS[:2]:
            inputs = tokenizer(text, return_tensors="pt")
            with torch.no_grad():
                losses += refined(**inputs, labels=inputs["input_ids"]).loss.item() * (
                    inputs["input_ids"].shape[1] - 1
                )
            count += inputs["input_ids"].shape[1] - 1
        assert (
            told["perplexity"] == pytest.approx(np.exp(losses / count), rel=1e-4)
            and told["tokens"] == count
        )
        assert told["low"] < told["perplexity"] < told["high"]
    assert found[0]["ratio_low"] == found[0]["ratio"] == found[0]["ratio_high"] == 1
    assert found[1]["ratio"] == pytest.approx(found[1]["perplexity"] / found[0]["perplexity"])
    assert found[1]["ratio_low"] < found[1]["ratio"] < found[1]["ratio_high"]


def test_the_first_token_of_a_decoder_has_one_name_in_every_text():
    found = saobp.inspect(model_folders.decoder(), word_tokenizer(), model_folders.TEXTS, samples=4)
    first = next(sink for sink in found.sinks() if sink["token"] == "first token")
    assert first["share"] > 0.5 and len(found.sinks(1)) < 4 * 4


def test_streamed_intervals_are_those_of_the_bootstrap_in_memory_that_does_not_grow_with_the_texts():
    values = np.random.default_rng(1).normal(3, 2, (400, 2))
    stream = StreamedBootstrap(draws=2000)
    sizes = []
    for number, row in enumerate(values):
        stream.add(row)
        sizes.append(stream.sums.nbytes)
        assert number or np.isnan(np.array(stream.interval())).all()
    low, high = stream.interval()
    assert stream.mean() == pytest.approx(values.mean(0)) and len(set(sizes)) == 1
    assert (high - low) / 2 == pytest.approx(1.96 * values.std(0) / 20, rel=0.1)


@pytest.mark.parametrize("kind", ["gpt2", "modernbert", "vit"])
def test_the_command_writes_a_page_a_table_and_the_numbers(kind, folders, texts, tmp_path, capsys):
    spare = "first" if kind == "gpt2" else "0.3"
    given = ["--text", str(texts)] if kind != "vit" else ["--images", str(tmp_path)]
    for number in range(3 if kind == "vit" else 0):
        pixels = np.random.default_rng(number).integers(0, 255, (12, 12, 3), np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
    out = tmp_path / "out"
    asked = [
        "--strength=0.2",
        "--strength=0.4",
        "--samples",
        "3",
        "--spare",
        spare,
        "--out",
        str(out),
    ]
    assert main(["inspect", str(folders[kind]), *given, *asked]) == 0
    printed = capsys.readouterr().out
    assert f", spare = {spare}; " in printed
    assert "largest column sum" in printed and str(out / "index.html") in printed
    # whose sink has a long name, written in full
    if kind == "gpt2":
        row = next(line for line in printed.splitlines() if "first token (" in line)
        assert row.index(" → ") > printed.splitlines()[0].index("largest")
    files = {"attention.csv", "measures.csv", "attention.json", "index.html"} | (
        {"perplexity.csv"} if kind != "vit" else set()
    )
    assert {file.name for file in out.iterdir()} == files
    table, told = (
        pd.read_csv(out / "attention.csv"),
        json.loads((out / "attention.json").read_text()),
    )
    assert told["spare"] == ("first" if kind == "gpt2" else 0.3)
    assert set(table.strength) == {0.2, 0.4} and told["texts"] == 3 and told["layers"] == 2
    of_layers = table[
        (table.strength == 0.2) & table["head"].isna() & (table.measure == "gtd")
    ].to_dict("records")
    for row, listed in zip(told["table"], of_layers, strict=True):
        sides = ["before", "after", "change", "low", "high"]
        assert [row["gtd"][side] for side in sides] == pytest.approx(
            [listed[side] for side in sides], rel=1e-4
        )
    page = (out / "index.html").read_text()
    assert not re.search(r"(src|href)=\"|@import|url\(", page) and "saobp-explorer" in page
    predicted = {one["kind"] for one in told["predictions"]}
    assert (
        predicted
        == {"gpt2": {"perplexity"}, "modernbert": {"pseudo-perplexity"}, "vit": set()}[kind]
    )


def broken(folder, tmp_path, remove=(), add=()):
    """Copy a model's folder without some files and with empty others."""
    copy = tmp_path / "broken"
    shutil.copytree(folder, copy)
    for pattern in remove:
        for file in copy.glob(pattern):
            file.unlink()
    for name in add:
        (copy / name).write_bytes(b"")
    return copy


@pytest.mark.parametrize(
    ("remove", "add", "said"),
    [
        (["tokenizer*"], [], "has no tokenizer"),
        (["*.safetensors"], [], "has no weights"),
        (["*.safetensors"], ["pytorch_model.bin"], "pickled weights"),
        (["config.json"], [], "no config.json"),
        (["*.safetensors"], ["model.safetensors"], "transformers cannot open it"),
    ],
)
def test_a_folder_that_is_no_whole_model_is_refused_in_one_line(
    remove, add, said, folders, tmp_path, capsys
):
    refused([str(broken(folders["gpt2"], tmp_path, remove, add))], said, tmp_path, capsys)


@pytest.mark.parametrize(
    ("lost", "said"), [(True, "weights lack transformer.h.0.attn"), (False, "another shape")]
)
def test_weights_that_do_not_fit_the_configuration_are_refused(
    lost, said, folders, tmp_path, capsys
):
    folder = broken(folders["gpt2"], tmp_path)
    weights = load_file(folder / "model.safetensors")
    name = next(name for name in weights if "attn.c_attn.weight" in name)
    weights |= {name: weights[name][:, :-1].clone()}
    save_file(
        {key: value for key, value in weights.items() if not lost or key != name},
        folder / "model.safetensors",
    )
    refused([str(folder)], said, tmp_path, capsys)


def refused(arguments, said, tmp_path, capsys, out=None):
    """Check that a command ends with 2, says one line on stderr, and leaves nothing behind."""
    out = out or tmp_path / "out"
    there = sorted(tmp_path.iterdir())
    assert main(["inspect", *arguments, "--out", str(out)]) == 2
    told = capsys.readouterr()
    line = [text for text in told.err.replace("\r", "\n").splitlines() if text]
    assert len(line) == 1 and line[0].startswith("saobp: ") and re.search(said, line[0]), told.err
    assert told.out == "" and sorted(tmp_path.iterdir()) == there


def test_an_inspection_into_a_folder_whose_name_is_no_utf_8_is_written(folders, texts, tmp_path):
    texts, out = texts.rename(tmp_path / "caf\udce9.txt"), tmp_path / "out\udce9"
    words = ["--text", str(texts), "--samples", "2", "--out", str(out)]
    assert main(["inspect", str(folders["gpt2"]), *words]) == 0
    assert {"index.html", "attention.json"} <= {file.name for file in out.iterdir()}
    assert r"caf\udce9" in (out / "index.html").read_text()


def test_a_model_that_is_no_transformer_is_refused(folders, tmp_path, capsys):
    config = hf.ResNetConfig(embedding_size=8, hidden_sizes=[8], depths=[1], layer_type="basic")
    hf.ResNetModel(config).save_pretrained(tmp_path / "resnet")
    shutil.copy(folders["vit"] / "preprocessor_config.json", tmp_path / "resnet")
    (tmp_path / "pictures").mkdir()
    Image.new("RGB", (12, 12)).save(tmp_path / "pictures" / "a.png")
    given = [str(tmp_path / "resnet"), "--images", str(tmp_path / "pictures")]
    refused(given, "no self-attention", tmp_path, capsys)
    refused([*given, "--text", "t.txt"], "text or pictures, not both", tmp_path, capsys)
    whole = (tmp_path / "pictures" / "a.png").read_bytes()
    (tmp_path / "pictures" / "a.png").write_bytes(whole[:40])
    refused(given, "a.png: is no whole picture", tmp_path, capsys)
    Image.new("1", (20_000, 20_000)).save(tmp_path / "pictures" / "a.png")
    refused(given, "a.png: has over 89 million pixels; make it smaller", tmp_path, capsys)
    Image.new("1", (10_000, 10_000)).save(tmp_path / "pictures" / "a.png")
    refused(given, "a.png: has over 89 million pixels; make it smaller", tmp_path, capsys)

    (tmp_path / "resnet" / "preprocessor_config.json").unlink()
    # what it reads with is not looked for
    shutil.copy(folders["gpt2"] / "tokenizer.json", tmp_path / "resnet")
    refused(given[:1], "no self-attention", tmp_path, capsys)


@pytest.mark.parametrize("name", ["index.html", "attention.csv", "attention.json"])
def test_an_inspection_writes_over_nothing_that_no_inspection_wrote(
    name, folders, texts, tmp_path, capsys
):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / name).write_text("{}")
    given = [str(folders["gpt2"]), "--text", str(texts)]
    said = f"{name}: is there, and no inspection wrote it; choose another --out"
    refused(given, said, tmp_path, capsys, out=tmp_path / "site")
    assert (tmp_path / "site" / name).read_text() == "{}"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        *(
            (["--strength=0.1", f"--strength={bad}"], f"strength must .* above 0.* got {bad}")
            for bad in ("-0.1", "nan", "inf", "0.0")
        ),
        (["--factor", "higher"], "factor must be one of"),
        (["--spare", "last"], "spare must be None"),
        (["--spare", "1.5"], "spare must be None"),
        (["--spare", "0.3"], "spare=0.3 cannot be known in a causal model"),
        (["--spare", "first", "--factor", "elemmul"], "spare does not apply to factor 'elemmul'"),
        (["--samples", "0"], "samples must be a whole number of at least 1"),
        (["--tokens", "3"], "tokens must be a whole number of at least 4"),
        (["--text", "nowhere.txt"], "nowhere.txt: cannot be read"),
        (["--images", "nowhere"], "no such folder"),
        (["--text", ""], "holds no text"),
        (["--text", "\n\n"], "holds no text"),
        (["--text", "w1"], "two tokens"),
    ],
)
def test_bad_options_and_texts_are_refused_in_one_line(options, said, folders, tmp_path, capsys):
    if options[0] == "--text" and options[1] != "nowhere.txt":
        (tmp_path / "short.txt").write_text(options[1])
        options = ["--text", str(tmp_path / "short.txt")]
    refused([str(folders["gpt2"]), *options], said, tmp_path, capsys)


def test_no_model_a_model_of_pictures_for_text_and_folders_not_to_be_written_are_refused(
    folders, texts, tmp_path, capsys
):
    refused(["minlm"], "no such folder", tmp_path, capsys)
    refused([str(folders["vit"])], "reads pictures", tmp_path, capsys)
    (tmp_path / "locked").mkdir(mode=0o500)
    # root may write everywhere
    for place in [texts, *([] if os.geteuid() == 0 else [tmp_path / "locked"])]:
        refused([str(folders["gpt2"])], "cannot be written", tmp_path, capsys, out=place / "out")


def test_a_repository_that_is_nowhere_is_asked_for_once(monkeypatch, tmp_path, capsys):
    asked = []

    def unreachable(*_, **__):
        asked.append(1)
        raise OSError("Name or service not known")

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", unreachable)
    monkeypatch.setattr(
        hf.AutoConfig,
        "from_pretrained",
        lambda *_, **__: pytest.fail("transformers tries for half a minute"),
    )
    refused(
        ["nobody/nothing"],
        "nobody/nothing: no such folder, not in the hub's cache",
        tmp_path,
        capsys,
    )
    assert asked == [1]


def test_a_repository_of_the_hub_is_taken_from_the_mirror_and_a_public_model_from_the_package(
    monkeypatch, folders, tmp_path
):
    shutil.copytree(folders["gpt2"], tmp_path / "owner" / "decoder")
    monkeypatch.setenv("SAOBP_DATA", str(tmp_path))
    opened = models_by_name.open_model("owner/decoder")
    assert opened.name == "owner/decoder" and isinstance(opened.model, hf.GPT2LMHeadModel)
    names = ("sentence-transformers/all-MiniLM-L6-v2", "minilm")
    by_repository, by_name = map(models_by_name.open_model, names)
    assert by_repository.name == by_name.name == "sentence-transformers/all-MiniLM-L6-v2"
    assert by_repository.model.name_or_path == by_name.model.name_or_path


def test_an_interrupted_write_leaves_the_old_files(monkeypatch, folders, texts, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "index.html").write_text("old")
    (out / "attention.json").write_text('{"model": "", "factor": "", "strengths": []}')
    monkeypatch.setattr(explorer, "page", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    given = [
        "inspect",
        str(folders["gpt2"]),
        "--text",
        str(texts),
        "--samples",
        "2",
        "--out",
        str(out),
    ]
    # as a shell says of Ctrl-C
    assert main(given) == 130
    assert {file.name for file in out.iterdir()} == {"attention.json", "index.html"}
    assert (out / "index.html").read_text() == "old"


CODE = """
from transformers import PretrainedConfig
open({mark!r}, "w")
class Custom(PretrainedConfig):
    model_type = "custom"
"""


def test_code_of_a_model_folder_is_not_run_also_where_the_user_says_yes(
    folders, monkeypatch, tmp_path, capsys
):
    monkeypatch.setattr("builtins.input", lambda *text: "y")
    folder, mark = shutil.copytree(folders["gpt2"], tmp_path / "model"), tmp_path / "has_run"
    (folder / "custom.py").write_text(CODE.format(mark=str(mark)))
    settings = json.loads((folder / "config.json").read_text())
    settings |= {"model_type": "custom", "auto_map": {"AutoConfig": "custom.Custom"}}
    (folder / "config.json").write_text(json.dumps(settings))
    refused([str(folder)], "cannot open it .*custom code", tmp_path, capsys)
    assert not mark.exists()


def test_weights_are_opened_in_float32_and_a_pickle_is_not(tmp_path):
    model = build("bert")
    model.to(torch.float16).save_pretrained(tmp_path / "half")
    assert models_by_name._model(tmp_path / "half", {}).dtype is torch.float32
    model.config.save_pretrained(tmp_path / "pickle")
    torch.save(model.state_dict(), tmp_path / "pickle" / "pytorch_model.bin")
    with pytest.raises(OSError, match="safetensors"):
        models_by_name._model(tmp_path / "pickle", {})


@pytest.mark.parametrize("name", ["sentencepiece.bpe.model", "spm.model", "tokenizer_config.json"])
def test_a_folder_whose_tokenizer_has_another_file_is_not_refused_before_it_is_tried(
    name, tmp_path
):
    for file in ("config.json", "model.safetensors", name):
        (tmp_path / file).touch()
    models_by_name._refuse_incomplete(tmp_path)


def test_a_text_is_cut_before_the_last_positions_of_roberta_which_start_at_two_and_as_asked_where_there_are_none():
    model = hf.RobertaModel(
        hf.RobertaConfig(**TOKENS | {"pad_token_id": 1}, **SIZES, max_position_embeddings=20)
    )
    assert saobp.inspect(model, word_tokenizer(), "w1 w2 w3 " * 40).tokens == 18
    assert maps.positions(build("bert")) == build("bert").config.max_position_embeddings
    (sample,) = maps.encoded(build("t5"), word_tokenizer(), ["w1 w2 w3 " * 10], 12)
    assert len(sample.labels) == 12


def test_a_perplexity_leaves_out_the_marks_around_a_text_and_a_text_without_a_word_that_the_tokenizer_knows():
    given = build("bert"), word_tokenizer()
    (row,) = predictions.perplexities(*given, ["zzz yyy qqq", "w1 w2 w3"], "high", [0.1])
    assert (row["texts"], row["tokens"]) == (1, 3)
    assert predictions.perplexities(*given, ["zzz yyy qqq"], "high", [0.1]) == []


def test_the_page_of_an_inspection_shows_no_strength_beyond_its_slider(
    monkeypatch, folders, texts, tmp_path
):
    shown, collect = {}, explorer.collect
    monkeypatch.setattr(
        explorer, "collect", lambda *most, **given: shown.update(given) or collect(*most, **given)
    )
    options = ["--strength", "2", "--samples", "1", "--tokens", "8", "--text", str(texts)]
    assert main(["inspect", str(folders["gpt2"]), *options, "--out", str(tmp_path / "page")]) == 0
    assert shown["strength"] == 1.0


def test_every_measure_is_that_of_the_matrix_and_of_what_the_model_computes():
    model, tokenizer, text = model_folders.decoder(), word_tokenizer(), model_folders.TEXTS[0]
    table = saobp.inspect(model, tokenizer, text, strengths=0.3).to_frame()
    heads = table.dropna(subset="head").set_index(["measure", "layer", "head"])
    inputs = tokenizer(text, return_tensors="pt")
    queries = []
    with torch.no_grad(), observed(model, queries.append):
        hidden = model(**inputs, output_hidden_states=True).hidden_states
    saobp.apply(model, "none")
    for layer, (raw, _) in enumerate(seen(model, **inputs)):
        for head, attention in enumerate(raw[0]):
            after = saobp.refine(attention, "high", 0.3, causal=True)
            later = torch.arange(len(after), 0, -1)
            values = queries[layer].value[0, head].norm(dim=-1)
            scores = queries[layer].query[0, head] @ queries[layer].key[0, head].T
            scores = scores / queries[layer].query.shape[-1] ** 0.5
            for side, matrix in (("before", attention), ("after", after)):
                sums = matrix.sum(0)
                expected = {
                    "column_mass_maximum": sums.max(),
                    "sink_rate": (sums / later > 0.3).float().mean(),
                    "rank_one_distance": (matrix - matrix.mean(0)).norm() / matrix.norm(),
                    "effective_rank": gtd_and_entropy.effective_rank(matrix),
                    "sink_value_norm": values[sums.argmax()] / values.median(),
                    "max_logit": scores[torch.ones_like(scores).tril() > 0].max(),
                    "indirect_entropy": saobp.indirect_entropy(matrix),
                }
                for name, number in expected.items():
                    measured = heads.loc[(name, layer + 1, head + 1), side]
                    assert measured == pytest.approx(number.item(), rel=1e-4), name
                measured = heads.loc[("massive_activation", layer + 1, head + 1), side]
                if layer + 2 < len(hidden):
                    # transformers gives the last layer's after its norm
                    states = hidden[layer + 1].abs()
                    assert measured == pytest.approx((states.max() / states.median()).item())


def test_measures_are_chosen_and_each_says_what_it_is():
    given = model_folders.decoder(), word_tokenizer(), model_folders.TEXTS[0]
    inspection = saobp.inspect(*given, measures=["gtd", "perplexity"])
    assert set(inspection.to_frame().measure) == {"gtd"} and len(inspection.predictions) == 2
    for measure in MEASURES.values():
        assert all((measure.title, measure.meaning, measure.range, measure.source))
    with pytest.raises(ValueError, match="^measures must be of column_mass_maximum, .*; got 'gdt'"):
        saobp.inspect(*given, measures="gdt")
    with pytest.raises(ValueError, match="^measures: effective_rank is taken of at most 1,024 tok"):
        saobp.inspect(*given, measures=["effective_rank"], tokens=2048)
    with pytest.raises(ValueError, match="^tokens must be at most 1,024 for factor elemmul"):
        saobp.inspect(*given, factor="elemmul", tokens=2048)


def test_a_long_text_is_read_to_its_last_token_in_memory_that_holds_no_matrix(monkeypatch):
    model = build("llama")
    monkeypatch.setattr(model.config, "max_position_embeddings", 1500)
    monkeypatch.setattr(Seen, "scores", lambda call: pytest.fail("makes the matrix"))
    inspection = saobp.inspect(model, word_tokenizer(), "w1 w2 w3 " * 700, tokens=1500)
    assert inspection.tokens == 1500 and "effective_rank" not in inspection.measures
    table = inspection.to_frame()
    assert table.query("measure == 'gtd'").before.between(0, 1).all()


def test_an_inspection_shows_itself_and_saves_what_the_command_writes(tmp_path):
    model = model_folders.decoder()
    inspection = saobp.inspect(model, word_tokenizer(), model_folders.TEXTS[0])
    shown = inspection._repr_html_()
    frame = html.unescape(re.search(r'srcdoc="([^"]*)"', shown)[1])
    assert "saobp-explorer" in frame and "largest column sum" in shown
    # of a notebook that is not trusted JupyterLab leaves the words and takes away the frame
    assert "where the notebook is trusted" in html.unescape(shown).partition("</body>")[2]
    assert not re.search(r"(src|href)=\"|@import|url\(", frame + shown)
    files = inspection.save(tmp_path / "page")
    names = ["index.html", "attention.csv", "measures.csv", "attention.json"]
    assert [file.name for file in files] == names
    page = files[0].read_text()
    assert "Measured on 1 text, " in page and "bootstrap interval" not in page
    words = pd.read_csv(files[2]).set_index("measure")
    assert words.loc["gtd", "source"] == "Lee et al. 2025, Eq. 13"
    table = pd.read_csv(files[1])
    assert table.query("measure == 'column_mass_maximum'").token.notna().all()
    told = json.loads(files[3].read_text())["measures"]["sink_rate"]
    assert told["source"] == "Gu et al. 2025, Sec. 3" and told["range"]


def test_paragraphs_are_joined_into_texts_of_as_many_tokens_as_are_asked_for():
    texts = by_name.joined(["w1 w2", "w3", "w1 w2 w3", "w1"], word_tokenizer(), 9)
    assert texts == ["w1 w2\n\nw3\n\nw1 w2 w3", "w1"]


FREED = """
import resource, torch
from saobp.measure import command
command.return_large_blocks()
def held():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
kept = [torch.zeros(2**12)]
before = held()
for _ in range(8):
    large = torch.zeros(20 * 2**18)
    kept.append(torch.zeros(2**12))
    del large
print(held() - before > 2**23)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of glibc alone")
def test_large_blocks_of_freed_memory_go_back_to_the_system():
    """Blocks of 20 MiB, each freed below a small one that stays."""
    script = [sys.executable, "-c", FREED]
    ran = subprocess.run(script, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"
