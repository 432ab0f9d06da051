"""The attention function and the mask function that transformers calls for a refined model.

transformers hands an attention function the query, key and value of one module and a mask on keys.
From the mask come which tokens are real and which pairs may look at each other; then the
probabilities are refined and applied to the values, by the fused operation where nobody asks to see
them.
"""

import contextlib
import copy
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import PretrainedConfig
from transformers.cache_utils import Cache
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, eager_mask, sdpa_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS, PreTrainedModel
from transformers.utils.output_capturing import CompileableContextVar, _active_collector

from saobp.equations.checks import values_hidden
from saobp.fused.scores import blind_queries, check_values, in_quick_type, remembered
from saobp.models.cache import RefinedLayer, adopt
from saobp.models.refined_attention import (
    Call,
    attend_with_cache,
    plain_attention,
    refined_attention,
    rows_of,
)
from saobp.models.supported import (
    NAME,
    SOURCES,
    UNSERVED_ARGUMENTS,
    is_causal_module,
    uses_interface,
)

_layer = CompileableContextVar("saobp_layer")
"""The layer of the cache, of this thread, between the start of an attention module and its
attention function.
"""

CROSS = "cross"
"""Stands in place of a layer where the call is cross-attention, though the module looks like
self-attention.
"""

CACHED = "cached"
"""Stands in place of a layer where there is a cache, but the module says that it is not causal."""

PLAIN_STACK = f"{NAME}-plain"
"""Attention implementation of a stack in a refined model that does not use the interface: its masks
are its own.
"""


