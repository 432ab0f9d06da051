"""Make any transformers model refine its self-attention, and keep it so through saving and
loading.
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

from torch import Tensor, nn

from saobp.equations.checks import quoted
from saobp.equations.factors import FACTORS, OWN
from saobp.models import adapters
from saobp.models.keywords import taken_by_layers
from saobp.models.module import Options, Refinement, Watch
from saobp.models.supported import (
    NAME,
    refuse,
    refuse_other_objects,
    self_attention_modules,
    warn,
)


def apply(
    model: nn.Module,
    factor: str = "high",
    strength: float | Sequence[float] | Tensor = 0.2,
    *,
    exclude_self: bool = True,
    learn: str | None = None,
    steps: int = 1,
    damping: float = 0.0,
    messages: str = "earlier",
    spare: str | float | None = None,
) -> nn.Module:
    """Refine every self-attention of a transformers model (Eq. 11), in place, and return the model.

    Under any mask a query receives messages from the rows that it may look at, or from all where
    looking is mutual. A padded query keeps its plain attention over the keys that it may look at; a
    query that may look at nothing, as padding before the first token of a decoder, gets 0.
    Cross-attention stays plain, and so does the decoder of an encoder-decoder; a
    warning names self-attention that cannot be reached and stays plain. The options go into
    `model.config.saobp` (the config becomes the model's own copy), so that `save_pretrained` and
    `from_pretrained` keep them where saobp is imported; transformers alone loads such a checkpoint
    as plain attention and says nothing. A model that is refined already starts over, with learned
    strengths at `strength`. An adapter of PEFT is saved
    without the refinement of its base: a warning says so when it is saved.

    The same does `attn_implementation="saobp"` in `from_pretrained`, or `set_attn_implementation`,
    by the options in `model.config.saobp` or the defaults; another one switches the refinement off.

    Args:
        model: A transformers v5 model whose attention goes through transformers' attention
            interface.
        factor: As for `saobp.refine`; "none" leaves the model as it was, with its own attention
            implementation and masks, and refuses nothing that it runs; its maps can be seen. (In
            bfloat16 with gradients on a CPU `sdpa` is handed float32 and rounds once, as the others
            do.)
        strength: The paper's lambda in nats, a number or one a head.
        exclude_self: Leave a row's own message out (Algorithm 1); False is Eq. 11 as printed.
        learn: "head" or "layer" makes the strength a parameter, the softplus of an offset that
            starts at
            `strength` and that weight decay pulls back there; None keeps it fixed. An adapter of PEFT
            that is made afterwards trains it and saves it (`modules_to_save`).
        steps: Rounds of messages.
        damping: Share of the old belief that a round keeps, in [0, 1).
        messages: Of a causal model: those of "earlier" rows (App. C), or of "all" rows, which LEAKS
            the
            future into the past: the suspected reading of the paper's perplexities, to study and
            not to use.
        spare: Keys that get no bias: "first" (of each sequence the first real token, where trained
            models have their sink; of sequences that are packed into one row, each one's own),
            "edges" (the first and the last: [CLS] and [SEP]), a share in (0, 1] (keys that receive
            more than that share of their head's attention), or None. Causal models know "first"
            alone.

    Raises:
        ValueError: One line that names the argument, or the model if it cannot be served exactly.

    Source: Lee et al. 2025, Eq. 7-11, 15, 16, Algorithm 1 and Appendix C.
    """
    options = Options(factor, strength, exclude_self, learn, steps, damping, messages, spare)
    if isinstance(model, nn.Module):
        adapters.refuse_kept(model)
    if options.factor == "none":
        refuse_other_objects(model)
    else:
        refuse(model)
        warn(model)
    return put_on(model, options)


def put_on(model: nn.Module, options: Options) -> nn.Module:
    """Refine a model that is served, in place of any refinement before, and return it."""
    modules = self_attention_modules(model)
    refinements = [Refinement(options, module) for module in modules]
    # here, as it loads the heavy part of transformers
    from saobp.models import dispatch

    dispatch.detach(model)
    of_layers = taken_by_layers(model)
    for module, refinement in zip(modules, refinements):
        refinement.of_layers = of_layers
        module.add_module(NAME, refinement)
    dispatch.register_hooks(model, options.factor)
    dispatch.dispatch(model, options.as_field())
    return model


def apply_saved(model: nn.Module, options: dict[str, Any] | None) -> None:
    """Apply the options of a config's field `saobp`, the defaults where there are none; ValueError if
    they are not ours, or the model cannot be served.
    """
    saved = saved_options(options)
    # parts that stay plain are built from the same config
    if self_attention_modules(model):
        if saved.factor != "none":
            refuse(model)
        put_on(model, saved)


def saved_options(options: dict[str, Any] | None) -> Options:
    """Return the options of a config's field `saobp`; ValueError if they are not ours."""
    if options is None:
        return Options()
    if not isinstance(options, dict):
        raise ValueError(
            f"config.saobp: must be the options of saobp.apply by name; got {quoted(options)}"
        )
    unknown = set(options) - {field.name for field in fields(Options)}
    if unknown:
        raise ValueError(
            f"config.saobp: saobp.apply has no option {', '.join(sorted(unknown))}; "
            "the checkpoint comes from another version of saobp"
        )
    if (factor := options.get("factor")) not in (*FACTORS, *OWN, None):
        raise ValueError(
            f"config.saobp: no factor {quoted(factor)} is known; saobp.register_factor comes before loading"
        )
    return Options(**options)


def switch_on(model: nn.Module) -> bool:
    """Refine a model by the options in its config, the defaults where there are none, and return
    True, also if its factor is "none"; False if it is refined. Raises ValueError if it cannot be served.
    """
    modules = self_attention_modules(model)
    if modules and all(NAME in module._modules for module in modules):
        return modules[0]._modules[NAME].options.factor == "none"
    options = saved_options(getattr(model.config, NAME, None))
    if options.factor != "none":
        refuse(model)
        warn(model)
    put_on(model, options)
    return True


def switch_off(model: nn.Module, implementation: str | dict) -> None:
    """Take the refinement off a model that is switched to another attention implementation, and warn
    of it.

    Its options stay in the config, for `switch_on`; it is saved as what it is, plain. Raises
    ValueError for several implementations at once, of a refined model or one of them ours.
    """
    # plain attention is what any implementation gives
    refinements = [
        module
        for module in model.modules()
        if isinstance(module, Refinement) and module.options.factor != "none"
    ]
    if isinstance(implementation, dict) and (refinements or NAME in implementation.values()):
        raise ValueError(
            f'attn_implementation: "{NAME}" is one for all parts; got {quoted(implementation)}; '
            "give saobp.apply the parts that are to be refined"
        )
    if not refinements:
        return
    # here, as it loads the heavy part of transformers
    from saobp.models import dispatch

    dispatch.detach(model)
    learned = any(refinement.options.learn for refinement in refinements)
    lost = ", and its learned strengths are lost" if learned else ""
    warnings.warn(
        f'attn_implementation: "{implementation}" switches the refinement of {type(model).__name__} off{lost}; '
        f'set_attn_implementation("{NAME}") switches it on again, by the options in config.{NAME}',
        stacklevel=3,
    )


def field_to_save(model: nn.Module) -> dict[str, Any] | None:
    """Return what the config must say for the model to be loaded as it is; ValueError if no config
    can say it.
    """
    refined = {
        module: module._modules[NAME].options
        for module in model.modules()
        if NAME in module._modules
    }
    options = set(refined.values())
    if refined and (len(options) > 1 or refined.keys() != set(self_attention_modules(model))):
        raise ValueError(
            f"model: parts of {type(model).__name__} are refined and others not, or otherwise, which its config cannot "
            "say; save the refined part, or give the whole model to saobp.apply"
        )
    return options.pop().as_field() if refined else None


@contextmanager
def raw_attentions(model: nn.Module) -> Iterator[list[tuple[Tensor, Tensor] | None]]:
    """See what `apply` does to a model: inside, each forward pass leaves its attention matrices in
    the list.

    The list holds for each call of a refined module in the last forward pass, in the order of the
    calls, the pair (raw, refined): (batch, head, query, key), float32 or better, before dropout,
    without gradient. A module that stands in several layers, as in ALBERT, is called as often. With
    factor "none" the two are equal. Passes of other threads are not seen. Raises ValueError if the
    model was never given to `apply`.
    """
    refinements = [module for module in model.modules() if isinstance(module, Refinement)]
    if not refinements:
        raise ValueError(
            'model: not refined; saobp.apply(model, "none") makes plain attention visible'
        )
    watch = Watch(refinements)
    models = [
        part for part in model.modules() if part is model or hasattr(part, "get_input_embeddings")
    ]
    with watch.over(models):
        yield watch.pairs
