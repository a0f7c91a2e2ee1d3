"""The worker process: runs only the user's functions. It never imports the user's script.

It starts in [`main`][feedline._callback.worker.main], called by a command line that [`start`][feedline._callback.start]
writes. A *server* loads the functions once and is forked for every worker, so that what they import is imported once;
without a server the process is the worker itself.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import socket
import struct
import sys
import threading
import traceback
from typing import Any

from .channel import Channel, dumps

__all__ = ["FORK", "STATUS", "main", "work"]

FORK, STATUS = b"f", b"s"
ANSWER = struct.Struct("<qq")
REQUEST = struct.Struct("<cq?")
CHECK_EVERY_MS = 500

Loaded = tuple[Any, str | None]
"""The program, or why it could not be loaded."""


def main(numbers: list[int], *, server: bool) -> None:
    """Main function of a new process."""
    ignore_interrupts()
    if not server:
        channel = Channel.of(numbers)
        work(channel, load(bytes(channel.receive())))
    control = Channel.of(numbers)
    loaded = load(bytes(control.receive()))
    _serve(control.link, loaded)
    os._exit(0)


def ignore_interrupts() -> None:
    """Ignores Ctrl-C, which every process of the terminal gets; the loader handles it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])


def flush() -> None:
    """Flushes what functions print, because this process ends abruptly and a fork must not print it twice."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):
            stream.flush()


def load(pickled: bytes) -> Loaded:
    """Loads the program from its pickle."""
    try:
        program = pickle.loads(pickled)  # noqa: S301 - from our own process
    except BaseException:  # noqa: BLE001 - the loader raises it
        return None, traceback.format_exc()
    return program, None


def work(channel: Channel, loaded: Loaded) -> None:
    """Answers requests until the loader closes the channel. Does not return."""
    program, refusal = loaded
    threading.Thread(target=_watch, args=(channel.link.fileno(), os.getppid()), daemon=True).start()
    try:
        torch = sys.modules.get("torch")
        if torch is not None:
            torch.set_num_threads(1)  # as many processes as cores
        channel.send(refusal)
        while True:
            epoch, rows = channel.receive()
            results = program.run(epoch, rows, seeded=True)
            flush()
            _answer(channel, results)
    except (EOFError, OSError):
        os._exit(0)
    except BaseException:  # noqa: BLE001 - the loader sees the end of this process, people the reason
        traceback.print_exc()
        os._exit(1)


def _answer(channel: Channel, results: list[Any]) -> None:
    from .program import Bad  # noqa: PLC0415 - a cycle otherwise

    buffers: list[pickle.PickleBuffer] = []
    try:
        data = pickle.dumps(results, protocol=5, buffer_callback=buffers.append)
    except Exception:  # noqa: BLE001 - objects of the user's own classes
        buffers.clear()
        sent = []
        for result in results:
            try:
                sent.append(dumps(result))
            except Exception as error:  # noqa: BLE001, PERF203 - the loader raises it
                sent.append(dumps(Bad(None, f"the result cannot be sent back: {type(error).__name__}: {error}")))
        data = pickle.dumps(_Pickles(sent), protocol=5)
    channel.send_pickled(data, buffers)


class _Pickles:
    """Results that need their own pickle; unpickled, it is a list of results again."""

    def __init__(self, pickles: list[bytes]) -> None:
        self.pickles = pickles

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self.pickles,)


def _unpickled(pickles: list[bytes]) -> list[Any]:
    return [pickle.loads(one) for one in pickles]  # noqa: S301 - from our own process


def _watch(link: int, parent: int) -> None:
    """Ends this process, whatever it is doing, once the loader has closed the channel or is gone."""
    poll = select.poll()
    poll.register(link, getattr(select, "POLLRDHUP", 0))
    while not poll.poll(CHECK_EVERY_MS) and os.getppid() == parent:
        pass
    os._exit(0)


def _serve(control: socket.socket, loaded: Loaded) -> None:
    """Forks workers on request and reports their status."""
    parent, statuses = os.getppid(), {}
    while True:
        ready = select.select([control], [], [], CHECK_EVERY_MS / 1000)[0]
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                statuses[ended[0]] = os.waitstatus_to_exitcode(ended[1])
        if not ready:
            if os.getppid() != parent:
                return
            continue
        data, files, _, _ = socket.recv_fds(control, REQUEST.size, 3)
        if len(data) < REQUEST.size:
            return
        what, pid, kill = REQUEST.unpack(data)
        forked = what == FORK
        answer = (_fork(control, files, loaded), 0) if forked else _status(pid, statuses, kill=kill)
        control.sendall(ANSWER.pack(*answer))


def _fork(control: socket.socket, files: list[int], loaded: Loaded) -> int:
    flush()
    pid = os.fork()
    if pid == 0:
        control.close()
        work(Channel.of(files), loaded)
    for file in files:
        os.close(file)
    return pid


def _status(pid: int, statuses: dict[int, int], *, kill: bool) -> tuple[int, int]:
    """Whether a worker has ended (1), and its status. Only its parent can kill it safely: the number may be reused."""
    if pid not in statuses:
        try:
            if kill:
                os.kill(pid, signal.SIGKILL)
            ended, status = os.waitpid(pid, 0 if kill else os.WNOHANG)
        except (ChildProcessError, ProcessLookupError):
            return 1, 0
        if ended == 0:
            return 0, 0
        statuses[pid] = os.waitstatus_to_exitcode(status)
    return 1, statuses.pop(pid)
