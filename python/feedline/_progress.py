"""A progress bar on standard error while the core works."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from . import _feedline

__all__ = ["counted", "watched"]

_Item = TypeVar("_Item")


def watched(total: int, work: Callable[[_feedline.PackProgress], None], *, show: bool) -> None:
    """Runs `work`; if requested and on a terminal, shows how many of `total` samples are done."""
    counts = _feedline.PackProgress()
    done = threading.Event()
    bar = None
    if show and sys.stderr.isatty():
        bar = threading.Thread(target=_show, args=(counts, total, done), daemon=True)
        bar.start()
    try:
        work(counts)
    finally:
        done.set()
        if bar is not None:
            bar.join()


def _show(counts: _feedline.PackProgress, total: int, done: threading.Event) -> None:
    begun = time.monotonic()
    while True:
        over = done.wait(0.2)
        samples, size = counts.done()
        seconds = max(time.monotonic() - begun, 1e-9)
        left = (total - samples) * seconds / samples if samples else 0.0
        filled = 30 * samples // max(total, 1)
        line = f"[{'#' * filled:<30}] {samples}/{total}  {size / seconds / 1e6:.0f} MB/s  {left:.0f} s left"
        sys.stderr.write("\r" + line + " " * 4 + ("\n" if over else ""))
        sys.stderr.flush()
        if over:
            return


def counted(items: Iterable[_Item], total: int, *, show: bool, what: str) -> Iterator[_Item]:
    """Yields the items; if requested and on a terminal, shows how many of `total` are done."""
    show = show and sys.stderr.isatty()
    for done, item in enumerate(items, 1):
        if show:
            filled = 30 * done // max(total, 1)
            sys.stderr.write(f"\r[{'#' * filled:<30}] {done}/{total} {what}" + ("\n" if done == total else ""))
            sys.stderr.flush()
        yield item
