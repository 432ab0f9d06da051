"""Send a model's attention through our function, and take it off again.

A refined model has our implementation in its configs. Under factor "none" its configs stay as they
are, and so do its masks and whatever else transformers decides by the implementation: the attention
modules alone get a config of their own, so that their maps can be seen.
"""

import copy
import re
from typing import Any

from torch import nn
from transformers import PretrainedConfig
from transformers.modeling_utils import PreTrainedModel

from saobp.models.interface import check_masks, keep_all_rows, remember_cache
from saobp.models.rollback import after_pass, before_pass
from saobp.models.supported import (
    BEFORE,
    NAME,
    OVER_EAGER,
    PLAIN_CONFIG,
    PLAIN_STACK,
    compares_implementations,
    uses_interface,
)

OURS = re.compile(rf"{NAME}(-\w+)?")
"""Attention implementations that this package registers."""

SLICES_ROWS = "_maybe_slice_kv_shared_inputs"
"""Method of a stack that leaves out rows before layers that share the keys of others."""

HOOKS = (before_pass, check_masks, keep_all_rows, remember_cache, after_pass)


def dispatch(model: nn.Module, options: dict[str, Any]) -> None:
    """Send the model's attention through our function, and write the options into its configs.

    The configs become the model's own: another model built from the same object stays what it was.
    """
    copies: dict[int, Any] = {}
    for part in with_config(model):
        part.config = copy.deepcopy(part.config, copies)
    if options["factor"] == "none":
        make_visible(model, options)
    else:
        refine_all(model, options)


def with_config(model: nn.Module) -> list[nn.Module]:
    """Return the parts of a model that hold a config."""
    return [
        part for part in model.modules() if isinstance(vars(part).get("config"), PretrainedConfig)
    ]


def plain_implementations(parts: list[nn.Module]) -> dict[int, str]:
    """Return the attention implementation of each config as it is without `apply`, by its id."""
    names: dict[int, str] = {}
    for part in parts:
        name = part.config._attn_implementation or "sdpa"
        if not OURS.fullmatch(name):
            names[id(part.config)] = name
        # built from a config that asks for ours
        elif isinstance(part, PreTrainedModel):
            names[id(part.config)] = default_implementation(part)
    return names


def default_implementation(model: PreTrainedModel) -> str:
    """Return the attention implementation that transformers chooses for a class of models."""
    try:
        return model.get_correct_attn_implementation("sdpa")
    except (ImportError, ValueError):
        return "eager"


def refine_all(model: nn.Module, options: dict[str, Any]) -> None:
    """Put our implementation into the configs of a model, beside the options."""
    parts = with_config(model)
    plain = plain_implementations(parts)
    for part in parts:
        setattr(part, BEFORE, plain.get(id(part.config), "sdpa"))
    model.set_attn_implementation(NAME)
    served = {id(part.config) for part in parts if uses_interface(type(part))}
    for part in parts:
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
    for part in parts:
        if getattr(part, BEFORE) == "eager" and part.config._attn_implementation == NAME:
            part.config._attn_implementation_internal = OVER_EAGER
    for part in parts:
        if NAME in part._modules:
            part._modules[NAME].implementation = part.config._attn_implementation


def make_visible(model: nn.Module, options: dict[str, Any]) -> None:
    """Give attention modules a config of their own that names our implementation.

    Not those that decide something by the name of the implementation, and not under one that is
    handed other masks.
    """
    parts, configs = with_config(model), {}
    plain = plain_implementations(parts)
    for part in parts:
        part.config._attn_implementation_internal = plain.get(id(part.config), "sdpa")
        if isinstance(part, PreTrainedModel):
            setattr(part.config, NAME, dict(options))
    for part in parts:
        config, kind = part.config, type(part)
        known = config._attn_implementation in ("sdpa", "eager")
        if known and uses_interface(kind) and not compares_implementations(kind):
            if id(config) not in configs:
                configs[id(config)] = copy.copy(config)
                configs[id(config)]._attn_implementation_internal = NAME
                setattr(configs[id(config)], NAME, dict(options))
            setattr(part, PLAIN_CONFIG, config)
            part.config = configs[id(config)]


def register_hooks(model: nn.Module, factor: str) -> None:
    """Have a refined model's parts tell us what their attention functions are not handed."""
    for part in model.modules():
        if NAME in part._modules:
            part.register_forward_pre_hook(remember_cache, with_kwargs=True)
        if factor != "none" and isinstance(part, PreTrainedModel):
            part.register_forward_pre_hook(before_pass, with_kwargs=True)
            part.register_forward_pre_hook(check_masks, with_kwargs=True)
            part.register_forward_hook(after_pass, with_kwargs=True, always_call=True)
        if factor != "none" and hasattr(part, SLICES_ROWS):
            part.register_forward_pre_hook(keep_all_rows, with_kwargs=True)


def detach(model: nn.Module) -> None:
    """Take every refinement off a model, which attends as before."""
    for module in list(model.modules()):
        module._modules.pop(NAME, None)
        if PLAIN_CONFIG in vars(module):
            module.config = vars(module).pop(PLAIN_CONFIG)
        before = vars(module).pop(BEFORE, None)
        if before is not None and OURS.fullmatch(module.config._attn_implementation or ""):
            module.config._attn_implementation_internal = before
        hooks = module._forward_pre_hooks
        for handle in [handle for handle, hook in hooks.items() if hook in HOOKS]:
            del hooks[handle], module._forward_pre_hooks_with_kwargs[handle]
        hooks = module._forward_hooks
        for handle in [handle for handle, hook in hooks.items() if hook in HOOKS]:
            del hooks[handle], module._forward_hooks_with_kwargs[handle]
            del module._forward_hooks_always_called[handle]
