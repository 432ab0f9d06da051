"""Which modules of a transformers model are self-attention that can be refined, and which models
are refused.

A module counts as attention if its `forward` goes through transformers' attention interface. That
is read from the source, as transformers itself does, because models declare it nowhere else.
"""

import ast
import functools
import inspect
import re
import textwrap
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from saobp.equations.checks import first_line

NAME = "saobp"
"""Of the attention implementation, the config field, and the submodule of each refined attention
module.
"""

OVER_EAGER = f"{NAME}-eager"
"""Attention implementation of a refined part that transformers runs by its own eager functions,
whose masks are never left out.
"""

PLAIN_STACK = f"{NAME}-plain"
"""Attention implementation of a stack in a refined model that does not use the interface: its masks
are its own.
"""

PLAIN_CONFIG = "_saobp_plain_config"
"""Attribute of an attention module under factor "none": the config that it shares with its
model.
"""

BEFORE = "_saobp_before"
"""Attribute of a part of a refined model: its attention implementation before."""

SWITCHED_BY_TRANSFORMERS = ("transformers.models.whisper.modeling_whisper",)
"""Modules of models that transformers itself switches to eager attention, to see it: Whisper, for
the timestamps of words.
"""

CROSS_NAMES = re.compile(
    r"cross|EncDecAttention|encoder_attn|encoder_decoder_attention|token_to_image|image_to_token|\bx_attn",
    re.IGNORECASE,
)
SOURCES = (
    "key_value_states",
    "encoder_hidden_states",
    "cross_attention_states",
    "context",
    "context_hidden_states",
    "key",
)
"""Arguments of attention modules that bring keys of other tokens."""
DECODER_PATH = re.compile(r"(^|\.)(\w+_)?decoder(\.|$)")
ATTENTION_NAME = re.compile(r"^(?!.*(Linear|Lightning)).*Attention$")
PROJECTION = re.compile(
    r"q|query|qkv|q_proj|q_lin|query_proj|query_key_value|c_attn|to_q|in_proj|Wqkv"
)
INTERFACE = "ALL_ATTENTION_FUNCTIONS"
BENDING_PARTS = {
    "attn_logit_softcapping": "caps its attention scores",
    "indexer": "looks at the keys that an indexer picks",
    "sink_proj": "has attention sinks beside the keys",
    "sinks": "has attention sinks beside the keys",
}
"""Attributes of attention modules whose probabilities are no masked softmax of scaled products."""


@functools.cache
def uses_interface(module_class: type[nn.Module]) -> bool:
    """Tell whether modules of a class call the attention interface themselves."""
    try:
        return INTERFACE in inspect.getsource(module_class.forward)
    except (OSError, TypeError):
        return False


@functools.cache
def eager_function(module_class: type[nn.Module]) -> Callable | None:
    """Return the function by which modules of a class attend under "eager"; None if they do not say
    so.
    """
    forward = inspect.unwrap(module_class.forward)
    for call in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(forward)))):
        if isinstance(call, ast.Call) and ast.unparse(call.func) == f"{INTERFACE}.get_interface":
            return forward.__globals__.get(ast.unparse(call.args[-1]))
    return None


@functools.cache
def compares_implementations(module_class: type[nn.Module]) -> bool:
    """Tell whether modules of a class do otherwise where the attention implementation is `sdpa`."""
    return '"sdpa"' in inspect.getsource(module_class)


@functools.cache
def attends_twice(module_class: type[nn.Module]) -> bool:
    """Tell whether one pass of a module always calls the attention interface more than once."""
    (forward,) = ast.parse(textwrap.dedent(inspect.getsource(module_class.forward))).body
    steps = [step for step in forward.body if not isinstance(step, (ast.If, ast.For))]
    calls = [node for step in steps for node in ast.walk(step) if isinstance(node, ast.Call)]
    return (
        sum(
            isinstance(call.func, ast.Name) and call.func.id == "attention_interface"
            for call in calls
        )
        > 1
    )


def is_cross_attention(name: str, module: nn.Module) -> bool:
    """Tell attention from one sequence to another: its rows are not among its columns, so no
    messages.
    """
    last = ".".join(name.split(".")[-2:])
    declared = getattr(module, "is_cross_attention", False)
    return bool(declared or CROSS_NAMES.search(type(module).__name__) or CROSS_NAMES.search(last))


def in_decoders(model: nn.Module) -> set[nn.Module]:
    """Return what lies in the decoders of encoder-decoders; a decoder without an encoder, as in
    OPT, is none.
    """
    parts = [
        part
        for part in model.modules()
        if getattr(getattr(part, "config", None), "is_encoder_decoder", False)
    ]
    return {
        module
        for part in parts
        for name, module in part.named_modules()
        if DECODER_PATH.search(name)
    }


def self_attention_modules(model: nn.Module) -> list[nn.Module]:
    """List the modules to refine: all self-attention, of encoder-decoders the encoder's only."""
    decoders = in_decoders(model)
    named = [
        (name, module) for name, module in model.named_modules() if uses_interface(type(module))
    ]
    modules = [
        module
        for name, module in named
        if not is_cross_attention(name, module) and module not in decoders
    ]
    if getattr(model.config, "is_encoder_decoder", False):
        modules = [module for module in modules if not is_causal_module(module)]
    return modules


def left_plain(model: nn.Module) -> dict[str, str]:
    """Return what looks like self-attention that cannot be reached: the name of each class, and a
    path to one.
    """
    reached = {
        part for module in self_attention_modules(model) for part in module.modules()
    } | in_decoders(model)
    plain: dict[str, str] = {}
    for path, module in model.named_modules():
        name, parts = type(module).__name__, set(module.modules())
        projected = any(PROJECTION.fullmatch(child) for child in module._modules)
        inside = parts & reached or any(uses_interface(type(part)) for part in parts)
        if (
            ATTENTION_NAME.search(name)
            and projected
            and not inside
            and not is_cross_attention(path, module)
        ):
            plain.setdefault(name, path)
    return plain


