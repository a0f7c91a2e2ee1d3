"""torch's orders. If torch is not installed, its generator is computed word by word, which is slower."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from feedline._checks import flag, whole
from feedline.errors import OptionError

from .epochs import Ids, Order, Split
from .mersenne import Words
from .own import set_fields

SEEDS = 2**63 - 1 - 2**32
"""The largest seed: torch takes 63 bits, and epochs are added to it."""

# From here on torch draws 64-bit words.
_LARGE = 0xFFFF_FFFF // 20


@dataclass(frozen=True)
class TorchRandom(Order):
    """The order of `DataLoader(data, shuffle=True, generator=torch.Generator().manual_seed(seed))`.

    The generator continues from epoch to epoch, through epochs that were iterated to their end. Computing epoch `n`
    takes `2 n + 1` shuffles, since a `RandomSampler` shuffles once more when it ends. With `loader=False`, the order of
    a bare `RandomSampler(data, generator=...)`, whose generator the `DataLoader` does not share. With `per_epoch=True`,
    the generator is seeded with `seed + epoch`, as Accelerate does.

    A `DataLoader` without its own generator draws from torch's global one, which everything else uses as
    well: such an order cannot be reproduced.

    >>> TorchRandom(seed=0, loader=False).ranks(0, Split(8, 4, 1, False))[0].tolist()
    [4, 0, 7, 3, 2, 5, 1, 6]
    """

    seed: int = 0
    loader: bool = True
    per_epoch: bool = False

    def __post_init__(self) -> None:
        set_fields(self, seed=whole("seed", self.seed, high=SEEDS))
        set_fields(self, loader=flag("loader", self.loader), per_epoch=flag("per_epoch", self.per_epoch))

    def ranks(self, epoch: int, split: Split) -> list[Ids]:
        """One list: this order does not use ranks."""
        if split.world_size > 1:
            raise OptionError("sampler: TorchRandom is for one process; the order over ranks is TorchDistributed's")
        if self.per_epoch:
            return [_randperm(_generator(self.seed + epoch), split.samples)]
        generator = _generator(self.seed)
        for _ in range(epoch):
            self._order(generator, split.samples)
            _randperm(generator, split.samples)
        return [self._order(generator, split.samples)]

    def _order(self, generator: Any, count: int) -> Ids:
        if self.loader:
            _skip_seed_of_workers(generator)
        return _randperm(generator, count)


@dataclass(frozen=True)
class TorchDistributed(Order):
    """The order of `DistributedSampler(data, shuffle=..., seed=..., drop_last=...)` after `set_epoch(epoch)`.

    `drop_last` is the sampler's own: whether samples that do not divide evenly over the ranks are left out or filled up
    from the beginning.

    >>> TorchDistributed(seed=0).ranks(0, Split(8, 2, 2, False))[1].tolist()
    [0, 3, 5, 6]
    """

    seed: int = 0
    shuffle: bool = True
    drop_last: bool = False

    def __post_init__(self) -> None:
        set_fields(self, seed=whole("seed", self.seed, high=SEEDS))
        set_fields(self, shuffle=flag("shuffle", self.shuffle), drop_last=flag("drop_last", self.drop_last))

    def ranks(self, epoch: int, split: Split) -> list[Ids]:
        """Ranks alternate over one permutation."""
        everyone = np.arange(split.samples, dtype=np.int64)
        if self.shuffle:
            everyone = _randperm(_generator(self.seed + epoch), split.samples)
        return strided(everyone, split.world_size, drop_last=self.drop_last)


def strided(everyone: Ids, ranks: int, *, drop_last: bool) -> list[Ids]:
    """Ranks alternate; the remainder is left out, or filled up from the beginning."""
    count = len(everyone)
    each = count // ranks if drop_last else -(-count // ranks)
    if count == 0:
        return [everyone] * ranks
    whole = np.resize(everyone, each * ranks).astype(np.int64)
    return [whole[rank::ranks] for rank in range(ranks)]


def _generator(seed: int) -> Any:
    """The generator of torch if torch is imported, else one that gives the same numbers."""
    if "torch" not in sys.modules:
        try:
            import torch  # noqa: F401, PLC0415 - torch is not needed otherwise
        except ImportError:
            return Words(seed)
    generator = sys.modules["torch"].Generator()
    generator.manual_seed(seed)
    return generator


def _skip_seed_of_workers(generator: Any) -> None:
    """Skips the 64-bit seed that a `DataLoader` draws for its workers before its sampler draws the order."""
    if isinstance(generator, Words):
        generator.next()
        generator.next()
        return
    torch = sys.modules["torch"]
    torch.empty((), dtype=torch.int64).random_(generator=generator)


def _randperm(generator: Any, count: int) -> Ids:
    if not isinstance(generator, Words):
        return np.asarray(sys.modules["torch"].randperm(count, generator=generator).numpy(), dtype=np.int64)
    if count >= _LARGE:
        raise OptionError(f"sampler: the order of {count} samples needs torch, which is not installed")
    order = list(range(count))
    for at in range(count - 1):
        other = at + generator.next() % (count - at)
        order[at], order[other] = order[other], order[at]
    return np.asarray(order, dtype=np.int64)
