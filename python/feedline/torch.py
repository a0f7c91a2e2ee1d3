"""A loader as torch's `IterableDataset`, for code that needs torch's own classes.

>>> import feedline as fl
>>> from feedline.torch import as_iterable
>>> from torch.utils.data import DataLoader
>>> loader = fl.Loader(fl.open(example_folder), batch_size=4, decode="none", fields=["label"])
>>> [batch["label"].tolist() for batch in DataLoader(as_iterable(loader), batch_size=None)]
[[0, 0, 0, 0], [1, 1, 1, 1], [2, 2, 2, 2]]
"""

from __future__ import annotations

import ctypes
import multiprocessing
import multiprocessing.context
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch.utils.data

from . import _augment_op  # noqa: F401 - registers the operator
from ._augment import Augment
from ._callback import usable_cores
from ._checks import refuse
from ._loader import Loader
from .errors import OptionError, StateError
from .samplers import Buckets

__all__ = ["Augment", "BatchIterable", "as_iterable"]

# Largest number of worker processes of a DataLoader.
_MOST_WORKERS = 1024


def as_iterable(loader: Loader) -> BatchIterable:
    """The loader's batches as an `IterableDataset`, for code that requires a `DataLoader` around it.

    Pass it to `DataLoader(..., batch_size=None)`. With `num_workers=N` each worker process makes every N-th batch, so
    that the `DataLoader` delivers exactly the batches of the loader itself, in its order, without duplicates. The
    loader's own threads are faster; this is for programs that cannot be changed.

    Each pass is the next epoch, or the one set with `set_epoch`. If worker processes make the batches, this process
    does not know which of them were delivered: `loader.state_dict()` then raises. Use torchdata's `StatefulDataLoader`,
    which asks the workers, or `num_workers=0`.

    The batches are already this rank's own: they must not be divided among ranks again. Accelerate leaves a
    `Loader` given to `prepare` unchanged; it would divide a `DataLoader` around this a second time, which is
    refused.
    """
    return BatchIterable(loader)


