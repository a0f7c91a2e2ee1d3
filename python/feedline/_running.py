"""A pass over an epoch, and its progress."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any

from ._callback import Finished
from ._looking import Bar, Stats
from .errors import ClosedError, DataError

if TYPE_CHECKING:
    from ._loader import Loader

__all__ = ["Batches", "FunctionTimes", "Progress"]


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


class Watched:
    """What is reported about a pass while it runs: a log, a bar, a trace, and the time that Python functions take."""

    def __init__(self, loader: Loader, progress: Progress) -> None:
        # Not the loader's own: whoever has the pass keeps it.
        self._loader, self._epoch = weakref.proxy(loader), progress.position()[0]
        self._log = loader._log  # noqa: SLF001 - same package
        self._log.begun(loader, self._epoch, progress.batches)
        self._bar = Bar(self._loader, progress.batches) if loader._knobs["progress"] else None  # noqa: SLF001
        self._functions = loader._functions  # noqa: SLF001

    def asked(self) -> None:
        if self._functions is not None:
            self._functions.asked()

    def received(self) -> None:
        if self._functions is not None:
            self._functions.received()
        self._log.look(self._loader)
        if self._bar is not None:
            self._bar.update()

    def ended(self) -> None:
        self.stopped()
        self._log.ended(self._loader, self._epoch)
        trace = self._loader._trace  # noqa: SLF001 - same package
        if trace is not None:
            trace.write()

    def stopped(self) -> None:
        if self._bar is not None:
            self._bar.close()


class FunctionTimes:
    """How long the user waited for batches that Python functions had a part in."""

    def __init__(self) -> None:
        self.waited = self.busy = 0.0
        self._asked = self._had = time.perf_counter()

    def asked(self) -> None:
        self._asked = time.perf_counter()
        if self.waited:
            self.busy += self._asked - self._had

    def received(self) -> None:
        self._had = time.perf_counter()
        self.waited += self._had - self._asked

    def judge(self, stats: Stats) -> None:
        """The engine counts functions as its consumer; if the user waits all the same, the functions are the limit."""
        whole = self.waited + self.busy
        stats["functions_wait_seconds"] = self.waited
        if stats["bound"] != "consumer" or whole == 0 or self.waited < 0.1 * whole:
            return
        stats["bound"] = "functions"
        stats["bottleneck"] = (
            "functions-bound: the engine's batches wait for Python functions (map=, T.Python, batch_map=), the "
            f"training step waits {self.waited / whole:.0%} of the time; feedline.transforms do the same faster, "
            "or more num_workers would help"
        )


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
        self._turn = threading.RLock()
        # Batches that the engine gave but the user has not received: an interrupt or a failed conversion loses nothing.
        self._held: list[Any] = []
        self._made = iter(core.next, None)
        self._watched = Watched(loader, progress)

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
        # Threads may share an iteration: each batch goes to one of them.
        with self._turn:
            return self._next()

    def _next(self) -> Any:
        self._watched.asked()
        if not self._held:
            self._take()
        if not self._held:
            self._watched.ended()
            raise StopIteration
        made = self._held[0]
        batch = made.batch if isinstance(made, Finished) else self._loader._converter.batch(made)  # noqa: SLF001 - same package
        self._progress.received += 1
        self._held.clear()
        self._watched.received()
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
        self._watched.stopped()
        if self._process == os.getpid():
            self._core.close()
