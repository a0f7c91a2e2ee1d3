"""Orders with a new list in every epoch."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from feedline.errors import OptionError

from .own import Sampler, whole_numbers

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Split:
    """How epochs are divided: what an original loader's order depends on besides its seed."""

    samples: int
    """Number of samples in the data set."""
    batch_size: int
    """Samples per batch on each rank."""
    world_size: int
    """Number of ranks."""
    drop_last: bool
    """Whether a last batch that is not full is left out."""
    seed: int = 0
    """The loader's own seed, for orders that have none."""


class Order(Sampler):
    """Base of orders that are computed for every epoch.

    A subclass defines `ranks`: the samples of each rank, as lists of one length. Their total must be the same in
    every epoch. The loader divides them so that every rank gets exactly its own list, batch by batch.
    """

    def ranks(self, epoch: int, split: Split) -> Sequence[Ids]:
        """Each rank's samples of an epoch, in order."""
        raise NotImplementedError

    def everyone(self, epoch: int, split: Split) -> Ids:
        """The epoch over all ranks: global batch after global batch, and rank after rank in each."""
        lists = self.ranks(epoch, split)
        if len({len(each) for each in lists}) > 1:
            raise OptionError(f"sampler: {self!r} gives the ranks {[len(each) for each in lists]} samples each")
        return interleaved(np.stack(lists), split.batch_size)

    def name(self, split: Split) -> str:
        """Name of the order in saved states; different for different orders."""
        del split  # orders that depend on it override this
        return repr(self)


class HasIndices(Protocol):
    """Anything that knows the order of every epoch."""

    def indices(self, epoch: int) -> npt.ArrayLike:
        """The samples of an epoch, in order, over all ranks."""


class PerEpoch(Order):
    """Wraps an object with a method `indices(epoch)`: its list for every epoch, divided over all ranks.

    Every epoch must have as many samples as the first. The method is called when an epoch starts, and must return the
    same list on all ranks and when a run is resumed. If the object has a `name`, saved states use it to distinguish
    orders.

    >>> import feedline as fl, numpy as np
    >>> ds = fl.open(example_folder)
    >>> class Reversed:
    ...     name = "odd epochs backwards"
    ...     def indices(self, epoch):
    ...         return np.arange(12)[:: -1 if epoch % 2 else 1]
    >>> with fl.Loader(ds, batch_size=6, sampler=Reversed(), decode="none", output="numpy") as loader:
    ...     for epoch in range(2):
    ...         print([batch["index"].tolist() for batch in loader])
    [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]]
    [[11, 10, 9, 8, 7, 6], [5, 4, 3, 2, 1, 0]]
    """

    def __init__(self, source: HasIndices) -> None:
        self.source = source

    def everyone(self, epoch: int, split: Split) -> Ids:
        """The source's list."""
        del split  # divided by the loader like any other order
        return whole_numbers(self.source.indices(epoch))

    def name(self, split: Split) -> str:
        """The source's name, or that of its class."""
        del split
        return str(getattr(self.source, "name", None) or f"order of {type(self.source).__qualname__}")

    def __repr__(self) -> str:
        return f"PerEpoch({self.source!r})"


class SubsetRandom(Order):
    """These samples and no others, shuffled in every epoch from the loader's seed.

    The equivalent of torch's `SubsetRandomSampler`.

    >>> import feedline as fl
    >>> knobs = {"sampler": SubsetRandom([1, 4, 7]), "decode": "none", "output": "numpy"}
    >>> with fl.Loader(fl.open(example_folder), **knobs) as loader:
    ...     [sorted(batch["index"].tolist()) for batch in loader]
    [[1, 4, 7]]
    """

    def __init__(self, indices: npt.ArrayLike) -> None:
        self.indices = whole_numbers(indices)

    def everyone(self, epoch: int, split: Split) -> Ids:
        """A permutation of the samples."""
        return np.random.default_rng([split.seed, epoch]).permutation(self.indices)

    def name(self, split: Split) -> str:
        """With a digest of the samples."""
        del split  # the seed is part of the state anyway
        return f"shuffled subset of {len(self.indices)} #{digest(self.indices)}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SubsetRandom) and np.array_equal(self.indices, other.indices)

    def __hash__(self) -> int:
        return hash(self.indices.tobytes())

    def __repr__(self) -> str:
        return f"SubsetRandom(<{len(self.indices)} indices>)"


class Timetable:
    """An order together with its run. Remembers the latest epoch: its length is needed before its content."""

    def __init__(self, order: Order, split: Split) -> None:
        self._order = order
        self._split = split
        self._latest: tuple[int, Ids] | None = None
        self._count = len(self._list(0))

    def spec(self) -> dict[str, Any]:
        """For the engine: the name in saved states, and the length of epochs."""
        return {"kind": "per_epoch", "name": self._order.name(self._split), "num_samples": self._count}

    def epoch(self, number: int) -> bytes:
        """An epoch's order, eight bytes per sample."""
        ids = self._list(number)
        if len(ids) != self._count:
            raise OptionError(f"sampler: epoch {number} has {len(ids)} samples, epoch 0 has {self._count}")
        return ids.tobytes()

    def _list(self, number: int) -> Ids:
        if self._latest is None or self._latest[0] != number:
            self._latest = (number, self._order.everyone(number, self._split))
        return self._latest[1]


def interleaved(lists: Ids, batch_size: int) -> Ids:
    """Every rank's list (one per row) as one list: the loader gives rank `r` the `r`-th slice of every global batch."""
    ranks, length = lists.shape
    full = length - length % batch_size
    batches = lists[:, :full].reshape(ranks, -1, batch_size).transpose(1, 0, 2)
    return np.concatenate([batches.reshape(-1), lists[:, full:].reshape(-1)])


def digest(numbers: npt.ArrayLike) -> str:
    """Twelve hex digits that distinguish long lists."""
    return hashlib.sha256(np.ascontiguousarray(numbers, dtype="<i8").tobytes()).hexdigest()[:12]
