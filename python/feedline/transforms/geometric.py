"""Geometry: crops, resizes, flips, padding, rotations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from feedline._checks import choice, flag, numbers, real, refuse, whole
from feedline.errors import ArgumentError, OptionError
from feedline.samplers.own import pairs_of_sizes

from .base import (
    LARGEST,
    Chance,
    Fill,
    Interpolation,
    Like,
    Size,
    Transform,
    colour,
    interpolation_name,
    like_name,
    low_high,
    only_antialias,
    padding_sides,
    pair,
    probability,
    set_fields,
    two,
    warp_interpolation,
)

__all__ = [
    "BucketResize",
    "CenterCrop",
    "Pad",
    "RandomAffine",
    "RandomCrop",
    "RandomHorizontalFlip",
    "RandomPerspective",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomVerticalFlip",
    "Resize",
    "ResizedCenterCrop",
]

PaddingMode = Literal["constant", "edge", "reflect", "symmetric"]
WarpInterpolation = Literal["nearest", "bilinear", "bicubic"]


def _mode(value: str) -> str:
    return choice("padding_mode", value, ("constant", "edge", "reflect", "symmetric"))


@dataclass(frozen=True, init=False)
class RandomResizedCrop(Transform):
    """Crops a box of random area and aspect ratio and resizes it to `size`.

    `method="torchvision"` draws as torchvision does (ten tries, then the centre); `"direct"` draws the ratio first and
    then only areas that fit, so that no try is wasted. Only the box is decoded.

    >>> RandomResizedCrop(224, scale=(0.2, 1.0)).scale
    (0.2, 1.0)
    """

    random = True
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
        interpolation: Interpolation = "bilinear",
        antialias: bool = True,
        *,
        method: Literal["torchvision", "direct"] = "torchvision",
    ) -> None:
        only_antialias(antialias)
        set_fields(self, size=pair("size", size), scale=low_high("scale", scale, 0.0))
        set_fields(
            self, ratio=low_high("ratio", ratio, 0.0), method=choice("method", method, ("torchvision", "direct"))
        )
        set_fields(self, interpolation=interpolation_name(interpolation))


@dataclass(frozen=True, init=False)
class Resize(Transform):
    """Resizes to `size`: one number for the shorter side (the ratio stays), or (height, width).

    With a number, `max_size` limits the longer side. `Resize(max_size=n)` makes the longer side n; `Resize(scale=s)`
    multiplies both.

    >>> Resize(256)
    Resize(size=None, shorter=256, max_size=None, interpolation='bilinear', scale=None)
    """

    size: tuple[int, int] | None
    shorter: int | None
    max_size: int | None
    interpolation: str
    scale: float | None

    def __init__(
        self,
        size: Size | None = None,
        interpolation: Interpolation = "bilinear",
        max_size: int | None = None,
        antialias: bool = True,
        *,
        scale: float | None = None,
    ) -> None:
        only_antialias(antialias)
        if size is None and max_size is None and scale is None:
            raise ArgumentError("Resize: missing a required argument: 'size' (or max_size= or scale=)")
        if size is not None and scale is not None:
            raise OptionError("scale: give a size or scale=, not both")
        single = size is not None and len(numbers(size)) == 1
        if max_size is not None and size is not None and not single:
            raise OptionError("max_size: goes with a single number for size")
        sides = (0, 0) if size is None else pair("size", size)
        set_fields(self, size=None if single or size is None else sides, shorter=sides[0] if single else None)
        set_fields(self, max_size=None if max_size is None else whole("max_size", max_size, 1, LARGEST))
        set_fields(self, scale=None if scale is None else real("scale", scale, 0.0))
        set_fields(self, interpolation=interpolation_name(interpolation))


@dataclass(frozen=True, init=False)
class CenterCrop(Transform):
    """Crops the centre; an image that is smaller is padded with black.

    >>> CenterCrop(224)
    CenterCrop(size=(224, 224))
    """

    size: tuple[int, int]

    def __init__(self, size: Size) -> None:
        set_fields(self, size=pair("size", size))


@dataclass(frozen=True, init=False)
class ResizedCenterCrop(Transform):
    """Crops a square in the centre, `ratio` times the shorter side, and resizes it to `size`: FFCV's validation crop.

    >>> ResizedCenterCrop(224, ratio=224 / 256).ratio
    0.875
    """

    size: tuple[int, int]
    ratio: float
    interpolation: str

    def __init__(self, size: Size, ratio: float = 224 / 256, *, interpolation: Interpolation = "bilinear") -> None:
        set_fields(self, size=pair("size", size), ratio=real("ratio", ratio, 0.0))
        set_fields(self, interpolation=interpolation_name(interpolation))


@dataclass(frozen=True, init=False)
class BucketResize(Transform):
    """Crops the centre to the nearest of several aspect ratios and resizes it to that ratio's (height, width).

    With `sampler=fl.samplers.Buckets(sizes)` of the same sizes, every batch has one size.

    >>> BucketResize([(192, 256), (256, 192)]).sizes
    ((192, 256), (256, 192))
    """

    sizes: tuple[tuple[int, int], ...]
    interpolation: str

    def __init__(self, sizes: Sequence[Sequence[int]], *, interpolation: Interpolation = "bilinear") -> None:
        set_fields(self, sizes=pairs_of_sizes(sizes), interpolation=interpolation_name(interpolation))


@dataclass(frozen=True, init=False)
class RandomCrop(Transform):
    """Crops a box of fixed size at a random place.

    >>> RandomCrop(32, padding=4).padding
    (4, 4, 4, 4)
    """

    random = True
    size: tuple[int, int]
    padding: tuple[int, int, int, int]
    pad_if_needed: bool
    fill: tuple[int, int, int]
    padding_mode: str

    def __init__(
        self,
        size: Size,
        padding: int | Sequence[int] | None = None,
        pad_if_needed: bool = False,
        fill: Fill = 0,
        padding_mode: PaddingMode = "constant",
    ) -> None:
        set_fields(self, size=pair("size", size), padding=padding_sides(0 if padding is None else padding))
        set_fields(self, pad_if_needed=flag("pad_if_needed", pad_if_needed), fill=colour(fill))
        set_fields(self, padding_mode=_mode(padding_mode))


@dataclass(frozen=True, init=False)
class Pad(Transform):
    """Adds pixels around the image.

    >>> Pad((1, 2), fill=255)
    Pad(padding=(1, 2, 1, 2), fill=(255, 255, 255), padding_mode='constant')
    """

    padding: tuple[int, int, int, int]
    fill: tuple[int, int, int]
    padding_mode: str

    def __init__(self, padding: int | Sequence[int], fill: Fill = 0, padding_mode: PaddingMode = "constant") -> None:
        set_fields(self, padding=padding_sides(padding), fill=colour(fill), padding_mode=_mode(padding_mode))


@dataclass(frozen=True)
class RandomHorizontalFlip(Chance):
    """Mirrors left and right with probability `p`.

    >>> RandomHorizontalFlip()
    RandomHorizontalFlip(p=0.5)
    """

    p: float = 0.5


@dataclass(frozen=True)
class RandomVerticalFlip(Chance):
    """Mirrors top and bottom with probability `p`.

    >>> RandomVerticalFlip(0.1)
    RandomVerticalFlip(p=0.1)
    """

    p: float = 0.5


@dataclass(frozen=True, init=False)
class RandomRotation(Transform):
    """Rotates by a random angle between `degrees[0]` and `degrees[1]`, counter-clockwise; one number is ± that.

    `expand=True` makes the result large enough for the whole image; batches then contain images of different sizes.

    >>> RandomRotation(30).degrees
    (-30.0, 30.0)
    """

    random = True
    degrees: tuple[float, float]
    interpolation: str
    expand: bool
    center: tuple[float, float] | None
    fill: tuple[int, int, int]
    like: str

    def __init__(
        self,
        degrees: float | Sequence[float],
        interpolation: WarpInterpolation = "nearest",
        expand: bool = False,
        center: Sequence[float] | None = None,
        fill: Fill = 0,
        *,
        like: Like = "pil",
    ) -> None:
        set_fields(self, like=like_name(like))
        set_fields(self, degrees=_angles("degrees", degrees), interpolation=warp_interpolation(interpolation))
        set_fields(self, expand=flag("expand", expand), center=_center(center), fill=colour(fill))


@dataclass(frozen=True, init=False)
class RandomAffine(Transform):
    """Rotates (clockwise), moves, scales and shears about the centre, or about `center`.

    `translate` is the largest share of width and height to move by, `scale` a range of factors, `shear` degrees: one
    number for ± that along x, two for a range along x, four for ranges along x and y.

    >>> RandomAffine(10, shear=5).shear
    (-5.0, 5.0, 0.0, 0.0)
    """

    random = True
    degrees: tuple[float, float]
    translate: tuple[float, float] | None
    scale: tuple[float, float] | None
    shear: tuple[float, float, float, float] | None
    interpolation: str
    fill: tuple[int, int, int]
    center: tuple[float, float] | None
    like: str

    def __init__(
        self,
        degrees: float | Sequence[float],
        translate: Sequence[float] | None = None,
        scale: Sequence[float] | None = None,
        shear: float | Sequence[float] | None = None,
        interpolation: WarpInterpolation = "nearest",
        fill: Fill = 0,
        center: Sequence[float] | None = None,
        *,
        like: Like = "pil",
    ) -> None:
        set_fields(self, like=like_name(like))
        moved = None if translate is None else two("translate", translate, "two shares, along x and y", 0.0)
        scaled = None if scale is None else low_high("scale", scale, 0.0)
        set_fields(self, degrees=_angles("degrees", degrees), translate=moved, scale=scaled, shear=_shear(shear))
        set_fields(self, interpolation=warp_interpolation(interpolation), fill=colour(fill), center=_center(center))


@dataclass(frozen=True, init=False)
class RandomPerspective(Transform):
    """Applies a random perspective, with probability `p`.

    Corners move by up to `distortion_scale` of half a side.

    >>> RandomPerspective(0.3).distortion_scale
    0.3
    """

    random = True
    distortion_scale: float
    p: float
    interpolation: str
    fill: tuple[int, int, int]
    like: str

    def __init__(
        self,
        distortion_scale: float = 0.5,
        p: float = 0.5,
        interpolation: WarpInterpolation = "bilinear",
        fill: Fill = 0,
        *,
        like: Like = "pil",
    ) -> None:
        set_fields(self, like=like_name(like))
        set_fields(self, distortion_scale=real("distortion_scale", distortion_scale, 0.0), p=probability(p))
        set_fields(self, interpolation=warp_interpolation(interpolation), fill=colour(fill))


def _angles(name: str, value: float | Sequence[float]) -> tuple[float, float]:
    given = numbers(value)
    if len(given) == 1:
        angle = real(name, given[0], 0.0)
        return -angle, angle
    return low_high(name, value)


def _shear(value: float | Sequence[float] | None) -> tuple[float, float, float, float] | None:
    if value is None:
        return None
    given = numbers(value)
    if len(given) not in (1, 2, 4):
        refuse("shear", value, "one, two or four numbers")
    along_x, along_y = (value, (0.0, 0.0)) if len(given) <= 2 else (given[:2], given[2:])  # noqa: PLR2004 - low and high
    return (*_angles("shear", along_x), *low_high("shear", along_y))


def _center(value: Sequence[float] | None) -> tuple[float, float] | None:
    return None if value is None else two("center", value, "(column, row)")
