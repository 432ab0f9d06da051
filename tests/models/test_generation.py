"""Generation: with the key/value cache token for token as without, and what no cache can carry is
refused.
"""

import contextlib
import copy

import pytest
import torch
import transformers as hf
from families import CACHE, CAUSAL, CLOSE, GROUPS, PAD, SIZES, TOKENS, build, generated, tokens
from transformers import DynamicCache, QuantizedCache, StaticCache
from transformers.cache_utils import StaticLayer

import saobp
from saobp.models import cache as cache_module
from saobp.models.apply import raw_attentions

WAYS = {
    "greedy": {},
    "sampled": {"do_sample": True, "temperature": 1.5},
    "beams": {"num_beams": 3},
    "several": {"do_sample": True, "num_return_sequences": 2},
    "several beams": {"num_beams": 3, "num_return_sequences": 3},
    "sampled beams": {"do_sample": True, "num_beams": 3},
    "few candidates": {"do_sample": True, "top_k": 5, "top_p": 0.7, "min_p": 0.05},
    "typical candidates": {"do_sample": True, "typical_p": 0.5, "eta_cutoff": 0.01},
    "no repetition": {"repetition_penalty": 1.5, "no_repeat_ngram_size": 2},
    "guided": {"guidance_scale": 1.5},
    "weights returned": {"output_attentions": True},
    "a dynamic cache": {"cache_implementation": "dynamic"},
}
VARIANTS = {
    "high": {},
    "low": {"factor": "low", "strength": 0.4},
    "as printed": {"exclude_self": False},
    "three rounds": {"steps": 3, "damping": 0.3},
    "learned": {"strength": [0.5, 1.0, 1.5, 2.0], "learn": "head"},
}


def refined(family="gpt2", factor="high", strength=1.5, **options):
    return saobp.apply(build(family), factor, strength, **options)


def left_padded():
    """Return prompts of three lengths, padded on the left."""
    ids, mask = tokens(3, 9), torch.ones(3, 9, dtype=torch.long)
    for row, padding in enumerate((0, 4, 2)):
        ids[row, :padding], mask[row, :padding] = PAD, 0
    return ids, mask


def full_logits(model, ids):
    """Return the logits of a forward pass without a cache."""
    with torch.no_grad():
        return model(ids, use_cache=False).logits


def continued(model, ids, *sizes, grad=False):
    """Return the logits of each of the parts that some ids are read in, one after the other, and
    the cache.
    """
    cache = DynamicCache(config=model.config)
    with torch.set_grad_enabled(grad):
        return [model(part, **{CACHE: cache}).logits for part in ids.split(sizes, dim=1)], cache


@torch.no_grad()
def goes_on(model, cache, before, onward):
    """Assert that ids read on from a cache give what they give after those before them in one
    pass.
    """
    expected = full_logits(model, torch.cat([before, onward], 1))[:, before.shape[1] :]
    torch.testing.assert_close(model(onward, **{CACHE: cache}).logits, expected, **CLOSE)


@pytest.mark.parametrize(
    ("family", "way", "variant"),
    [
        *((family, way, "high") for family in ("gpt2", "mistral") for way in WAYS),
        ("qwen2", "greedy", "high"),
        *(("llama", way, "high") for way in ("greedy", "sampled", "several beams")),
        *(
            (family, "greedy", variant)
            for family in ("gpt2", "llama")
            for variant in VARIANTS
            if variant != "high"
        ),
    ],
)
def test_the_cache_changes_no_token_and_no_logit(family, way, variant):
    model, (ids, mask), made = refined(family, **VARIANTS[variant]), left_padded(), []
    for use_cache in (True, False):
        torch.manual_seed(5)
        call = {"output_logits": True, "return_dict_in_generate": True, **WAYS[way]}
        made.append(generated(model, ids, attention_mask=mask, use_cache=use_cache, **call))
    cached, full = made
    assert torch.equal(cached.sequences, full.sequences)
    torch.testing.assert_close(torch.stack(cached.logits), torch.stack(full.logits), **CLOSE)


