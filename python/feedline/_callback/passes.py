"""Passes over an epoch that make batches ahead of the consumer, with the interface of the engine's own."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from feedline.errors import ClosedError, DataError, LoaderTimeoutError

from .calls import Call
from .columns import Made, joined, picked, rows_of
from .pool import Closed, Runner, WorkerPool
from .program import Bad, Program

if TYPE_CHECKING:
    from feedline import _feedline

__all__ = ["Ahead", "BatchMap", "Finished", "Item", "python_rows"]

SUBSTITUTES = 16
"""Number of substitutes tried for a bad sample, as in the engine."""
JOIN_SECONDS = 5.0
"""How long the producing thread is waited for before it is left to end by itself."""
BATCH_STREAM = 0x6261746368
"""Separates the random numbers of `batch_map` from all others."""


class Item:
    """A batch in progress; it is ready at once unless it is being worked on."""

    def __init__(self, value: Any = None, error: BaseException | None = None) -> None:
        self.value = value
        self.error = error

    def ready(self) -> bool:
        """Whether it can be delivered."""
        return True

    def result(self) -> Any:
        """The consumer's batch."""
        if self.error is not None:
            raise self.error
        return self.value


class Finished:
    """A batch that is already in the user's form."""

    def __init__(self, batch: Any) -> None:
        self.batch = batch


class _State:
    """State shared by the producing thread and the consumer. It does not refer to the pass, which can be dropped."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.items: deque[Item] = deque()
        self.closed = False
        self.process = os.getpid()

    def close(self) -> None:
        with self.changed:
            self.closed = True
            self.items.clear()
            self.changed.notify_all()


class Ahead:
    """One pass: a thread takes batches from `source` and applies `begin`; the consumer gets the results in order."""

    def __init__(
        self,
        source: Any,
        depth: int,
        begin: Callable[[Any, _State], Item],
        *,
        timeout: float | None,
        doing: str,
        rest: Callable[[], None],
    ) -> None:
        self._source = source
        self._timeout = timeout
        self._doing = doing
        self._rest = rest
        self.over = False
        """Whether the last batch was delivered, or the pass was closed."""
        self._state = _State()
        self._thread = threading.Thread(
            target=_produce, args=(source, depth, begin, self._state), name="feedline-ahead", daemon=True
        )
        weakref.finalize(self, _stop, self._state, source).atexit = False
        self._thread.start()

    def __len__(self) -> int:
        return len(self._source)

    def next(self) -> Any:
        """The next batch, or `None` at the end. A batch that is not ready in time is not lost: call again."""
        item = self._wait()
        try:
            result = item.result()
        except DataError:
            # This batch is lost; the one after it can still be requested. All other errors stay.
            self._taken()
            raise
        if result is None:
            self.over = True
            self._rest()
            return None
        self._taken()
        return result

    def _wait(self) -> Item:
        until = None if self._timeout is None else time.monotonic() + self._timeout
        state = self._state
        with state.changed:
            while not (state.items and state.items[0].ready()):
                if state.closed:
                    raise ClosedError("the loader is closed")
                left = None if until is None else until - time.monotonic()
                if left is not None and left <= 0:
                    raise LoaderTimeoutError(
                        f"no batch within {self._timeout} s: {self._doing}\n"
                        "hint: the batch is not lost, next() waits for it again; or increase timeout="
                    )
                state.changed.wait(left)
            return state.items[0]

    def _taken(self) -> None:
        with self._state.changed:
            if self._state.items:
                self._state.items.popleft()
            self._state.changed.notify_all()

    def close(self) -> None:
        """Stops this pass."""
        self.over = True
        _stop(self._state, self._source)
        if self._thread is not threading.current_thread():
            self._thread.join(JOIN_SECONDS)


def _stop(state: _State, source: Any) -> None:
    if state.process == os.getpid():  # after a fork, locks may be held by threads that do not exist
        state.close()
        source.close()


def _produce(source: Any, depth: int, begin: Callable[[Any, _State], Item], state: _State) -> None:
    over = False
    while not over:
        with state.changed:
            state.changed.wait_for(lambda: state.closed or len(state.items) < depth)
            if state.closed:
                return
        found = _found(source, begin, state)
        if found is None:
            continue
        with state.changed:
            over = found[1]
            if not state.closed:
                state.items.append(found[0])
                state.changed.notify_all()
        del found  # not kept while waiting


def _found(source: Any, begin: Callable[[Any, _State], Item], state: _State) -> tuple[Item, bool] | None:
    """The next batch and whether it is the last; `None` if the source timed out: the consumer has its own timeout."""
    try:
        made = source.next()
        return (Item(), True) if made is None else (begin(made, state), False)
    except LoaderTimeoutError:
        return None
    except BaseException as error:  # noqa: BLE001 - raised where its batch would have come
        return Item(error=error), not isinstance(error, DataError)


class _Rows(Item):
    """A batch whose samples are being processed by the pool."""

    def __init__(self, made: Made, core: _feedline.Epoch, program: Program, state: _State) -> None:
        super().__init__()
        self.made = made
        self.core = core
        self.program = program
        self.rows = rows_of(made, program.columns())
        self.results: list[Any] = [None] * len(self.rows)
        self.failures: list[tuple[int, int, str | None, str]] = []
        self._state = state
        self._left = len(self.rows)
        self._joined: Made | None = None

    def ready(self) -> bool:
        return self._left == 0 or self.error is not None

    def work(self, place: Runner, epoch: int, first: int, last: int, *, replace: bool) -> None:
        """Makes rows `first` to `last`; runs in a thread of the pool."""
        if self._state.closed or self.error is not None:
            return
        error: BaseException | None = None
        failures: list[tuple[int, int, str | None, str]] = []
        try:
            results = place.run(epoch, self.rows[first:last])
            for row, result in enumerate(results, first):
                self.results[row] = self._or_substitute(place, epoch, row, result, failures, replace=replace)
        except Closed:
            raise
        except BaseException as caught:  # noqa: BLE001 - raised where the batch is delivered
            error = caught
        with self._state.changed:
            self._left -= last - first
            self.failures += failures
            self.error = self.error or error
            self._state.changed.notify_all()

    def _or_substitute(
        self,
        place: Runner,
        epoch: int,
        row: int,
        result: Any,
        failures: list[tuple[int, int, str | None, str]],
        *,
        replace: bool,
    ) -> Any:
        """A row's result, its substitute's, or `None` for an empty row."""
        first = int(self.rows[row]["index"])
        sample, tries = first, 0
        while isinstance(result, Bad):
            failures.append((row, sample, result.field, result.reason))
            tries += 1
            if not replace or tries > SUBSTITUTES or self._state.closed:
                return None
            try:
                other = self.core.substitute(first, tries)
            except DataError as error:
                result = Bad(error.field, getattr(error, "reason", None) or str(error))
                sample = first if error.sample is None else error.sample
                continue
            given = rows_of(other, None)[0]
            sample = int(given["index"])
            wanted = self.rows[row]
            result = place.run(epoch, [{name: given[name] for name in wanted}])[0]
            if not isinstance(result, Bad):
                return _Substitute(other, result)
        return result

    def result(self) -> Any:
        if self.error is not None:
            raise self.error
        if self._joined is None:
            self._joined = self._join()
        return self._joined

    def _join(self) -> Made:
        kept = [row for row, result in enumerate(self.results) if result is not None]
        failures, self.failures = sorted(self.failures, key=lambda failure: failure[0]), []
        self.core.record(len(self.rows), kept, failures)
        made = self.made
        results = [self.results[row] for row in kept]
        if failures:
            places = [
                (r.made, 0) if isinstance(r, _Substitute) else (made, row) for r, row in zip(results, kept, strict=True)
            ]
            made = picked(made, places)
        rows = [r.result if isinstance(r, _Substitute) else r for r in results]
        images = [chain.column for chain in self.program.chains]
        return joined(made, rows, whole=self.program.map is not None, images=images)


class _Substitute:
    """The result for a substitute, and the engine's batch with it."""

    def __init__(self, made: Made, result: Any) -> None:
        self.made = made
        self.result = result


