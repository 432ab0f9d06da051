"""saobp.measure.capture on the models, inputs, types and file names that people have: captured, or
refused in one line.
"""

import functools
import os

import numpy as np
import pytest
import torch
import transformers as hf
from families import SIZES, T5_SIZES, TOKENS, build, clip, run, tokens
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch.utils.data import DataLoader

import saobp
from saobp.measure.capture import capture
from saobp.measure.capture_files import summary
from saobp.measure.measurement import token_classes

IDS = tokens(2, 9)
PIXELS = torch.randn(2, 3, 12, 12, generator=torch.Generator().manual_seed(3))
ODD = "a b's #1 {x} [0] ü"
captured = functools.partial(capture, progress=False)


@pytest.fixture(scope="module")
def model():
    """Return a plain model that all tests may capture."""
    return build("bert")


@pytest.fixture(scope="module")
def expected(model, tmp_path_factory):
    """Return the summary of a capture of `IDS`."""
    return captured(model, [{"input_ids": IDS}], tmp_path_factory.mktemp("expected") / "a.parquet")


SAME = {
    "tensors": lambda: [{"input_ids": IDS}],
    "32 bits": lambda: [{"input_ids": IDS.int()}],
    "numpy": lambda: [{"input_ids": IDS.numpy(), "attention_mask": np.ones((2, 9), dtype=np.int8)}],
    "lists": lambda: [{"input_ids": IDS.tolist(), "attention_mask": [[1] * 9] * 2}],
    "what a tokenizer returns": lambda: [
        hf.BatchEncoding({"input_ids": IDS, "attention_mask": torch.ones_like(IDS)})
    ],
    "boolean mask": lambda: [{"input_ids": IDS, "attention_mask": IDS > 0}],
    "float mask": lambda: [{"input_ids": IDS, "attention_mask": torch.ones(2, 9)}],
    "labels beside": lambda: [{"input_ids": IDS, "labels": IDS, "name": ["a", "b"]}],
    "options": lambda: [
        {"input_ids": IDS[None], "attention_mask": torch.ones(1, 2, 9), "labels": torch.zeros(1)}
    ],
    "one sequence at a time": lambda: [{"input_ids": row} for row in IDS],
    "a generator": lambda: ({"input_ids": row[None]} for row in IDS),
    "a loader": lambda: DataLoader([{"input_ids": row} for row in IDS], batch_size=2),
}


@pytest.mark.parametrize("kind", SAME)
def test_inputs_of_every_kind_give_the_same_numbers(kind, model, expected, tmp_path):
    found = captured(model, SAME[kind](), tmp_path / "a.parquet")
    assert (found["samples"], found["tokens"]) == (2, 18)
    for matrix in ("raw", "refined"):
        for measure, values in expected["matrices"][matrix]["by_layer"].items():
            np.testing.assert_allclose(
                found["matrices"][matrix]["by_layer"][measure], values, rtol=1e-4, atol=1e-6
            )


