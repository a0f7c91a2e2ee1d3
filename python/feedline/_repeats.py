"""Notices when a new loader gives an epoch that another one gave already.

Order and augmentation are functions of (seed, epoch, sample): a loader that is made anew for every epoch starts with
epoch 0 each time, and a training then sees the same crops in the same order for ever. That is easy to do and hard to
see, so it is said once.
"""

from __future__ import annotations

import itertools
import warnings

from .errors import RepeatedEpochWarning

__all__ = ["begun", "number", "received"]

_MOST = 1000
_numbers = itertools.count()
# Who gave an epoch of a run: (everything the run depends on, epoch) -> loader.
_given: dict[tuple[str, int], int] = {}
_said = False


def number() -> int:
    """A number for a loader, unlike that of any other here."""
    return next(_numbers)


def begun(loader: int, run: str, epoch: int) -> None:
    """A loader begins an epoch that it was not told to begin: a warning if another gave it already."""
    global _said  # noqa: PLW0603 - once per process
    if _said or _given.get((run, epoch), loader) == loader:
        return
    _said = True
    _given.clear()
    warnings.warn(
        f"epoch {epoch} of the same data with the same settings was already given by another Loader of this process: "
        "the order and all augmentation repeat. Keep one Loader and iterate it once per epoch, or call "
        "set_epoch(n) on the new one (or seek, load_state_dict, another seed=)",
        RepeatedEpochWarning,
        stacklevel=3,
    )


def received(loader: int, run: str, epoch: int) -> None:
    """A loader gave more than a first look at an epoch."""
    if not _said:
        _given.setdefault((run, epoch), loader)
        if len(_given) > _MOST:
            _given.pop(next(iter(_given)))
