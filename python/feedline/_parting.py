"""Parts of a data set: selected by number or mask, or split at random."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ._checks import LARGEST, refuse, shown, whole
from .errors import OptionError

__all__ = ["bounds", "chosen_numbers", "draws"]


def bounds(parts: Sequence[Any], count: int) -> list[int]:
    """The start of each part, and the end: shares are rounded so that they add up."""
    if not parts or any(isinstance(part, bool) or not isinstance(part, (int, float, np.number)) for part in parts):
        raise OptionError(f"split: {shown(list(parts))} is not a list of fractions or numbers of samples")
    counts = all(isinstance(part, (int, np.integer)) for part in parts)
    if any(not 0 <= part <= (count if counts else 1) for part in parts):
        raise OptionError(f"split: {shown(list(parts))} is not fractions, or numbers of samples up to {count}")
    total, most = sum(parts), count if counts else 1.0
    if total > most + (0 if counts else 1e-9):
        raise OptionError(f"split: {', '.join(map(str, parts))} is more than {count if counts else 'there is'}")
    ends = np.cumsum(parts) if counts else np.rint(np.cumsum(parts) * count)
    found = [0, *(int(end) for end in ends)]
    rest = found[-1] < count if counts else total < 1 - 1e-9
    return [*found, count] if rest else [*found[:-1], count]


def draws(count: int, seed: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """A random number for each sample, independent of NumPy's version (splitmix64)."""
    with np.errstate(over="ignore"):
        start = np.uint64(whole("seed", seed, -LARGEST, 2**64 - 1) % 2**64) * np.uint64(0xD1342543DE82EF95)
        state = start + (np.arange(1, count + 1, dtype=np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed: np.ndarray[Any, np.dtype[np.uint64]] = state ^ (state >> np.uint64(31))
        return mixed


def chosen_numbers(name: str, given: Any) -> np.ndarray[Any, Any]:
    """A list of integers, which may be negative, or a mask of booleans."""
    allowed = "a list of whole numbers, or a mask of booleans"
    if isinstance(given, (str, bytes, bytearray, Mapping)):
        refuse(name, given, allowed)
    try:
        array = np.asarray(given if hasattr(given, "__array__") or isinstance(given, range) else list(given))
    except (TypeError, ValueError, OverflowError, RuntimeError):
        refuse(name, given, allowed)
    if array.ndim != 1 or (array.size and array.dtype != np.bool_ and not np.issubdtype(array.dtype, np.signedinteger)):
        # Unsigned numbers are fine if they are within the range of samples.
        if array.ndim == 1 and np.issubdtype(array.dtype, np.unsignedinteger) and array.max() <= LARGEST:
            return array.astype(np.int64)
        refuse(name, given, allowed)
    return array
