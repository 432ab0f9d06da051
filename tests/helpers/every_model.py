"""Every model class of transformers that can be built small, and what holds of it.

Run as a script it writes a table: a row a class, a column a check, each deviation relative to the
largest number of the output, or why there is none.
"""

import copy
import csv
import inspect
import itertools
import math
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
import transformers as hf
from families import CACHE, CHECKPOINTING
from literal_attention import literal
from torch import Tensor, nn
from transformers import CONFIG_MAPPING, PreTrainedConfig
from transformers.cache_utils import Cache
from transformers.models.auto import modeling_auto

import saobp
from saobp.models.keywords import REFUSED
from saobp.models.supported import self_attention_modules

PARAMETERS = 20_000_000
"""Models with more are not built."""

TOKENS, LENGTH, STRENGTH = 61, 9, 0.5
CLASSES = (
    modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
    modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    modeling_auto.MODEL_MAPPING_NAMES,
)
"""Where a kind of model has several classes, the one in the first of these is taken."""

SIZES = {
    2: """num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers depth
        num_decoder_layers num_encoder_layers num_key_value_heads num_global_key_value_heads
        num_experts_per_tok mamba_expand linear_num_key_heads num_codebooks num_kv_shared_layers""",
    1: "n_group topk_group num_shared_experts n_shared_experts bos_token_id",
    0: "pad_token_id decoder_start_token_id",
    3: "mask_token_id num_channels num_labels",
    4: """num_attention_heads n_head n_heads num_heads encoder_attention_heads patch_size
        decoder_attention_heads num_experts n_routed_experts num_local_experts
        linear_num_value_heads""",
    5: "sliding_window",
    6: "local_attention",
    8: """head_dim global_head_dim d_kv d_head attention_head_dim attention_window
        attention_chunk_size q_lora_rank kv_lora_rank qk_rope_head_dim qk_nope_head_dim v_head_dim
        hidden_size_per_layer_input mamba_d_state mamba_n_heads mamba_d_head state_size
        linear_key_head_dim linear_value_head_dim mamba_headdim rotary_dim""",
    12: "image_size",
    16: """moe_intermediate_size shared_expert_intermediate_size shared_intermediate_size
        qk_head_dim projection_dim block_size codebook_size""",
    32: """hidden_size d_model n_embd dim embed_dim emb_dim embedding_size word_embed_proj_dim
        hidden_dim""",
    48: "intermediate_size ffn_dim encoder_ffn_dim decoder_ffn_dim d_ff n_inner ffn_hidden_size",
    50: "max_source_positions",
    64: "max_target_positions",
    128: "max_position_embeddings n_positions n_ctx",
    TOKENS: "vocab_size vocab_size_per_layer_input",
}
SMALL = {name: size for size, names in SIZES.items() for name in names.split()}
SMALL |= {"eos_token_id": 2, "sep_token_id": 2, "cls_token_id": 1, "prediction_length": 4}
DERIVED = {
    *("transformers_version", "architectures", "id2label", "label2id", "_name_or_path", "dtype"),
    *("out_features", "out_indices", "stage_names", "model_type", "per_layer_config"),
}
"""Fields that follow from others."""

VARIANTS: tuple[dict[str, Any], ...] = (
    {},
    {"num_key_value_heads": 4},
    {"num_key_value_heads": 4, "head_dim": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8},
    {"num_attention_heads": 2, "image_size": 16, "patch_size": 4},
    {"hidden_size": 64, "num_key_value_heads": 4, "head_dim": 16},
    {"image_size": 28, "patch_size": 14},
    {"mrope_section": [2, 1, 1]},
)
"""What is tried until a model is built and runs."""


def kinds() -> dict[str, str]:
    """Return the name of one class for each kind of model that transformers knows."""
    names: dict[str, str] = {}
    for mapping in CLASSES:
        for kind, name in mapping.items():
            names.setdefault(kind, name if isinstance(name, str) else name[0])
    return names


