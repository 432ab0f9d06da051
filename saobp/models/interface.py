"""The attention function and the mask function that transformers calls for a refined model.

transformers hands an attention function the query, key and value of one module and a mask on keys.
From the mask come which tokens are real and which pairs may look at each other; then the
probabilities are refined and applied to the values, by the fused operation where nobody asks to see
them. What is not refined attends by the function that it attended by before.
"""

import contextlib
import functools
import inspect
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers.cache_utils import Cache
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, eager_mask, sdpa_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.utils.output_capturing import CompileableContextVar, _active_collector

from saobp.equations.checks import values_hidden
from saobp.equations.masks import check_pairs, refuse_mask, refuse_padding
from saobp.fused.scores import in_quick_type, remembered
from saobp.models.cache import RefinedLayer, adopt
from saobp.models.keywords import refuse_keywords
from saobp.models.refined_attention import (
    Call,
    attend_with_cache,
    plain_attention,
    refined_attention,
    rows_of,
)
from saobp.models.supported import (
    NAME,
    OVER_EAGER,
    PLAIN_CONFIG,
    PLAIN_STACK,
    SOURCES,
    SWITCHED_BY_TRANSFORMERS,
    eager_function,
    is_causal_module,
)

_layer = CompileableContextVar("saobp_layer")
"""The layer of the cache, of this thread, between the start of an attention module and its
attention function.
"""

CROSS = "cross"
"""Stands in place of a layer where the call is cross-attention, though the module looks like
self-attention.
"""


def mask_for(*args: Any, config: Any = None, **kwargs: Any) -> Tensor | None:
    """Build the mask that the plain model gets.

    Raises ValueError for masks that name neither tokens nor pairs, and for a model that was never
    refined.
    """
    refuse_unrefined(config)
    refuse_padding(kwargs.get("attention_mask"), kwargs["kv_length"] + kwargs.get("kv_offset", 0))
    build = eager_mask if config._attn_implementation == OVER_EAGER else sdpa_mask
    return build(*args, config=config, **kwargs)


def attention_forward(
    module: nn.Module,
    query: Float[Tensor, "batch head query dim"],
    key: Float[Tensor, "batch group key dim"],
    value: Float[Tensor, "batch group key dim_value"],
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **kwargs: Any,
) -> tuple[
    Float[Tensor, "batch query head dim_value"], Float[Tensor, "batch head query key"] | None
]:
    """Attend with refined probabilities (Eq. 11); return them too when the call asks for
    attentions.

    The weights returned are those before dropout, so that their rows sum to 1 in training too. A
    module without refinement (cross-attention, factor "none") attends as before `apply`. Raises
    ValueError for what cannot be served exactly.
    """
    refinement = getattr(module, NAME, None)
    # a model that reads pictures asks for no mask
    if refinement is None and hasattr(module, "config"):
        refuse_unrefined(module.config)
    layer = None if refinement is None else take_layer()
    refinement = None if layer is CROSS else refinement
    # eager functions know no other sign of the future than a mask
    over_eager = plain_implementation(module) == "eager"
    if attention_mask is None and over_eager:
        is_causal = False
    causal = is_causal_module(module) if is_causal is None else is_causal
    keep = wants_weights(refinement, kwargs)
    call = Call(attention_mask, scaling, dropout, causal, kwargs.get("position_bias"), keep)
    if refinement is None or refinement.options.factor == "none":
        return attend_as_before(module, refinement, query, key, value, call, is_causal, kwargs)
    refuse_keywords(module, kwargs, refinement.of_layers)
    refuse_mask(module, attention_mask, query, key)
    refuse_bias(module, call.position_bias, query, key)
    first = query.shape[-2] == key.shape[-2]
    # a trace keeps no cache
    layer = None if torch.jit.is_tracing() else layer
    if layer is not None and not (first and torch.is_grad_enabled()):
        return attend_with_cache(layer, refinement, query, key, value, call)
    # training fills a cache that nobody reads: sum up its rows only if somebody does
    if layer is not None:
        layer.remember(rows_of(call, query, key.shape[-2]))
    if not first:
        refuse_keys(module, query.shape[-2], key.shape[-2])
    return refined_attention(refinement, query, key, value, call)


