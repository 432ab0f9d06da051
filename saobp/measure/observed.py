"""See query, key and value of every self-attention of a model while it runs, but no matrices.

For the time of a `with` block transformers' attention interface goes through a function that shows
what it was called with and then attends as before, whatever implementation the model uses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from saobp.equations.doses import Dose
from saobp.fused.scores import allowed_pairs
from saobp.measure.statistics import BY_ROWS, AttentionStatistics, attention_statistics
from saobp.models.supported import NAME, is_causal_module, self_attention_modules


@dataclass(frozen=True)
class Seen:
    """One call of a self-attention module."""

    # its number among the model's, from 0
    layer: int
    module: nn.Module
    query: Tensor
    key: Tensor
    value: Tensor
    # as `attention_statistics` takes it
    mask: Tensor | None
    causal: bool
    scale: float | None

    def statistics(self, **options: Any) -> AttentionStatistics:
        """Measure the attention of this call, plain unless the options say otherwise."""
        return attention_statistics(
            self.query,
            self.key,
            mask=self.mask,
            is_causal=self.causal,
            scale=self.scale,
            **options,
        )


@contextmanager
def observed(model: nn.Module, observe: Callable[[Seen], None]) -> Iterator[None]:
    """Call `observe` with each self-attention of `model`, before it attends.

    Raises ValueError if the model computes attention elsewhere than in transformers' interface, as
    "eager" models do.
    """
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS as functions

    layers = {module: number for number, module in enumerate(self_attention_modules(model))}
    names = {module.config._attn_implementation for module in layers}
    missing = [name for name in names if name not in functions]
    if missing:
        raise ValueError(
            f'model: {type(model).__name__} attends by "{missing[0]}", which cannot be observed; '
            'call model.set_attn_implementation("sdpa")'
        )
    before = {name: functions[name] for name in names}
    overridden = {name: name in functions._local_mapping for name in names}
    for name, function in before.items():
        functions[name] = _showing(function, layers, observe)
    try:
        yield
    finally:
        for name, function in before.items():
            if overridden[name]:
                functions[name] = function
            else:
                del functions[name]


def _showing(
    function: Callable[..., Any], layers: dict[nn.Module, int], observe: Callable[[Seen], None]
) -> Callable[..., Any]:
    """Return an attention function that shows its calls for these modules."""

    def forward(module, query, key, value, attention_mask, *args: Any, **kwargs: Any) -> Any:
        if module in layers:
            mask, causal = _mask_and_order(module, query, attention_mask, kwargs)
            scale = kwargs.get("scaling")
            call = Seen(layers[module], module, query, key, value, mask, causal, scale)
            observe(call)
        return function(module, query, key, value, attention_mask, *args, **kwargs)

    return forward


def _mask_and_order(
    module: nn.Module, query: Tensor, mask: Tensor | None, kwargs: dict[str, Any]
) -> tuple[Tensor | None, bool]:
    """Return the mask with a relative bias in it, and whether queries see earlier keys alone."""
    causal = kwargs.get("is_causal")
    causal = is_causal_module(module) if causal is None else bool(causal)
    if mask is not None and mask.ndim == 2:
        mask = mask.bool()
    elif mask is not None and causal:
        # where there is a mask of pairs it alone decides
        length = query.shape[2]
        allowed = allowed_pairs(mask, length, length, False, mask.device)
        causal = not bool(allowed.triu(1).any())
    bias = kwargs.get("position_bias")
    if bias is not None:
        if mask is not None and mask.dtype == torch.bool:
            mask = torch.where(mask, 0.0, -torch.inf)
        bias = bias if mask is None else bias + mask
        return bias, causal
    return mask, causal


def refinement_of(module: nn.Module) -> dict[str, Any]:
    """Return by what `attention_statistics` refines as this module does; nothing for a plain one.

    Raises ValueError for a refinement that needs the matrix.
    """
    refinement = getattr(module, NAME, None)
    if refinement is None or refinement.options.factor == "none":
        return {}
    options = refinement.options
    one_step = options.steps == 1 and not options.damping and options.messages == "earlier"
    fixed = not isinstance(options.strength, Dose)
    if options.factor not in BY_ROWS or not (one_step and fixed):
        raise ValueError(
            "model: its refinement needs the L x L matrix; statistics go with one step of high or low and a strength that is no dose"
        )
    return {
        "factor": options.factor,
        "strength": refinement(next(module.parameters()).device),
        "exclude_self": options.exclude_self,
        "spare": options.spare,
    }