def warn(model: nn.Module) -> None:
    """Warn whoever called `saobp.apply` of self-attention that stays plain."""
    name, plain = type(model).__name__, left_plain(model)
    if plain:
        kinds = ", ".join(f"{kind} ({path})" for kind, path in plain.items())
        why = "does not go through transformers' attention interface and stays plain"
        warnings.warn(f"model: {name} is refined in parts; {kinds} {why}", stacklevel=3)


def refuse(model: nn.Module) -> None:
    """Raise ValueError, naming the model, unless it has self-attention that can be served
    exactly.
    """
    refuse_other_objects(model)
    name, settable = type(model).__name__, model._can_set_attn_implementation
    modules = self_attention_modules(model)
    if not modules or not settable():
        beside = not modules and any(uses_interface(type(module)) for module in in_decoders(model))
        where = " outside its decoder, which stays plain" if beside else ""
        raise ValueError(
            f"model: {name} has no self-attention that goes through transformers' attention interface{where}; "
            "saobp.apply cannot refine it"
        )
    for module in modules:
        refuse_module(model, module)


def refuse_other_objects(model: Any) -> None:
    """Raise ValueError, naming the part to give instead if there is one, unless it is a transformers
    model.
    """
    if is_transformers_model(model):
        return
    name, (path, inner) = type(model).__name__, transformers_model_in(model)
    if inner is not None:
        raise ValueError(
            f"model: {name} holds a transformers model; "
            f"give that one, model{path} ({type(inner).__name__})"
        )
    raise ValueError(
        f"model: {name} is not a transformers model; "
        "for other models call saobp.saobp_attention or saobp.refine in your attention"
    )


def is_transformers_model(model: Any) -> bool:
    """Tell whether a model knows attention implementations and says how it is built."""
    return hasattr(model, "_can_set_attn_implementation") and hasattr(model, "config")


def transformers_model_in(holder: Any) -> tuple[str, nn.Module | None]:
    """Return the way to the transformers model that a pipeline, a trainer or a model around it
    holds, as Python writes it, and that model; None if there is none.
    """
    if isinstance(holder, nn.Module):
        parts = holder.named_modules()
    else:
        parts = getattr(holder, "__dict__", {}).items()
    for name, part in parts:
        if isinstance(part, nn.Module) and is_transformers_model(part):
            steps = name.split(".")
            path = "".join(f"[{step}]" if step.isdigit() else f".{step}" for step in steps)
            return path, part
    return "", None


def refuse_module(model: nn.Module, module: nn.Module) -> None:
    """Raise ValueError if the probabilities of `module` are not a masked softmax of scaled
    products.
    """
    name = f"model: {type(model).__name__} ({type(module).__name__})"
    for part, what in BENDING_PARTS.items():
        if getattr(module, part, None) is not None:
            raise ValueError(f"{name} {what}; saobp.apply cannot refine it")
    if attends_twice(type(module)):
        raise ValueError(
            f"{name} attends twice and subtracts or joins the two; saobp.apply cannot refine it"
        )
    if not hasattr(module, "is_causal"):
        raise ValueError(f"{name} does not say whether it is causal; saobp.apply cannot refine it")
    if is_causal_module(module) and getattr(module, "layer_idx", 0) is None:
        raise ValueError(
            f"{name} has no layer_idx, which a cache needs; saobp.apply cannot refine it"
        )


def without_cache(model: nn.Module) -> dict[str, bool]:
    """Return what tells a forward pass to keep no cache; with one, packed sequences would look at
    each other.
    """
    return (
        {"use_cache": False} if "use_cache" in inspect.signature(model.forward).parameters else {}
    )


def maps_of_one_stack(
    model: nn.Module, run: Callable[[], Iterable[Any]], samples: int, argument: str
) -> list[Any]:
    """Run a model and return the (raw, refined) maps of its layers, all (samples, head, L, L) of
    one size.

    Raises ValueError that names the model, if its maps are others or none, or what was `given`, if
    it fails.
    """
    name = type(model).__name__
    try:
        pairs = list(run())
    except torch.OutOfMemoryError:
        raise
    # whatever a model says of ids, lengths or inputs that are not its own
    except Exception as error:
        raise ValueError(f"{argument}: {name} cannot run on one ({first_line(error)})") from error
    shapes = {pair and tuple(pair[0].shape) for pair in pairs}
    shape = shapes.pop() if len(shapes) == 1 else None
    if shape is None or len(shape) != 4 or shape[0] != samples or shape[2] != shape[3]:
        raise ValueError(f"model: {name} gives no attention maps of one stack of layers")
    return pairs


def is_causal_module(module: nn.Module) -> bool:
    """Tell whether rows of `module` see earlier keys only; transformers lets a config overrule the
    module.
    """
    # as transformers does where nothing is said
    causal = getattr(module, "is_causal", True)
    return bool(causal and getattr(getattr(module, "config", None), "is_causal", True))


def number_of_heads(module: nn.Module) -> int:
    """Return the number of query heads of an attention module."""
    for holder in (module, getattr(module, "config", None)):
        for attribute in ("num_attention_heads", "num_heads", "n_heads"):
            if isinstance(getattr(holder, attribute, None), int):
                return getattr(holder, attribute)
    raise ValueError(
        f"model: {type(module).__name__} does not say how many heads it has; use one strength for all"
    )
