"""How fast a training loop could go if loading cost nothing."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Generic, TypeVar

from feedline._checks import whole
from feedline.errors import OptionError

__all__ = ["Headspace", "headspace"]

_Batch = TypeVar("_Batch")


def headspace(iterable: Iterable[_Batch], batches: int = 32, *, rounds: int = 3) -> Headspace[_Batch]:
    """Gives `batches` batches of any iterable as they come, then the same ones again, `rounds` times, from memory.

    The loop around it then shows how fast it is with the loader, and how fast it could be at best. The difference is
    what a faster loader could gain. Works with any loader, not only with feedline's.

    >>> import feedline as fl
    >>> looked = fl.headspace(([number] for number in range(100)), 4, rounds=2)
    >>> [batch[0] for batch in looked]
    [0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3]
    >>> looked.report()["batches"]
    4
    """
    return Headspace(iterable, whole("batches", batches, low=1), whole("rounds", rounds, low=1))


class Headspace(Generic[_Batch]):
    """A loop's batches, first loaded, then from memory: what `headspace` gives."""

    def __init__(self, iterable: Iterable[_Batch], batches: int, rounds: int) -> None:
        self._iterable, self._wanted, self._rounds = iterable, batches, rounds
        self._loaded = self._cached = 0.0
        self._count = self._replayed = 0

    def __iter__(self) -> Iterator[_Batch]:
        self._count = self._replayed = 0
        kept: list[_Batch] = []
        batches = iter(self._iterable)
        # The first one waits for threads to start and files to open: it is no part of the pace.
        first = next(batches, None)
        if first is None:
            raise OptionError("headspace: the iterable gave no batch")
        kept.append(first)
        yield first
        begun = time.perf_counter()
        for batch in islice(batches, self._wanted - 1):
            kept.append(batch)
            yield batch
        self._loaded, self._count = time.perf_counter() - begun, len(kept)
        close = getattr(batches, "close", None)
        if close is not None:
            close()
        begun = time.perf_counter()
        for _ in range(self._rounds):
            for batch in kept:
                yield batch
                self._replayed += 1
                self._cached = time.perf_counter() - begun

    def report(self) -> dict[str, Any]:
        """Batches per second with the loader and at best, and how many times as fast that is."""
        if self._count == 1 or not self._count or not self._replayed:
            raise OptionError("headspace: loop over it first, with at least two batches")
        loaded = (self._count - 1) / max(self._loaded, 1e-9)
        best = self._replayed / max(self._cached, 1e-9)
        ratio = best / loaded
        waits = max(0.0, 1.0 - loaded / best)
        said = f"{loaded:.1f} batches/s with this loader, {best:.1f} at best: loading takes {waits:.0%} of the time"
        return {"batches": self._count, "loaded": loaded, "best": best, "times": ratio, "sentence": said}

    def __str__(self) -> str:
        return str(self.report()["sentence"])
