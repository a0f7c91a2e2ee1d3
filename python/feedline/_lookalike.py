"""The attributes of a torch `DataLoader` that frameworks use.

Some only read these names; some build a `DataLoader` from them, to skip batches (Accelerate, and with it the Hugging
Face Trainer) or to give it a `DistributedSampler` (Ray). Both work: batches of
`DataLoader(loader.dataset, batch_sampler=loader.batch_sampler, collate_fn=loader.collate_fn)` are the loader's own,
made by its threads, and on several ranks `loader.sampler` is a `DistributedSampler`, so that the data are not
divided a second time.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ._checks import whole
from ._knobs import DEFAULTS, KnobValues
from .errors import OptionError

if TYPE_CHECKING:
    from ._loader import Loader

__all__ = ["LooksLikeDataLoader", "PlannedBatch"]

# Knobs that determine which samples are delivered when.
_ORDER = ("batch_size", "shuffle", "seed", "drop_last", "sampler", "rank", "world_size")


class LooksLikeDataLoader:
    """The attributes of a `DataLoader` without worker processes."""

    _knobs: KnobValues

    @property
    def num_workers(self) -> int:
        """Number of worker processes, as torch counts them: none. Threads are `options["num_workers"]`."""
        return 0

    @property
    def drop_last(self) -> bool:
        """Whether a last batch that is not full is left out."""
        return bool(self._knobs["drop_last"])

    @property
    def pin_memory(self) -> bool:
        """Whether batches are copied to page-locked memory."""
        return bool(self._knobs["pin_memory"]) and self._knobs["device"] is None

    @property
    def pin_memory_device(self) -> str:
        """The current device."""
        return ""

    @property
    def timeout(self) -> float:
        """Seconds without a batch after which an error is raised; 0 for never."""
        return float(self._knobs["timeout"] or 0)

    @property
    def generator(self) -> None:
        """None: order and augmentation are drawn from the seed."""
        return

    @property
    def worker_init_fn(self) -> None:
        """None: workers are threads of the engine and run no Python."""
        return

    @property
    def multiprocessing_context(self) -> None:
        """None: there are no worker processes."""
        return

    @property
    def prefetch_factor(self) -> None:
        """None: there are no worker processes; see `options["prefetch"]`."""
        return

    @property
    def persistent_workers(self) -> bool:
        """False: there are no worker processes to keep; for threads see `options["persistent_workers"]`."""
        return False

    @property
    def in_order(self) -> bool:
        """True: batches are always delivered in order."""
        return True

    @property
    def sampler(self) -> Any:
        """The next epoch's samples on this rank: `iter`, `len`, `set_epoch`; on several ranks a `DistributedSampler`.

        >>> import feedline as fl
        >>> loader = fl.Loader(fl.open(example_folder), batch_size=4)
        >>> list(loader.sampler)
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]
        """
        return _sampler(self)  # type: ignore[arg-type]

    @property
    def batch_sampler(self) -> BatchSampler:
        """The next epoch's batches on this rank, as lists of samples."""
        return BatchSampler(self)  # type: ignore[arg-type]

    def collate_fn(self, batch: Any) -> Any:
        """Returns a finished batch unchanged; a list of samples is refused, since the engine makes batches."""
        if isinstance(batch, list) and self._knobs["batch_map"] is None:
            raise OptionError(
                "collate_fn: the loader makes batches from stored data, not from samples\n"
                "hint: iterate the loader itself, or a DataLoader(num_workers=0) with its batch_sampler"
            )
        return batch


class PlannedBatch(list[int]):
    """The samples of a batch, and the object that can make it: `Dataset.__getitems__` uses it."""

    def __init__(self, samples: Sequence[int], made: EpochBatches, number: int) -> None:
        super().__init__(samples)
        self._made = made
        self._number = number

    def batch(self) -> Any:
        """The batch itself."""
        return self._made.batch(self._number)

    def __reduce__(self) -> tuple[Any, ...]:
        # Only the list is sent to another process: the threads are here.
        return list, (list(self),)


