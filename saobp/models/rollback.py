"""Give a cache back as it was when a pass through a refined model fails, as where a call is refused.

transformers puts the new keys into a layer of the cache before attention is asked for, so that a call
that is refused in the second layer would leave the first with keys that it never read. Before a pass
the lengths of all layers are noted, with what they carry beside the keys; no old keys are kept. No hook is called
after an interruption (Ctrl-C): it is taken back as soon as the cache is looked at, changed or read on.
"""

import functools
import sys
import threading
from collections.abc import Callable
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
"""Attribute of a cache during a pass: the model that runs, its thread, and what the cache was before."""

SETTLED_FIRST = (
    "batch_repeat_interleave",
    "batch_select_indices",
    "crop",
    "get_seq_length",
    "reorder_cache",
    "reset",
)
"""Methods of a cache that look at it or change it."""

KEYS = ("keys", "values", "seen")
"""What is cut to its former length instead of being kept."""


def before_pass(model: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
    """Before a refined model runs, note what the cache holds; models within it are part of the
    pass.
    """
    cache = cache_of(args, kwargs)
    if cache is None or values_hidden():
        return
    if vars(cache).get(NOTED, (None,))[0] is model:
        # interrupted: this is another call
        give_back(cache)
    settle(cache)
    if NOTED not in vars(cache):
        setattr(cache, NOTED, (model, threading.get_ident(), noted(cache)))


def after_pass(model: nn.Module, args: tuple, kwargs: dict[str, Any], output: Any) -> None:
    """After a refined model has run, forget what was noted, or go back to it where it failed."""
    cache = cache_of(args, kwargs)
    if cache is None or values_hidden():
        return
    if vars(cache).get(NOTED, (None,))[0] is not model:
        return
    if output is None:
        give_back(cache)
    else:
        delattr(cache, NOTED)


def settle(cache: Cache) -> None:
    """Give back a cache whose last pass was interrupted."""
    if values_hidden() or NOTED not in vars(cache):
        return
    model, thread, _ = vars(cache)[NOTED]
    if not runs(model, thread):
        give_back(cache)


def give_back(cache: Cache) -> None:
    """Put back what was noted before the pass of a cache, which is over."""
    *_, state = vars(cache).pop(NOTED)
    restore(cache, state)


def runs(model: nn.Module, thread: int) -> bool:
    """Tell whether a call of a model is under way in a thread."""
    frame = sys._current_frames().get(thread)
    call = nn.Module._call_impl.__code__
    while frame is not None:
        if frame.f_code is call and frame.f_locals["self"] is model:
            return True
        frame = frame.f_back
    return False


def settled_first(method: Callable) -> Callable:
    """Wrap a method of a cache: an interrupted pass is taken back before."""

    @functools.wraps(method)
    def settled(self: Cache, *args: Any, **kwargs: Any) -> Any:
        settle(self)
        return method(self, *args, **kwargs)

    settled.settles = True
    return settled


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
    state = {name: value for name, value in vars(layer).items() if name not in left_out}
    for name, value in state.items():
        if isinstance(value, (dict, list)):
            state[name] = value.copy()
    if isinstance(layer, LinearAttentionCacheLayerMixin):
        for name, value in state.items():
            state[name] = copied(value)
    return state


def copied(value: Any) -> Any:
    """Return a copy of a state, or of states by their number."""
    if isinstance(value, dict):
        return {number: copied(state) for number, state in value.items()}
    return value.clone() if isinstance(value, Tensor) else value


def restore(cache: Cache, state: list[list[tuple[Any, int, dict[str, Any]]]]) -> None:
    """Put back what was noted of a cache."""
    for part, layers in zip(parts_of(cache), state):
        part.layers[:] = [layer for layer, _, _ in layers]
        for layer, before, values in layers:
            if length(layer) != before:
                cut(layer, before)
            vars(layer).update(values)


def cut(layer: DynamicLayer, size: int) -> None:
    """Leave a layer its first keys."""
    layer.keys = layer.keys[..., :size, :] if size else None
    layer.values = layer.values[..., :size, :] if size else None
    if isinstance(layer, RefinedLayer):
        layer.look()


for kind in (Cache, EncoderDecoderCache):
    for name in SETTLED_FIRST:
        method = getattr(kind, name)
        if not hasattr(method, "settles"):
            setattr(kind, name, settled_first(method))
