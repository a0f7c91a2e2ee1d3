"""A pass over an epoch, and its progress."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any

from ._callback import Finished
from .errors import ClosedError, DataError

if TYPE_CHECKING:
    from ._loader import Loader

__all__ = ["Batches", "Progress"]


class Progress:
    """Progress of a pass over an epoch: outlives the pass itself, so that an interrupted loop can be resumed."""

    def __init__(
        self, place: tuple[int, int], global_batch: int, batches: int, weights: list[float] | None = None
    ) -> None:
        self._epoch, self._first = place
        self._global_batch = global_batch
        self._weights = weights
        self.batches = batches
        self.received = 0

    def position(self) -> tuple[int, int]:
        """Epoch and number of global samples received."""
        if self.received >= self.batches:
            return self._epoch + 1, 0
        return self._epoch, self._first + self.received * self._global_batch

    def weights(self) -> list[float] | None:
        """A mix's weights at that position, if they differ from those of new epochs."""
        return self._weights if self.received < self.batches else None


class Batches:
    """One pass over an epoch."""

    def __init__(self, loader: Loader, core: Any, progress: Progress, used: Callable[[], None] | None = None) -> None:
        """`used` is called when more than the first batch was delivered."""
        # Kept, because dropping the loader ends its passes.
        self._loader = loader
        self._core = core
        self._progress = progress
        self._used = used
        self._process = os.getpid()
        # Batches that the engine gave but the user has not received: an interrupt or a failed conversion loses nothing.
        self._held: list[Any] = []
        self._made = iter(core.next, None)

    def __iter__(self) -> Batches:
        return self

    def __len__(self) -> int:
        return self._progress.batches - self._progress.received

    def __next__(self) -> Any:
        if self._process != os.getpid():
            raise ClosedError(
                "this iteration was begun before a fork; its threads exist only in the parent process\n"
                "hint: call iter() again in the child"
            )
        if not self._held:
            self._take()
        if not self._held:
            raise StopIteration
        made = self._held[0]
        batch = made.batch if isinstance(made, Finished) else self._loader._converter.batch(made)  # noqa: SLF001 - same package
        self._progress.received += 1
        self._held.clear()
        if self._used is not None and self._progress.received == min(2, self._progress.batches):
            self._used()
        return batch

    def _take(self) -> None:
        try:
            # In one step of the interpreter: Ctrl-C comes before or after it, not between taking and storing.
            self._held.extend(islice(self._made, 1))
        except DataError:
            # The batch with the bad sample is lost; the next call returns the one after it.
            self._progress.received += 1
            raise

    def close(self) -> None:
        """Stops this pass."""
        if self._process == os.getpid():
            self._core.close()
