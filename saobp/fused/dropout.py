"""Dropout that needs no matrix to be kept: two vectors a head are enough to work it out again, by
tiles.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Dropout:
    """Dropout that a tile can repeat: a hash of query's and key's random bits says if a pair is
    kept.
    """

    probability: float
    # (head, L) int32
    query_bits: Tensor
    key_bits: Tensor

    @classmethod
    def draw(
        cls, probability: float, shape: tuple[int, int], device: torch.device
    ) -> "Dropout | None":
        """Draw the bits of (head, L) from torch's generator; None without dropout."""
        if probability == 0:
            return None
        low, high = torch.iinfo(torch.int32).min, torch.iinfo(torch.int32).max
        return cls(
            probability, *torch.randint(low, high, (2, *shape), dtype=torch.int32, device=device)
        )

    @property
    def threshold(self) -> int:
        """The least hash of a pair that is kept."""
        return min(round(self.probability * 2**32) - 2**31, 2**31 - 1)

    def keep(self, part: slice, rows: slice, bits: Tensor, scratch: Tensor, out: Tensor) -> Tensor:
        """Put 1 / (1 - probability) where a pair of a tile is kept and 0 elsewhere into `out`
        (head, query, key).

        The mixing is that of MurmurHash3's finaliser (A. Appleby), of which the high bits are
        compared.
        """
        keys = out.shape[-1]
        torch.add(self.query_bits[part, rows, None], self.key_bits[part, None, :keys], out=bits)
        for shift, factor in ((16, -2048144789), (13, -1028477387)):
            torch.bitwise_right_shift(bits, shift, out=scratch)
            bits.bitwise_xor_(scratch).mul_(factor)
        return torch.ge(bits, self.threshold, out=out).div_(1 - self.probability)