@pytest.mark.parametrize("family", CAUSAL)
def test_padding_between_a_prompt_and_its_continuation_says_nothing(family):
    model, ids = refined(family), tokens(2, 14)
    mask = torch.ones_like(ids)
    # the shorter prompt is padded on the right, and goes on after that
    mask[0, 5:9] = 0
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    with torch.no_grad():
        cache = DynamicCache()
        model(
            ids[:, :9], attention_mask=mask[:, :9], position_ids=positions[:, :9], **{CACHE: cache}
        )
        call = {"attention_mask": mask, "position_ids": positions[:, 9:]}
        onward = model(ids[:, 9:], **{CACHE: cache}, **call).logits
    # whose window counts places, padded or not
    if family != "mistral":
        alone = full_logits(model, ids[:1, mask[0].bool()])
        torch.testing.assert_close(onward[:1], alone[:, 5:], **CLOSE)
    with torch.no_grad():
        full = model(ids, attention_mask=mask, position_ids=positions, use_cache=False).logits
    torch.testing.assert_close(onward, full[:, 9:], **CLOSE)


@pytest.mark.parametrize("family", CAUSAL)
@pytest.mark.parametrize("tile", [2, 128])
def test_any_split_of_the_rows_gives_the_full_forward(family, tile, monkeypatch):
    monkeypatch.setattr(cache_module, "TILE", tile)
    model, ids = refined(family), tokens(2, 14)
    expected = full_logits(model, ids)
    for lengths in ((14,), (9, 1, 1, 3), (1,) * 14, (5, 9)):
        for grad in (False, True) if lengths == (5, 9) else (False,):
            found, cache = continued(model, ids, *lengths, grad=grad)
            torch.testing.assert_close(torch.cat(found, 1), expected, **CLOSE)
            # as the keys beside them
            assert all(layer.queries.requires_grad == grad for layer in cache.layers)


@pytest.mark.parametrize("family", CAUSAL)
def test_a_cropped_cache_forgets_what_the_cropped_rows_said(family, monkeypatch):
    monkeypatch.setattr(cache_module, "TILE", 3)
    model, ids = refined(family), tokens(2, 30)
    for removed in range(1, 7):
        _, cache = continued(model, ids[:, :18], 11, 1, 1, 4, 1)
        cache.crop(-removed)
        goes_on(model, cache, ids[:, : 18 - removed], ids[:, 18 - removed : 25].flip(1))


def test_a_crop_to_the_end_of_the_prompt_always_works_and_a_refused_one_leaves_the_cache_as_it_was(
    monkeypatch,
):
    monkeypatch.setattr(cache_module, "TILE", 2)
    model, ids = refined("llama"), tokens(1, 40)
    _, cache = continued(model, ids[:, :34], 10, *(1,) * 24)
    for removed in (19, 20):
        with pytest.raises(ValueError, match="crop: .* cannot be taken back"):
            cache.crop(-removed)
    with pytest.raises(ValueError, match="crop: .* as a negative number; got 12"):
        # the final size to some releases of transformers, how many tokens go to others
        cache.crop(12)
    goes_on(model, cache, ids[:, :34], ids[:, 34:])
    for _ in range(2):
        cache.crop(10 - cache.get_seq_length())
        goes_on(model, cache, ids[:, :10], ids[:, 20:26])


def test_a_cache_follows_copies_repeats_selections_and_resets_and_is_a_new_one_when_it_is_cropped_to_nothing():
    model, ids = refined("llama"), tokens(3, 12)
    _, cache = continued(model, ids[:, :8], 8)
    twice, order = torch.arange(3).repeat_interleave(2), torch.tensor([2, 0])
    for change, given, rows in (
        ("get_seq_length", (), torch.arange(3)),
        ("batch_repeat_interleave", (2,), twice),
        ("batch_select_indices", (order,), order),
        ("reorder_cache", (order,), order),
    ):
        changed = copy.deepcopy(cache)
        getattr(changed, change)(*given)
        goes_on(model, changed, ids[rows, :8], ids[rows, 8:])
    for start_over in (cache.reset, lambda: cache.crop(-12)):
        start_over()
        goes_on(model, cache, ids[:, :0], ids.flip(1))


@pytest.mark.parametrize("family", ["gpt2", "mistral"])
def test_assisted_decoding_gives_the_greedy_tokens(family):
    model, assistant = refined(family), refined(family, strength=0.5)
    # a text that repeats itself, for the lookup to find something
    ids = tokens(1, 6).repeat(1, 3)
    expected = generated(model, ids, 12, use_cache=False)
    for way in (
        {"prompt_lookup_num_tokens": 3},
        {"assistant_early_exit": 1},
        {"assistant_model": assistant},
    ):
        assert torch.equal(generated(model, ids, 12, **way), expected)