def python_rows(
    pool: WorkerPool, program: Program, core: Any, epoch: int, *, parts: int, replace: bool
) -> Callable[..., Item]:
    """The function that [`Ahead`][] applies to the engine's batches: cuts each into `parts` pieces for the pool."""

    def begin(made: Made, state: _State) -> Item:
        item = _Rows(made, core, program, state)
        size = max(1, -(-len(item.rows) // parts))
        for first in range(0, len(item.rows), size):
            last = min(first + size, len(item.rows))
            pool.submit(partial(item.work, epoch=epoch, first=first, last=last, replace=replace))
        return item

    return begin


@dataclass(frozen=True)
class BatchMap:
    """A function applied to whole batches, with what it needs to know of the pass."""

    call: Call
    convert: Callable[[Any], Any]
    seed: int
    rank: int
    epoch: int
    first: int
    """Number of samples of the epoch before this pass, over all ranks."""
    global_batch: int

    def begin(self) -> Callable[..., Item]:
        """The function that [`Ahead`][] applies to each batch: converts it and calls the user's function."""
        numbers = count()

        def begin(made: Made, _: _State) -> Item:
            position = self.first + next(numbers) * self.global_batch
            try:
                batch = self.convert(made)
            except Exception as error:  # noqa: BLE001 - raised where the batch is delivered
                return Item(error=error)
            try:
                return Item(Finished(self._called(batch, position)))
            except Exception as error:  # noqa: BLE001 - raised where the batch is delivered
                return Item(error=self._failed(error, position))

        return begin

    def _called(self, batch: Any, position: int) -> Any:
        if not self.call.rng:
            return self.call.function(batch)
        key = (self.seed, self.epoch, position, self.rank, BATCH_STREAM)
        return self.call.function(batch, rng=np.random.default_rng(key))

    def _failed(self, error: Exception, position: int) -> DataError:
        number = position // self.global_batch
        failed = DataError(f"batch {number} of epoch {self.epoch}: batch_map failed: {type(error).__name__}: {error}")
        failed.__cause__ = error
        return failed
