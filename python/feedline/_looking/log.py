"""The engine's events in Python's logging, under the name `feedline`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from feedline._loader import Loader

__all__ = ["Log"]

_LOGGER = logging.getLogger("feedline")
_LOGGER.addHandler(logging.NullHandler())

# Of one batch, more are counted, not listed.
_LISTED = 10


class Log:
    """What was already logged about a loader."""

    def __init__(self) -> None:
        self._failed = self._retries = self._listed = 0
        self._warned: set[str] = set()

    def begun(self, loader: Loader, epoch: int, batches: int) -> None:
        """An epoch begins."""
        if _LOGGER.isEnabledFor(logging.INFO):
            _LOGGER.info("epoch %d of %s: %d batches", epoch, loader.dataset.uri, batches)

    def look(self, loader: Loader) -> None:
        """Logs what went wrong since the last call. If nothing did, it only reads two numbers."""
        failed, retries = loader._core.failures_and_retries()  # noqa: SLF001 - same package
        if retries > self._retries:
            _LOGGER.warning("%s: %d requests to storage were made again", loader.dataset.uri, retries - self._retries)
            self._retries = retries
        if failed > self._failed:
            self._failed = failed
            self._bad_samples(loader)

    def _bad_samples(self, loader: Loader) -> None:
        errors = loader.errors()
        new = errors[self._listed :]
        self._listed = len(errors)
        what = {"skip": "left out", "replace": "replaced"}.get(loader.options["on_error"], "raised")
        for error in new[:_LISTED]:
            _LOGGER.warning("sample %s of %s %s: %s", error.get("index"), error.get("uri"), what, error.get("reason"))
        if len(new) > _LISTED:
            _LOGGER.warning("%d more samples of %s %s", len(new) - _LISTED, loader.dataset.uri, what)

    def ended(self, loader: Loader, epoch: int) -> None:
        """An epoch is over."""
        if not _LOGGER.isEnabledFor(logging.INFO):
            return
        stats = loader.stats()
        for warning in stats["warnings"]:
            if warning not in self._warned:
                self._warned.add(warning)
                _LOGGER.warning("%s: %s", loader.dataset.uri, warning)
        _LOGGER.info("epoch %d is over: %.0f samples/s; %s", epoch, stats["samples_per_second"], stats["bottleneck"])
