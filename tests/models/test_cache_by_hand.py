"""A call that is refused leaves the cache as it was, and keys that somebody changed are refused."""

import copy
import pickle

import pytest
import torch
import transformers as hf
from families import CACHE, CLOSE, GROUPS, SIZES, TOKENS, build, generated, refined_names, tokens
from literal_attention import literal
from torch import nn
from transformers import DynamicCache

import saobp

LENGTH = 9
REST = LENGTH - 5
REFUSED = {
    "a keyword": {"s_aux": torch.ones(4)},
    "a bias of another shape": {"position_bias": torch.zeros(1, 4, 3, 3)},
    "a mask of three dimensions": {"attention_mask": torch.ones(2, REST, LENGTH)},
    "NaN in a mask": {"attention_mask": torch.full((2, 1, REST, LENGTH), float("nan"))},
    "hidden keys": {"attention_mask": torch.ones(2, LENGTH).index_fill(1, torch.tensor(2), 0)},
}


def refined(family: str = "llama") -> nn.Module:
    return saobp.apply(build(family), "high", 1.5)


def filled(model: nn.Module, ids: torch.Tensor, *, of_config: bool = False) -> DynamicCache:
    """Return a cache that has read some ids."""
    cache = DynamicCache(config=model.config) if of_config else DynamicCache()
    if ids.shape[1]:
        with torch.no_grad():
            model(ids, **{CACHE: cache})
    return cache


@torch.no_grad()
def expected_after(family: str, model: nn.Module, ids: torch.Tensor) -> torch.Tensor:
    """Return the logits of the literal form."""
    oracle = literal(build(family), refined_names(model), 1.5)
    return oracle(ids, use_cache=False).logits


@pytest.mark.parametrize("of_config", [False, True])
@pytest.mark.parametrize("before", [0, 5])
@pytest.mark.parametrize("which", REFUSED)
@pytest.mark.parametrize("family", ["llama", "mistral"])
def test_a_refused_call_leaves_the_cache_as_it_was(family, which, before, of_config):
    model, ids = refined(family), tokens(2, LENGTH)
    cache = filled(model, ids[:, :before], of_config=of_config)
    rest = ids[:, -REST:]
    if before == 0 and which in ("NaN in a mask", "hidden keys", "a mask of three dimensions"):
        return
    for grad in (False, True):
        with torch.set_grad_enabled(grad), pytest.raises(ValueError):
            model(rest, **{CACHE: cache}, **REFUSED[which])
        assert cache.get_seq_length() == before
    with torch.no_grad():
        found = model(ids[:, before:], **{CACHE: cache}).logits
    torch.testing.assert_close(found, expected_after(family, model, ids)[:, before:], **CLOSE)


def test_a_refused_generation_leaves_the_cache_as_it_was():
    model, ids = refined(), tokens(2, LENGTH)
    cache = filled(model, ids[:, :5])
    hidden = torch.ones_like(ids).index_fill(1, torch.tensor(2), 0)
    with pytest.raises(ValueError, match="attention_mask hides some"):
        generated(model, ids, 3, **{CACHE: cache}, attention_mask=hidden)
    assert cache.get_seq_length() == 5
    expected = generated(model, ids, 3, use_cache=False)
    assert torch.equal(generated(model, ids, 3, **{CACHE: cache}), expected)


class Fails(nn.Module):
    """A layer that fails the first time, in the middle of a pass."""

    def __init__(self, layer: nn.Module, error: type[BaseException]) -> None:
        super().__init__()
        self.layer, self.error = layer, error

    def forward(self, *args, **kwargs):
        error, self.error = self.error, None
        if error is not None:
            raise error("in the middle")
        return self.layer(*args, **kwargs)


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_pass_that_fails_in_the_middle_can_be_made_again(error):
    model, ids = refined(), tokens(2, LENGTH)
    cache = filled(model, ids[:, :5])
    model.model.layers[1].mlp = Fails(model.model.layers[1].mlp, error)
    with torch.no_grad():
        with pytest.raises(error):
            model(ids[:, 5:], **{CACHE: cache})
        found = model(ids[:, 5:], **{CACHE: cache}).logits
    torch.testing.assert_close(found, expected_after("llama", model, ids)[:, 5:], **CLOSE)


@pytest.mark.parametrize("before", [0, 5])
def test_states_that_are_written_in_place_are_given_back(before):
    """Of layers of linear attention beside refined ones."""
    heads = {"linear_num_value_heads": 2, "linear_num_key_heads": 2, "head_dim": 8}
    heads |= {"linear_key_head_dim": 8, "linear_value_head_dim": 8}
    experts = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
    kinds = ["linear_attention", "full_attention"] * 2
    sizes = TOKENS | SIZES | GROUPS | heads | experts | {"num_hidden_layers": 4}
    config = hf.Qwen3NextConfig(**sizes, layer_types=kinds, shared_expert_intermediate_size=16)
    torch.manual_seed(0)
    model, ids = saobp.apply(hf.Qwen3NextForCausalLM(config).eval(), "high", 1.5), tokens(2, LENGTH)
    cache = filled(model, ids[:, :before], of_config=True)
    with torch.no_grad():
        twin = copy.deepcopy(cache)
        with pytest.raises(ValueError, match="^s_aux: "):
            model(ids[:, before:], **{CACHE: cache}, s_aux=torch.ones(4))
        found = [model(ids[:, before:], **{CACHE: one}).logits for one in (cache, twin)]
    torch.testing.assert_close(*found, atol=0, rtol=0)