def shrunk(fields: dict[str, Any], sizes: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a config with small sizes, those of the configs within it too."""
    layer_types = list(dict.fromkeys(fields.get("layer_types") or ()))
    # layers that share keys follow those whose keys they are
    layers = max(2, len(layer_types)) * (2 if fields.get("num_kv_shared_layers") else 1)
    depths = {fields.get(name) for name in SMALL if "layer" in name} - {None}
    small: dict[str, Any] = {}
    for name, value in fields.items():
        if isinstance(value, dict) and "model_type" in value:
            small[name] = shrunk(value, sizes)
        elif name in DERIVED or (name == "layer_types" and not layer_types):
            continue
        elif name == "layer_types":
            small[name] = (layer_types * layers)[:layers]
        elif isinstance(value, dict) and name == "rope_parameters":
            small[name] = rope(value)
            if "mrope_section" in sizes:
                small[name]["mrope_section"] = sizes["mrope_section"]
        elif isinstance(value, (list, tuple)) and len(value) in depths:
            small[name] = [shrunk_number(name, one, sizes) for one in value[:layers]]
        else:
            small[name] = shrunk_number(name, value, sizes)
    if "num_hidden_layers" in small:
        small["num_hidden_layers"] = layers
    return small


def shrunk_number(name: str, value: Any, sizes: dict[str, Any]) -> Any:
    """Return a small number in place of one that says how large something is."""
    known = name in SMALL and not isinstance(value, (bool, list, tuple, dict, str))
    if known and (value is not None or name.endswith(("token_id", "vocab_size"))):
        return sizes.get(name, SMALL[name])
    if name in ("image_size", "patch_size") and isinstance(value, (list, tuple)):
        return [sizes.get(name, SMALL[name])] * len(value)
    return value


def rope(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return rotary parameters whose sections fit a small head."""
    return {
        name: rope(value)
        if isinstance(value, dict)
        else ([2, 1, 1] if name.endswith("mrope_section") else value)
        for name, value in parameters.items()
    }


def candidates(kind: str) -> Iterator[Callable[[], nn.Module]]:
    """Yield ways to build a small model of a kind."""
    config_class, model_class = CONFIG_MAPPING[kind], getattr(hf, kinds()[kind])
    default = config_class().to_dict()
    for sizes in VARIANTS:

        def build(sizes: dict[str, Any] = sizes) -> nn.Module:
            fields = shrunk(copy.deepcopy(default), sizes)
            config: PreTrainedConfig = config_class(**fields)
            with torch.device("meta"):
                count = sum(weight.numel() for weight in model_class(config).parameters())
            if count > PARAMETERS:
                raise ValueError(f"{count} parameters")
            torch.manual_seed(0)
            return drawn(model_class(config_class(**fields)))

        yield build


def drawn(model: nn.Module) -> nn.Module:
    """Draw weights so large that attention is far from uniform and messages matter."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim > 1 and weight.is_floating_point():
                weight.copy_(0.25 * torch.randn(weight.shape, generator=generator))
            elif name.endswith("bias"):
                weight.copy_(0.1 * torch.randn(weight.shape, generator=generator))
    return model.eval()


def possible_inputs(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Yield what a model may take, tokens first."""
    generator = torch.Generator().manual_seed(1)
    taken = inspect.signature(model.forward).parameters
    config = model.config
    ids = torch.randint(4, 50, (2, LENGTH), generator=generator)
    beside = {"decoder_input_ids": ids[:, :6]} if "decoder_input_ids" in taken else {}
    size = next((getattr(part, "image_size", None) for part in with_sizes(config)), None) or 12
    size = size[0] if isinstance(size, (list, tuple)) else size
    size = size if isinstance(size, int) else size[0]
    pixels = torch.randn(2, 3, size, size, generator=generator)
    bands = next((getattr(part, "num_mel_bins", None) for part in with_sizes(config)), None) or 8
    sound = torch.randn(2, bands, 100, generator=generator)
    choices = {
        "input_ids": [{"input_ids": ids}, {"input_ids": ids, "pixel_values": pixels}],
        "pixel_values": [{"pixel_values": pixels}],
        "input_features": [{"input_features": sound}, {"input_features": sound.mT.contiguous()}],
        "input_values": [{"input_values": torch.randn(2, 1600, generator=generator)}],
    }
    for name, forms in choices.items():
        for form in forms:
            if name in taken and form.keys() <= taken.keys():
                yield form | beside


def with_sizes(config: PreTrainedConfig) -> list[PreTrainedConfig]:
    """Return a config and those within it."""
    return [config, *(getattr(config, name) for name in config.sub_configs)]


def built(kind: str) -> tuple[nn.Module, dict[str, Tensor]]:
    """Return a small model of a kind and inputs that it runs on; ValueError if there are none, with
    why: the first failure of a run, or else of building.
    """
    of_builds, of_runs = [], []
    for build in candidates(kind):
        try:
            model = build()
        except Exception as error:
            of_builds.append(said(error))
            continue
        tried = False
        for given in possible_inputs(model):
            tried = True
            try:
                output = first(run(model, given, use_cache=False))
                if bool(output.isfinite().all()):
                    return model, given
                of_runs.append("its output is not finite")
            except Exception as error:
                of_runs.append(said(error))
        if not tried:
            of_runs.append(f"{NO_INPUT} tokens, pictures or sound alone")
    raise ValueError((of_runs or of_builds)[0])


NO_INPUT = "takes none of"
WHY_NOT = {
    f"over {PARAMETERS // 10**6} million parameters": r"ValueError: \d+ parameters$",
    "needs a package": "ImportError|requires the|pip install",
    "takes other inputs": f"{NO_INPUT}|missing \\d+ required|[Yy]ou (have to|must) specify"
    "|must be provided|cannot be None|needs to be specified",
    "refuses sizes that do not fit each other": "[Vv]alidation|must (be|equal)",
}
"""Why a kind of model is not tried, by what an error says."""


def why_not(reason: str) -> str:
    """Return the kind of reason for which a model was not tried."""
    for kind, pattern in WHY_NOT.items():
        if re.search(pattern, reason):
            return kind
    return "does not run with small sizes"


def said(error: Exception) -> str:
    """Return the first line of what an error says."""
    lines = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {lines[-1].strip()[:120]}"


PASSED_ON = ("position_bias", "output_attentions")
"""Arguments that models hand on to attention without naming them."""


def run(model: nn.Module, given: dict[str, Tensor], **call: Any) -> Any:
    """Return what a model returns, with the arguments that it knows."""
    taken = inspect.signature(model.forward).parameters
    passes_on = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in taken.values())
    known = {
        name: value
        for name, value in call.items()
        if name in taken or (passes_on and name in PASSED_ON)
    }
    torch.manual_seed(0)
    with torch.set_grad_enabled(call.get("gradients", False)):
        return model(**given, **known)