@pytest.mark.parametrize("refined", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_models_and_pictures_in_half_precision_are_captured(dtype, refined, tmp_path):
    for family in ("bert", "vit"):
        entropies = []
        for kind in (dtype, torch.float32):
            model = build(family).to(kind)
            batch = {"input_ids": IDS} if family == "bert" else {"pixel_values": PIXELS.to(kind)}
            model = saobp.apply(model, "high", 1.0) if refined else model
            found = captured(model, [batch], tmp_path / f"{family}-{kind}.parquet", keep_maps=1)
            # 9 patches and [CLS]
            assert (found["samples"], found["tokens"]) == (2, 18 if family == "bert" else 20)
            entropies.append(
                [found["matrices"][matrix]["overall"]["entropy"] for matrix in ("raw", "refined")]
            )
        assert (found["matrices"]["refined"]["overall"]["moved"] > 0) is refined
        assert entropies[0] == pytest.approx(entropies[1], rel=0.05)


TEXTS, NO_MAPS = {"input_ids": IDS}, "gives no attention maps of one stack of layers"
UNFIT = {
    "CLIPModel": (clip, {"input_ids": IDS, "pixel_values": PIXELS}, NO_MAPS),
    "SwinModel": (
        lambda: hf.SwinModel(
            hf.SwinConfig(
                image_size=32,
                patch_size=4,
                embed_dim=16,
                depths=[1, 1],
                num_heads=[2, 4],
                window_size=4,
            )
        ),
        {"pixel_values": torch.randn(2, 3, 32, 32)},
        NO_MAPS,
    ),
    "MambaModel": (
        lambda: hf.MambaModel(
            hf.MambaConfig(**TOKENS, num_hidden_layers=1, hidden_size=32, intermediate_size=32)
        ),
        TEXTS,
        NO_MAPS,
    ),
    "LongformerModel": (
        lambda: hf.LongformerModel(hf.LongformerConfig(**TOKENS, **SIZES, attention_window=4)),
        TEXTS,
        NO_MAPS,
    ),
    "T5Model": (
        lambda: hf.T5Model(hf.T5Config(**TOKENS, **T5_SIZES)),
        TEXTS,
        "has two stacks; pass its encoder",
    ),
    "Linear": (lambda: torch.nn.Linear(2, 2), TEXTS, "is not"),
}


@pytest.mark.parametrize(
    ("name", "refined"), [*((name, False) for name in UNFIT), ("CLIPModel", 1), ("SwinModel", 1)]
)
def test_models_of_several_stacks_or_without_square_maps_are_refused_in_one_line(
    name, refined, tmp_path
):
    make, batch, said = UNFIT[name]
    model = saobp.apply(make().eval(), "high", 1.0) if refined else make().eval()
    with pytest.raises(ValueError, match=f"^model: {name} {said}") as error:
        captured(model, [batch], tmp_path / "a.parquet")
    assert "\n" not in str(error.value)
    # whose stacks can be captured one by one
    if name == "CLIPModel":
        assert captured(model.text_model, [TEXTS], tmp_path / "text.parquet")["layers"] == 2
        assert (
            captured(model.vision_model, [{"pixel_values": PIXELS}], tmp_path / "seen.parquet")[
                "tokens"
            ]
            == 20
        )
    if name == "T5Model":
        assert captured(model.get_encoder(), [TEXTS], tmp_path / "a.parquet")["samples"] == 2


REFUSED = {
    "none": ([], "there were none"),
    "types that do not fit": (
        [{"input_ids": IDS, "token_type_ids": IDS[:, :4]}],
        "cannot run on one",
    ),
    "one dictionary": ({"input_ids": IDS}, "must be several dictionaries; got one dict"),
    "nothing": (None, "must be several dictionaries; got one NoneType"),
    "one tensor": (IDS, "must be several dictionaries; got one Tensor"),
    "tensors": ([IDS], "one is a Tensor"),
    "rows of unequal length": ([{"input_ids": [[1, 2], [3]]}], "input_ids makes no tensor"),
    "an empty batch": ([{"input_ids": IDS[:0]}], r"input_ids of one is empty, \(0, 9\)"),
    "embeddings": (
        [{"inputs_embeds": torch.zeros(2, 9, 32)}],
        "neither input_ids nor pixel_values",
    ),
    "fractions": ([{"input_ids": IDS.float()}], "BertForMaskedLM cannot run on one"),
    "ids beyond the vocabulary": (
        [{"input_ids": IDS + 100}],
        r"cannot run on one \(index out of range",
    ),
    "more tokens than positions": ([{"input_ids": tokens(1, 600)}], r"cannot run on one \("),
    "a mask of another length": (
        [{"input_ids": IDS, "attention_mask": IDS[:, 1:]}],
        r"attention_mask .*\(2, 8\)",
    ),
    "a mask of one row": (
        [{"input_ids": IDS, "attention_mask": torch.ones(9)}],
        r"attention_mask .*\(9,\)",
    ),
    "a mask of pairs": (
        [{"input_ids": IDS, "attention_mask": torch.ones(2, 1, 9, 9)}],
        r"attention_mask .*\(2, 1, 9",
    ),
    "pictures": ([{"pixel_values": PIXELS}], "BertForMaskedLM cannot run on one"),
    "what is not read": (
        [{"input_ids": IDS, "inputs_embeds": None, "encoder_hidden_states": PIXELS, "id": [1, 2]}],
        "takes encoder_hidden_states, which is not read here",
    ),
}


def test_packed_sequences_do_not_look_at_each_other(tmp_path):
    """transformers keeps them apart by their positions, as long as there is no cache."""
    model, batch = (
        build("llama"),
        {"input_ids": tokens(1, 9), "position_ids": torch.tensor([[*range(4), *range(5)]])},
    )
    model.set_attn_implementation("eager")
    maps = model(**batch, output_attentions=True, use_cache=False).attentions
    assert all((layer[..., 4:, :4] == 0).all() for layer in maps)
    found = captured(model, [batch], tmp_path / "a.parquet")["matrices"]["raw"]["overall"][
        "entropy"
    ]
    assert found == pytest.approx(
        torch.stack([saobp.attention_entropy(layer) for layer in maps]).mean().item()
    )


def test_every_part_of_a_model_attends_as_before_afterwards(tmp_path):
    picture = {
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
    }
    seen = hf.CLIPVisionConfig(**picture, image_size=8, patch_size=4)
    words = hf.LlamaConfig(vocab_size=61, **SIZES)
    config = hf.LlavaConfig(vision_config=seen, text_config=words, image_token_index=60)
    model = hf.LlavaForConditionalGeneration(config).eval()
    model.set_attn_implementation({"vision_config": "eager", "text_config": "sdpa"})
    captured(model, [{"input_ids": tokens(2, 9)}], tmp_path / "a.parquet")
    attending = (model.config.vision_config, model.config.text_config)
    assert [part._attn_implementation for part in attending] == ["eager", "sdpa"]


def test_punctuation_is_that_of_the_text_and_not_of_how_a_tokenizer_of_bytes_spells_it():
    bpe, bytes_ = Tokenizer(models.BPE()), pre_tokenizers.ByteLevel
    bpe.pre_tokenizer, bpe.decoder = bytes_(add_prefix_space=False), decoders.ByteLevel()
    asked = {"vocab_size": 300, "initial_alphabet": bytes_.alphabet(), "special_tokens": ["<eos>"]}
    bpe.train_from_iterator(
        ["“Yes” — he said… £5"] * 50, trainers.BpeTrainer(**asked, show_progress=False)
    )
    tokenizer = hf.PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token="<eos>")
    names, classes = token_classes(tokenizer)
    ids = tokenizer("“Yes” — he said… £5, ok.").input_ids
    said = {tokenizer.decode([one]).strip(): names[classes[one]] for one in ids}
    assert {word for word, name in said.items() if name == "punctuation"} == {
        "“",
        "”",
        "—",
        "…",
        "£",
        ",",
        ".",
    }
    # the byte 161, a part of a letter
    assert names[classes[tokenizer.convert_tokens_to_ids("¡")]] == "content"


