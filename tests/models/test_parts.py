"""Which parts are refined: self-attention, not what reads other tokens, not the decoder beside an
encoder.
"""

import copy
import re

import pytest
import torch
import transformers as hf
from families import CLOSE, generated, other_token, tokens

import saobp
from saobp.models import supported

SMALL = {"num_hidden_layers": 1, "num_attention_heads": 4}
# as of a model whose names say nothing
NO_NAME = re.compile("(?!)")


def refined_names(model) -> list[str]:
    """Return the paths of the attention modules that `saobp.apply` made refine."""
    return [name for name, module in model.named_modules() if "saobp" in module._modules]


def drawn(model: torch.nn.Module) -> torch.nn.Module:
    """Draw weights so large that attention is far from uniform and messages matter."""
    torch.manual_seed(0)
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.3)
    return model.eval()


def pix2struct() -> torch.nn.Module:
    """Build the decoder of Pix2Struct, which has one class for attention of both kinds."""
    sizes = {
        "hidden_size": 32,
        "d_kv": 8,
        "d_ff": 48,
        "num_layers": 2,
        "num_heads": 4,
        "vocab_size": 61,
    }
    sizes |= {
        "pad_token_id": 0,
        "decoder_start_token_id": 0,
        "is_decoder": True,
        "initializer_range": 0.02,
    }
    return drawn(hf.Pix2StructTextModel(hf.Pix2StructTextConfig(**sizes)))


def sam() -> torch.nn.Module:
    """Build a SAM whose picture has 16 tokens."""
    picture = {
        **SMALL,
        "image_size": 64,
        "output_channels": 32,
        "mlp_dim": 48,
        "window_size": 2,
        "num_pos_feats": 16,
    }
    prompt = {"hidden_size": 32, "image_size": 64, "patch_size": 16, "mask_input_channels": 4}
    parts = {"prompt_encoder_config": {**prompt, "image_embedding_size": 4}}
    parts["mask_decoder_config"] = {
        **SMALL,
        "hidden_size": 32,
        "mlp_dim": 32,
        "iou_head_hidden_dim": 16,
    }
    parts["vision_config"] = {
        **picture,
        "hidden_size": 32,
        "patch_size": 16,
        "global_attn_indexes": [0],
    }
    return drawn(hf.SamModel(hf.SamConfig(**parts)))


@pytest.mark.parametrize("named", [True, False])
def test_cross_attention_of_pix2struct_leaks_no_later_token_whatever_the_lengths(
    named, monkeypatch
):
    if not named:
        monkeypatch.setattr(supported, "CROSS_NAMES", NO_NAME)
    model, ids = saobp.apply(pix2struct(), "high", 1.5), tokens()
    # the decoder's own, and another
    for length in (9, 5):
        call = {"encoder_hidden_states": 3 * torch.randn(2, length, 32), "use_cache": False}
        first, second = (model(given, **call).logits for given in (ids, other_token(ids, -1)))
        torch.testing.assert_close(first[:, :-1], second[:, :-1], atol=1e-6, rtol=0)
    assert named == (not any("encoder_decoder" in name for name in refined_names(model)))


# its picture's encoder stays plain
@pytest.mark.filterwarnings("ignore:model. SamModel is refined in parts")
@pytest.mark.parametrize("named", [True, False])
def test_a_token_that_looks_at_a_picture_of_as_many_stays_plain(named, monkeypatch):
    if not named:
        monkeypatch.setattr(supported, "CROSS_NAMES", NO_NAME)
    model, plain, points = saobp.apply(sam(), "high", 1.5), sam(), torch.rand(1, 1, 10, 2) * 60
    queries = []
    for one in (model, plain):
        last = one.mask_decoder.transformer.final_attn_token_to_image
        last.register_forward_pre_hook(
            lambda _, args, given: queries.append(given), with_kwargs=True
        )
        one(pixel_values=torch.ones(1, 3, 64, 64), input_points=points)
    assert queries[0]["query"].shape[-2] == queries[0]["key"].shape[-2] == 16
    # self-attention is refined
    assert (queries[0]["query"] - queries[1]["query"]).abs().max() > 1e-3
    outputs = [
        one.mask_decoder.transformer.final_attn_token_to_image(**queries[0])[0]
        for one in (model, plain)
    ]
    torch.testing.assert_close(*outputs, **CLOSE)


def translator(name: str, kind: str = "ForConditionalGeneration", **options) -> torch.nn.Module:
    """Build an encoder-decoder whose decoder's modules do not say that they are causal."""
    stacks = {
        f"{stack}_{what}": size
        for stack in ("encoder", "decoder")
        for what, size in (("layers", 2), ("attention_heads", 4), ("ffn_dim", 48))
    }
    sizes = {
        "d_model": 32,
        "vocab_size": 61,
        "max_position_embeddings": 64,
        "decoder_start_token_id": 2,
    }
    config = getattr(hf, f"{name}Config")(**sizes, **stacks, **options)
    return drawn(getattr(hf, f"{name}{kind}")(config))


