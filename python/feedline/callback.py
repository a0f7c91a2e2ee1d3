"""`T.Python`: the user's own functions, in worker processes.

The engine makes batches as ever; what remains for Python is cut into rows, given to processes, and put together again
in order. Several batches are under way at once, so that processes do not wait for each other. On a free-threaded Python
threads do the same without copies.
"""

from __future__ import annotations

import inspect
import itertools
import multiprocessing
import os
import pickle
import sys
import traceback
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import LoaderTimeoutError, OptionError, SampleError
from .transforms import Python

if TYPE_CHECKING:
    from . import _feedline

__all__ = ["Callables", "split", "usable_cores"]

Made = tuple[int, Sequence[tuple[Any, ...]]]
Column = tuple[list[Callable[..., Any]], int]


def usable_cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def split(field: str, ops: Any) -> tuple[list[Any], list[Callable[..., Any]]]:
    """The part of a list of transforms that the engine does, and the functions behind it."""
    ops = [ops] if not isinstance(ops, Sequence) else list(ops)
    first = next((at for at, op in enumerate(ops) if isinstance(op, Python)), len(ops))
    late = next((op for op in ops[first:] if not isinstance(op, Python)), None)
    if late is not None:
        raise OptionError(f"transforms: {field}: {late!r} comes after T.Python, which must come last")
    return ops[:first], [op.function for op in ops[first:]]


