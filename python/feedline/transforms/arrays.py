"""Windows of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from feedline._checks import choice, refuse, whole

from .base import Transform, set_fields

__all__ = ["ArrayWindow"]

LONGEST = 2**40
"""The most elements of one side."""

MOST = 8
"""The most dimensions."""

_POLICIES = ("random", "center", "start", "grid")


@dataclass(frozen=True, init=False)
class ArrayWindow(Transform):
    """Cuts a window out of an n-d array, such as a crop of a volume: in the list of an array field.

    `size` has a number for each dimension, or `None` for the whole dimension. `policy` is where the window lies:
    `"random"` (drawn for every sample and epoch), `"center"`, `"start"`, or `"grid"`: all windows, `stride` apart
    (`size` by default), the last ones of each dimension at its end, as `[n, *size]`. Batches are dense if every size is
    a number and there is one window, and `fl.Ragged` otherwise. A smaller array is filled up with zeros behind its own
    elements (`pad="zeros"`), or is a bad sample (`"error"`).

    >>> ArrayWindow((64, 64, 32))
    ArrayWindow(size=(64, 64, 32), policy='random', stride=None, pad='zeros')
    """

    size: tuple[int | None, ...]
    policy: str
    stride: tuple[int, ...] | None
    pad: str

    def __init__(
        self,
        size: int | Sequence[int | None],
        policy: Literal["random", "center", "start", "grid"] = "random",
        stride: int | Sequence[int] | None = None,
        pad: Literal["zeros", "error"] = "zeros",
    ) -> None:
        sides = _sides("size", size)
        whole_sides = tuple(None if side is None else whole("size", side, 1, LONGEST) for side in sides)
        set_fields(self, size=whole_sides, policy=choice("policy", policy, _POLICIES))
        steps = None if stride is None else tuple(whole("stride", n, 1, LONGEST) for n in _sides("stride", stride))
        if steps is not None and (self.policy != "grid" or len(steps) != len(sides)):
            refuse("stride", stride, "one number for each dimension, and only with policy='grid'")
        set_fields(self, stride=steps, pad=choice("pad", pad, ("zeros", "error")))
        set_fields(self, random=self.policy == "random")


def _sides(name: str, value: object) -> tuple[int | None, ...]:
    sides = (value,) if isinstance(value, int) else value
    if not isinstance(sides, Sequence) or isinstance(sides, str) or not 1 <= len(sides) <= MOST:
        refuse(name, value, "a number for each of 1 to 8 dimensions")
    return tuple(sides)