def test_a_decoder_stays_plain_beside_an_encoder_whatever_its_modules_say_and_is_refined_without_one():
    model = translator("NllbMoe", num_experts=4, decoder_layerdrop=0, encoder_layerdrop=0)
    saobp.apply(model, "high", 1.5)
    assert refined_names(model) == [f"model.encoder.layers.{layer}.self_attn" for layer in (0, 1)]
    assert torch.equal(*(generated(model, tokens(), 4, use_cache=use) for use in (True, False)))
    config = hf.DetrConfig(
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        num_queries=6,
        use_timm_backbone=False,
        backbone_config=hf.ResNetConfig(
            embedding_size=8,
            hidden_sizes=[8, 8],
            depths=[1, 1],
            layer_type="basic",
            out_features=["stage2"],
        ),
    )
    assert refined_names(saobp.apply(hf.DetrModel(config), "high")) == [
        "encoder.layers.0.self_attn"
    ]
    opt = hf.OPTConfig(
        hidden_size=32, num_hidden_layers=1, num_attention_heads=4, ffn_dim=48, vocab_size=61
    )
    bart = hf.BartConfig(
        d_model=32, decoder_layers=1, decoder_attention_heads=4, decoder_ffn_dim=48, vocab_size=61
    )
    for model in (hf.OPTForCausalLM(opt), hf.BartForCausalLM(bart)):
        assert refined_names(saobp.apply(model, "high")) == ["model.decoder.layers.0.self_attn"]


def test_an_encoder_and_a_decoder_put_together_as_one_model_are_refined_as_the_encoder_alone():
    sizes = {**SMALL, "vocab_size": 61, "hidden_size": 32, "intermediate_size": 48}
    encoder = drawn(hf.BertModel(hf.BertConfig(**sizes)))
    decoder = drawn(
        hf.BertLMHeadModel(hf.BertConfig(**sizes, is_decoder=True, add_cross_attention=True))
    )
    alone, whole = (
        copy.deepcopy(encoder),
        hf.EncoderDecoderModel(encoder=encoder, decoder=decoder).eval(),
    )
    given = {"input_ids": tokens(), "attention_mask": torch.ones_like(tokens())}
    given["attention_mask"][-1, -3:] = 0
    plain = whole(**given, decoder_input_ids=tokens()).logits
    found = saobp.apply(whole, "high", 0.5)(**given, decoder_input_ids=tokens())
    expected = saobp.apply(alone, "high", 0.5)(**given).last_hidden_state
    torch.testing.assert_close(found.encoder_last_hidden_state, expected)
    assert (found.logits - plain).abs().max() > 1e-3


ORDINARY = (
    "bert",
    "roberta",
    "distilbert",
    "albert",
    "electra",
    "modernbert",
    "vit",
    "dinov2",
    "clip",
    "siglip",
    "gpt2",
    "gpt_neox",
    "opt",
    "llama",
    "mistral",
    "mixtral",
    "qwen2",
    "qwen3",
    "gemma3_text",
    "phi3",
    "olmo2",
    "t5",
    "bart",
    "marian",
    "whisper",
    "wav2vec2",
)


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_models_have_no_self_attention_that_stays_plain(name):
    with torch.device("meta"):
        model = hf.AutoModel.from_config(hf.AutoConfig.for_model(name, num_hidden_layers=1))
    assert supported.left_plain(model) == {} and supported.self_attention_modules(model)


def git() -> torch.nn.Module:
    """Build a GIT, whose text does not go through the attention interface, while its picture's
    encoder does.
    """
    picture = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 48,
    }
    sizes = {
        **picture,
        "vocab_size": 61,
        "max_position_embeddings": 64,
        "pad_token_id": 0,
        "bos_token_id": 1,
    }
    config = hf.GitConfig(**sizes, vision_config={**picture, "image_size": 32, "patch_size": 16})
    return drawn(hf.GitForCausalLM(config))


def test_a_stack_that_cannot_be_reached_is_named_and_generates_as_before():
    ids, mask = tokens(), torch.ones(2, 9, dtype=torch.long)
    mask[1, :3] = 0
    expected = generated(git(), ids, 4, attention_mask=mask)
    with pytest.warns(
        UserWarning, match=r"GitSelfAttention \(git.encoder.layer.0.attention.self\)"
    ) as warned:
        model = saobp.apply(git(), "high", 5.0)
    assert (
        len(warned) == 1 and "\n" not in str(warned[0].message) and warned[0].filename == __file__
    )
    for applied in (model, saobp.apply(copy.deepcopy(model), "none")):
        assert torch.equal(generated(applied, ids, 4, attention_mask=mask), expected)


def test_self_attention_on_fewer_keys_than_tokens_is_refused_by_what_it_does_and_not_by_a_cache():
    sizes = {
        "hidden_sizes": [16, 16],
        "depths": [1, 1],
        "num_attention_heads": [1, 2],
        "sr_ratios": [2, 1],
    }
    stages = {
        "num_encoder_blocks": 2,
        "patch_sizes": [7, 3],
        "strides": [4, 2],
        "mlp_ratios": [2, 2],
    }
    model = saobp.apply(hf.SegformerModel(hf.SegformerConfig(**sizes, **stages)).eval(), "high")
    said = r"^model: SegformerAttention reads other tokens than its own \(16 keys for 64 queries\)"
    with pytest.raises(ValueError, match=said) as error:
        model(pixel_values=torch.randn(1, 3, 32, 32))
    assert "\n" not in str(error.value)


def test_an_encoder_that_cannot_be_refined_is_refused():
    with pytest.raises(
        ValueError, match="BigBirdPegasus.*outside its decoder, which stays plain"
    ) as error:
        saobp.apply(translator("BigBirdPegasus"), "high")
    assert "\n" not in str(error.value)


def test_a_decoder_whose_modules_do_not_say_that_they_are_causal_generates_as_without_a_cache():
    model = saobp.apply(translator("BigBirdPegasus", kind="ForCausalLM"), "high", 1.5)
    call = {"output_logits": True, "return_dict_in_generate": True}
    cached, full = (generated(model, tokens(), 4, use_cache=use, **call) for use in (True, False))
    assert torch.equal(cached.sequences, full.sequences)
    torch.testing.assert_close(torch.stack(cached.logits), torch.stack(full.logits), **CLOSE)
