"""What every thread did when, in a file."""

from __future__ import annotations

import os
from typing import Any

__all__ = ["Trace"]


class Trace:
    """A trace that is being recorded: what `loader.trace` gives."""

    def __init__(self, core: Any, path: str) -> None:
        self._core, self.path = core, path
        self._process = os.getpid()
        core.record_trace()
        self.write()

    def write(self) -> None:
        """Writes what was recorded so far; happens by itself after each epoch and when the loader is closed."""
        if self._process == os.getpid():
            self._core.write_trace(self.path)

    def __enter__(self) -> Trace:
        return self

    def __exit__(self, *_: object) -> None:
        self.write()