def attend_as_before(
    module: nn.Module,
    refinement: nn.Module | None,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    call: Call,
    is_causal: bool | None,
    kwargs: dict[str, Any],
) -> tuple[Tensor, Tensor | None]:
    """Attend without refinement, by the function that transformers would call without `apply`.

    On a CPU in bfloat16 with gradients `sdpa` is handed float32, as the refined paths are.
    """
    before = plain_implementation(module)
    options = {"dropout": call.dropout, "scaling": call.scaling, "is_causal": is_causal} | kwargs
    if before != "sdpa":
        plain = ALL_ATTENTION_FUNCTIONS.get(before, eager_function(type(module)))
        output, weights = plain(module, query, key, value, call.mask, **options)
        if refinement is not None and refinement.watched() and weights is not None:
            undropped = plain(module, query, key, value, call.mask, **options | {"dropout": 0.0})
            raw = undropped[1].to(torch.promote_types(weights.dtype, torch.float32))
            refinement.show(raw, raw)
        return output, weights
    call = with_bias_in_mask(call, query)
    # `sdpa` itself refuses a cap
    if call.keep and kwargs.get("softcap") is None:
        return plain_attention(refinement, query, key, value, call)
    tensors, mask, bias = in_quick_type(query, key, value), call.mask, call.position_bias
    widened = tensors[0] is not query
    if widened and mask is not None and mask.dtype != torch.bool:
        mask = mask.float()
    if widened and bias is not None:
        bias = bias.float()
    if "position_bias" in kwargs:
        options["position_bias"] = bias
    with torch.autocast("cpu", enabled=False) if widened else contextlib.nullcontext():
        output, weights = sdpa_attention_forward(module, *tensors, mask, **options)
    return output.to(query.dtype), weights


def plain_implementation(module: nn.Module) -> str:
    """Return the attention implementation of a module as it is without `apply`."""
    config = getattr(module, PLAIN_CONFIG, None) or getattr(module, "config", None)
    name = getattr(config, "_attn_implementation", NAME)
    if name in (NAME, PLAIN_STACK):
        return "sdpa"
    return "eager" if name == OVER_EAGER else name


def refuse_unrefined(config: Any) -> None:
    """Refuse the implementation where it was written into the config of a model that stands: it
    would be plain attention in silence.
    """
    if getattr(config, NAME, None) is None:
        raise ValueError(
            f'attn_implementation: "{NAME}" was written into a config and refines nothing; '
            f'call model.set_attn_implementation("{NAME}"), or saobp.apply(model)'
        )


def refuse_bias(module: nn.Module, bias: Tensor | None, query: Tensor, key: Tensor) -> None:
    """Raise ValueError unless a relative bias broadcasts to the scores."""
    if bias is None:
        return
    scores = (*query.shape[:3], key.shape[2])
    shape = (*[1] * (4 - bias.ndim), *bias.shape)
    if len(shape) != 4 or any(size not in (1, full) for size, full in zip(shape, scores)):
        raise ValueError(
            f"position_bias: {type(module).__name__} was handed shape {tuple(bias.shape)}; it must "
            "broadcast to (batch {}, heads {}, queries {}, keys {})".format(*scores)
        )