@pytest.mark.parametrize("kind", REFUSED)
def test_batches_that_cannot_be_read_are_refused_in_one_line(kind, model, tmp_path):
    batches, message = REFUSED[kind]
    with pytest.raises(ValueError, match=f"^batches: .*{message}") as error:
        captured(model, batches, tmp_path / "a.parquet")
    assert "\n" not in str(error.value)
    assert model.config._attn_implementation == "sdpa" and not list(tmp_path.iterdir())
    assert run(model, IDS).isfinite().all()


@pytest.mark.parametrize(
    "name", [ODD, f"{ODD}.parquet", "a*.parquet", f"{ODD}/new/a.parquet", "run.v1"]
)
def test_files_of_every_name_are_written_with_their_maps_beside(name, model, tmp_path):
    path = tmp_path / name
    captured(model, [{"input_ids": IDS}], str(path), keep_maps=2, part_samples=1)
    maps = path.with_name(f"{path.name.removesuffix('.parquet')}.maps.npz")
    assert sorted(os.listdir(path.parent)) == sorted([path.name, maps.name])
    with np.load(maps) as arrays:
        assert [arrays[f"input_ids_{row}"].tolist() for row in (0, 1)] == IDS.tolist()


def test_a_path_from_home_is_there_and_what_cannot_be_a_path_is_refused(
    model, tmp_path, monkeypatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    captured(model, [{"input_ids": IDS}], "~/deep/a.parquet")
    assert (tmp_path / "deep" / "a.parquet").is_file()
    for path, said in (
        (tmp_path / "deep", "deep: is a folder; name the parquet file"),
        (tmp_path / ("x" * 252 + ".parquet"), "too long"),
        (tmp_path / "caf\udce9.parquet", "is no UTF-8; take another name"),
        (3, "must be a text or a path"),
    ):
        with pytest.raises(ValueError, match=said):
            captured(model, [{"input_ids": IDS}], path)
    assert [*tmp_path.iterdir()] == [tmp_path / "deep"]


@pytest.mark.parametrize("resume", [True, False])
def test_what_somebody_put_where_parts_and_maps_go_is_kept(resume, model, tmp_path):
    parts, maps = tmp_path / "a.parquet.parts", tmp_path / "a.maps.npz"
    parts.mkdir()
    (parts / "notes.txt").write_text("mine")
    captured(model, [{"input_ids": IDS}], tmp_path / "a.parquet", resume=resume, keep_maps=1)
    captured(model, [{"input_ids": IDS}], tmp_path / "a.parquet", resume=False)
    assert [path.name for path in parts.iterdir()] == ["notes.txt"] and not maps.exists()
    maps.write_text("mine")
    with pytest.raises(ValueError, match="a.maps.npz: holds no maps and is not overwritten"):
        captured(model, [{"input_ids": IDS}], tmp_path / "a.parquet", resume=resume)
    assert maps.read_text() == "mine"


@pytest.mark.parametrize("resume", [True, False])
def test_a_file_that_is_no_capture_is_kept(resume, model, tmp_path):
    (tmp_path / "a.parquet").write_text("mine")
    with pytest.raises(ValueError, match="is no capture"):
        captured(model, [{"input_ids": IDS}], tmp_path / "a.parquet", resume=resume)
    assert (tmp_path / "a.parquet").read_text() == "mine" and len(list(tmp_path.iterdir())) == 1
    with pytest.raises(ValueError, match="a.parquet: not a finished capture"):
        summary(tmp_path / "a.parquet")
