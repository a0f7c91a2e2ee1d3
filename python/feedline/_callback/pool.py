"""Threads of the loader that run the functions, each with its own worker process or without one.

A thread with a process gives it one piece of work at a time. If the process ends in the middle, another replaces it
and the work is repeated, sample by sample, so that a sample that ends its process repeatedly can be named.
"""

from __future__ import annotations

import logging
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from feedline.errors import OptionError

from .program import Bad, Program
from .start import Starter, Worker

__all__ = ["Closed", "Runner", "WorkerPool"]

_LOG = logging.getLogger("feedline")

ENDS_PER_SAMPLE = 3
"""A sample whose function ended this many processes is bad."""
STARTS = 3
"""How often starting a process is tried."""
FIRST_JOIN_SECONDS = 3.0
"""How long ending threads are waited for before processes that are just starting are ended, too."""
LAST_JOIN_SECONDS = 5.0
"""How long they are waited for after that, before they are abandoned."""

Rows = Sequence[dict[str, Any]]
Results = list[Any]


class Closed(Exception):  # noqa: N818 - never seen outside
    """The work is no longer wanted."""


class Runner:
    """Runs the functions of one thread: in the thread itself."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def run(self, epoch: int, rows: Rows) -> Results:
        """Results of these samples, in order."""
        # Global random numbers are shared by all threads; they cannot be seeded for one sample.
        return self.program.run(epoch, rows, seeded=False)

    def close(self) -> None:
        """Stops what can be stopped; called from another thread."""

    def end(self) -> None:
        """Releases all resources."""


class ProcessRunner(Runner):
    """Runs the functions in a worker process."""

    def __init__(self, program: Program, starter: Starter) -> None:
        super().__init__(program)
        self._starter = starter
        self._worker: Worker | None = None
        self._closed = False
        self._lock = threading.Lock()

    def run(self, epoch: int, rows: Rows) -> Results:
        """Results of these samples, even if processes end meanwhile."""
        try:
            return self._ask(epoch, rows)
        except (EOFError, OSError):
            self._end_worker()
        return [self._repeated(epoch, row, tries=1 if len(rows) == 1 else 0) for row in rows]

    def _repeated(self, epoch: int, row: dict[str, Any], tries: int) -> Any:
        why = ""
        while tries < ENDS_PER_SAMPLE:
            try:
                return self._ask(epoch, [row])[0]
            except (EOFError, OSError):  # noqa: PERF203 - each try is a process
                why = self._end_worker()
                tries += 1
        return Bad(None, f"the function ended its worker process {tries} times ({why})")

    def _ask(self, epoch: int, rows: Rows) -> Results:
        worker = self._worker or self._begin()
        worker.channel.send((epoch, list(rows)))
        results: Results = worker.channel.receive()
        return results

    def _begin(self) -> Worker:
        for attempt in range(STARTS):
            try:
                worker = self._starter.start()
                with self._lock:
                    self._worker = worker
                if self._closed:
                    worker.channel.shut_down()
                refusal = worker.channel.receive()
            except (EOFError, OSError) as error:
                why = self._end_worker()
                if attempt == STARTS - 1:
                    raise OptionError(f"map_workers: worker processes end while they start ({why})") from error
                continue
            if refusal is not None:
                self._end_worker()
                hint = (
                    "hint: its module must be importable, or be the script itself; map_workers='threads' needs neither"
                )
                raise OptionError(f"map: the function cannot be loaded in a worker process\n{hint}\n{refusal}")
            return worker
        raise AssertionError

    def _end_worker(self) -> str:
        """Cleans up after a process that has ended, and returns how it ended."""
        with self._lock:
            worker, self._worker = self._worker, None
        status = worker.end() if worker is not None else None
        if self._closed:
            raise Closed
        why = _in_words(status)
        _LOG.warning("a worker process of map or T.Python ended (%s); another replaces it", why)
        return why

    def close(self) -> None:
        """Ends the process; a waiting thread notices."""
        self._closed = True
        with self._lock:
            if self._worker is not None:
                self._worker.channel.shut_down()

    def end(self) -> None:
        """Waits for the end of the process."""
        with self._lock:
            worker, self._worker = self._worker, None
        if worker is not None:
            worker.end()


def _in_words(status: int | None) -> str:
    if status is None:
        return "it did not answer"
    if status >= 0:
        return f"exit status {status}"
    name = signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"
    return f"{name}, as when memory runs out" if name == "SIGKILL" else name


class WorkerPool:
    """The threads, and the queue of their work."""

    def __init__(self, count: int, place: Callable[[], Runner], starter: Starter | None) -> None:
        self._work: queue.SimpleQueue[Callable[[Runner], None] | None] = queue.SimpleQueue()
        self._runners = [place() for _ in range(count)]
        self._starter = starter
        self._process = os.getpid()
        self._threads = [
            threading.Thread(target=_thread_main, args=(self._work, own), name=f"feedline-python-{number}", daemon=True)
            for number, own in enumerate(self._runners)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, work: Callable[[Runner], None]) -> None:
        """Has one of them run this, in the order of submission."""
        self._work.put(work)

    def close(self) -> None:
        """Ends them promptly, whatever they are doing."""
        if self._process != os.getpid():
            return  # threads and workers belong to another process
        for place in self._runners:
            place.close()
        for _ in self._threads:
            self._work.put(None)
        self._join(FIRST_JOIN_SECONDS)
        if self._starter is not None:
            # Threads that wait for a process to start can stop waiting.
            self._starter.abort()
        self._join(LAST_JOIN_SECONDS)
        late = [thread.name for thread in self._threads if thread.is_alive()]
        if late:
            _LOG.warning("a function is still running in %s; its thread is abandoned", ", ".join(late))
        if self._starter is not None:
            self._starter.close()

    def _join(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, until - time.monotonic()))


def _thread_main(work: queue.SimpleQueue[Callable[[Runner], None] | None], place: Runner) -> None:
    """Main loop of one thread."""
    while (task := work.get()) is not None:
        try:
            task(place)
        except Closed:
            break
        task = None
    place.end()
