"""`map=`, `batch_map=` and `T.Python`: the user's own functions, in worker processes or threads.

The engine makes batches as usual. The work for Python is cut into rows, given to workers, and put together again in
order, several batches at once, so that neither workers nor the consumer wait unnecessarily.

```text
plan.py      knobs → which transforms the engine does before, between and after the functions
program.py   what happens to one sample (runs in a worker)      calls.py    one function and the images it wants
passes.py    batches ahead of the consumer, in order            columns.py  batches into rows and back
pool.py      threads that run the work                    start.py, worker.py, channel.py   their processes
identity.py  functions in saved states
```
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from feedline._ranks import shared_threads
from feedline.errors import OptionError

from .channel import dumps
from .identity import in_words
from .passes import Ahead, BatchMap, Finished, python_rows
from .plan import Plan, leading, plan
from .pool import ProcessRunner, Runner, WorkerPool
from .program import Chain, Program
from .start import Starter

__all__ = ["Callables", "Finished", "leading", "usable_cores"]


def usable_cores() -> int:
    """Number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Callables:
    """Runs the functions of one loader."""

    @classmethod
    def of(cls, knobs: Mapping[str, Any], by_field: Mapping[str, Any], images: Sequence[str]) -> Callables | None:
        """Creates it for a loader, if the loader has functions."""
        planned = plan(knobs, by_field, images)
        return None if planned is None else cls(planned, knobs)

    def __init__(self, planned: Plan, knobs: Mapping[str, Any]) -> None:
        self._plan = planned
        self._knobs = knobs
        self._workers = int(knobs["num_workers"]) or shared_threads() or usable_cores()
        self._pool: WorkerPool | None = None
        self._end: weakref.finalize[Any, Any] | None = None
        self._passes: weakref.WeakSet[Ahead] = weakref.WeakSet()
        context = knobs["multiprocessing_context"]
        self._method = context if isinstance(context, str) else str(context.get_start_method())
        processes = planned.program is not None and not planned.threads
        self._names = self._words()
        self._pickled = _pickled(planned.program) if processes and self._method != "fork" else b""

    @property
    def pixels(self) -> list[str]:
        """Image columns that the engine passes on as 8-bit pixels."""
        return self._plan.pixels

    def names(self) -> list[str]:
        """Names of the functions for saved states: as they were when the loader was created."""
        return self._names

    def _words(self) -> list[str]:
        program = self._plan.program
        chains = program.chains if program is not None else ()
        words = [f"{chain.column}: {', '.join(_steps(chain))}" for chain in chains if chain.steps]
        if program is not None and program.map is not None:
            words.append(f"map: {_form(program.map)}")
        if self._plan.batch_map is not None:
            words.append(f"batch_map: {in_words(self._plan.batch_map.function)}")
        return words

    def epoch(self, core: Any, epoch: int, first: int, convert: Callable[[Any], Any]) -> Any:
        """One pass over an epoch from global position `first`; `convert` turns the engine's batches into the user's."""
        knobs, made = self._knobs, core
        depth = int(knobs["prefetch"] or 2)
        clock = {"timeout": knobs["timeout"], "rest": self._rest}
        program = self._plan.program
        if program is not None:
            replace = knobs["on_error"] == "replace"
            begin = python_rows(
                self._worker_pool(program), program, core, epoch, parts=2 * self._workers, replace=replace
            )
            made = Ahead(made, depth + 1, begin, doing="a function of map or T.Python has not returned", **clock)
            self._passes.add(made)
        if self._plan.batch_map is not None:
            size = int(knobs["batch_size"]) * int(knobs["world_size"])
            place = {"seed": int(knobs["seed"]), "rank": int(knobs["rank"]), "epoch": epoch, "first": first}
            whole = BatchMap(self._plan.batch_map, convert, global_batch=size, **place)
            made = Ahead(made, depth, whole.begin(), doing="batch_map has not returned", **clock)
            self._passes.add(made)
        return made

    def _worker_pool(self, program: Program) -> WorkerPool:
        if self._pool is None:
            if self._plan.threads:
                self._pool = WorkerPool(self._workers, lambda: Runner(program), None)
            else:
                starter = Starter(self._method, program, self._pickled)
                self._pool = WorkerPool(self._workers, lambda: ProcessRunner(program, starter), starter)
            self._end = weakref.finalize(self, self._pool.close)
            self._end.atexit = False
        return self._pool

    def _rest(self) -> None:
        """Notes that an epoch is over."""
        if not self._knobs["persistent_workers"] and all(running.over for running in list(self._passes)):
            self._end_pool()

    def close(self) -> None:
        """Ends everything that runs."""
        for running in list(self._passes):
            running.close()
        self._end_pool()

    def _end_pool(self) -> None:
        end, self._pool, self._end = self._end, None, None
        if end is not None:
            end()


def _steps(chain: Chain) -> list[str]:
    return [step.spec if hasattr(step, "spec") else _form(step) for step in chain.steps]


def _form(call: Any) -> str:
    return f"{in_words(call.function)} as {call.form}"


def _pickled(program: Program | None) -> bytes:
    try:
        return dumps(program)
    except Exception as error:
        names = ", ".join(in_words(function).split(" ")[0] for function in (program.functions() if program else ()))
        raise OptionError(
            f"map: {names}: cannot be sent to worker processes: {error}\n"
            "hint: install cloudpickle for functions of scripts and notebooks, or define it at the top level of a "
            "module, or use map_workers='threads'"
        ) from error
