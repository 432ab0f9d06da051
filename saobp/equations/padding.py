"""The real block of padded attention: what the diagnostics take as attention, and what they refuse
in one line.
"""

import math

import torch
from torch import Tensor

from saobp.equations.checks import check_masses, check_shape
from saobp.equations.masks import check_boolean


def cut(attention: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Check the arguments, set padded rows and columns to 0, say which tokens (..., L) are real.

    With the padding at 0 the real block and all its powers are those of the unpadded matrix.
    """
    check_shape(attention)
    attention, tokens, leading = widened(attention), attention.shape[-1], attention.dim() - 2
    if mask is None:
        real = torch.ones(tokens, dtype=torch.bool, device=attention.device)
    else:
        check_boolean(mask)
        batched = mask.dim() == 2 and 0 < leading < 3 and mask.shape[0] == attention.shape[0]
        if mask.shape[-1:] != (tokens,) or not (mask.dim() == 1 or batched):
            shapes = f"attention {tuple(attention.shape)}, got {tuple(mask.shape)}"
            raise ValueError(
                f"mask must be (L,) or, of attention (batch, [head,] L, L), (batch, L); for {shapes}"
            )
        real = mask.reshape((len(mask),) + (1,) * (leading - 1) + (tokens,)) if batched else mask
        # filled, not multiplied: a padded row may hold NaN
        attention = attention.masked_fill(~(real.unsqueeze(-1) & real.unsqueeze(-2)), 0.0)
    check_masses(attention)
    return attention, real.expand(attention.shape[:-1])


def widened(attention: Tensor) -> Tensor:
    """Return attention in float32 or better, where squares of small entries do not vanish.

    In half precision a row sums to 1 up to rounding only, which is enough to leave every documented
    bound: a row that near to 1 is divided by its sum.
    """
    if attention.dtype in (torch.float32, torch.float64):
        return attention
    rounding, attention = torch.finfo(attention.dtype).eps, attention.float()
    total = attention.sum(-1, keepdim=True)
    return torch.where((total - 1).abs() <= rounding, attention / total, attention)


def count(real: Tensor, like: Tensor) -> Tensor:
    """Number of real tokens, NaN where there is none: what is divided by it is undefined."""
    tokens = real.sum(-1).to(like.dtype)
    return tokens.masked_fill(tokens == 0, math.nan)
