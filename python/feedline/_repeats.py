"""Warns if a new loader gives an epoch that another one has already given.

Order and augmentation are functions of (seed, epoch, sample): if a new loader is created for every epoch, it starts
with epoch 0 each time, and the training gets the same crops in the same order again and again. This mistake is easy to
make and hard to notice, so there is a warning, once.
"""

from __future__ import annotations

import itertools
import warnings

from .errors import RepeatedEpochWarning

__all__ = ["begun", "number", "received"]

_MOST = 1000
_numbers = itertools.count()
# The loader that gave an epoch of a run: (everything the run depends on, epoch) -> loader.
_given: dict[tuple[str, int], int] = {}
_warned = False


def number() -> int:
    """A unique number for a loader."""
    return next(_numbers)


def begun(loader: int, run: str, epoch: int) -> None:
    """Notes that a loader starts an epoch by default; warns if another loader has already given it."""
    global _warned  # noqa: PLW0603 - once per process
    if _warned or _given.get((run, epoch), loader) == loader:
        return
    _warned = True
    _given.clear()
    warnings.warn(
        f"epoch {epoch} of the same data with the same settings was already given by another Loader of this process: "
        "the order and all augmentation repeat. Keep one Loader and iterate it once per epoch, or call "
        "set_epoch(n) on the new one (or seek, load_state_dict, another seed=)",
        RepeatedEpochWarning,
        stacklevel=3,
    )


def received(loader: int, run: str, epoch: int) -> None:
    """Notes that a loader gave more than the first batch of an epoch."""
    if not _warned:
        _given.setdefault((run, epoch), loader)
        if len(_given) > _MOST:
            _given.pop(next(iter(_given)))
