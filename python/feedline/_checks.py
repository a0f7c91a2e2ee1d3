"""Argument checks: every wrong argument is an error with its name, its value and what is allowed.

Numbers of NumPy and torch are accepted; text and `True` are not numbers.

>>> import numpy as np
>>> whole("batch_size", np.int64(8), low=1)
8
>>> whole("rank", 1.9)
Traceback (most recent call last):
feedline.errors.OptionError: rank: 1.9 is not a whole number of at least 0
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from .errors import OptionError, OutOfRangeError

__all__ = [
    "LARGEST",
    "choice",
    "flag",
    "listed",
    "mapping",
    "maybe",
    "numbers",
    "part",
    "path",
    "place",
    "real",
    "refuse",
    "shown",
    "text",
    "texts",
    "whole",
]

LARGEST = 2**63 - 1
"""The largest number accepted by any argument without a limit of its own."""

_LONGEST = 100
_WRONG = (TypeError, ValueError, OverflowError, RuntimeError, AttributeError)


def shown(value: object) -> str:
    """A short form of any value for an error message."""
    try:
        words = " ".join(repr(value).split())
    except Exception:  # noqa: BLE001 - whatever a foreign __repr__ raises
        words = f"a {type(value).__name__}"
    return words if len(words) <= _LONGEST else words[: _LONGEST - 3] + "..."


def refuse(name: str, value: object, allowed: str) -> NoReturn:
    """The error for a wrong argument."""
    raise OptionError(f"{name}: {shown(value)} is not {allowed}")


def whole(name: str, value: Any, low: int = 0, high: int = LARGEST) -> int:
    """A whole number between `low` and `high`."""
    allowed = f"a whole number of at least {low}" if high == LARGEST else f"a whole number between {low} and {high}"
    if _is_truth(value) or getattr(value, "ndim", 0) != 0:
        refuse(name, value, allowed)
    try:
        number = operator.index(value)
    except _WRONG:
        refuse(name, value, allowed)
    if not low <= number <= high:
        refuse(name, value, allowed)
    return number


def real(name: str, value: Any, low: float = -math.inf, high: float = math.inf) -> float:
    """A finite number between `low` and `high`."""
    limits = [f"at least {low:g}"] * (low > -math.inf) + [f"at most {high:g}"] * (high < math.inf)
    allowed = " ".join(["a number", *(["of", " and ".join(limits)] if limits else [])])
    if _is_truth(value) or isinstance(value, (str, bytes, bytearray)) or getattr(value, "ndim", 0) != 0:
        refuse(name, value, allowed)
    try:
        number = float(value)
    except _WRONG:
        refuse(name, value, allowed)
    if not (math.isfinite(number) and low <= number <= high):
        refuse(name, value, allowed)
    return number


def numbers(value: Any) -> list[Any]:
    """The elements of a list, tuple or array of numbers, or one number as a list; an empty list for anything else."""
    if isinstance(value, (str, bytes, bytearray, Mapping)) or value is None:
        return []
    if getattr(value, "ndim", None) == 0 or not isinstance(value, Iterable):
        return [value]
    try:
        return list(value)
    except _WRONG:
        return []


def flag(name: str, value: Any) -> bool:
    """True or False; 0 and 1 too."""
    if not _is_truth(value):
        try:
            number = operator.index(value)
        except _WRONG:
            number = -1
        if number not in (0, 1) or getattr(value, "ndim", 0) != 0:
            refuse(name, value, "True or False")
    return bool(value)


def choice(name: str, value: Any, allowed: Sequence[str]) -> str:
    """One of these names."""
    if not isinstance(value, str) or value not in allowed:
        raise OptionError(f"{name}: {shown(value)} is not one of {', '.join(map(repr, allowed))}")
    return str(value)


_MODES = ("RGB", "RGBA", "L", "LA", "I;16", "F", "index", "unchanged")


def image_mode(name: str, value: Any) -> Any:
    """A kind of values of images, for all of them or by field."""
    if not isinstance(value, Mapping):
        return choice(name, value, _MODES)
    return {
        text(f"{name}: name of a field", field): choice(f"{name}[{field!r}]", each, _MODES)
        for field, each in value.items()
    }


def text(name: str, value: Any) -> str:
    """A string."""
    if not _is_text(value):
        refuse(name, value, "a string")
    return str(value)


def texts(name: str, value: Any) -> list[str]:
    """A list of strings. A single string is refused: its letters would be treated as names."""
    found = listed(name, value, "a list of strings")
    if not all(_is_text(each) for each in found):
        refuse(name, value, "a list of strings")
    return [str(each) for each in found]


def listed(name: str, value: Any, allowed: str) -> list[Any]:
    """The elements of any iterable, except text and mappings."""
    if isinstance(value, (str, bytes, bytearray, Mapping)) or not isinstance(value, Iterable):
        refuse(name, value, allowed)
    try:
        return list(value)
    except _WRONG:
        refuse(name, value, allowed)


def mapping(name: str, value: Any, allowed: str) -> dict[str, Any]:
    """A dict with string keys; `None` is an empty one."""
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(_is_text(key) for key in value):
        refuse(name, value, allowed)
    return dict(value)


def place(name: str, value: Any, count: int, of: str) -> int:
    """A valid index below `count`; negative ones count backwards from -1."""
    try:
        number = whole(name, value, low=-LARGEST)
    except OptionError:
        refuse(name, value, f"the number of one of {count} {of}s")
    at = number + count if number < 0 else number
    if not 0 <= at < count:
        raise OutOfRangeError(f"{name}: {number} is not a {of} of {count}")
    return at


def part(name: str, value: slice, count: int) -> range:
    """The indices that a slice selects."""
    try:
        return range(*value.indices(count))
    except _WRONG:
        refuse(name, value, "a slice of whole numbers")


def path(name: str, value: Any) -> str:
    """A path, as a string."""
    try:
        found = os.fsdecode(value)
        found.encode()
    except (TypeError, ValueError):
        refuse(name, value, "a path")
    return found


def maybe(check: Callable[[str, Any], Any]) -> Callable[[str, Any], Any]:
    """The same check, with `None` allowed."""

    def checked(name: str, value: Any) -> Any:
        return None if value is None else check(name, value)

    return checked


def _is_text(value: Any) -> bool:
    """Whether it is a string that can be encoded; half a surrogate pair cannot."""
    return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)


def _is_truth(value: Any) -> bool:
    """Whether it is a bool of Python, NumPy or torch."""
    return isinstance(value, bool) or (
        getattr(value, "ndim", None) == 0 and str(getattr(value, "dtype", "")).removeprefix("torch.") == "bool"
    )
