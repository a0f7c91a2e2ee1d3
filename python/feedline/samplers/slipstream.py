"""Slipstream's order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from feedline._checks import whole

from .epochs import Ids, Order, Split
from .own import set_fields
from .torch import strided


@dataclass(frozen=True)
class Slipstream(Order):
    """Slipstream's shuffled order: NumPy's default generator seeded with `seed + epoch`, ranks alternating.

    >>> Slipstream(seed=42).ranks(1, Split(10, 2, 1, False))[0].tolist()
    [2, 8, 9, 5, 7, 1, 4, 6, 0, 3]
    """

    seed: int = 0

    def __post_init__(self) -> None:
        set_fields(self, seed=whole("seed", self.seed))

    def ranks(self, epoch: int, split: Split) -> list[Ids]:
        """A permutation, filled up from its beginning to a multiple of the ranks."""
        everyone = np.random.default_rng(self.seed + epoch).permutation(split.samples)
        return strided(everyone, split.world_size, drop_last=False)
