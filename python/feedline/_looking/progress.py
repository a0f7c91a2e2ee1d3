"""A bar for a loop over a loader."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TextIO, TypeVar

from feedline._checks import choice, real
from feedline.errors import OptionError

if TYPE_CHECKING:
    from feedline._loader import Loader

__all__ = ["Bar", "ProgressBar", "progress"]

_Batch = TypeVar("_Batch")
_WIDTH = 24
# Seconds between two updates of the numbers.
_REDRAW_SECONDS = 0.2


def progress(loader: Loader, *, bar: str = "auto", every: float = 60.0, file: TextIO | None = None) -> ProgressBar[Any]:
    """The loader's batches, with a bar that shows images/s, how much of the time the loop waits, and the bottleneck.

    On a terminal the bar is drawn again five times a second; elsewhere (a log file, a cluster's output) a line comes
    every `every` seconds. `bar="tqdm"` and `bar="rich"` use these packages' bars, which work beside their other
    bars and in notebooks; `"line"` writes lines everywhere.

    >>> import feedline as fl
    >>> with fl.Loader(fl.open(example_folder), batch_size=4, output="numpy", decode="none") as loader:
    ...     seen = sum(len(batch["label"]) for batch in fl.progress(loader))
    >>> seen
    12
    """
    choice("bar", bar, ("auto", "line", "tqdm", "rich"))
    if not callable(getattr(loader, "stats", None)):
        raise OptionError(f"loader: a {type(loader).__name__} has no stats(); progress() takes a feedline.Loader")
    return ProgressBar(loader, loader, bar, real("every", every, low=0.0), file)


class ProgressBar(Generic[_Batch]):
    """Batches with a bar: what `progress` gives."""

    def __init__(
        self, loader: Any, batches: Iterable[_Batch], bar: str, every: float = 60.0, file: TextIO | None = None
    ) -> None:
        self._loader, self._batches = loader, batches
        self._bar, self._every, self._file = bar, every, file

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[_Batch]:
        batches: Any = iter(self._batches)
        total = len(batches) if hasattr(batches, "__len__") else len(self._loader)
        bar = Bar(self._loader, total, self._bar, self._every, self._file)
        try:
            for batch in batches:
                bar.update()
                yield batch
        finally:
            bar.close()


class Bar:
    """A bar for one epoch."""

    def __init__(
        self, loader: Any, total: int, kind: str = "auto", every: float = 60.0, file: TextIO | None = None
    ) -> None:
        self._drawn = _drawn(kind, file if file is not None else sys.stderr, total, every)
        self._pace = Pace(loader)
        self._done, self._open = 0, True

    def update(self) -> None:
        """One batch more."""
        self._done += 1
        self._drawn.update(self._done, self._pace)

    def close(self) -> None:
        """It is over."""
        if self._open:
            self._open = False
            self._drawn.close(self._done, self._pace)


class Pace:
    """Rate, waiting share and bottleneck since the bar was begun."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._first = loader.stats()
        self._begun = time.monotonic()

    def words(self) -> str:
        """In a few words."""
        now, before = self._loader.stats(), self._first
        seconds = max(time.monotonic() - self._begun, 1e-9)
        rate = (now["delivered"] - before["delivered"]) / seconds
        waited = now["consumer_wait_seconds"] - before["consumer_wait_seconds"]
        bad = now["failed"] - before["failed"]
        failures = f", {bad} bad" if bad else ""
        return f"{rate:,.0f} images/s, waits {min(waited / seconds, 1.0):.0%}, {now['bound']}-bound{failures}"


class _Lines:
    """A line at intervals, for output that is not a terminal."""

    def __init__(self, out: TextIO, total: int, every: float) -> None:
        self._out, self._total, self._every = out, total, every
        self._begun = self._last = time.monotonic()

    def update(self, done: int, pace: Pace) -> None:
        if time.monotonic() - self._last >= self._every:
            self._last = time.monotonic()
            self._write(done, pace)

    def close(self, done: int, pace: Pace) -> None:
        self._write(done, pace)

    def _write(self, done: int, pace: Pace) -> None:
        seconds = time.monotonic() - self._begun
        self._out.write(f"feedline: {done}/{self._total} batches in {_time(seconds)}, {pace.words()}\n")
        self._out.flush()


class _Terminal:
    """One line that is drawn again with every update."""

    def __init__(self, out: TextIO, total: int) -> None:
        self._out, self._total = out, total
        self._begun, self._last = time.monotonic(), 0.0

    def update(self, done: int, pace: Pace) -> None:
        now = time.monotonic()
        if now - self._last >= _REDRAW_SECONDS:
            self._last = now
            self._draw(done, pace)

    def close(self, done: int, pace: Pace) -> None:
        self._draw(done, pace)
        self._out.write("\n")
        self._out.flush()

    def _draw(self, done: int, pace: Pace) -> None:
        seconds = time.monotonic() - self._begun
        left = seconds / done * (self._total - done) if done else 0.0
        filled = "#" * (_WIDTH * done // max(self._total, 1))
        words = f"[{filled:<{_WIDTH}}] {done}/{self._total} {_time(seconds)}<{_time(left)} {pace.words()}"
        # To the end of the line: the last one may have been longer.
        self._out.write(f"\r{words}\x1b[K")
        self._out.flush()


class _Tqdm:
    def __init__(self, out: TextIO, total: int) -> None:
        try:
            from tqdm.auto import tqdm  # noqa: PLC0415 - only where it is wanted
        except ImportError as error:
            raise OptionError("bar: tqdm is not installed") from error
        self._bar = tqdm(total=total, unit="batch", file=out)
        self._last = 0.0

    def update(self, done: int, pace: Pace) -> None:
        self._bar.update(done - self._bar.n)
        if time.monotonic() - self._last >= _REDRAW_SECONDS:
            self._last = time.monotonic()
            self._bar.set_postfix_str(pace.words())

    def close(self, done: int, pace: Pace) -> None:
        self._bar.update(done - self._bar.n)
        self._bar.set_postfix_str(pace.words())
        self._bar.close()


class _Rich:
    def __init__(self, out: TextIO, total: int) -> None:
        try:
            from rich.console import Console  # noqa: PLC0415 - only where it is wanted
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415
        except ImportError as error:
            raise OptionError("bar: rich is not installed") from error
        columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.fields[words]}"))
        self._bar = Progress(*columns, console=Console(file=out))
        self._bar.start()
        self._task = self._bar.add_task("", total=total, words="")
        self._last = 0.0

    def update(self, done: int, pace: Pace) -> None:
        if time.monotonic() - self._last >= _REDRAW_SECONDS:
            self._last = time.monotonic()
            self._bar.update(self._task, completed=done, words=pace.words())

    def close(self, done: int, pace: Pace) -> None:
        self._bar.update(self._task, completed=done, words=pace.words())
        self._bar.stop()


def _drawn(bar: str, out: TextIO, total: int, every: float) -> _Lines | _Terminal | _Tqdm | _Rich:
    if bar == "tqdm":
        return _Tqdm(out, total)
    if bar == "rich":
        return _Rich(out, total)
    return _Terminal(out, total) if bar == "auto" and out.isatty() else _Lines(out, total, every)


def _time(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes:02}:{seconds:02}"