def mask_for(*args: Any, config: Any = None, **kwargs: Any) -> Tensor | None:
    """Build transformers' additive mask, or for a model with factor "none" the mask that `sdpa`
    gets.

    Raises ValueError for masks that name neither tokens nor pairs, and for a model that was never
    refined.
    """
    refuse_unrefined(config)
    if getattr(config, NAME)["factor"] == "none":
        return sdpa_mask(*args, config=config, **kwargs)
    given, keys, wrong = (
        kwargs.get("attention_mask"),
        kwargs["kv_length"] + kwargs.get("kv_offset", 0),
        "",
    )
    # transformers would take it for a padding mask all the same
    if given is not None and given.ndim != 2:
        wrong = f"shape {tuple(given.shape)}"
    # some decoders flatten (batch, query, key) to (batch, key)
    elif given is not None and given.shape[-1] > keys:
        wrong = f"{given.shape[-1]} entries a sequence for {keys} keys"
    if wrong:
        form = "give (batch, key) for padding, or (batch, head or 1, query, key) for pairs"
        raise ValueError(f"attention_mask: has {wrong}; {form}")
    return eager_mask(*args, config=config, **kwargs)


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
    module without refinement (cross-attention, factor "none") attends as `sdpa` does. Raises
    ValueError for what cannot be served exactly.
    """
    refuse_arguments(module, kwargs)
    refuse_mask(module, attention_mask, query, key)
    refinement = getattr(module, NAME, None)
    # a model that reads pictures asks for no mask
    if refinement is None and hasattr(module, "config"):
        refuse_unrefined(module.config)
    layer = None if refinement is None else take_layer()
    refinement = None if layer is CROSS else refinement
    keep = wants_weights(refinement, kwargs)
    causal = is_causal_module(module) if is_causal is None else is_causal
    call = Call(attention_mask, scaling, dropout, causal, kwargs.get("position_bias"), keep)
    if refinement is None or refinement.options.factor == "none":
        if keep:
            return plain_attention(refinement, query, key, value, call)
        tensors = in_quick_type(query, key, value)
        mask = in_type(attention_mask, tensors[0].dtype)
        with (
            contextlib.nullcontext()
            if tensors[0] is query
            else torch.autocast("cpu", enabled=False)
        ):
            output, weights = sdpa_attention_forward(
                module, *tensors, mask, dropout, scaling, is_causal, **kwargs
            )
        # a boolean mask alone leaves them at 0
        if attention_mask is not None and (
            call.position_bias is not None or mask.dtype != torch.bool
        ):
            output = without_blind_rows(output, attention_mask)
        return output.to(query.dtype), weights
    cached, first = layer is not None, query.shape[-2] == key.shape[-2]
    # a trace keeps no cache
    layer = None if layer is CACHED or torch.jit.is_tracing() else layer
    if layer is not None and not (first and torch.is_grad_enabled()):
        return attend_with_cache(layer, refinement, query, key, value, call)
    # training fills a cache that nobody reads: sum up its rows only if somebody does
    if layer is not None:
        layer.remember(rows_of(call, query, key.shape[-2]))
    if not first:
        refuse_keys(module, query.shape[-2], key.shape[-2], cached)
    return refined_attention(refinement, query, key, value, call)


def refuse_unrefined(config: Any) -> None:
    """Refuse the implementation where it was written into the config of a model that stands: it
    would be plain attention in silence.
    """
    if getattr(config, NAME, None) is None:
        raise ValueError(
            f'attn_implementation: "{NAME}" was written into a config and refines nothing; '
            f'call model.set_attn_implementation("{NAME}"), or saobp.apply(model)'
        )


def refuse_arguments(module: nn.Module, kwargs: dict[str, Any]) -> None:
    """Raise ValueError for arguments that change the probabilities in a way the refinement does not
    know.
    """
    name = type(module).__name__
    if kwargs.get("cache") is not None:
        raise ValueError(
            f"cache: {name} was handed a paged cache, which carries no column sums; use generate()"
        )
    for argument in UNSERVED_ARGUMENTS:
        if kwargs.get(argument) is not None:
            raise ValueError(
                f"{argument}: {name} bends its attention scores; saobp cannot refine it exactly"
            )


def refuse_keys(module: nn.Module, queries: int, keys: int, cached: bool) -> None:
    """Raise ValueError: the keys are others than the rows, of which each must have sent its
    messages.
    """
    name = type(module).__name__
    if cached:
        raise ValueError(
            f"past_key_values: {name} was handed keys whose rows sent it no messages; pass use_cache=False"
        )
    raise ValueError(
        f"model: {name} reads other tokens than its own ({keys} keys for {queries} queries) and cannot be refined; "
        "give saobp.apply the parts of the model without it"
    )


def refuse_mask(module: nn.Module, mask: Any, query: Tensor, key: Tensor) -> None:
    """Raise ValueError unless a mask says of each query and key whether one may look at the
    other.
    """
    if mask is None:
        return
    name, (batch, heads, queries), keys = type(module).__name__, query.shape[:3], key.shape[2]
    shape = tuple(mask.shape) if isinstance(mask, Tensor) else None
    if shape is None or len(shape) != 4:
        said = type(mask).__name__ if shape is None else f"a mask of shape {shape}"
        raise ValueError(
            f"attention_mask: {name} was handed {said}; saobp needs (batch, head or 1, query, key)"
        )
    if mask.dtype != torch.bool and not mask.is_floating_point():
        raise ValueError(
            f"attention_mask: {name} was handed {mask.dtype} in four dimensions; "
            "make it boolean (True: may look) or add 0 and -inf"
        )
    fits = [size in (1, full) for size, full in zip(shape, (batch, heads, queries))]
    if not all(fits) or shape[3] != keys:
        raise ValueError(
            f"attention_mask: {name} was handed shape {shape}; "
            f"it must broadcast to (batch {batch}, heads {heads}, queries {queries}) and have {keys} keys"
        )
    if mask.is_floating_point() and not values_hidden():
        remembered(mask, "values", lambda: check_values(mask))


def wants_weights(refinement: nn.Module | None, kwargs: dict[str, Any]) -> bool:
    """Tell whether this call has to return attention probabilities."""
    if kwargs.get("output_attentions") or (refinement is not None and refinement.watched()):
        return True
    if torch.compiler.is_compiling() and not _active_collector.compiling:
        return False
    # models that drop the argument on the way, such as GPT-2
    collector = _active_collector.get()
    return collector is not None and any("attentions" in name for name in collector)


def in_type(mask: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """Return an additive mask in the type of the query: under autocast the two differ, and `sdpa`
    minds.
    """
    if mask is None or mask.dtype in (torch.bool, dtype):
        return mask
    return mask.clamp(min=torch.finfo(dtype).min).to(dtype)


def without_blind_rows(
    output: Float[Tensor, "batch query head dim"], mask: Tensor
) -> Float[Tensor, "batch query head dim"]:
    """Give 0 to a query that may look at nothing: under an additive mask `sdpa` gives it the mean
    of all values, the future's too.
    """
    blind = blind_queries(mask, mask.shape[-2], mask.shape[-1])
    return output if blind is None else output.masked_fill(blind.transpose(1, 2)[..., None], 0)


def detach(model: nn.Module) -> None:
    """Take every refinement off a model."""
    for module in list(model.modules()):
        if NAME in module._modules:
            del module._modules[NAME]
            hooks = module._forward_pre_hooks
            for handle in [handle for handle, hook in hooks.items() if hook is remember_cache]:
                del hooks[handle], module._forward_pre_hooks_with_kwargs[handle]


def dispatch(model: nn.Module, options: dict[str, Any]) -> None:
    """Send the model's attention through our function, and write the options into its configs.

    The configs become the model's own: another model built from the same object stays what it was.
    """
    copies: dict[int, Any] = {}
    for part in model.modules():
        if isinstance(vars(part).get("config"), PretrainedConfig):
            part.config = copy.deepcopy(part.config, copies)
    model.set_attn_implementation(NAME)
    served = {
        id(getattr(part, "config", None)) for part in model.modules() if uses_interface(type(part))
    }
    for part in model.modules():
        if isinstance(part, PreTrainedModel):
            setattr(part.config, NAME, dict(options))
            # of a head that was built over a refined body, the config is another copy
            if (
                not {id(part.config), id(part.base_model.config)} & served
                and part.config._attn_implementation == NAME
            ):
                part.config._attn_implementation_internal = PLAIN_STACK
        # of a model put together from parts: its own config may be neither part's
        elif NAME in part._modules:
            part.config._attn_implementation_internal = NAME
            setattr(part.config, NAME, dict(options))


def remember_cache(module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
    """Before an attention module runs, find the layer of the cache that carries its column sums, or
    what stands for it.

    transformers updates the cache inside the module and hands the attention function keys alone.
    Raises ValueError if the cache cannot carry them, or if the attention implementation was changed
    behind our back.
    """
    implementation = getattr(getattr(module, "config", None), "_attn_implementation", NAME)
    if implementation != NAME:
        raise ValueError(
            f"attn_implementation: the refined model was switched to {implementation!r}, which knows no "
            'refinement; saobp.apply(model, "none") gives plain attention'
        )
    refinement, layer = getattr(module, NAME), None
    cache = next((given for given in (*args, *kwargs.values()) if isinstance(given, Cache)), None)
    names = refinement.arguments
    called = dict(zip(names, args)) | kwargs
    own = called.get(names[0]) if names else None
    others = [called.get(name) for name in SOURCES if name in names[1:]]
    # some models have one class for attention of both kinds, and no name says which this call is
    if any(other is not None and other is not own for other in others):
        layer = CROSS
    elif cache is not None and refinement.options.factor != "none":
        layer = (
            adopt(cache, module.layer_idx, refinement.options)
            if is_causal_module(module)
            else CACHED
        )
    if torch.compiler.is_compiling() or _layer.get() is not layer:
        _layer.set(layer)


def take_layer() -> RefinedLayer | str | None:
    """Return the layer that `remember_cache` found, or what stands for it, once."""
    layer = _layer.get()
    if torch.compiler.is_compiling():
        _layer.reset(None)
    elif layer is not None:
        _layer.set(None)
    return layer


ALL_ATTENTION_FUNCTIONS.register(NAME, attention_forward)
ALL_MASK_ATTENTION_FUNCTIONS.register(NAME, mask_for)
ALL_ATTENTION_FUNCTIONS.register(PLAIN_STACK, attention_forward)
ALL_MASK_ATTENTION_FUNCTIONS.register(PLAIN_STACK, eager_mask)
