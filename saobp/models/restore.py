"""Give a refined checkpoint its refinement back whenever transformers builds a model from its
config.

transformers saves neither the attention implementation nor how to make it. Once saobp is imported,
building a model whose config has the field `saobp` applies it, before the weights are read, so that
learned strengths find their place.
"""

import functools
import importlib.util
import sys
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

MODULE = "transformers.modeling_utils"
FIELD = "saobp"


class AfterImport(MetaPathFinder):
    """Patch `transformers.modeling_utils` when it is first imported: importing it here would cost
    seconds.
    """

    asking = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Stand aside for every module but one, whose loader is made to patch it."""
        if name != MODULE or self.asking:
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
            patch(module)
            sys.meta_path.remove(self)

        spec.loader.exec_module = load_and_patch
        return spec


def watch() -> None:
    """See to it that models built from now on honour the config field; a second time changes
    nothing.
    """
    if MODULE in sys.modules:
        patch(sys.modules[MODULE])
    elif not any(isinstance(finder, AfterImport) for finder in sys.meta_path):
        sys.meta_path.insert(0, AfterImport())


def patch(modeling_utils: ModuleType) -> None:
    """Wrap the places of `PreTrainedModel` that a refined model passes through when it is built and
    saved.
    """
    model_class = modeling_utils.PreTrainedModel
    if not hasattr(model_class.post_init, "restores_refinement"):
        model_class.post_init = restoring(model_class.post_init)
        model_class._initialize_weights = initializing(model_class._initialize_weights)
        model_class.save_pretrained = saving(model_class.save_pretrained)


def restoring(post_init: Callable) -> Callable:
    """Apply the refinement that the config names at the end of a model's construction."""

    @functools.wraps(post_init)
    def restore(self: Any, *args: Any, **kwargs: Any) -> None:
        post_init(self, *args, **kwargs)
        options = getattr(self.config, FIELD, None)
        if options is not None:
            from saobp.models.apply import apply_saved

            apply_saved(self, options)

    restore.restores_refinement = True
    return restore


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
        fields.update({} if field is None else {FIELD: field})
        try:
            return save_pretrained(self, *args, **kwargs)
        finally:
            fields.pop(FIELD, None)
            fields.update(before)

    return save
