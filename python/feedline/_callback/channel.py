"""Messages between the loader and one worker process.

Small things are sent through a socket. Large arrays are copied into memory that both ends have mapped (Linux: a file
without a name, which cannot be left behind) and only their offsets are sent. One message at a time, in either
direction.
"""

from __future__ import annotations

import contextlib
import io
import mmap
import os
import pickle
import socket
import struct
from collections.abc import Sequence
from typing import Any

from feedline.errors import OptionError

__all__ = ["Channel", "dumps", "ends"]

HEADER = struct.Struct("<QI?")
LENGTH = struct.Struct("<Q")
IN_BAND = 1 << 16
"""Smaller buffers are not worth the mapping."""
ALIGNED = 64


def dumps(value: Any) -> bytes:
    """A pickle of the user's objects; functions of scripts and notebook cells by value."""
    try:
        import cloudpickle  # noqa: PLC0415 - only where functions are sent
    except ImportError:
        return _plainly(value)
    pickled: bytes = cloudpickle.dumps(value, protocol=5)
    return pickled


def _plainly(value: Any) -> bytes:
    class Watching(pickle.Pickler):
        """Refuses names in `__main__`, which do not exist in a worker, because it runs no script."""

        def reducer_override(self, item: Any) -> Any:
            if getattr(item, "__module__", None) == "__main__" and hasattr(item, "__qualname__"):
                raise OptionError(f"{item.__qualname__} is part of the script or notebook")
            return NotImplemented

    buffer = io.BytesIO()
    Watching(buffer, protocol=5).dump(value)
    return buffer.getvalue()


def ends() -> tuple[Channel, tuple[int, ...]]:
    """The loader's end of a new channel, and the file descriptors of the other end."""
    here, there = socket.socketpair()
    files = [_memory(), _memory()]
    numbers = (there.detach(), *(() if None in files else (int(files[1] or 0), int(files[0] or 0))))
    return Channel(here, *files), numbers


def _memory() -> int | None:
    try:
        return os.memfd_create("feedline", os.MFD_CLOEXEC) if hasattr(os, "memfd_create") else None
    except OSError:
        return None


class Channel:
    """One end of a channel."""

    def __init__(self, link: socket.socket, outbox: int | None = None, inbox: int | None = None) -> None:
        self.link = link
        self._outbox = _Shared(outbox) if outbox is not None else None
        self._inbox = _Shared(inbox) if inbox is not None else None

    @classmethod
    def of(cls, numbers: Sequence[int]) -> Channel:
        """The end that uses these file descriptors."""
        return cls(socket.socket(fileno=numbers[0]), *numbers[1:])

    def send(self, message: Any) -> None:
        """Sends a message; `OSError` if the other side is gone."""
        buffers: list[pickle.PickleBuffer] = []
        self.send_pickled(pickle.dumps(message, protocol=5, buffer_callback=buffers.append), buffers)

    def send_pickled(self, data: bytes, buffers: Sequence[pickle.PickleBuffer] = ()) -> None:
        """Sends a message that is already pickled."""
        views = [buffer.raw() for buffer in buffers]
        lengths = [view.nbytes for view in views]
        shared = self._outbox is not None and sum(lengths) > IN_BAND and self._outbox.put(views)
        head = HEADER.pack(len(data), len(views), shared) + b"".join(map(LENGTH.pack, lengths))
        self.link.sendall(head + data)
        if not shared:
            for view in views:
                self.link.sendall(view)

    def receive(self) -> Any:
        """The next message; `EOFError` if the other side is gone."""
        size, count, shared = HEADER.unpack(self._exactly(HEADER.size))
        lengths = [LENGTH.unpack(self._exactly(LENGTH.size))[0] for _ in range(count)]
        data = self._exactly(size)
        if shared and self._inbox is not None:
            buffers = self._inbox.take(lengths)
        else:
            buffers = [self._exactly(length) for length in lengths]
        return pickle.loads(data, buffers=buffers)  # noqa: S301 - from our own process

    def _exactly(self, size: int) -> bytearray:
        room = bytearray(size)
        view = memoryview(room)
        while view:
            try:
                got = self.link.recv_into(view)
            except ConnectionError as error:
                raise EOFError from error
            if got == 0:
                raise EOFError
            view = view[got:]
        return room

    def shut_down(self) -> None:
        """Wakes both sides: neither gets another message. Works even if a forked process has the socket open too."""
        with contextlib.suppress(OSError):  # the other side may have been faster
            self.link.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Releases all resources."""
        self.link.close()
        for shared in (self._outbox, self._inbox):
            if shared is not None:
                shared.close()


class _Shared:
    """Mapped memory that grows as needed."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._map: mmap.mmap | None = None

    def put(self, views: Sequence[memoryview]) -> bool:
        """Copies buffers in; false if there is no memory for them."""
        wanted = sum(map(_room, (view.nbytes for view in views)))
        try:
            if os.fstat(self._file).st_size < wanted:
                os.ftruncate(self._file, wanted)
            room = memoryview(self._mapped(wanted))
        except OSError:
            return False
        at = 0
        with room:
            for view in views:
                room[at : at + view.nbytes] = view
                at += _room(view.nbytes)
        return True

    def take(self, lengths: Sequence[int]) -> list[bytearray]:
        """Copies buffers out, because the next message may overwrite them."""
        taken, at = [], 0
        with memoryview(self._mapped(sum(map(_room, lengths)))) as room:
            for length in lengths:
                taken.append(bytearray(room[at : at + length]))
                at += _room(length)
        return taken

    def _mapped(self, size: int) -> mmap.mmap:
        if self._map is None or len(self._map) < size:
            if self._map is not None:
                self._map.close()
            self._map = mmap.mmap(self._file, os.fstat(self._file).st_size)
        return self._map

    def close(self) -> None:
        if self._map is not None:
            self._map.close()
        os.close(self._file)


def _room(length: int) -> int:
    return -(-length // ALIGNED) * ALIGNED
