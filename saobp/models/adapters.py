"""What an adapter of PEFT keeps of a refined model: its learned strengths, but not the refinement.

PEFT freezes whatever is not its own, and saves the adapter alone. Once saobp is imported, an adapter
that is put on a model with learned strengths trains and saves them beside its own weights, and who
saves the adapter is warned that the base must be refined again before the adapter is loaded. A kind
of adapter that can keep no other module, such as adaption prompts, is warned of when it is made; one
that puts keys without queries into the cache, such as a prefix, is refused.
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

PREFIXES = ("PREFIX_TUNING", "CARTRIDGE")
"""Kinds of adapters that are keys and values in a cache."""

SAVED_BEFORE = "save the refined base, load it from there, and make the adapter on that"
"""What keeps strengths that an adapter does not hold."""


def patch_injecting(tuners_utils: ModuleType) -> None:
    """Wrap the place where PEFT puts an adapter into a model and freezes the rest of it."""
    tuner = tuners_utils.BaseTuner
    if not hasattr(tuner.inject_adapter, "keeps_strengths"):
        tuner.inject_adapter = injecting(tuner.inject_adapter)


def patch_model(peft_model: ModuleType) -> None:
    """Wrap the places where PEFT wraps a model, adds an adapter to it and saves an adapter."""
    model_class = peft_model.PeftModel
    if not hasattr(model_class.save_pretrained, "warns_of_adapter"):
        model_class.save_pretrained = saving(model_class.save_pretrained)
        model_class.add_adapter = adding(model_class.add_adapter)
        model_class.__init__ = wrapping(model_class.__init__)


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


def adding(add_adapter: Callable) -> Callable:
    """Let prompts that are learned before the input train and save the strengths as well; ValueError
    for a prefix of keys, whose rows send no messages.
    """

    @functools.wraps(add_adapter)
    def add(self: Any, adapter_name: str, peft_config: Any, *args: Any, **kwargs: Any) -> Any:
        if peft_config.is_prompt_learning:
            kind = kind_of(peft_config)
            if kind in PREFIXES and refinements_in(self):
                raise ValueError(
                    f"peft_config: {kind} puts keys without queries into the cache, which send no "
                    "messages; PROMPT_TUNING and P_TUNING work on a refined model"
                )
            # not a field of this kind of config, but looked at by PEFT all the same
            if learns(self):
                kept = getattr(peft_config, "modules_to_save", None) or ()
                peft_config.modules_to_save = sorted({*kept, FIELD})
        return add_adapter(self, adapter_name, peft_config, *args, **kwargs)

    return add


def wrapping(initialize: Callable) -> Callable:
    """Warn who makes an adapter that freezes the learned strengths and cannot keep them."""

    @functools.wraps(initialize)
    def wrap(self: Any, model: Any, peft_config: Any, *args: Any, **kwargs: Any) -> None:
        learned = learns(model)
        initialize(self, model, peft_config, *args, **kwargs)
        if learned and not learns(self) and not peft_config.inference_mode:
            warnings.warn(
                f"peft_config: {kind_of(peft_config)} freezes the learned strengths of "
                f"{type(model).__name__} and does not save them; {SAVED_BEFORE}, or use LORA or "
                "PROMPT_TUNING, which train them",
                stacklevel=4,
            )

    return wrap


def kind_of(peft_config: Any) -> str:
    """Return the name of a kind of adapter, as PEFT writes it."""
    return str(getattr(peft_config.peft_type, "value", peft_config.peft_type))


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
    learned = [
        refinement for refinement in refinements if refinement.options.learn and not is_kept(model)
    ]
    if learned and (not back or any(refinement.offset.requires_grad for refinement in learned)):
        lost.append("the learned strengths")
        remedy = "give saobp.apply the base before the adapter is made, which then keeps them"
        if not keeps_modules(model):
            remedy = SAVED_BEFORE
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
    return any(
        refinement.options.learn and refinement.offset.requires_grad
        for refinement in refinements_in(model)
    )


def is_kept(model: Any) -> bool:
    """Tell whether an adapter trains and saves the strengths itself."""
    places = [module._modules[FIELD] for module in model.modules() if FIELD in module._modules]
    return all(hasattr(place, "modules_to_save") for place in places)


def keeps_modules(model: Any) -> bool:
    """Tell whether the adapters of a model can train and save modules of its base."""
    # a base under an adapter that transformers added has none of these
    configs = getattr(model, "peft_config", {}).values()
    return not any(
        getattr(config, "is_adaption_prompt", False)
        or not (config.is_prompt_learning or hasattr(config, "modules_to_save"))
        for config in configs
    )


def refuse_kept(model: Any) -> None:
    """Raise ValueError if an adapter keeps the learned strengths of a model: it would be saved
    without those that come in their place, and could not be loaded.
    """
    places = [module._modules[FIELD] for module in model.modules() if FIELD in module._modules]
    if any(hasattr(place, "modules_to_save") for place in places):
        raise ValueError(
            f"model: an adapter keeps the learned strengths of {type(model).__name__}, which cannot be "
            "refined again under it; give saobp.apply the base, and make the adapter on that"
        )


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
    return all(fields.get(FIELD) == refinement.options.as_field() for refinement in refinements)