def first(output: Any) -> Tensor:
    """Return the logits of an output, or its last hidden states."""
    for name in ("logits", "last_hidden_state", "prediction_logits"):
        if getattr(output, name, None) is not None:
            return getattr(output, name)
    values = output if isinstance(output, tuple) else tuple(output.values())
    return next(one for one in values if isinstance(one, Tensor) and one.is_floating_point())


def apart(found: Tensor, expected: Tensor) -> float:
    """Return the largest difference of two tensors, relative to the largest number expected."""
    if found.shape != expected.shape:
        return float("inf")
    return float((found - expected).abs().max() / expected.abs().max().clamp(min=1e-9))


def refined_copy(model: nn.Module, factor: str = "high", **options: Any) -> nn.Module:
    """Return a refined copy of a model."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return saobp.apply(copy.deepcopy(model), factor, STRENGTH, **options)


def refined_names(model: nn.Module) -> list[str]:
    """Return the paths of the modules that a refined model refines."""
    return [name for name, module in model.named_modules() if "saobp" in module._modules]


def other_last_token(given: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the inputs with another last token where the model predicts."""
    name = "decoder_input_ids" if "decoder_input_ids" in given else "input_ids"
    ids = given[name].clone()
    ids[:, -1] = (ids[:, -1] + 11) % 40 + 5
    return given | {name: ids}


def leak(model: nn.Module, given: dict[str, Tensor]) -> float:
    """Return how much the last token changes what comes before it."""
    before, after = (
        first(run(model, one, use_cache=False)) for one in (given, other_last_token(given))
    )
    return apart(after[:, :-1], before[:, :-1])


