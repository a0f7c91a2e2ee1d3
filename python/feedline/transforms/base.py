"""The base class of transforms, and the conversion of their arguments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from feedline._checks import choice, numbers, real, refuse, whole
from feedline._signatures import Called
from feedline.errors import OptionError

if TYPE_CHECKING:
    from .policy import Compose

__all__ = ["BatchTransform", "Fill", "Interpolation", "Size", "Transform"]

Own = TypeVar("Own", bound="Transform")
Size = int | Sequence[int]
Fill = float | Sequence[float] | None
Interpolation = Literal["bilinear", "bicubic", "nearest", "box", "lanczos"]
Like = Literal["pil", "tensor"]

LARGEST = 2**32 - 1
"""The largest integer that the engine accepts."""


class Named(Called):
    """Errors of wrong arguments begin with the name of the transform."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Creates an instance."""
        try:
            return super().__call__(*args, **kwargs)
        except OptionError as error:
            if type(error) is not OptionError or str(error).startswith(f"{self.__name__}: "):
                raise
            raise OptionError(f"{self.__name__}: {error}") from None


class Transform(metaclass=Named):
    """Base of all transforms.

    >>> from feedline import transforms as T
    >>> (T.RandomHorizontalFlip() | T.CenterCrop(8)).transforms
    (RandomHorizontalFlip(p=0.5), CenterCrop(size=(8, 8)))
    """

    random: ClassVar[bool] = False
    """Whether its parameters are drawn at random, in every epoch."""

    def __new__(cls: type[Own], *args: Any, **kwargs: Any) -> Own:  # noqa: PYI019 - Self came with Python 3.11
        """An argument that is a schedule creates a schedule of transforms."""
        found = next((value for value in (*args, *kwargs.values()) if getattr(type(value), "schedules", False)), None)
        if found is None or cls.__name__ == "Schedule":
            return super().__new__(cls)
        made: Own = found.spread_over(cls, args, kwargs)
        return made

    def to_spec(self) -> dict[str, Any] | None:
        """The transform as plain data; `None` if it changes nothing."""
        spec: dict[str, Any] = {"op": type(self).__name__}
        spec.update({field.name: getattr(self, field.name) for field in fields(self)})  # type: ignore[arg-type]
        return spec

    def __or__(self, other: Transform) -> Compose:
        from .policy import Compose  # noqa: PLC0415 - policies hold transforms

        if not isinstance(other, Transform):
            return NotImplemented
        return Compose([self, other])


class BatchTransform(metaclass=Called):
    """Base of the transforms for `Loader(batch_transforms=...)`.

    Partners are neighbours in the epoch's order, so a rank's `batch_size` must be a multiple of two (of four for
    `Mosaic`). Draws depend only on (seed, epoch, position): not on threads, ranks or where a run was resumed.
    """

    def to_spec(self) -> dict[str, Any]:
        """As plain data."""
        spec: dict[str, Any] = {"op": type(self).__name__}
        spec.update({field.name: getattr(self, field.name) for field in fields(self)})  # type: ignore[arg-type]
        return spec


class Chance(Transform):
    """A transform that is applied with probability `p`."""

    random = True
    p: float

    def __post_init__(self) -> None:
        set_fields(self, p=probability(self.p))


def interpolation_name(
    value: object, known: tuple[str, ...] = ("bilinear", "bicubic", "nearest", "box", "lanczos")
) -> str:
    """Torchvision's InterpolationMode is an enum with the same strings as values."""
    return choice("interpolation", getattr(value, "value", value), known)


def warp_interpolation(value: object) -> str:
    """Interpolations of rotations and other warps."""
    return interpolation_name(value, ("nearest", "bilinear", "bicubic"))


def tensor_interpolation(value: object) -> str:
    """Interpolations of warps that follow torch's rule."""
    return interpolation_name(value, ("nearest", "bilinear"))


def like_name(value: object) -> str:
    """Whose pixels to match: those for PIL images or for tensors."""
    return choice("like", value, ("pil", "tensor"))


def pair(name: str, value: Size) -> tuple[int, int]:
    """A size as in torchvision: one number for a square, or (height, width)."""
    sides = numbers(value)
    if len(sides) not in (1, 2):
        refuse(name, value, "a whole number or (height, width)")
    # 0 is refused by the loader, with the name of the transform.
    return whole(name, sides[0], 0, LARGEST), whole(name, sides[-1], 0, LARGEST)


def two(name: str, value: Any, allowed: str, low: float = -math.inf) -> tuple[float, float]:
    """Two numbers of at least `low`."""
    given = numbers(value)
    if len(given) != 2:  # noqa: PLR2004 - two
        refuse(name, value, allowed)
    return real(name, given[0], low), real(name, given[1], low)


def counts(name: str, value: Any) -> tuple[int, int]:
    """One whole number, or (low, high)."""
    given = [whole(name, count, 0, LARGEST) for count in numbers(value)]
    if len(given) not in (1, 2):
        refuse(name, value, "a whole number or (low, high)")
    return given[0], given[-1]


def low_high(name: str, value: Any, least: float = -math.inf) -> tuple[float, float]:
    """A pair of numbers of at least `least`, the smaller first."""
    low, high = two(name, value, "(low, high)", least)
    if low > high:
        refuse(name, value, "(low, high): the first is larger than the second")
    return low, high


def padding_sides(value: int | Sequence[int]) -> tuple[int, int, int, int]:
    """Padding as in torchvision: one for all sides, (left and right, top and bottom), or left, top, right, bottom."""
    sides = numbers(value)
    full = {1: sides * 4, 2: sides * 2, 4: sides}.get(len(sides))
    if full is None:
        refuse("padding", value, "one, two or four numbers of at least 0")
    left, top, right, bottom = (whole("padding", side, 0, LARGEST) for side in full)
    return left, top, right, bottom


def colour(value: Fill) -> tuple[int, int, int]:
    """A fill as in torchvision: nothing (black), one number, or one per channel."""
    channels = [0] if value is None else numbers(value)
    full = {1: channels * 3, 3: channels}.get(len(channels))
    if full is None:
        refuse("fill", value, "a number or three, each from 0 to 255")
    red, green, blue = (_level(channel) for channel in full)
    return red, green, blue


def _level(value: Any) -> int:
    """Torchvision stores some fills as floats."""
    level = real("fill", value, 0.0, 255.0)
    if not level.is_integer():
        refuse("fill", value, "a whole number between 0 and 255")
    return int(level)


def probability(value: Any) -> float:
    """A probability."""
    return real("p", value, 0.0, 1.0)


def per_channel(name: str, value: float | Sequence[float]) -> tuple[float, float, float]:
    """One number for all channels, or three."""
    channels = numbers(value)
    full = {1: channels * 3, 3: channels}.get(len(channels))
    if full is None:
        refuse(name, value, "one number or three")
    red, green, blue = (real(name, channel) for channel in full)
    return red, green, blue


def only_antialias(antialias: bool) -> None:
    """Raises an error for torchvision lists with `antialias=False`."""
    if antialias is not True and antialias is not None:
        raise OptionError("antialias: only True; feedline always filters when it shrinks, as Pillow does")


def set_fields(transform: Transform, **values: object) -> None:
    """Sets attributes of a frozen dataclass during construction."""
    for name, value in values.items():
        object.__setattr__(transform, name, value)
