"""What an adapter of PEFT keeps of a refined model: its learned strengths, but not the refinement.

PEFT freezes whatever is not its own, and saves the adapter alone. Once saobp is imported, an adapter
that is put on a model with learned strengths trains and saves them beside its own weights, and who
saves the adapter is warned that the base must be refined again before the adapter is loaded.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from saobp.models.module import Refinement

FIELD = "saobp"
"""Of a config, the attention implementation, and the submodule that holds a learned strength."""


def patch_injecting(tuners_utils: ModuleType) -> None:
    """Wrap the place where PEFT puts an adapter into a model and freezes the rest of it."""
    tuner = tuners_utils.BaseTuner
    if not hasattr(tuner.inject_adapter, "keeps_strengths"):
        tuner.inject_adapter = injecting(tuner.inject_adapter)


def patch_saving(peft_model: ModuleType) -> None:
    """Wrap the place where PEFT saves an adapter."""
    model_class = peft_model.PeftModel
    if not hasattr(model_class.save_pretrained, "warns_of_adapter"):
        model_class.save_pretrained = saving(model_class.save_pretrained)


def injecting(inject_adapter: Callable) -> Callable:
    """Let a new adapter train and save the learned strengths, which PEFT would freeze."""

    @functools.wraps(inject_adapter)
    def inject(self: Any, model: Any, adapter_name: str, *args: Any, **kwargs: Any) -> Any:
        config = self.peft_config[adapter_name]
        if hasattr(config, "modules_to_save") and not config.inference_mode and learns(model):
            config.modules_to_save = sorted({*(config.modules_to_save or ()), FIELD})
        return inject_adapter(self, model, adapter_name, *args, **kwargs)

    inject.keeps_strengths = True
    return inject


def saving(save_pretrained: Callable) -> Callable:
    """Warn who saves an adapter of what it does not hold."""

    @functools.wraps(save_pretrained)
    def save(self: Any, *args: Any, **kwargs: Any) -> Any:
        warn_of_adapter(self)
        return save_pretrained(self, *args, **kwargs)

    save.warns_of_adapter = True
    return save


def warn_of_adapter(model: Any) -> None:
    """Warn that an adapter is saved without the refinement of its base, or without the strengths
    that were learned; say nothing where the base's own checkpoint brings both back.
    """
    refinements = refinements_in(model)
    back = bool(refinements) and comes_back(model, refinements)
    lost = [] if back or not refinements else ["the refinement"]
    learned = [one for one in refinements if one.options.learn and not is_kept(model)]
    if learned and (not back or any(one.offset.requires_grad for one in learned)):
        lost.append("the learned strengths")
        remedy = "give saobp.apply the base before the adapter is made, which then keeps them"
    else:
        remedy = "give saobp.apply the base before the adapter is loaded"
    if lost:
        warnings.warn(
            f"model: {type(model).__name__} saves its adapter alone, without {' and '.join(lost)}; "
            f"{remedy}",
            stacklevel=3,
        )


def refinements_in(model: Any) -> list[Refinement]:
    """Return the refinements of a model that change its attention."""
    from saobp.models.module import Refinement

    refinements = [module for module in model.modules() if isinstance(module, Refinement)]
    return [refinement for refinement in refinements if refinement.options.factor != "none"]


def learns(model: Any) -> bool:
    """Tell whether strengths of a model are being trained."""
    return any(one.options.learn and one.offset.requires_grad for one in refinements_in(model))


def is_kept(model: Any) -> bool:
    """Tell whether an adapter trains and saves the strengths itself."""
    places = [module._modules[FIELD] for module in model.modules() if FIELD in module._modules]
    return all(hasattr(place, "modules_to_save") for place in places)


def comes_back(model: Any, refinements: list[Refinement]) -> bool:
    """Tell whether the checkpoint that a model was loaded from says how it is refined."""
    from transformers import PretrainedConfig

    try:
        fields, _ = PretrainedConfig.get_config_dict(
            model.config.name_or_path, local_files_only=True
        )
    # built from a config, or from files that are gone
    except (OSError, ValueError):
        return False
    return all(fields.get(FIELD) == one.options.as_field() for one in refinements)