def padding(model: nn.Module, given: dict[str, Tensor]) -> float:
    """Return how much three padded tokens change the real ones."""
    ids = given["input_ids"]
    real = torch.ones_like(ids)
    real[:, -3:] = 0
    short = given | {"input_ids": ids[:, :-3], "attention_mask": real[:, :-3]}
    long = given | {"attention_mask": real}
    alone, padded = (first(run(model, one, use_cache=False)) for one in (short, long))
    return apart(padded[:, : alone.shape[1]], alone)


def generation(model: nn.Module, given: dict[str, Tensor]) -> float:
    """Return how far the logits of generated tokens with a cache are from those without."""
    model.generation_config.eos_token_id = None
    model.generation_config.decoder_start_token_id = 1
    call = {"max_new_tokens": 4, "do_sample": False, "output_logits": True}
    ids = {name: value for name, value in given.items() if name != "decoder_input_ids"}
    logits = []
    for use_cache in (True, False):
        torch.manual_seed(0)
        made = model.generate(**ids, **call, use_cache=use_cache, return_dict_in_generate=True)
        logits.append(torch.stack(made.logits))
    return apart(*logits)


NO_CACHE, FIXED, SHOWN = "no cache", "no cache, strengths fixed", "attentions"
CHECKPOINTED, IN_PARTS = "checkpointing", "two parts with a cache"
PATHS: dict[str, dict[str, Any]] = {
    NO_CACHE: {"use_cache": False},
    FIXED: {"use_cache": False},
    "default call": {},
    SHOWN: {"output_attentions": True, "use_cache": False},
    CHECKPOINTED: {},
    IN_PARTS: {"use_cache": True},
}
"""Ways through a model on which gradients are compared, with what a call says for each. Strengths
are learned, but in one: attention has compiled passes of its own for a number.
"""

FIRST_PART = 4
"""Tokens before the others, which come with the cache that these left."""

INPUTS, WEIGHTS, STRENGTHS = "inputs", "weights", "strengths"
GRADIENTS = tuple(
    f"gradients of {group}: {path}" for path in PATHS for group in (INPUTS, WEIGHTS, STRENGTHS)
)


def gradient_checks(model: nn.Module, inputs: dict[str, Tensor]) -> dict[str, Any]:
    """Return how far gradients are from the literal form's on each path, or what an error says.

    Paths along which the plain model gives no gradient, or other numbers, are left out.
    """
    results: dict[str, Any] = {}
    names = refined_names(refined_copy(model))
    try:
        expected = literal_gradients(model, inputs, names)
        full = output_along(copy.deepcopy(model), inputs, NO_CACHE).detach()
    except Exception as error:
        return {f"gradients of {WEIGHTS}: {NO_CACHE}": said(error)}
    for path in PATHS:
        try:
            output = output_along(copy.deepcopy(model), inputs, path)
            output.sum().backward()
            plain = apart(output.detach(), full)
            # its graph goes before that of the refined model is made
            del output
        except Exception as error:
            results[f"plain: {path}"] = said(error)
            continue
        results[f"plain: {path}"] = plain
        if not plain <= CLOSE:
            continue
        try:
            deviations = gradient_deviations(model, inputs, path, expected)
        except Exception as error:
            deviations = {WEIGHTS: said(error)}
        for group, deviation in deviations.items():
            results[f"gradients of {group}: {path}"] = deviation
    return results


def gradient_deviations(
    model: nn.Module, inputs: dict[str, Tensor], path: str, expected: dict[str, list[Tensor]]
) -> dict[str, float]:
    """Return for each group of gradients how far those of a path are from those expected, relative
    to the largest number of the group.
    """
    refined = refined_copy(model, learn=None if path == FIXED else "layer")
    refinements = [refined.get_submodule(name).saobp for name in refined_names(refined)]
    offsets = [refinement.offset for refinement in refinements if refinement.options.learn]
    by_group = gradients(refined, inputs, path, offsets)
    deviations = {}
    for group, gradients_of_group in by_group.items():
        largest = max(float(one.abs().max()) for one in expected[group])
        pairs = zip(gradients_of_group, expected[group], strict=True)
        difference = max(float((ours - theirs).abs().max()) for ours, theirs in pairs)
        deviations[group] = difference / max(largest, 1e-9)
    return deviations


