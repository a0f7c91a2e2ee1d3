"""What can happen to an image between the store and the batch. Names and parameters follow torchvision v2.

A transform is a value: it prints, compares and pickles, and does nothing by itself. The loader reads the list once,
decodes only what the crop needs and fuses the rest into one pass.

>>> from feedline import transforms as T
>>> T.CenterCrop(224)
CenterCrop(size=(224, 224))
>>> T.Normalize.imagenet() == T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
True
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from .errors import OptionError

__all__ = [
    "BucketResize",
    "CenterCrop",
    "Normalize",
    "Pad",
    "Python",
    "RandomCrop",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "RandomVerticalFlip",
    "Resize",
    "ResizedCenterCrop",
    "ToTensor",
    "Transform",
]

Size = int | Sequence[int]
Interpolation = Literal["bilinear", "bicubic", "nearest"]


class Transform:
    """The base of all transforms."""

    def to_spec(self) -> dict[str, Any] | None:
        """The transform as plain data; `None` if it changes nothing."""
        spec: dict[str, Any] = {"op": type(self).__name__}
        spec.update({field.name: getattr(self, field.name) for field in fields(self)})  # type: ignore[arg-type]
        return spec


def _interpolation(value: object) -> str:
    # torchvision's InterpolationMode is an enum with these very strings as values.
    name = getattr(value, "value", value)
    if name not in ("bilinear", "bicubic", "nearest"):
        raise OptionError(f"interpolation: {value!r} is none of 'bilinear', 'bicubic', 'nearest'")
    return str(name)


def _pair(name: str, value: Size) -> tuple[int, int]:
    """Torchvision's sizes: one number for a square, or (height, width)."""
    if isinstance(value, numbers.Integral):
        return int(value), int(value)
    if isinstance(value, Sequence) and len(value) == 1:
        return int(value[0]), int(value[0])
    if isinstance(value, Sequence) and len(value) == 2:  # noqa: PLR2004 - height and width
        return int(value[0]), int(value[1])
    raise OptionError(f"{name}: {value!r} is neither a number nor (height, width)")


def _range(name: str, value: Sequence[float]) -> tuple[float, float]:
    if len(value) != 2:  # noqa: PLR2004 - low and high
        raise OptionError(f"{name}: {value!r} is not (low, high)")
    return float(value[0]), float(value[1])


def _padding(value: int | Sequence[int]) -> tuple[int, int, int, int]:
    """Torchvision's paddings: one for all sides, (left and right, top and bottom), or left, top, right, bottom."""
    sides = [int(value)] if isinstance(value, numbers.Integral) else [int(side) for side in value]  # type: ignore[union-attr]
    whole = {1: sides * 4, 2: sides * 2, 4: sides}.get(len(sides))
    if whole is None or min(whole) < 0:
        raise OptionError(f"padding: {value!r} is not one, two or four numbers of at least 0")
    return whole[0], whole[1], whole[2], whole[3]


def _fill(value: int | Sequence[int]) -> tuple[int, int, int]:
    channels = [int(value)] * 3 if isinstance(value, numbers.Integral) else [int(v) for v in value]  # type: ignore[union-attr]
    if len(channels) != 3 or not all(0 <= c <= 255 for c in channels):  # noqa: PLR2004 - bytes of red, green, blue
        raise OptionError(f"fill: {value!r} is neither a number nor three, each from 0 to 255")
    return channels[0], channels[1], channels[2]


@dataclass(frozen=True, init=False)
class RandomResizedCrop(Transform):
    """A box of random area and aspect ratio, resized to `size`.

    `method="torchvision"` draws as torchvision does (ten tries, then the middle); `"direct"` draws the ratio first and
    then only areas that fit, so that no try is wasted. Only the box is decoded.

    >>> RandomResizedCrop(224, scale=(0.2, 1.0)).scale
    (0.2, 1.0)
    """

    size: tuple[int, int]
    scale: tuple[float, float]
    ratio: tuple[float, float]
    method: str
    interpolation: str

    def __init__(
        self,
        size: Size,
        scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (3.0 / 4.0, 4.0 / 3.0),
        *,
        method: Literal["torchvision", "direct"] = "torchvision",
        interpolation: Interpolation = "bilinear",
        antialias: bool = True,
    ) -> None:
        _only_antialias(antialias)
        if method not in ("torchvision", "direct"):
            raise OptionError(f"method: {method!r} is neither 'torchvision' nor 'direct'")
        _set(self, size=_pair("size", size), scale=_range("scale", scale), ratio=_range("ratio", ratio))
        _set(self, method=method, interpolation=_interpolation(interpolation))


@dataclass(frozen=True, init=False)
class Resize(Transform):
    """To `size`: one number for the shorter side (the ratio stays), or (height, width).

    >>> Resize(256)
    Resize(size=None, shorter=256, max_size=None, interpolation='bilinear')
    """

    size: tuple[int, int] | None
    shorter: int | None
    max_size: int | None
    interpolation: str

    def __init__(
        self,
        size: Size,
        *,
        max_size: int | None = None,
        interpolation: Interpolation = "bilinear",
        antialias: bool = True,
    ) -> None:
        _only_antialias(antialias)
        single = isinstance(size, numbers.Integral) or (isinstance(size, Sequence) and len(size) == 1)
        if max_size is not None and not single:
            raise OptionError("max_size: goes with a single number for size")
        pair = _pair("size", size)
        _set(self, size=None if single else pair, shorter=pair[0] if single else None)
        _set(self, max_size=max_size, interpolation=_interpolation(interpolation))


