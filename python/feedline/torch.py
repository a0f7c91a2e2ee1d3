"""Where torch's own classes are wanted: a loader as an `IterableDataset`.

>>> import feedline as fl
>>> from feedline.torch import as_iterable
>>> from torch.utils.data import DataLoader
>>> loader = fl.Loader(fl.open(example_folder), batch_size=4, decode="none", fields=["label"])
>>> [batch["label"].tolist() for batch in DataLoader(as_iterable(loader), batch_size=None)]
[[0, 0, 0, 0], [1, 1, 1, 1], [2, 2, 2, 2]]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch.utils.data

from .callback import usable_cores
from .samplers import Buckets

if TYPE_CHECKING:
    from .loader import Loader

__all__ = ["BatchIterable", "as_iterable"]


def as_iterable(loader: Loader) -> BatchIterable:
    """The loader's batches as an `IterableDataset`, for code that insists on a `DataLoader` around it.

    Give it to `DataLoader(..., batch_size=None)`. With `num_workers=N` each worker process makes every N-th batch, so
    that the `DataLoader` delivers exactly the batches of the loader itself, in its order, without duplicates. The
    loader's own threads are faster; this is for programs that cannot be changed.

    Worker processes that are started anew for every epoch know only what this process knows: call `set_epoch` before
    each. With `persistent_workers=True` they go on to the next epoch by themselves.
    """
    return BatchIterable(loader)


class BatchIterable(torch.utils.data.IterableDataset):  # type: ignore[type-arg,misc,unused-ignore]
    """What [`as_iterable`][feedline.torch.as_iterable] gives."""

    def __init__(self, loader: Loader) -> None:
        super().__init__()
        self.loader = loader

    def __len__(self) -> int:
        return len(self.loader)

    def set_epoch(self, epoch: int) -> None:
        """The next iteration gives this epoch."""
        self.loader.set_epoch(epoch)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        info = torch.utils.data.get_worker_info()
        if info is None or info.num_workers == 1:
            return iter(self.loader)
        return _every_nth(self.loader, info.id, info.num_workers)


def _every_nth(loader: Loader, worker: int, workers: int) -> Iterator[dict[str, Any]]:
    """Batches number `worker`, `worker + workers`, ... of the coming epoch."""
    knobs = loader._knobs  # noqa: SLF001 - same package
    epoch, first = loader._position()  # noqa: SLF001
    loader._next, loader._latest = (epoch + 1, 0), None  # noqa: SLF001 - for persistent workers: what comes after
    threads = knobs["num_workers"] or max(1, usable_cores() // workers)
    if isinstance(knobs["sampler"], Buckets):
        # Buckets cut their batches by the true world size, so all must be gone through.
        with loader._with_knobs(num_workers=threads) as own:  # noqa: SLF001
            own._next = (epoch, first)  # noqa: SLF001
            yield from (batch for number, batch in enumerate(own) if number % workers == worker)
        return
    # As one of `world_size * workers` ranks, this worker's slices of full rounds are just its batches.
    rank, world = int(knobs["rank"]), int(knobs["world_size"])
    place = {"rank": worker * world + rank, "world_size": world * workers}
    with loader._with_knobs(**place, num_workers=threads, drop_last=True) as rounds:  # noqa: SLF001
        rounds._next = (epoch, first)  # noqa: SLF001
        count = 0
        for batch in rounds:
            yield batch
            count += 1
    # The last round is not full: its batches are those of the loader as it is.
    with loader._with_knobs(num_workers=threads) as rest:  # noqa: SLF001
        size = rest._global_batch()  # noqa: SLF001
        at = first + (count * workers + worker) * size
        left = rest._epoch_samples() - at  # noqa: SLF001
        if left >= (size if knobs["drop_last"] else 1):
            rest._next = (epoch, at)  # noqa: SLF001
            yield next(iter(rest))
