"""Give a cache back as it was when a pass through a refined model fails, as where a call is refused.

transformers puts the new keys into a layer of the cache before attention is asked for, so that a call
that is refused in the second layer would leave the first with keys that it never read. Before a pass
the lengths of all layers are noted, with what they carry beside the keys; no old keys are kept.
"""

from typing import Any

from torch import Tensor, nn
from transformers.cache_utils import (
    Cache,
    DynamicLayer,
    DynamicSlidingWindowLayer,
    EncoderDecoderCache,
    LinearAttentionCacheLayerMixin,
)

from saobp.equations.checks import values_hidden
from saobp.models.cache import RefinedLayer

NOTED = "_saobp_noted"
"""Attribute of a cache during a pass: the model that runs, and what the cache was before."""

KEYS = ("keys", "values", "seen")
"""What is cut to its former length instead of being kept."""


def before_pass(model: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
    """Before a refined model runs, note what the cache holds; models within it are part of the
    pass.
    """
    cache = cache_of(args, kwargs)
    if cache is None or values_hidden():
        return
    outermost, state = vars(cache).get(NOTED, (None, None))
    if outermost is model:
        # an interruption, which no hook is called after
        restore(cache, state)
    if outermost in (None, model):
        setattr(cache, NOTED, (model, noted(cache)))


def after_pass(model: nn.Module, args: tuple, kwargs: dict[str, Any], output: Any) -> None:
    """After a refined model has run, forget what was noted, or go back to it where it failed."""
    cache = cache_of(args, kwargs)
    if cache is None or values_hidden():
        return
    outermost, state = vars(cache).get(NOTED, (None, None))
    if outermost is not model:
        return
    delattr(cache, NOTED)
    if output is None:
        restore(cache, state)


def cache_of(args: tuple, kwargs: dict[str, Any]) -> Cache | None:
    """Return the cache among the arguments of a model."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, Cache):
            return value
    return None


def parts_of(cache: Cache) -> list[Cache]:
    """Return the caches that hold layers."""
    if isinstance(cache, EncoderDecoderCache):
        return [cache.self_attention_cache, cache.cross_attention_cache]
    return [cache]


def noted(cache: Cache) -> list[list[tuple[Any, int, dict[str, Any]]]]:
    """Return of each part of a cache its layers, their lengths, and what they carry."""
    return [
        [(layer, length(layer), carried(layer)) for layer in part.layers]
        for part in parts_of(cache)
    ]


def grows(layer: Any) -> bool:
    """Tell whether new keys are put behind those of a layer, which it keeps."""
    return isinstance(layer, DynamicLayer) and not isinstance(layer, DynamicSlidingWindowLayer)


def length(layer: Any) -> int:
    """Return how many keys a layer holds, of those that grow."""
    keys = getattr(layer, "keys", None)
    return 0 if not grows(layer) or keys is None or not keys.numel() else keys.shape[-2]


def carried(layer: Any) -> dict[str, Any]:
    """Return what a layer holds, but for keys that are cut; states that are written in place are
    copied.
    """
    left_out = KEYS if grows(layer) else ()
    held = {name: value for name, value in vars(layer).items() if name not in left_out}
    for name, value in held.items():
        if isinstance(value, (dict, list)):
            held[name] = value.copy()
    if isinstance(layer, LinearAttentionCacheLayerMixin):
        for name, value in held.items():
            held[name] = copied(value)
    return held


def copied(value: Any) -> Any:
    """Return a copy of a state, or of states by their number."""
    if isinstance(value, dict):
        return {number: copied(state) for number, state in value.items()}
    return value.clone() if isinstance(value, Tensor) else value


def restore(cache: Cache, state: list[list[tuple[Any, int, dict[str, Any]]]]) -> None:
    """Put back what was noted of a cache."""
    for part, layers in zip(parts_of(cache), state):
        part.layers[:] = [layer for layer, _, _ in layers]
        for layer, before, held in layers:
            if length(layer) != before:
                cut(layer, before)
            vars(layer).update(held)


def cut(layer: DynamicLayer, size: int) -> None:
    """Leave a layer its first keys."""
    layer.keys = layer.keys[..., :size, :] if size else None
    layer.values = layer.values[..., :size, :] if size else None
    if isinstance(layer, RefinedLayer):
        layer.look()