def literal_gradients(
    model: nn.Module, inputs: dict[str, Tensor], names: list[str]
) -> dict[str, list[Tensor]]:
    """Return the gradients of Eq. 9-11 as written, those of strengths as of the offsets that are
    learned.
    """
    oracle = copy.deepcopy(model)
    strengths = [torch.tensor([STRENGTH], dtype=torch.float64) for _ in names]
    for name, strength in zip(names, strengths):
        literal(oracle, [name], strength.requires_grad_())
    expected = gradients(oracle, inputs, NO_CACHE, strengths)
    # the derivative of a softplus that has the value STRENGTH
    slope = -math.expm1(-STRENGTH)
    expected[STRENGTHS] = [gradient * slope for gradient in expected[STRENGTHS]]
    return expected


def gradients(
    model: nn.Module, inputs: dict[str, Tensor], path: str, strengths: list[Tensor]
) -> dict[str, list[Tensor]]:
    """Return the gradients of a weighted sum of the output of a path: of the numbers that a model
    reads and of its embeddings, of its weights, and of strengths.
    """
    inputs = {name: as_leaf(tensor) for name, tensor in inputs.items()}
    embeddings: list[list[Tensor]] = []
    for module in embedding_modules(model):
        embeddings.append([])
        module.register_forward_hook(noting_into(embeddings[-1]))
    output = output_along(model, inputs, path)
    read = [[tensor] for tensor in inputs.values() if tensor.requires_grad]
    weights = [
        [weight]
        for name, weight in model.named_parameters()
        if weight.requires_grad and weight.numel() and "saobp" not in name
    ]
    groups = {
        INPUTS: read + [parts for parts in embeddings if parts],
        WEIGHTS: weights,
        STRENGTHS: [[strength] for strength in strengths],
    }
    toward = torch.randn(output.shape, generator=torch.Generator().manual_seed(2))
    tensors = [part for sources in groups.values() for parts in sources for part in parts]
    by_tensor = iter(torch.autograd.grad((output * toward).sum(), tensors, allow_unused=True))
    return {
        group: [joined(parts, by_tensor) for parts in sources]
        for group, sources in groups.items()
        if sources
    }


def joined(parts: list[Tensor], by_tensor: Iterator[Tensor | None]) -> Tensor:
    """Return the next gradients as one, of tensors that hold tokens one after the other; zero where
    the output does not depend on them.
    """
    by_part = itertools.islice(by_tensor, len(parts))
    filled = [
        torch.zeros_like(part) if gradient is None else gradient
        for part, gradient in zip(parts, by_part, strict=True)
    ]
    return torch.cat(filled, -2) if len(filled) > 1 else filled[0]


def as_leaf(tensor: Tensor) -> Tensor:
    """Return a copy of numbers that asks for its gradient, and token ids as they are."""
    return tensor.clone().requires_grad_() if tensor.is_floating_point() else tensor


def embedding_modules(model: nn.Module) -> list[nn.Module]:
    """Return the modules that embed what a model, or a model within it, reads."""
    modules: list[nn.Module] = []
    for part in model.modules():
        if not isinstance(part, hf.PreTrainedModel):
            continue
        try:
            module = part.get_input_embeddings()
        except (NotImplementedError, AttributeError):
            continue
        if isinstance(module, nn.Module) and all(module is not known for known in modules):
            modules.append(module)
    return modules


def noting_into(outputs: list[Tensor]) -> Callable[..., None]:
    """Return a hook that notes what a module returns, where a gradient can reach it."""

    def note(module: nn.Module, args: Any, output: Any) -> None:
        if isinstance(output, Tensor) and output.requires_grad:
            outputs.append(output)

    return note


