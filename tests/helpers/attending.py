"""One call of the fused operation, forward and backward, and padding for it."""

import torch

import saobp


def padding(batch: int, length: int) -> torch.Tensor:
    """Return real tokens with gaps; the last of three sequences has one."""
    mask = (torch.rand(batch, length) < 0.7) & (torch.arange(batch) < 2)[:, None]
    mask[:, length // 2] = True
    return mask


def attended(inputs: list[torch.Tensor], given: torch.Tensor, **options) -> list[torch.Tensor]:
    """Return the output and the gradients of query, key and value, with the same draw of dropout
    each time.
    """
    torch.manual_seed(0)
    leaves = [x.detach().requires_grad_() for x in inputs]
    out = saobp.saobp_attention(*leaves, **options)
    out.backward(given)
    return [out.detach(), *(x.grad for x in leaves)]