class Callables:
    """Runs the functions of one loader."""

    def __init__(self, columns: Mapping[str, list[Callable[..., Any]]], knobs: Mapping[str, Any]) -> None:
        self._columns = {name: (functions, view) for view, (name, functions) in enumerate(sorted(columns.items()))}
        self._seed = int(knobs["seed"])
        self._context = knobs["multiprocessing_context"]
        self._workers = int(knobs["num_workers"]) or usable_cores()
        # Threads of a free-threaded Python serve several loaders; this tells whose functions are meant.
        self._token = next(_tokens)
        self._ahead = int(knobs["prefetch"] or 2)
        self._timeout = knobs["timeout"]
        self._persistent = bool(knobs["persistent_workers"])
        self._executor: Executor | None = None
        if knobs["dtype"] == "bfloat16":
            raise OptionError("dtype: T.Python gets NumPy arrays, and NumPy has no bfloat16")
        if knobs["on_error"] != "raise":
            raise OptionError("on_error: with T.Python only 'raise'; a function that fails is a bug, not a bad sample")
        for functions, _ in self._columns.values():
            _check_picklable(functions)

    def names(self) -> list[str]:
        """Field and functions, for saved states."""
        shown = lambda f: f"{f.__module__}.{getattr(f, '__qualname__', type(f).__qualname__)}"  # noqa: E731
        return [f"{name}: {', '.join(map(shown, functions))}" for name, (functions, _) in self._columns.items()]

    def epoch(self, core: _feedline.Epoch, epoch: int) -> Pass:
        """One pass over an epoch."""
        return Pass(self, core, epoch)

    def submit(self, made: Made, epoch: int) -> list[tuple[int, list[Future[Any]]]]:
        """Gives a batch's rows to the workers: position of each column, and its rows in order."""
        index = np.asarray(next(column[2] for column in made[1] if column[0] == "index"))
        jobs = []
        for at, (name, _, elements, offsets, shapes) in enumerate(made[1]):
            if name in self._columns:
                rows = _rows(np.asarray(elements), offsets, shapes)
                keys = [(self._seed, epoch, int(sample), self._columns[name][1]) for sample in index]
                size = max(1, -(-len(rows) // (2 * self._workers)))
                parts = range(0, len(rows), size)
                submit = self._pool().submit
                jobs.append(
                    (at, [submit(_apply, self._token, name, rows[p : p + size], keys[p : p + size]) for p in parts])
                )
        return jobs

    def finish(self, made: Made, jobs: list[tuple[int, list[Future[Any]]]]) -> Made:
        """The batch with the workers' results in place of what they were given."""
        columns = list(made[1])
        for at, futures in jobs:
            rows: list[np.ndarray[Any, Any]] = []
            for future in futures:
                rows += self._wait(future, columns[at][0])
            columns[at] = (columns[at][0], "numbers", *_joined(rows))
        return made[0], columns

    def _wait(self, future: Future[Any], field: str) -> list[np.ndarray[Any, Any]]:
        try:
            rows, failure = future.result(self._timeout)
        except TimeoutError as error:
            raise LoaderTimeoutError(f"no result of T.Python for {field} within {self._timeout} s") from error
        if failure is not None:
            sample, text = failure
            bad = SampleError(f"sample {sample}, field '{field}': cannot transform sample: {text}")
            bad.sample, bad.field, bad.stage, bad.reason = sample, field, "transform", text
            raise bad
        result: list[np.ndarray[Any, Any]] = rows
        return result

    def _pool(self) -> Executor:
        if self._executor is None:
            start = (_start, (self._token, {name: functions for name, (functions, _) in self._columns.items()}))
            if getattr(sys, "_is_gil_enabled", lambda: True)():
                context = (
                    multiprocessing.get_context(self._context) if isinstance(self._context, str) else self._context
                )
                self._executor = ProcessPoolExecutor(self._workers, context, *start)
            else:
                self._executor = ThreadPoolExecutor(self._workers, "feedline-python", *start)
        return self._executor

    def rest(self) -> None:
        """An epoch is over."""
        if not self._persistent:
            self.close()

    def close(self) -> None:
        """Ends the workers."""
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=True, cancel_futures=True)


class Pass:
    """Stands between the engine's pass over an epoch and the user: looks like the former."""

    def __init__(self, callables: Callables, core: _feedline.Epoch, epoch: int) -> None:
        self._callables = callables
        self._core = core
        self._epoch = epoch
        self._under_way: deque[tuple[Made, list[tuple[int, list[Future[Any]]]]]] = deque()
        self._failed: BaseException | None = None
        self._drained = False

    def __len__(self) -> int:
        return len(self._core)

    def next(self) -> Made | None:
        """The next batch, or `None` at the end."""
        while not self._drained and self._failed is None and len(self._under_way) <= self._callables._ahead:  # noqa: SLF001
            self._pull()
        if self._under_way:
            return self._callables.finish(*self._under_way.popleft())
        if self._failed is not None:
            failed, self._failed = self._failed, None
            raise failed
        self._callables.rest()
        return None

    def _pull(self) -> None:
        try:
            made = self._core.next()
        except Exception as error:  # noqa: BLE001 - raised where its batch would have come
            self._failed = error
            return
        if made is None:
            self._drained = True
        else:
            self._under_way.append((made, self._callables.submit(made, self._epoch)))

    def close(self) -> None:
        """Stops this pass."""
        for _, jobs in self._under_way:
            for _, futures in jobs:
                for future in futures:
                    future.cancel()
        self._under_way.clear()
        self._core.close()


def _check_picklable(functions: Sequence[Callable[..., Any]]) -> None:
    for function in functions:
        try:
            pickle.dumps(function)
        except Exception as error:  # noqa: PERF203 - one or two functions
            reason = f"transforms: T.Python: {function!r} cannot be sent to worker processes: {error}"
            raise OptionError(f"{reason}\nhint: define it at the top level of a module") from error


def _rows(array: np.ndarray[Any, Any], offsets: Any, shapes: Any) -> list[np.ndarray[Any, Any]]:
    if offsets is None:
        return list(array)
    bounds = np.asarray(offsets).tolist()
    return [array[low:high].reshape(shape) for low, high, shape in zip(bounds[:-1], bounds[1:], shapes, strict=True)]


def _joined(rows: Sequence[np.ndarray[Any, Any]]) -> tuple[Any, Any, Any]:
    """Elements, offsets and shapes of one column: dense if all rows agree."""
    dtypes = {row.dtype for row in rows}
    if len(dtypes) > 1:
        raise OptionError(f"transforms: T.Python gave arrays of different types: {', '.join(map(str, dtypes))}")
    if len({row.shape for row in rows}) == 1:
        return np.stack(rows), None, None
    offsets = np.cumsum([0, *(row.size for row in rows)], dtype=np.int64)
    return np.concatenate([row.ravel() for row in rows]), offsets, [row.shape for row in rows]


_tokens = itertools.count()

# In a worker: the functions by loader and column, and whether each wants random numbers.
_functions: dict[tuple[int, str], list[tuple[Callable[..., Any], bool]]] = {}


def _start(token: int, columns: Mapping[str, list[Callable[..., Any]]]) -> None:
    for name, functions in columns.items():
        _functions[token, name] = [(function, _wants_rng(function)) for function in functions]


def _wants_rng(function: Callable[..., Any]) -> bool:
    try:
        return "rng" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def _apply(
    token: int, name: str, rows: list[Any], keys: Sequence[tuple[int, ...]]
) -> tuple[list[Any] | None, tuple[int, str] | None]:
    """Rows through the functions. A failure comes back as the sample and its traceback, not as an exception."""
    results = []
    for row, key in zip(rows, keys, strict=True):
        # Drawn from (seed, epoch, sample, view) alone, like everything else that is random.
        rng = np.random.default_rng(key)
        try:
            value = row
            for function, wants_rng in _functions[token, name]:
                value = function(value, rng=rng) if wants_rng else function(value)
            results.append(np.ascontiguousarray(value))
        except Exception:  # noqa: BLE001 - whatever the user's function raises is reported
            return None, (key[2], traceback.format_exc())
    return results, None