class EpochBatches:
    """Makes batches of one epoch, by number. Consecutive numbers are one pass; a gap starts another."""

    def __init__(self, loader: Loader, place: tuple[int, int], weights: list[float] | None) -> None:
        self._loader = loader
        self._place = place
        self._weights = weights
        self._running: Iterator[Any] | None = None
        self._coming = 0

    def batch(self, number: int) -> Any:
        """The batch of this number, counted from the start of the epoch."""
        if self._running is None or number != self._coming:
            epoch, first = self._place
            self._loader._go_to((epoch, first + number * self._loader._global_batch()), self._weights)  # noqa: SLF001
            self._running = iter(self._loader)
        self._coming = number + 1
        return next(self._running)


class BatchSampler:
    """The type of `loader.batch_sampler`."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        self.batch_size = loader.batch_size
        self.drop_last = loader.drop_last

    @property
    def sampler(self) -> Any:
        """The same, sample by sample."""
        return _sampler(self._loader)

    def set_epoch(self, epoch: int) -> None:
        """Like the loader's."""
        self._loader.set_epoch(epoch)

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[PlannedBatch]:
        made = EpochBatches(self._loader, self._loader._next, self._loader._old_weights)  # noqa: SLF001 - same package
        for number, samples in enumerate(_numbers(self._loader)):
            yield PlannedBatch(samples, made, number)


def _numbers(loader: Loader) -> Iterator[list[int]]:
    """Sample numbers of the next epoch's batches; nothing is read."""
    place, weights = loader._next, loader._old_weights  # noqa: SLF001 - same package
    changed = {name: default for name, default in DEFAULTS.items() if name not in _ORDER}
    with loader._with_knobs(**{**changed, "fields": [], "output": "numpy", "num_workers": 1}) as quick:  # noqa: SLF001
        quick._go_to(place, weights)  # noqa: SLF001
        for batch in quick:
            yield batch["index"].tolist()


class _Samples:
    """The type of `loader.sampler`."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        knobs = loader._knobs  # noqa: SLF001 - same package
        self.dataset = loader.dataset
        self.data_source = loader.dataset
        self.num_replicas = int(knobs["world_size"])
        self.rank = int(knobs["rank"])
        self.seed = int(knobs["seed"])
        self.drop_last = bool(knobs["drop_last"])
        self.shuffle = knobs["shuffle"] is not False
        self.generator = None
        self.replacement = False

    @property
    def epoch(self) -> int:
        """The next epoch."""
        return self._loader.epoch

    @property
    def num_samples(self) -> int:
        """Number of samples in an epoch on this rank."""
        return len(self)

    @property
    def total_size(self) -> int:
        """Number of samples in an epoch on all ranks."""
        return len(self) * self.num_replicas

    def set_epoch(self, epoch: int) -> None:
        """Like the loader's."""
        self._loader.set_epoch(whole("epoch", epoch))

    def __len__(self) -> int:
        return sum(map(len, _numbers(self._loader)))

    def __iter__(self) -> Iterator[int]:
        return (sample for batch in _numbers(self._loader) for sample in batch)


def _sampler(loader: Loader) -> Any:
    """A sampler of the class that frameworks look for, if torch is installed; its attributes must be true."""
    knobs = loader._knobs  # noqa: SLF001 - same package
    if "torch" not in sys.modules and importlib.util.find_spec("torch") is None:
        return _Samples(loader)
    import torch.utils.data  # noqa: PLC0415 - optional, imported only where used

    data = torch.utils.data
    if knobs["world_size"] > 1:
        base: Any = data.DistributedSampler
    elif knobs["sampler"] is None and knobs["shuffle"] is False:
        base = data.SequentialSampler
    else:
        base = data.RandomSampler if knobs["sampler"] is None else data.Sampler
    return type(base.__name__, (_Samples, base), {"__doc__": _Samples.__doc__})(loader)
