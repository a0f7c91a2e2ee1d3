"""Starts and ends worker processes.

`multiprocessing` is not used: its `spawn` and `forkserver` run the user's script again (a script without a main guard
would start itself over and over), and it refuses workers of workers.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from multiprocessing import util
from pathlib import Path
from typing import Any

from feedline.errors import OptionError

from .channel import Channel, ends
from .worker import ANSWER, FORK, REQUEST, STATUS, flush, ignore_interrupts, work

__all__ = ["Starter", "Worker"]

END_SECONDS = 2.0
"""How long an ending worker is waited for before it is killed."""


class _Forks:
    """One fork at a time in this process.

    A child that inherited the far end of another worker's socket would keep it open, and the end of that worker would
    never be noticed.
    """

    def __init__(self) -> None:
        self.unlock()
        # A child is made while the lock is held; it may have loaders of its own.
        os.register_at_fork(after_in_child=self.unlock)

    def unlock(self) -> None:
        self.lock = threading.Lock()


_forks = _Forks()


class Worker:
    """One process, as seen by the loader."""

    def __init__(self, channel: Channel, pid: int, starter: Starter) -> None:
        self.channel = channel
        self.pid = pid
        self._starter = starter

    def end(self) -> int | None:
        """Ends it and returns its status: negative for a signal, as in `subprocess`."""
        self.channel.shut_down()
        status = self._starter.ended(self.pid)
        self.channel.close()
        return status


class Starter:
    """Starts worker processes that all run one program."""

    def __init__(self, method: str, program: Any, pickled: bytes) -> None:
        self._method = method
        self._program = program
        self._pickled = pickled
        self._spawned: dict[int, subprocess.Popen[bytes]] = {}
        self._server: tuple[subprocess.Popen[bytes], Channel] | None = None
        self._lock = threading.Lock()
        self._aborted = False

    def start(self) -> Worker:
        """A new worker. It has not reported yet whether it could load the program."""
        with _forks.lock if self._method == "fork" else contextlib.nullcontext():
            return self._start()

    def _start(self) -> Worker:
        channel, numbers = ends()
        try:
            pid = {"fork": self._fork, "spawn": self._spawn}.get(self._method, self._ask_server)(channel, numbers)
        except BaseException:
            channel.close()
            raise
        finally:
            os.close(numbers[0])  # the other end of the socket; the memory is one file for both
        return Worker(channel, pid, self)

    def _fork(self, channel: Channel, numbers: tuple[int, ...]) -> int:
        flush()
        with _interrupts_blocked():
            pid = os.fork()
            if pid == 0:
                ignore_interrupts()
                channel.link.close()
                work(Channel.of(numbers), (self._program, None))
        return pid

    def _spawn(self, channel: Channel, numbers: tuple[int, ...]) -> int:
        process = _python(numbers, server=False)
        self._spawned[process.pid] = process
        channel.send(self._pickled)
        return process.pid

    def _ask_server(self, _: Channel, numbers: tuple[int, ...]) -> int:
        with self._lock:
            for attempt in range(2):
                try:
                    return int(self._request(FORK, files=numbers)[0])
                except (OSError, EOFError):  # noqa: PERF203 - twice at most
                    # The server was killed; it is started again like a worker.
                    self._stop_server()
                    if attempt == 1 or self._aborted:
                        raise
        raise AssertionError

    def _request(self, what: bytes, pid: int = 0, *, kill: bool = False, files: tuple[int, ...] = ()) -> Any:
        if self._aborted:
            raise EOFError
        if self._server is None:
            here, there = socket.socketpair()
            with there:
                process = _python((there.fileno(),), server=True)
            self._server = process, Channel(here)
            self._server[1].send(self._pickled)
        link = self._server[1].link
        socket.send_fds(link, [REQUEST.pack(what, pid, kill)], list(files))
        return ANSWER.unpack(self._server[1]._exactly(ANSWER.size))  # noqa: SLF001 - the other half of this package

    def ended(self, pid: int) -> int | None:
        """Waits for the end of a worker, and kills it if it does not react."""
        deadline = time.monotonic() + END_SECONDS
        while True:
            late = time.monotonic() > deadline
            status = self._status(pid, kill=late)
            if status is not None or late:
                return status
            time.sleep(0.005)

    def _status(self, pid: int, *, kill: bool) -> int | None:
        if self._method == "spawn":
            process = self._spawned[pid]
            if kill:
                process.kill()
                process.wait()
            if process.poll() is not None:
                del self._spawned[pid]
            return process.returncode
        if self._method == "fork":
            return _forked_status(pid, kill=kill)
        with self._lock:
            try:
                over, status = self._request(STATUS, pid, kill=kill) if self._server is not None else (1, 0)
            except (OSError, EOFError):
                # Workers end with their server.
                self._stop_server()
                return 0
        return status if over else None

    def _stop_server(self) -> None:
        server, self._server = self._server, None
        if server is None:
            return
        process, channel = server
        channel.shut_down()
        channel.close()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def abort(self) -> None:
        """Raises an error in every thread that waits for a starting process. Takes no lock: they hold it."""
        self._aborted = True
        server = self._server
        if server is not None:
            server[1].shut_down()
            server[0].kill()
        for process in list(self._spawned.values()):
            process.kill()

    def close(self) -> None:
        """Ends everything except the workers themselves."""
        with self._lock:
            self._stop_server()


def _forked_status(pid: int, *, kill: bool) -> int | None:
    try:
        if kill:
            os.kill(pid, signal.SIGKILL)
        ended, status = os.waitpid(pid, 0 if kill else os.WNOHANG)
    except (ChildProcessError, ProcessLookupError):
        return 0
    return os.waitstatus_to_exitcode(status) if ended else None


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """A process started inside ignores Ctrl-C until it decides otherwise."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _python(numbers: tuple[int, ...], *, server: bool) -> subprocess.Popen[bytes]:
    if not sys.executable:
        raise OptionError("map_workers: there is no Python to start processes with\nhint: map_workers='threads'")
    path = [os.fspath(entry) or str(Path.cwd()) for entry in sys.path if isinstance(entry, (str, os.PathLike))]
    code = (
        f"import sys; sys.path[:] = {path!r}; "
        f"from feedline._callback.worker import main; main({list(numbers)!r}, server={server})"
    )
    flags = util._args_from_interpreter_flags()  # type: ignore[attr-defined]  # noqa: SLF001 - as multiprocessing does
    with _interrupts_blocked():
        command = [sys.executable, *flags, "-c", code]
        return subprocess.Popen(command, pass_fds=numbers, stdin=subprocess.DEVNULL)  # noqa: S603 - our own code
