"""What transformers' models hand to an attention function, and what becomes of each.

Every keyword means the same on every path (with a cache or without, fused or as matrices, compiled
or not): it is used, or the call is refused. A module without refinement attends as transformers
does, whatever it is handed.
"""

from typing import Any

from torch import nn

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

BENDING = ("softcap", "s_aux", "sinks", "indices", "topk_indices", "block_indices")
"""Refused: the probabilities are no softmax of scaled products under the mask."""

PACKING = ("cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k")
"""Refused: packed sequences that the mask may not know of."""

PAGED = ("cache", "block_table", "cache_seqlens")
"""Refused: keys in pages, which carry no column sums."""

SERVED = (*PARAMETERS, *SHOWN, *IN_THE_MASK, *OF_A_KERNEL, *OF_OTHER_LAYERS)
REFUSED = {
    **dict.fromkeys(BENDING, "{name} bends its attention scores; saobp cannot refine it exactly"),
    **dict.fromkeys(
        PACKING,
        "{name} was handed the bounds of packed sequences; leave them out and give position_ids "
        "that start again at each, with use_cache=False",
    ),
    **dict.fromkeys(
        PAGED, "{name} was handed a paged cache, which carries no column sums; use generate()"
    ),
}


def refuse_keywords(module: nn.Module, keywords: dict[str, Any]) -> None:
    """Raise ValueError, naming the keyword, for what a refined module cannot be handed."""
    for keyword, value in keywords.items():
        if value is not None and keyword in REFUSED:
            name = type(module).__name__
            raise ValueError(f"{keyword}: {REFUSED[keyword].format(name=name)}")
