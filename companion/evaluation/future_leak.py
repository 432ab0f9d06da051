"""Whether messages tell a decoder the tokens that it has to predict, and what it gains by that
(App. C, Table 7).
"""

import copy
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int64
from torch import Tensor
from transformers import OPTConfig, OPTForCausalLM, PreTrainedModel

import saobp
from companion.evaluation.zeroshot import token_log_likelihoods

# nats; in double precision an unchanged log-probability comes back to about 1e-15
ROUNDING = 1e-9


@torch.no_grad()
def changes(
    model: PreTrainedModel, ids: Int64[Tensor, " length"], place: int
) -> Float64[np.ndarray, " length"]:
    """Return how far each position's log-probabilities move (nats, the largest over words) when one
    token is another.

    The token at `place` is replaced by the next word of the vocabulary. In double precision, on a
    copy.
    """
    exact = copy.deepcopy(model).double().eval()
    changed = ids.clone()
    changed[place] = (changed[place] + 1) % model.config.vocab_size
    before, after = (
        exact(input_ids=text[None].to(model.device)).logits.log_softmax(-1)[0]
        for text in (ids, changed)
    )
    return (before - after).abs().amax(-1).cpu().numpy()


def looks_ahead(changed: Float64[np.ndarray, " length"], place: int) -> bool:
    """Say whether any position before the replaced token moved by more than rounding."""
    return bool((changed[:place] > ROUNDING).any())


def leak(
    model: PreTrainedModel, blocks: Iterable[Mapping[str, Int64[Tensor, " length"]]]
) -> dict[str, Any]:
    """Return a decoder's loss read off full passes and off prefixes alone, in nats per token, and
    the difference.

    The difference, 0 for a model that does not look ahead, is also given `by_block` and
    `by_position` (of each token but the first; blocks of one length). Raises ValueError without a
    block.
    """
    items = [block["input_ids"].tolist() for block in blocks]
    if not items:
        raise ValueError("blocks: none given; measure the leak on two or more")
    prefixes = [(ids[:end], ids[end : end + 1]) for ids in items for end in range(1, len(ids))]
    passes = token_log_likelihoods(model, [(ids[:1], ids[1:]) for ids in items])
    seen = (passes, token_log_likelihoods(model, prefixes, whole=False))
    full, alone = (-torch.cat(tokens).double().numpy().reshape(len(items), -1) for tokens in seen)
    gap = alone - full
    means = {
        "full_pass": float(full.mean()),
        "prefixes": float(alone.mean()),
        "leak": float(gap.mean()),
    }
    return means | {"by_block": gap.mean(1).tolist(), "by_position": gap.mean(0).tolist()}


def decoder(
    reading: str, strength: float, *, vocabulary: int = 8, length: int = 16, width: int = 64
) -> OPTForCausalLM:
    """Return an untrained decoder of 2 layers and 4 heads; messages are of the "prefix", or by Eq.
    11 of "all rows".

    Its weights start as torch's own modules do: from OPT's (0.02) it learns nothing at λ = 0.2 in
    400 steps.
    """
    sizes = {
        "vocab_size": vocabulary,
        "max_position_embeddings": length,
        "hidden_size": width,
        "ffn_dim": 4 * width,
    }
    # every token is a word
    special = dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id"))
    shape = {
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "dropout": 0.0,
        "activation_function": "gelu",
    }
    network = OPTForCausalLM(OPTConfig(**sizes, **shape, **special, tie_word_embeddings=False))
    for module in network.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
    return saobp.apply(
        network, "high", strength, messages={"prefix": "earlier", "all rows": "all"}[reading]
    )