def output_along(model: nn.Module, inputs: dict[str, Tensor], path: str) -> Tensor:
    """Return the output of a model along a path, with the graph of its gradients."""
    if path == CHECKPOINTED:
        checkpoint(model)
    if path != IN_PARTS:
        output = run(model, inputs, gradients=True, **PATHS[path])
        if path == SHOWN and not any("attentions" in name for name in output):
            raise ValueError("model: shows no attentions")
        return first(output)
    name = "decoder_input_ids" if "decoder_input_ids" in inputs else "input_ids"
    tokens = inputs[name]
    beginning = inputs | {name: tokens[:, :FIRST_PART]}
    start = run(model, beginning, gradients=True, **PATHS[path])
    cache = next(part for part in start.values() if isinstance(part, Cache))
    rest = {name: tokens[:, FIRST_PART:], CACHE: cache}
    if name == "decoder_input_ids":
        rest["encoder_outputs"] = (start.encoder_last_hidden_state,)
    end = run(model, rest, gradients=True, **PATHS[path])
    return torch.cat([first(start), first(end)], 1)


def checkpoint(model: nn.Module) -> None:
    """Have a model train as with gradient checkpointing, without dropout."""
    # a config within may be left out
    configs = filter(None, with_sizes(model.config))
    for part in (*model.modules(), *configs):
        for name, value in list(vars(part).items()):
            if "drop" in name and isinstance(value, float):
                setattr(part, name, 0.0)
        if isinstance(part, nn.Dropout):
            part.p = 0.0
    getattr(model, f"{CHECKPOINTING}_enable")()
    model.train()


def in_float64(model: nn.Module, given: dict[str, Tensor]) -> float:
    """Return how far the refined model is from the literal form where neither rounds to float32."""
    model = copy.deepcopy(model).double()
    given = {name: one.double() if one.is_floating_point() else one for name, one in given.items()}
    refined = refined_copy(model)
    oracle = literal(model, refined_names(refined), STRENGTH)
    return apart(*(first(run(one, given, use_cache=False)) for one in (refined, oracle)))


def checks(model: nn.Module, given: dict[str, Tensor]) -> dict[str, Any]:
    """Return each check's deviation, or why there is none."""
    results: dict[str, Any] = {}

    def note(name: str, deviation: Callable[[], float]) -> None:
        try:
            results[name] = deviation()
        except Exception as error:
            results[name] = said(error)

    full = first(run(model, given, use_cache=False))
    none = refined_copy(model, "none")
    note("none = plain", lambda: apart(first(run(none, given, use_cache=False)), full))
    note("plain: default call", lambda: apart(first(run(model, given)), full))
    note("none: default call", lambda: apart(first(run(none, given)), first(run(model, given))))
    refined = None
    try:
        refined = refined_copy(model)
        high = first(run(refined, given, use_cache=False))
    except ValueError as error:
        refined, results["High = literal"] = None, said(error)
    models = {"plain": model, "none": none} | ({} if refined is None else {"High": refined})
    if "input_ids" in given:
        causal = leak(model, given) < 1e-6
        for name in ("none", "High") if causal else ():
            if name in models:
                note(f"{name}: last token", lambda name=name: leak(models[name], given))
        takes_mask = "attention_mask" in inspect.signature(model.forward).parameters
        for name in models if takes_mask and "decoder_input_ids" not in given else ():
            note(f"{name}: padded", lambda name=name: padding(models[name], given))
        for name in models if model.can_generate() else ():
            note(f"{name}: generated", lambda name=name: generation(models[name], given))
    if refined is not None:
        unrefined = literal(copy.deepcopy(model), [])
        note("plain = literal", lambda: apart(first(run(unrefined, given, use_cache=False)), full))
        oracle = literal(copy.deepcopy(model), refined_names(refined), STRENGTH)
        note("High = literal", lambda: apart(high, first(run(oracle, given, use_cache=False))))
        if results["High = literal"] > CLOSE:
            note(IN_FLOAT64, lambda: in_float64(model, given))
        if results["plain = literal"] > CLOSE:
            note(OWN_FORMS, lambda: apart(full, first(run(spelled_out(model), given))))
        note("High moves", lambda: apart(high, full))
        note("High: default call", lambda: apart(first(run(refined, given)), high))
        note("High, attentions", lambda: apart(first(run(refined, given, **PATHS[SHOWN])), high))
        results |= gradient_checks(model, given)
    return results