class BatchIterable(torch.utils.data.IterableDataset):  # type: ignore[type-arg,misc,unused-ignore]
    """Result of [`as_iterable`][feedline.torch.as_iterable]."""

    def __init__(self, loader: Loader) -> None:
        super().__init__()
        if not isinstance(loader, Loader):
            refuse("loader", loader, "a feedline.Loader")
        self.loader = loader
        self._places = Places()
        self._restored: dict[str, Any] | None = None
        self._running: _Share | None = None
        loader._elsewhere = self._places  # noqa: SLF001 - same package

    def __len__(self) -> int:
        return len(self.loader)

    def set_epoch(self, epoch: int) -> None:
        """Makes the next iteration give this epoch."""
        self.loader.set_epoch(epoch)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        _refuse_second_sharding(self, self.loader)
        info = torch.utils.data.get_worker_info()
        if info is None:
            return iter(self.loader)
        self._running = _Share(self.loader, info.id, info.num_workers, self._place(info.id))
        self._places.write(info.id, (self._running.epoch + 1, 0))
        return self._running.batches()

    def _place(self, worker: int) -> tuple[int, int, int]:
        """Epoch, samples of all workers before this pass, and batches of this worker since."""
        state, self._restored = self._restored, None
        if state is not None:
            return state["epoch"], state["first"], state["given"]
        return (*(self._places.read(worker) or self.loader._position()), 0)  # noqa: SLF001 - same package

    def state_dict(self) -> dict[str, Any]:
        """Position of this process. In a worker it is the worker's own part, which a `StatefulDataLoader` collects."""
        if torch.utils.data.get_worker_info() is None:
            return self.loader.state_dict()
        run = self.loader._core.state(0, 0)  # noqa: SLF001 - same package
        return {"run": run, **(self._running.state() if self._running is not None else {})}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes the next iteration resume there."""
        info = torch.utils.data.get_worker_info()
        if info is None:
            self.loader.load_state_dict(state)
            return
        self.loader._core.check_state(str(state.get("run")), True)  # noqa: FBT003, SLF001 - the engine's own order
        if "epoch" not in state:
            return
        if state["workers"] != info.num_workers:
            raise StateError(
                f"saved state does not fit: the DataLoader had {state['workers']} workers, has {info.num_workers}"
            )
        self._restored = dict(state)

    def __getstate__(self) -> dict[str, Any]:
        # Shared memory can only be sent to processes that are being started.
        starting = multiprocessing.context.get_spawning_popen() is not None
        return {"loader": self.loader, "places": self._places if starting else None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.loader, self._places = state["loader"], state["places"] or Places()
        self._restored = self._running = None
        self.loader._elsewhere = self._places  # noqa: SLF001 - same package


class Places:
    """The next position of each worker process, in memory that this process and the workers share."""

    def __init__(self) -> None:
        # Epoch, samples, and whether a worker wrote them.
        self._shared = multiprocessing.RawArray(ctypes.c_int64, 3 * _MOST_WORKERS)
        self._rows()[:] = -1

    def _rows(self) -> np.ndarray[Any, Any]:
        return np.ctypeslib.as_array(self._shared).reshape(_MOST_WORKERS, 3)

    def read(self, worker: int) -> tuple[int, int] | None:
        """Epoch and samples, if they were written."""
        epoch, samples, _ = self._rows()[worker].tolist()
        return (epoch, samples) if epoch >= 0 else None

    def write(self, worker: int, place: tuple[int, int]) -> None:
        """Notes the position after the epoch that a worker has started."""
        self._rows()[worker] = (*place, 1)

    def set_all(self, place: tuple[int, int]) -> None:
        """Sets the position of all workers."""
        self._rows()[:] = (*place, 0)

    def moved(self) -> bool:
        """Whether workers have started anything that this process does not know of."""
        return bool((self._rows()[:, 2] == 1).any())


def _refuse_second_sharding(data: BatchIterable, loader: Loader) -> None:
    """Accelerate reads in one process and distributes to all, or alternates: then each batch must be for all ranks."""
    state: Any = sys.modules.get("accelerate.state")
    if state is None or loader._knobs["world_size"] == 1:  # noqa: SLF001 - same package
        return
    for reference in state.GradientState().dataloader_references:
        dataset = getattr(reference, "dataset", None)
        dispatched = dataset is data and "Dispatcher" in type(reference).__name__
        if dispatched or getattr(dataset, "dataset", None) is data:
            raise OptionError(
                f"rank: these are the batches of rank {loader._knobs['rank']} of {loader._knobs['world_size']}, and "  # noqa: SLF001
                "Accelerate would divide them among the ranks again\n"
                "hint: give accelerator.prepare the Loader itself, which it leaves as it is; or make the Loader with "
                "rank=0, world_size=1"
            )


class _Share:
    """One worker's part of an epoch: batches number `worker`, `worker + workers`, ..."""

    def __init__(self, loader: Loader, worker: int, workers: int, place: tuple[int, int, int]) -> None:
        self._loader = loader
        self._worker = worker
        self._workers = workers
        self.epoch, self._first, self._given = place
        # A mix's weights, if the epoch was started with other weights than new epochs have.
        self._weights = loader._position_weights() if self._first else None  # noqa: SLF001 - same package
        self._threads = loader._knobs["num_workers"] or max(1, usable_cores() // workers)  # noqa: SLF001

    def state(self) -> dict[str, Any]:
        """For `BatchIterable.load_state_dict`."""
        return {"epoch": self.epoch, "first": self._first, "given": self._given, "workers": self._workers}

    def batches(self) -> Iterator[dict[str, Any]]:
        """The batches that are left."""
        # Buckets cut their batches by the true world size, so all batches must be read.
        bucketed = isinstance(self._loader._knobs["sampler"], Buckets)  # noqa: SLF001 - same package
        for batch in self._of_all() if bucketed else self._of_rounds():
            # Updated before the batch is returned, so that a state taken then includes it.
            self._given += 1
            yield batch

    def _of_all(self) -> Iterator[dict[str, Any]]:
        first = self._given * self._workers + self._worker
        with self._at(self._first) as own:
            for number, batch in enumerate(own):
                if number >= first and number % self._workers == self._worker:
                    yield batch

    def _of_rounds(self) -> Iterator[dict[str, Any]]:
        knobs = self._loader._knobs  # noqa: SLF001 - same package
        rank, world = int(knobs["rank"]), int(knobs["world_size"])
        size = self._loader._global_batch()  # noqa: SLF001
        start = self._first + self._given * self._workers * size
        # As one of `world_size * workers` ranks, this worker's slices of full rounds are exactly its batches.
        place = {"rank": self._worker * world + rank, "world_size": world * self._workers}
        count = 0
        with self._at(start, **place, drop_last=True) as rounds:
            for batch in rounds:
                count += 1
                yield batch
        # The last round is not full: its batches are those of the unchanged loader.
        at = start + (count * self._workers + self._worker) * size
        with self._at(at) as rest:
            if rest._epoch_samples() - at >= (size if knobs["drop_last"] else 1):  # noqa: SLF001
                yield next(iter(rest))

    def _at(self, first: int, **changed: Any) -> Loader:
        """The loader at this place of the epoch."""
        own = self._loader._with_knobs(num_workers=self._threads, **changed)  # noqa: SLF001 - same package
        own._go_to((self.epoch, first), self._weights)  # noqa: SLF001
        return own
