"""The attention implementation "saobp" of transformers, and what a checkpoint needs to come back
refined.

transformers saves neither the attention implementation nor how to make it. Once saobp is imported,
building a model whose config has the field `saobp`, or that is asked for the implementation,
applies it before the weights are read, so that learned strengths find their place. Another
implementation that is asked for switches it off, with a warning.
"""

import functools
import importlib.util
import sys
import warnings
import weakref
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from saobp.models import adapters
from saobp.models.adapters import FIELD

_warned: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
"""Configs of models that were built plain though they have the field: all parts share one."""


class AfterImport(MetaPathFinder):
    """Patch a module when it is first imported: importing it here would cost seconds."""

    def __init__(self, name: str, patch: Callable[[ModuleType], None]) -> None:
        self.name, self.patch = name, patch
        self.asking = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Stand aside for every module but one, whose loader is made to patch it."""
        if name != self.name or self.asking:
            return None
        # the other finders
        self.asking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.asking = False
        if spec is None:
            return None
        load = spec.loader.exec_module

        def load_and_patch(module: ModuleType) -> None:
            load(module)
            self.patch(module)
            sys.meta_path.remove(self)

        spec.loader.exec_module = load_and_patch
        return spec


def watch() -> None:
    """See to it that models built from now on honour the config field; a second time changes
    nothing.
    """
    waiting = [finder.name for finder in sys.meta_path if isinstance(finder, AfterImport)]
    for name, change in PATCHES.items():
        if name in sys.modules:
            change(sys.modules[name])
        elif name not in waiting:
            sys.meta_path.insert(0, AfterImport(name, change))


def patch(modeling_utils: ModuleType) -> None:
    """Wrap the places of `PreTrainedModel` that a refined model passes through when it is built and
    saved.
    """
    model_class = modeling_utils.PreTrainedModel
    if not hasattr(model_class.post_init, "restores_refinement"):
        model_class.post_init = restoring(model_class.post_init)
        model_class._initialize_weights = initializing(model_class._initialize_weights)
        model_class.save_pretrained = saving(model_class.save_pretrained)
        choose = model_class.get_correct_attn_implementation
        model_class.get_correct_attn_implementation = choosing(choose)
        model_class.set_attn_implementation = switching(model_class.set_attn_implementation)
        for name in ("from_pretrained", "_from_config"):
            build = getattr(model_class, name).__func__
            setattr(model_class, name, classmethod(building(build)))


def restoring(post_init: Callable) -> Callable:
    """Apply the refinement that the config asks for at the end of a model's construction."""

    @functools.wraps(post_init)
    def restore(self: Any, *args: Any, **kwargs: Any) -> None:
        post_init(self, *args, **kwargs)
        options = getattr(self.config, FIELD, None)
        implementation = str(self.config._attn_implementation)
        plain = isinstance(options, dict) and options.get("factor") == "none"
        if plain or implementation.startswith(FIELD):
            from saobp.models.apply import apply_saved

            apply_saved(self, options)
        elif options is not None and _warned.get(id(self.config)) is not self.config:
            _warned[id(self.config)] = self.config
            warnings.warn(
                f'attn_implementation: "{implementation}" switches the refinement off that config.saobp '
                f'names; "{FIELD}", or none, keeps it on',
                stacklevel=2,
            )

    restore.restores_refinement = True
    return restore


def building(build: Callable) -> Callable:
    """Refuse a model that was asked for our attention implementation and has nothing to refine."""

    @functools.wraps(build)
    def build_refined(*args: Any, **kwargs: Any) -> Any:
        built = build(*args, **kwargs)
        # with `output_loading_info` there is more than the model
        model = built[0] if isinstance(built, tuple) else built
        refined = getattr(model.config, "_attn_implementation", None) == FIELD
        if refined and getattr(model.config, FIELD, None) is None:
            from saobp.models.supported import refuse

            refuse(model)
        return built

    return build_refined


def choosing(get_correct_attn_implementation: Callable) -> Callable:
    """Know our attention implementation, and choose it where a config has the field and names
    none.
    """

    @functools.wraps(get_correct_attn_implementation)
    def choose(self: Any, requested_attention: str | None, *args: Any, **kwargs: Any) -> str:
        if requested_attention is None and getattr(self.config, FIELD, None) is not None:
            requested_attention = FIELD
        if str(requested_attention).startswith(FIELD):
            # which registers it, and its mask function
            importlib.import_module("saobp.models.interface")
        return get_correct_attn_implementation(self, requested_attention, *args, **kwargs)

    return choose


def switching(set_attn_implementation: Callable) -> Callable:
    """Switch the refinement on with our attention implementation, and off with another."""

    @functools.wraps(set_attn_implementation)
    def switch(self: Any, attn_implementation: str | dict, *args: Any, **kwargs: Any) -> None:
        from saobp.models.apply import switch_off, switch_on

        if attn_implementation == FIELD:
            # which comes back here when it has put the refinement in place
            switched = switch_on(self)
        else:
            switched = False
            switch_off(self, attn_implementation)
        if not switched:
            set_attn_implementation(self, attn_implementation, *args, **kwargs)

    return switch


def initializing(initialize: Callable) -> Callable:
    """Start learned strengths that a checkpoint does not hold: transformers leaves them
    undefined.
    """

    @functools.wraps(initialize)
    def initialize_weights(self: Any, module: Any, *args: Any, **kwargs: Any) -> None:
        from saobp.models.module import Refinement

        if isinstance(module, Refinement):
            module.reset_unless_loaded()
        initialize(self, module, *args, **kwargs)

    return initialize_weights


def saving(save_pretrained: Callable) -> Callable:
    """Save with the options that the modules refine by: the config may be that of a head over a
    refined body.
    """

    @functools.wraps(save_pretrained)
    def save(self: Any, *args: Any, **kwargs: Any) -> Any:
        from saobp.models.apply import field_to_save

        field, fields = field_to_save(self), vars(self.config)
        before = {FIELD: fields.pop(FIELD)} if FIELD in fields else {}
        if getattr(self, "_hf_peft_config_loaded", False):
            adapters.warn_of_adapter(self)
        fields.update({} if field is None else {FIELD: field})
        try:
            return save_pretrained(self, *args, **kwargs)
        finally:
            fields.pop(FIELD, None)
            fields.update(before)

    return save


PATCHES = {
    "transformers.modeling_utils": patch,
    "peft.tuners.tuners_utils": adapters.patch_injecting,
    "peft.peft_model": adapters.patch_model,
}
"""What is done to a module of others once it is imported."""