@pytest.mark.parametrize("family", CAUSAL)
def test_a_prompt_in_chunks_in_embeddings_or_already_in_the_cache_goes_on_the_same(family):
    model, ids = refined(family), tokens(2, 9)
    expected = generated(model, ids, use_cache=False)
    assert torch.equal(generated(model, ids, prefill_chunk_size=4), expected)
    call = {"attention_mask": torch.ones_like(ids), "max_new_tokens": 8, "do_sample": False}
    embedded = model.generate(inputs_embeds=model.get_input_embeddings()(ids), **call)
    assert torch.equal(embedded, expected[:, 9:])
    cache = DynamicCache()
    model(ids[:, :5], **{CACHE: cache})
    assert torch.equal(generated(model, ids, **{CACHE: cache}), expected)
    first = generated(model, ids, 3, return_dict_in_generate=True)
    assert torch.equal(generated(model, first.sequences, 5, **{CACHE: first[CACHE]}), expected)


def test_weights_of_a_cached_step_are_the_last_rows_of_the_full_ones_and_rows_of_padding_are_nothing():
    model, (ids, mask), cache = refined("llama"), left_padded(), DynamicCache()
    call = {"output_attentions": True, CACHE: cache}
    with torch.no_grad():
        full = model(ids, attention_mask=mask, use_cache=False, output_attentions=True).attentions
        first = model(ids[:, :6], attention_mask=mask[:, :6], **call).attentions
        with raw_attentions(model) as pairs:
            step = model(ids[:, 6:], attention_mask=mask, **call).attentions
    # before its first token a row may look at nothing
    seen = mask[:, None, :6].expand(-1, 4, -1).float()
    torch.testing.assert_close(first[0].sum(-1), seen)
    for whole, last, (raw, shown) in zip(full, step, pairs, strict=True):
        torch.testing.assert_close(last, whole[:, :, 6:], **CLOSE)
        assert raw.shape == shown.shape == last.shape


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"factor": "elemmul"}, "elemmul"),
        ({"factor": "sinkhorn"}, "sinkhorn"),
        ({"messages": "all"}, 'messages="all"'),
    ],
)
def test_what_no_cache_can_carry_is_refused_and_works_without(options, message):
    model, ids = refined("gpt2", **options), tokens()
    with pytest.raises(ValueError, match=message):
        generated(model, ids, 3)
    generated(model, ids, 3, use_cache=False)
    # filling a cache that nobody reads is no harm
    assert model(ids).logits.shape[1] == ids.shape[1]


def test_caches_that_cannot_carry_the_sums_are_refused():
    model, ids = refined("llama"), tokens()
    offloaded, plain, other = (DynamicCache() for _ in range(3))
    offloaded.offloading = True
    build("llama")(ids, **{CACHE: plain})
    refined("llama", "low")(ids, **{CACHE: other})
    static = StaticCache(config=model.config, max_cache_len=32)
    unknown = DynamicCache()
    unknown.layers.append(StaticLayer(max_cache_len=32))
    for message, cache in (
        ("StaticCache.*use_cache=False", static),
        ("offloaded.*use_cache=False", offloaded),
        ("StaticLayer.*use_cache=False", unknown),
        ("filled without", plain),
        ("other options", other),
    ):
        with pytest.raises(ValueError, match=message):
            model(ids, **{CACHE: cache})
    kinds = dict.fromkeys(("static", "sliding_window"), "StaticCache")
    kinds["paged"] = "saobp is not supported for continuous batching"
    # torch for a GPU, without a driver, has no stream to offload by
    with contextlib.suppress(RuntimeError):
        torch.Stream()
        kinds |= {
            "offloaded_static": "StaticCache",
            "offloaded": "an offloaded cache cannot carry the column sums",
        }
    for kind, message in kinds.items():
        with pytest.raises(ValueError, match=message):
            generated(model, ids, 2, cache_implementation=kind)
    # which is what admits a cache
    assert not issubclass(QuantizedCache, DynamicCache)


@pytest.mark.skipif(not hasattr(hf, "HrmTextConfig"), reason="not in this release of transformers")
def test_a_layer_that_is_called_several_times_a_pass_is_refused_a_cache():
    model = hf.HrmTextForCausalLM(hf.HrmTextConfig(**TOKENS, **SIZES, **GROUPS)).eval()
    saobp.apply(model, "high", 0.7)
    with torch.no_grad(), pytest.raises(ValueError, match="called several times a pass"):
        model(tokens(1, 9))
    with torch.no_grad():
        assert model(tokens(1, 9), use_cache=False).logits.isfinite().all()