EXACT, CLOSE, GRADIENT = 1e-6, 2e-4, 2e-3
"""The largest deviations of what is the same sum, of the same sums in another order, and of
gradients.
"""

SENSITIVITY = 100
"""By how much more a gradient, or a refined model, may depend on a rounding than the plain output."""

IN_FLOAT64 = "High = literal in float64"
"""Computed where float32 deviates by more than `CLOSE`: hrm_text, 32 passes deep, deviates by some
3e-4 of its own rounding, and by nothing here.
"""

OWN_FORMS = "plain: sdpa = eager"
"""Computed where the plain model is not the literal one. Where transformers' own two forms differ as
much, no oracle says what is right.
"""

LIMITS = {
    IN_FLOAT64: EXACT,
    "none = plain": EXACT,
    "none: default call": EXACT,
    "plain = literal": CLOSE,
    "High = literal": CLOSE,
    "High: default call": CLOSE,
    "High, attentions": CLOSE,
    "none: last token": EXACT,
    "High: last token": EXACT,
    **dict.fromkeys(GRADIENTS, GRADIENT),
}


ORACLES = ("plain = literal", "High = literal", IN_FLOAT64, *GRADIENTS)


def spelled_out(model: nn.Module) -> nn.Module:
    """Return a copy of a plain model with transformers' own eager attention."""
    model = copy.deepcopy(model)
    model.set_attn_implementation("eager")
    return model


def faults(results: dict[str, Any]) -> list[str]:
    """Return the checks of a row that fail: deviations that are too large, errors of a model that
    is plain, and those of a refined one that do not say what it cannot do.

    A deep recurrence lets the rounding of the plain model grow, and that of the refined one with it.
    With padding, or with a cache, nothing is asked of a refined model whose plain one deviates.
    """
    limits, rounding = dict(LIMITS), results.get("plain = literal", 0.0)
    if not isinstance(rounding, str):
        for name in ("High = literal", "High, attentions", *GRADIENTS):
            limits[name] = max(limits[name], SENSITIVITY * rounding)
    own_forms = results.get(OWN_FORMS, 0.0)
    if isinstance(own_forms, str) or not own_forms <= CLOSE:
        for name in ORACLES:
            limits[name] = math.inf
    for check in ("padded", "generated"):
        plain = results.get(f"plain: {check}", 0.0)
        limits[f"none: {check}"] = limits[f"High: {check}"] = (
            CLOSE if isinstance(plain, str) or plain <= CLOSE else math.inf
        )
    return [
        name for name, limit in limits.items() if name in results and fails(name, results, limit)
    ]


def fails(name: str, results: dict[str, Any], limit: float) -> bool:
    """Tell whether one check of a row fails."""
    deviation = results[name]
    if not isinstance(deviation, str):
        return not deviation <= limit
    side, _, check = name.partition(": ")
    plain = results.get(f"plain: {check}")
    if side != "none" and (isinstance(plain, str) or deviation.startswith(REFUSALS)):
        return False
    return deviation != plain


REFUSALS = tuple(
    f"ValueError: {word}: " for word in ("model", "past_key_values", "attention_mask", *REFUSED)
)


def row(kind: str) -> dict[str, Any]:
    """Return the table's row of a kind of model."""
    results: dict[str, Any] = {"kind": kind, "class": kinds()[kind]}
    try:
        model, given = built(kind)
    except Exception as error:
        return results | {"built": str(error), "why not": why_not(str(error))}
    modules = len(self_attention_modules(model))
    results |= {
        "built": "yes",
        "modules": modules,
        "implementation": model.config._attn_implementation,
    }
    return results | checks(model, given)


def main(path: str, *chosen: str) -> None:
    """Write the table of all kinds of models, or of those chosen."""
    hf.logging.set_verbosity_error()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    rows = []
    for kind in chosen or kinds():
        rows.append(row(kind))
        columns = list(dict.fromkeys(name for one in rows for name in one))
        with open(path, "w", newline="") as file:
            table = csv.DictWriter(file, columns)
            table.writeheader()
            table.writerows(rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