@dataclass(frozen=True, init=False)
class CenterCrop(Transform):
    """The middle; an image that is smaller is padded with black.

    >>> CenterCrop(224)
    CenterCrop(size=(224, 224))
    """

    size: tuple[int, int]

    def __init__(self, size: Size) -> None:
        _set(self, size=_pair("size", size))


@dataclass(frozen=True, init=False)
class ResizedCenterCrop(Transform):
    """A square in the middle, `ratio` times the shorter side, resized to `size`: FFCV's validation crop.

    >>> ResizedCenterCrop(224, ratio=224 / 256).ratio
    0.875
    """

    size: tuple[int, int]
    ratio: float
    interpolation: str

    def __init__(self, size: Size, ratio: float = 224 / 256, *, interpolation: Interpolation = "bilinear") -> None:
        _set(self, size=_pair("size", size), ratio=float(ratio), interpolation=_interpolation(interpolation))


@dataclass(frozen=True, init=False)
class BucketResize(Transform):
    """The middle of the image at the nearest of several aspect ratios, resized to that ratio's (height, width).

    With `sampler=fl.samplers.Buckets(sizes)` of the same sizes, every batch has one size.

    >>> BucketResize([(192, 256), (256, 192)]).sizes
    ((192, 256), (256, 192))
    """

    sizes: tuple[tuple[int, int], ...]
    interpolation: str

    def __init__(self, sizes: Sequence[Sequence[int]], *, interpolation: Interpolation = "bilinear") -> None:
        pairs = tuple((int(height), int(width)) for height, width in sizes)
        _set(self, sizes=pairs, interpolation=_interpolation(interpolation))


@dataclass(frozen=True, init=False)
class RandomCrop(Transform):
    """A box of fixed size at a random place.

    >>> RandomCrop(32, padding=4).padding
    (4, 4, 4, 4)
    """

    size: tuple[int, int]
    padding: tuple[int, int, int, int]
    pad_if_needed: bool
    fill: tuple[int, int, int]

    def __init__(
        self,
        size: Size,
        padding: int | Sequence[int] | None = None,
        *,
        pad_if_needed: bool = False,
        fill: int | Sequence[int] = 0,
    ) -> None:
        _set(self, size=_pair("size", size), padding=_padding(padding or 0))
        _set(self, pad_if_needed=bool(pad_if_needed), fill=_fill(fill))


@dataclass(frozen=True, init=False)
class Pad(Transform):
    """Adds pixels around the image.

    >>> Pad((1, 2), fill=255)
    Pad(padding=(1, 2, 1, 2), fill=(255, 255, 255))
    """

    padding: tuple[int, int, int, int]
    fill: tuple[int, int, int]

    def __init__(self, padding: int | Sequence[int], fill: int | Sequence[int] = 0) -> None:
        _set(self, padding=_padding(padding), fill=_fill(fill))


@dataclass(frozen=True)
class RandomHorizontalFlip(Transform):
    """Mirrors left and right with probability `p`.

    >>> RandomHorizontalFlip()
    RandomHorizontalFlip(p=0.5)
    """

    p: float = 0.5


@dataclass(frozen=True)
class RandomVerticalFlip(Transform):
    """Mirrors top and bottom with probability `p`.

    >>> RandomVerticalFlip(0.1)
    RandomVerticalFlip(p=0.1)
    """

    p: float = 0.5


@dataclass(frozen=True, init=False)
class Normalize(Transform):
    """`(x - mean) / std` per channel, with `x` from 0 to 1. Comes last.

    >>> Normalize(0.5, 0.5)
    Normalize(mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))
    """

    mean: tuple[float, float, float]
    std: tuple[float, float, float]

    def __init__(self, mean: float | Sequence[float], std: float | Sequence[float]) -> None:
        _set(self, mean=_channels("mean", mean), std=_channels("std", std))

    @classmethod
    def imagenet(cls) -> Normalize:
        """ImageNet's mean and standard deviation."""
        return cls([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])


@dataclass(frozen=True)
class ToTensor(Transform):
    """What torchvision lists need between PIL images and floats. Here results are tensors anyway: changes nothing.

    >>> ToTensor().to_spec() is None
    True
    """

    def to_spec(self) -> None:
        """Nothing to do."""
        return


@dataclass(frozen=True)
class Python(Transform):
    """A function of your own, in worker processes (threads on a free-threaded Python). Comes last.

    It gets one image as the transforms before it leave it, a NumPy array, and gives an array. If it has a parameter
    `rng`, it gets a `numpy.random.Generator` drawn from (seed, epoch, sample, view): use no other randomness, and the
    results do not depend on workers, ranks or restarts. Much slower than the engine's own transforms.

    >>> import numpy as np
    >>> Python(np.flipud).function.__name__
    'flipud'
    """

    function: Callable[..., Any]

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise OptionError(f"T.Python: {self.function!r} cannot be called")

    def to_spec(self) -> dict[str, Any]:
        """Not for the engine."""
        raise OptionError("transforms: T.Python must come last, and for an image field")


def _channels(name: str, value: float | Sequence[float]) -> tuple[float, float, float]:
    channels = [float(value)] * 3 if isinstance(value, numbers.Real) else [float(v) for v in value]  # type: ignore[union-attr]
    if len(channels) == 1:
        channels *= 3
    if len(channels) != 3:  # noqa: PLR2004 - red, green, blue
        raise OptionError(f"{name}: {value!r} is neither one number nor three")
    return channels[0], channels[1], channels[2]


def _only_antialias(antialias: bool) -> None:
    if antialias is not True and antialias is not None:
        raise OptionError("antialias: only True; feedline always filters when it shrinks, as Pillow does")


def _set(transform: Transform, **values: object) -> None:
    """Sets attributes of a frozen dataclass while it is being made."""
    for name, value in values.items():
        object.__setattr__(transform, name, value)