def permuted(layer) -> None:
    layer.keys = layer.keys.flip(2)


def replaced(layer) -> None:
    layer.keys = torch.randn_like(layer.keys)


def written(layer) -> None:
    layer.keys[:, :, 0] += 1


def scaled(layer) -> None:
    layer.keys.mul_(2)


def filled_in(layer) -> None:
    layer.keys = layer.keys.masked_fill(layer.keys > 0, 0)


CHANGES = (permuted, replaced, written, scaled, filled_in)
THEN = {
    "nothing": lambda cache: cache,
    "a crop": lambda cache: cache.crop(-1),
    "a selection": lambda cache: cache.batch_select_indices(torch.tensor([1, 0])),
    "beams": lambda cache: cache.reorder_cache(torch.tensor([1, 0])),
    "a repetition": lambda cache: cache.batch_repeat_interleave(1),
}


@pytest.mark.parametrize("then", THEN)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("place", [0, 1])
def test_keys_changed_by_hand_are_refused_in_one_line(place, change, then):
    model, ids = refined(), tokens(2, LENGTH)
    cache = filled(model, ids[:, :5])
    with torch.no_grad():
        change(cache.layers[place])
        for _ in range(2):
            with pytest.raises(ValueError, match="replaced or changed by hand") as error:
                THEN[then](cache)
                model(ids[:, 5:6], **{CACHE: cache})
            assert "\n" not in str(error.value)
            # layer by layer is how transformers crops
            assert then == "a crop" or cache.get_seq_length() == 5


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, copy.copy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_a_copy_of_a_cache_goes_on_and_a_copy_of_a_changed_one_does_not(copied):
    model, ids = refined(), tokens(2, LENGTH)
    expected = expected_after("llama", model, ids)[:, 5:]
    cache = filled(model, ids[:, :5])
    with torch.no_grad():
        found = model(ids[:, 5:], **{CACHE: copied(cache)}).logits
        torch.testing.assert_close(found, expected, **CLOSE)
        changed = filled(model, ids[:, :5])
        permuted(changed.layers[0])
        with pytest.raises(ValueError, match="replaced or changed by hand"):
            model(ids[:, 5:], **{CACHE: copied(changed)})


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_values_may_be_replaced_and_keys_that_nobody_changed_are_never_refused(context):
    model, ids = refined(), tokens(2, LENGTH)
    with context():
        cache = DynamicCache()
        parts = [model(part, **{CACHE: cache}).logits for part in ids.split([5, 1, 3], 1)]
        cache.layers[0].values = cache.layers[0].values.clone()
        model(ids, **{CACHE: cache})
    expected = expected_after("llama", model, ids)
    torch.testing.assert_close(torch.cat(parts, 1), expected, **CLOSE)


CHANGES = {
    "crop": lambda cache: cache.crop(-2),
    "reorder": lambda cache: cache.reorder_cache(torch.tensor([1, 0])),
    "select": lambda cache: cache.batch_select_indices(torch.tensor([1])),
    "repeat": lambda cache: cache.batch_repeat_interleave(2),
    "reset": lambda cache: cache.reset(),
}


@torch.no_grad()
def interrupted(model: nn.Module, ids: torch.Tensor) -> DynamicCache:
    """Return a cache of five tokens whose next pass was interrupted at its end."""

    def interrupt(*_):
        raise KeyboardInterrupt

    cache = filled(model, ids[:, :5])
    handle = model.lm_head.register_forward_pre_hook(interrupt)
    with pytest.raises(KeyboardInterrupt):
        model(ids[:, 5:7], **{CACHE: cache})
    handle.remove()
    return cache


@pytest.mark.parametrize("change", CHANGES)
def test_a_cache_that_is_changed_after_an_interruption_goes_on_from_before_it(change):
    model, ids = refined(), tokens(2, LENGTH)
    whole = filled(model, ids[:, :5])
    cache = interrupted(model, ids)
    for each in (cache, whole):
        CHANGES[change](each)
    # the rows that a change leaves
    rows = {"reorder": [1, 0], "select": [1], "repeat": [0, 0, 1, 1]}.get(change, [0, 1])
    read = {"crop": 3, "reset": 0}.get(change, 5)
    assert cache.get_seq_length() == whole.get_seq_length() == read
    with torch.no_grad():
        found = [model(ids[rows, read:], **{CACHE: each}).logits for each in (cache, whole)]
    torch.testing.assert_close(*found, atol=0, rtol=0)
    expected = expected_after("llama", model, ids)[rows, read:]
    torch.testing.assert_close(found[0], expected, **CLOSE)


def test_after_an_interruption_the_cache_says_how_far_it_goes_and_another_model_reads_on():
    model, ids = refined(), tokens(2, LENGTH)
    cache = interrupted(model, ids)
    assert cache.get_seq_length() == 5
    cache = interrupted(model, ids)
    with torch.no_grad():
        model.model(ids[:, 5:7], **{CACHE: cache})
        assert cache.get_seq_length() == 7
        found = model(ids[:, 7:], **{CACHE: cache}).logits
    torch.testing.assert_close(found, expected_after("llama", model, ids)[:, 7:], **CLOSE)