def check_masks(module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
    """Before a refined model runs, raise ValueError for a mask of pairs that leaves open what it
    hides.

    What a model itself adds to its scores is not looked at: no call is refused for what it is about.
    """
    if values_hidden():
        return
    called = dict(zip(parameters(type(module)), args)) | kwargs
    masks = called.get("attention_mask")
    for mask in masks.values() if isinstance(masks, dict) else [masks]:
        pairs = isinstance(mask, Tensor) and mask.ndim == 4
        if pairs and (mask.dtype == torch.bool or mask.is_floating_point()):
            remembered(mask, "pairs", lambda mask=mask: check_pairs(mask))


@functools.cache
def parameters(module_class: type[nn.Module]) -> tuple[str, ...]:
    """Return the names of what the forward pass of a class is given, in order."""
    return tuple(inspect.signature(module_class.forward).parameters)[1:]


def refuse_keys(module: nn.Module, queries: int, keys: int) -> None:
    """Raise ValueError: the keys are others than the rows, of which each must have sent its
    messages.
    """
    raise ValueError(
        f"model: {type(module).__name__} reads other tokens than its own ({keys} keys for {queries} "
        "queries) and cannot be refined; give saobp.apply the parts of the model without it"
    )


def wants_weights(refinement: nn.Module | None, kwargs: dict[str, Any]) -> bool:
    """Tell whether this call has to return attention probabilities."""
    if kwargs.get("output_attentions") or (refinement is not None and refinement.watched()):
        return True
    if torch.compiler.is_compiling() and not _active_collector.compiling:
        return False
    # models that drop the argument on the way, such as GPT-2
    collector = _active_collector.get()
    return collector is not None and any("attentions" in name for name in collector)


def with_bias_in_mask(call: Call, query: Tensor) -> Call:
    """Return a call with one additive mask in place of a mask and a relative bias, as transformers and
    autocast hand it to `sdpa`.

    Half precision makes -inf of the lowest number of float32, and 0 of a row that was uniform.
    """
    mask, bias = call.mask, call.position_bias
    if mask is None:
        return call
    if bias is not None and mask.dtype == torch.bool:
        mask = torch.where(mask, bias, torch.finfo(query.dtype).min)
    elif bias is not None:
        mask = mask + bias
    device = query.device.type
    if mask.dtype != torch.bool and torch.is_autocast_enabled(device):
        mask = mask.to(torch.get_autocast_dtype(device))
    return call._replace(mask=mask, position_bias=None)


def remember_cache(module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
    """Before an attention module runs, find the layer of the cache that carries its column sums, or
    what stands for it.

    transformers updates the cache inside the module and hands the attention function keys alone.
    Raises ValueError if the cache cannot carry them, or if the attention implementation was changed
    behind our back.
    """
    refinement, layer = getattr(module, NAME), None
    if refinement.options.factor != "none":
        refuse_other_implementation(module)
    cache = next(
        (argument for argument in (*args, *kwargs.values()) if isinstance(argument, Cache)), None
    )
    names = refinement.arguments
    called = dict(zip(names, args)) | kwargs
    hidden_states = called.get(names[0]) if names else None
    others = [called.get(name) for name in SOURCES if name in names[1:]]
    # some models have one class for attention of both kinds, and no name says which this call is
    if any(source is not None and source is not hidden_states for source in others):
        layer = CROSS
    elif cache is not None and refinement.options.factor != "none":
        index = getattr(module, "layer_idx", None)
        layer = None if index is None else adopt(cache, index, refinement.options)
    if torch.compiler.is_compiling() or _layer.get() is not layer:
        _layer.set(layer)


def refuse_other_implementation(module: nn.Module) -> None:
    """Raise ValueError if the attention implementation was changed behind our back.

    Where transformers does so itself, to see attention, it is changed back: ours can be seen.
    """
    config = getattr(module, "config", None)
    implementation = getattr(config, "_attn_implementation", NAME)
    if implementation in (NAME, OVER_EAGER):
        return
    if implementation == "eager" and type(module).__module__ in SWITCHED_BY_TRANSFORMERS:
        config._attn_implementation_internal = getattr(module, NAME).implementation
        return
    raise ValueError(
        f"attn_implementation: the refined model was switched to {implementation!r}, which knows no "
        'refinement; saobp.apply(model, "none") gives plain attention'
    )


def keep_all_rows(module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict]:
    """Before a stack runs that would leave out rows whose logits nobody asks for, have it keep
    them: layers that share the keys of others would lose their messages.
    """
    return args, kwargs | {"logits_to_keep": 0}


def take_layer() -> RefinedLayer | str | None:
    """Return the layer that `remember_cache` found, or what stands for it, once."""
    layer = _layer.get()
    if torch.compiler.is_compiling():
        _layer.reset(None)
    elif layer is not None:
        _layer.set(None)
    return layer


for name in (NAME, OVER_EAGER, PLAIN_STACK):
    ALL_ATTENTION_FUNCTIONS.register(name, attention_forward)
for name in (NAME, OVER_EAGER):
    ALL_MASK_ATTENTION_FUNCTIONS.register(name, mask_for)
ALL_MASK_ATTENTION_FUNCTIONS.register(PLAIN_STACK, eager_mask)
