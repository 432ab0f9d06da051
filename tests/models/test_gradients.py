"""Gradients of inputs, weights, biases and learned strengths are those of Eq. 9-11 as written, on
every path, or the path is refused in one line.
"""

import pytest
import torch
from families import CACHE, CHECKPOINTING, build, refined_names
from literal_attention import literal
from torch import Tensor, nn
from transformers import DynamicCache

import saobp

STRENGTH, LENGTH = 1.5, 9
HEADS = (0.3, 0.8, 1.5, 2.5)
REAL = {
    "none": torch.ones(2, LENGTH, dtype=torch.long),
    "right": (torch.arange(LENGTH) < torch.tensor([[LENGTH], [6]])).long(),
    "left": (torch.arange(LENGTH) >= torch.tensor([[0], [3]])).long(),
}
# what `apply` is asked for, and the same of the literal form
OPTIONS = {
    "high": ({}, {}),
    "low": ({"factor": "low"}, {"factor": "low"}),
    "one a head": ({"strength": HEADS}, {"strength": torch.tensor(HEADS)}),
    "learned a layer": ({"learn": "layer"}, {}),
    "learned a head": ({"learn": "head", "strength": HEADS}, {"strength": torch.tensor(HEADS)}),
    "learned low": (
        {"factor": "low", "learn": "head", "strength": HEADS},
        {"factor": "low", "strength": torch.tensor(HEADS)},
    ),
    "its own message": ({"exclude_self": False}, {"exclude_self": False}),
    "first spared": ({"spare": "first"}, {"spare": "first"}),
    "first spared, learned": ({"spare": "first", "learn": "layer"}, {"spare": "first"}),
    "edges spared": ({"spare": "edges"}, {"spare": "edges"}),
    "a share spared": ({"spare": 0.2}, {"spare": 0.2}),
    "three rounds": ({"steps": 3, "damping": 0.3}, {"rounds": 3, "damping": 0.3}),
    "elemmul": ({"factor": "elemmul"}, {"factor": "elemmul"}),
}
EVERYTHING = ("bert", "llama")
SOME = ("high", "learned a head", "first spared", "elemmul")
AHEAD = ("edges spared", "a share spared")
FAMILIES = ("bert", "t5", "gpt2", "llama", "mistral")
CAUSAL = FAMILIES[2:]
PATHS = ("fused", "shown", "with a cache", "in steps", "compiled", "checkpointed")


def first(output) -> Tensor:
    """Return logits or last hidden states."""
    return output.logits if "logits" in output else output.last_hidden_state


def outputs(model: nn.Module, embeddings: Tensor, mask: Tensor, path: str) -> Tensor:
    """Run a model along a path, on from what its token embeddings may be."""
    if path == "in steps":
        cache, parts = DynamicCache(), []
        for start, end in ((0, 4), (4, 5), (5, LENGTH)):
            call = {"attention_mask": mask[:, :end], CACHE: cache}
            parts.append(first(model(inputs_embeds=embeddings[:, start:end], **call)))
        return torch.cat(parts, 1)
    if path == "compiled":
        model = torch.compile(model, backend="aot_eager")
    if path == "checkpointed":
        getattr(model, f"{CHECKPOINTING}_enable")()
        model.train()
    call = {"output_attentions": True} if path == "shown" else {}
    if model.config.model_type in CAUSAL:
        call["use_cache"] = path == "with a cache"
    return first(model(inputs_embeds=embeddings, attention_mask=mask, **call))


def gradients(model: nn.Module, mask: Tensor, path: str) -> dict[str, Tensor]:
    """Return the gradients of a weighted sum of what real tokens get."""
    generator = torch.Generator().manual_seed(3)
    embeddings = torch.randn(2, LENGTH, 32, generator=generator).requires_grad_()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        for name in ("dropout", "attention_dropout"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)
    output = outputs(model, embeddings, mask, path)
    toward = torch.randn(output.shape, generator=generator) * mask[..., None]
    (output * toward).sum().backward()
    named = {name: one.grad for name, one in model.named_parameters() if one.grad is not None}
    return {"embeddings": embeddings.grad} | named


def gradients_of_the_literal_form(
    family: str, names: list[str], options: dict, mask: Tensor
) -> dict[str, Tensor]:
    """Return the gradients of Eq. 9-11, those of each module's strength under the name of the
    offset that is learned.
    """
    model, strengths = build(family), {}
    settings = dict(options)
    start = torch.as_tensor(settings.pop("strength", STRENGTH), dtype=torch.float64)
    for name in names:
        strengths[name] = start.clone().requires_grad_()
        literal(model, [name], strengths[name], **settings)
    found = gradients(model, mask, "fused")
    # the derivative of a softplus that has the value of the start
    slope = 1 - torch.exp(-start)
    learned = {
        f"{name}.saobp.offset": strength.grad * slope
        for name, strength in strengths.items()
        if strength.grad is not None
    }
    return found | learned


def served(family: str, name: str, path: str) -> bool:
    """Say whether a family has a path, and a causal one an option; two families try them all."""
    causal = family in CAUSAL
    if path in ("with a cache", "in steps") and not causal:
        return False
    if (family not in EVERYTHING or path == "compiled") and name not in SOME:
        return False
    return not (causal and name in AHEAD)


CASES = [
    (family, name, path)
    for family in FAMILIES
    for name in OPTIONS
    for path in PATHS
    if served(family, name, path)
]


@pytest.mark.parametrize(("family", "name", "path"), CASES)
def test_gradients_are_those_of_the_literal_form_on_every_path(family, name, path):
    asked, options = OPTIONS[name]
    # a trace is made anew for each mask
    sides = ("right",) if path == "compiled" else tuple(REAL)
    for side in sides:
        mask = REAL[side]
        model = saobp.apply(build(family), **{"strength": STRENGTH} | asked)
        if name == "elemmul" and path == "in steps":
            with pytest.raises(ValueError, match="^past_key_values: .*use_cache=False$"):
                gradients(model, mask, path)
            return
        found = gradients(model, mask, path)
        expected = gradients_of_the_literal_form(family, refined_names(model), options, mask)
        for parameter, gradient in found.items():
            literal_gradient = expected[parameter].reshape(-1).double()
            if gradient.numel() == 1:
                literal_gradient = literal_gradient.sum(0, keepdim=True)
            largest = float(literal_gradient.abs().max())
            difference = gradient.reshape(-1).double() - literal_gradient
            assert difference.abs().max() <= 1e-4 * largest + 1e-5, (side, parameter, largest)
