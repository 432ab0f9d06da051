"""Small random transformers models with sharp attention, one of each family that saobp serves."""

import inspect
from collections.abc import Callable

import torch
import transformers as hf
from torch import nn

from saobp.models.apply import raw_attentions

VOCABULARY, PAD = 61, 0
TOKENS = {"vocab_size": VOCABULARY, "pad_token_id": PAD, "bos_token_id": 1, "eos_token_id": 2}
SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
}
GROUPS = {"num_key_value_heads": 2, "max_position_embeddings": 512}
T5_SIZES = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
IMAGE = {"image_size": 12, "patch_size": 4, "num_labels": 3}
CLOSE = {"atol": 2e-5, "rtol": 1e-4}
# two names that transformers has changed since 5.20: of the argument that takes a cache, and of
# checkpointing
CACHE = (
    "cache"
    if "cache" in inspect.signature(hf.LlamaForCausalLM.forward).parameters
    else "past_key_values"
)
CHECKPOINTING = next(
    name
    for name in ("activation_checkpointing", "gradient_checkpointing")
    if hasattr(hf.PreTrainedModel, f"{name}_enable")
)
QUERY_AND_KEY = (
    "query.weight",
    "key.weight",
    "Wqkv.weight",
    "c_attn.weight",
    "q_proj.weight",
    "k_proj.weight",
)

BUILDERS: dict[str, Callable[[], nn.Module]] = {
    "bert": lambda: hf.BertForMaskedLM(hf.BertConfig(**TOKENS, **SIZES)),
    "roberta": lambda: hf.RobertaForMaskedLM(hf.RobertaConfig(**TOKENS, **SIZES)),
    "modernbert": lambda: hf.ModernBertForMaskedLM(
        hf.ModernBertConfig(
            **TOKENS,
            **SIZES,
            local_attention=6,
            global_attn_every_n_layers=2,
            sep_token_id=2,
            cls_token_id=1,
        )
    ),
    "gpt2": lambda: hf.GPT2LMHeadModel(
        hf.GPT2Config(**TOKENS, n_embd=32, n_layer=2, n_head=4, n_positions=512)
    ),
    "llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**TOKENS, **SIZES, **GROUPS)),
    "qwen2": lambda: hf.Qwen2ForCausalLM(hf.Qwen2Config(**TOKENS, **SIZES, **GROUPS)),
    "mistral": lambda: hf.MistralForCausalLM(
        hf.MistralConfig(**TOKENS, **SIZES, **GROUPS, sliding_window=5)
    ),
    "t5": lambda: hf.T5EncoderModel(hf.T5Config(**TOKENS, **T5_SIZES)),
    "vit": lambda: hf.ViTForImageClassification(hf.ViTConfig(**SIZES, **IMAGE)),
}
TEXT = [family for family in BUILDERS if family != "vit"]
CAUSAL = ["gpt2", "llama", "qwen2", "mistral"]


def encoder_decoder() -> nn.Module:
    """Build a T5 with encoder, decoder and cross-attention."""
    return sharpened(
        hf.T5ForConditionalGeneration(hf.T5Config(**TOKENS, **T5_SIZES, decoder_start_token_id=0))
    )


def clip() -> nn.Module:
    """Build a CLIP, with a stack for text and one for pictures."""
    parts = {
        "text_config": {**SIZES, **TOKENS},
        "vision_config": {**SIZES, "image_size": 12, "patch_size": 4},
    }
    return hf.CLIPModel(
        hf.CLIPConfig(**{name: part | {"projection_dim": 16} for name, part in parts.items()})
    )


def sharpened(model: nn.Module, factor: float = 10.0) -> nn.Module:
    """Scale query and key weights up, so that attention is far from uniform and messages matter."""
    # does not scale its scores: sharp by itself
    if model.config.model_type == "t5":
        return model.eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(QUERY_AND_KEY) or ("embed" in name and "norm" not in name.lower()):
                parameter.mul_(factor)
    return model.eval()


def build(family: str, seed: int = 0) -> nn.Module:
    """Build the model of a family from a seed, in eval mode."""
    torch.manual_seed(seed)
    return sharpened(BUILDERS[family]())


def tokens(batch: int = 2, length: int = 9, seed: int = 1) -> torch.Tensor:
    """Draw token ids, none of them special."""
    return torch.randint(
        3, VOCABULARY, (batch, length), generator=torch.Generator().manual_seed(seed)
    )


def other_token(ids: torch.Tensor, place: int = 6) -> torch.Tensor:
    """Return the ids with another token at one place."""
    changed = ids.clone()
    changed[:, place] = (changed[:, place] + 11) % 50 + 3
    return changed


def padding_mask() -> torch.Tensor:
    """Return a mask of `tokens()` with padding in the second of the two sequences."""
    mask = torch.ones(2, 9, dtype=torch.long)
    mask[1, 6:] = 0
    return mask


def refined_modules(model: nn.Module) -> list[nn.Module]:
    """Return the attention modules that `saobp.apply` made refine."""
    return [module for module in model.modules() if hasattr(module, "saobp")]


def refined_names(model: nn.Module) -> list[str]:
    """Return the paths of the attention modules that `saobp.apply` made refine."""
    return [name for name, module in model.named_modules() if "saobp" in module._modules]


def called(
    model: nn.Module, ids: torch.Tensor | None = None, mask: torch.Tensor | None = None, **kwargs
):
    """Return what a model of any family returns; positions count real tokens, as they must under
    left padding.
    """
    family = model.config.model_type
    if family == "vit":
        pixels = torch.randn(2, 3, 12, 12, generator=torch.Generator().manual_seed(2))
        return model(pixel_values=3 * pixels, **kwargs)
    if mask is not None and family not in ("t5", "roberta"):
        kwargs["position_ids"] = (mask.cumsum(-1) - 1).clamp(min=0)
    return model(tokens() if ids is None else ids, attention_mask=mask, **kwargs)


def seen(model: nn.Module, *args, **kwargs) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return the (raw, refined) maps of a call of a refined model."""
    with torch.no_grad(), raw_attentions(model) as pairs:
        model(*args, **kwargs)
    return pairs


def generated(model: nn.Module, ids: torch.Tensor, count: int = 8, **options):
    """Return what a model generates, greedily unless told otherwise; no sequence ends early."""
    model.generation_config.eos_token_id = None
    call = {"attention_mask": torch.ones_like(ids), "max_new_tokens": count, "do_sample": False}
    return model.generate(ids, **call | options)


def run(model: nn.Module, *args, **kwargs) -> torch.Tensor:
    """Return logits or last hidden states."""
    output = called(model, *args, **kwargs)
    return output.logits if "logits" in output else output.last_hidden_state
