"""What transformers' models hand to an attention function, and what becomes of each.

Every keyword means the same on every path (with a cache or without, fused or as matrices, compiled
or not): it is used, or the call is refused. So is a keyword that nobody knows and that carries a
tensor, a function or a mask of blocks, unless a layer of the model takes it by its name: it is that
layer's. A module without refinement attends as transformers does, whatever it is handed.
"""

import functools
import inspect
from typing import Any

from torch import Tensor, nn

PARAMETERS = (
    "query",
    "key",
    "value",
    "attention_mask",
    "dropout",
    "scaling",
    "is_causal",
    "position_bias",
)
"""Used: they decide the scores, which of them are seen, and what is dropped."""

SHOWN = ("output_attentions",)
"""Used: the probabilities are returned."""

IN_THE_MASK = ("sliding_window", "position_ids")
"""Used: the mask that comes beside them says the same."""

OF_A_KERNEL = ("deterministic", "kernel_options")
"""How a kernel works, which changes no probability."""

OF_OTHER_LAYERS = ("num_items_in_batch", "output_hidden_states", "output_router_logits", "seq_idx")
"""What a call says to the layers around attention, in the same keywords."""

OF_A_BATCH = (
    "cache_position",
    "labels",
    "length",
    "offset_mapping",
    "overflow_to_sample_mapping",
    "shift_labels",
    "special_tokens_mask",
    "token_type_ids",
)
"""What tokenizers and collators put beside the ids; no attention function of transformers looks at it."""

BENDING = ("softcap", "s_aux", "sinks", "indices", "topk_indices", "block_indices")
"""Refused: the probabilities are no softmax of scaled products under the mask."""

PACKING = ("cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k")
"""Refused: packed sequences that the mask may not know of."""

PAGED = ("cache", "block_table", "page_table", "cache_seqlens", "k_cache", "v_cache")
"""Refused: keys in pages, which carry no column sums."""

CHANGING = (
    "alibi",
    "alibi_slopes",
    "attention_bias",
    "attn_bias",
    "attn_mask",
    "block_mask",
    "head_mask",
    "layer_head_mask",
    "learnable_sink",
    "mask_mod",
    "score_mask",
    "score_mod",
    "softmax_scale",
    "window_size",
)
"""Refused: what other attention functions change their scores or masks by, and this one does not."""

LENGTHS = (
    "cu_seqlens",
    "cu_seqlens_q",
    "cu_seqlens_k",
    "max_seqlen",
    "max_seqlen_q",
    "max_seqlen_k",
)
"""Refused: packed sequences, in the words of the kernels."""

SERVED = (*PARAMETERS, *SHOWN, *IN_THE_MASK, *OF_A_KERNEL, *OF_OTHER_LAYERS, *OF_A_BATCH)
REFUSED = {
    **dict.fromkeys(BENDING, "{name} bends its attention scores; saobp cannot refine it exactly"),
    **dict.fromkeys(
        CHANGING,
        "{name} was handed what saobp does not use; leave it out, or give attention_mask or "
        "position_bias",
    ),
    **dict.fromkeys(
        (*PACKING, *LENGTHS),
        "{name} was handed the bounds of packed sequences; leave them out and give position_ids "
        "that start again at each, with use_cache=False",
    ),
    **dict.fromkeys(
        PAGED, "{name} was handed a paged cache, which carries no column sums; use generate()"
    ),
}


def refuse_keywords(module: nn.Module, keywords: dict[str, Any], of_layers: frozenset[str]) -> None:
    """Raise ValueError, naming the keyword, for what a refined module cannot be handed; `of_layers`
    are the keywords that layers of its model take by name.
    """
    for keyword, value in keywords.items():
        if value is None:
            continue
        name = type(module).__name__
        if keyword in REFUSED:
            raise ValueError(f"{keyword}: {REFUSED[keyword].format(name=name)}")
        if keyword not in SERVED and keyword not in of_layers and carries(value):
            raise ValueError(
                f"{keyword}: {name} was handed {type(value).__name__} by a keyword that saobp does not "
                "know; leave it out"
            )


def carries(value: Any) -> bool:
    """Tell whether a value may change attention: tensors, functions and objects do, words and numbers
    by a name that nobody knows do not.
    """
    if isinstance(value, (list, tuple)):
        return any(isinstance(part, (Tensor, list, tuple)) or callable(part) for part in value)
    return not isinstance(value, (bool, int, float, str, dict))


def taken_by_layers(model: nn.Module) -> frozenset[str]:
    """Return the keywords that layers of a model take by name."""
    kinds = {type(module) for module in model.modules()}
    return frozenset().union(*map(taken, kinds))


@functools.cache
def taken(kind: type[nn.Module]) -> frozenset[str]:
    """Return the names of what the forward pass of a class takes."""
    return frozenset(inspect.signature(kind.forward).parameters)
