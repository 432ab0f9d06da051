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
from jaxtyping import Float
from torch import Tensor, nn

from saobp.equations.masks import HIDES
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

    def sees_earlier_alone(self) -> bool:
        """Tell whether no query sees a later key, by its order or its mask of pairs."""
        if self.causal or self.mask is None or self.mask.ndim == 2 or self.mask.shape[2] == 1:
            return self.causal
        length = self.query.shape[2]
        allowed = allowed_pairs(self.mask, length, length, False, self.mask.device)
        return not bool(allowed.triu(1).any())

    def scores(self) -> Float[Tensor, "batch head L L"]:
        """Return the scaled scores, -inf where a query may not look."""
        query, key = self.query.float(), self.key.float()
        key = key.repeat_interleave(query.shape[1] // key.shape[1], 1)
        scale = query.shape[-1] ** -0.5 if self.scale is None else self.scale
        scores, length = query @ key.mT * scale, query.shape[2]
        mask = self.mask
        if mask is not None and mask.ndim == 2:
            mask = mask[:, None, None]
        if mask is not None and mask.dtype == torch.bool:
            scores = scores.masked_fill(~mask, -torch.inf)
        elif mask is not None:
            scores = (scores + mask).masked_fill(mask <= HIDES, -torch.inf)
        if self.causal:
            later = torch.ones(length, length, dtype=torch.bool, device=scores.device).triu(1)
            scores = scores.masked_fill(later, -torch.inf)
        return scores

    def sink_value_norms(
        self, columns: Float[Tensor, "batch head L"]
    ) -> Float[Tensor, "batch head"]:
        """Return the norm of the value that the largest column belongs to, over the median norm of
        the tokens that receive anything.
        """
        norms = self.value.float().norm(dim=-1)
        norms = norms.repeat_interleave(columns.shape[1] // norms.shape[1], 1)
        median = norms.masked_fill(columns == 0, torch.nan).nanmedian(-1).values
        sink = columns.nan_to_num().argmax(-1, keepdim=True)
        tiny = torch.finfo(norms.dtype).tiny
        return norms.gather(-1, sink)[..., 0] / median.clamp_min(tiny)

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
    """Call `observe` with each self-attention of `model` that goes through transformers' interface,
    before it attends.
    """
    from transformers.modeling_utils import AttentionInterface

    layers = {module: number for number, module in enumerate(self_attention_modules(model))}
    before = AttentionInterface.get_interface

    def get_interface(interface, name: str, default: Callable[..., Any]) -> Callable[..., Any]:
        return _showing(before(interface, name, default), layers, observe)

    AttentionInterface.get_interface = get_interface
    try:
        yield
    finally:
        AttentionInterface.get_interface = before


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
    if options.factor not in BY_ROWS or not one_step:
        raise ValueError(
            "model: its refinement needs the L x L matrix; statistics go with one step of high or low"
        )
    return {
        "factor": options.factor,
        "strength": refinement(next(module.parameters()).device),
        "exclude_self": options.exclude_self,
        "spare": options.spare,
    }
