"""Sizes that depend on the image or are random, canvases, several crops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from feedline._checks import flag, numbers, real, whole

from .base import (
    LARGEST,
    Fill,
    Interpolation,
    Size,
    Transform,
    colour,
    interpolation_name,
    low_high,
    only_antialias,
    pair,
    probability,
    set_fields,
)

__all__ = [
    "FiveCrop",
    "Letterbox",
    "RandomIoUCrop",
    "RandomResize",
    "RandomShortestSize",
    "RandomTranslate",
    "RandomZoomOut",
    "ScaleJitter",
    "TenCrop",
]


@dataclass(frozen=True, init=False)
class ScaleJitter(Transform):
    """Resizes to the largest size that fits `target_size`, times a random factor; the ratio stays.

    >>> ScaleJitter((224, 224)).scale_range
    (0.1, 2.0)
    """

    random = True
    target_size: tuple[int, int]
    scale_range: tuple[float, float]
    interpolation: str

    def __init__(
        self,
        target_size: Size,
        scale_range: Sequence[float] = (0.1, 2.0),
        interpolation: Interpolation = "bilinear",
        antialias: bool = True,
    ) -> None:
        only_antialias(antialias)
        set_fields(self, target_size=pair("target_size", target_size))
        set_fields(self, scale_range=low_high("scale_range", scale_range, 0.0))
        set_fields(self, interpolation=interpolation_name(interpolation))


@dataclass(frozen=True, init=False)
class RandomShortestSize(Transform):
    """Resizes the shorter side to one of `min_size`; the longer one stays within `max_size`.

    >>> RandomShortestSize([480, 512], max_size=1333).min_size
    (480, 512)
    """

    random = True
    min_size: tuple[int, ...]
    max_size: int | None
    interpolation: str

    def __init__(
        self,
        min_size: int | Sequence[int],
        max_size: int | None = None,
        interpolation: Interpolation = "bilinear",
        antialias: bool = True,
    ) -> None:
        only_antialias(antialias)
        sides = tuple(whole("min_size", side, 1, LARGEST) for side in numbers(min_size))
        set_fields(self, min_size=sides)
        set_fields(self, max_size=None if max_size is None else whole("max_size", max_size, 1, LARGEST))
        set_fields(self, interpolation=interpolation_name(interpolation))


@dataclass(frozen=True, init=False)
class RandomResize(Transform):
    """Resizes the shorter side to a random length from `min_size` up to, but not including, `max_size`.

    >>> RandomResize(128, 256).max_size
    256
    """

    random = True
    min_size: int
    max_size: int
    interpolation: str

    def __init__(
        self, min_size: int, max_size: int, interpolation: Interpolation = "bilinear", antialias: bool = True
    ) -> None:
        only_antialias(antialias)
        set_fields(self, min_size=whole("min_size", min_size, 1, LARGEST))
        set_fields(self, max_size=whole("max_size", max_size, 1, LARGEST))
        set_fields(self, interpolation=interpolation_name(interpolation))


@dataclass(frozen=True, init=False)
class Letterbox(Transform):
    """Fits the whole image into `size`, centred, with bars of `fill` if its ratio differs.

    >>> Letterbox(640).fill
    (114, 114, 114)
    """

    size: tuple[int, int]
    fill: tuple[int, int, int]
    interpolation: str
    enlarge: bool

    def __init__(
        self, size: Size, fill: Fill = 114, *, interpolation: Interpolation = "bilinear", enlarge: bool = True
    ) -> None:
        set_fields(self, size=pair("size", size), fill=colour(fill))
        set_fields(self, interpolation=interpolation_name(interpolation), enlarge=flag("enlarge", enlarge))


@dataclass(frozen=True, init=False)
class RandomZoomOut(Transform):
    """Puts the image on a canvas of one to four times its size, at a random place, with probability `p`.

    >>> RandomZoomOut(fill=127).side_range
    (1.0, 4.0)
    """

    random = True
    fill: tuple[int, int, int]
    side_range: tuple[float, float]
    p: float

    def __init__(self, fill: Fill = 0, side_range: Sequence[float] = (1.0, 4.0), p: float = 0.5) -> None:
        set_fields(self, fill=colour(fill), side_range=low_high("side_range", side_range, 1.0), p=probability(p))


@dataclass(frozen=True, init=False)
class RandomIoUCrop(Transform):
    """Crops so that one box overlaps the crop by a random share of `sampler_options`, as SSD was trained.

    Boxes whose centre is outside the crop are dropped. It needs the sample's boxes: a target `T.Boxes` in a loader,
    `boxes=` in `T.apply`.

    >>> RandomIoUCrop(trials=20).sampler_options
    (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)
    """

    random = True
    min_scale: float
    max_scale: float
    min_aspect_ratio: float
    max_aspect_ratio: float
    sampler_options: tuple[float, ...]
    trials: int

    def __init__(
        self,
        min_scale: float = 0.3,
        max_scale: float = 1.0,
        min_aspect_ratio: float = 0.5,
        max_aspect_ratio: float = 2.0,
        sampler_options: Sequence[float] | None = None,
        trials: int = 40,
    ) -> None:
        scale = low_high("min_scale and max_scale", (min_scale, max_scale), 0.0)
        ratio = low_high("min_aspect_ratio and max_aspect_ratio", (min_aspect_ratio, max_aspect_ratio), 0.0)
        options = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0) if sampler_options is None else numbers(sampler_options)
        set_fields(self, min_scale=scale[0], max_scale=scale[1])
        set_fields(self, min_aspect_ratio=ratio[0], max_aspect_ratio=ratio[1])
        set_fields(self, sampler_options=tuple(real("sampler_options", option, 0.0) for option in options))
        set_fields(self, trials=whole("trials", trials, 1, 10_000))


@dataclass(frozen=True, init=False)
class RandomTranslate(Transform):
    """Moves the image by up to `padding` pixels each way, as FFCV does.

    >>> RandomTranslate(4).padding
    4
    """

    random = True
    padding: int
    fill: tuple[int, int, int]

    def __init__(self, padding: int, fill: Fill = 0) -> None:
        set_fields(self, padding=whole("padding", padding, 0, LARGEST), fill=colour(fill))


@dataclass(frozen=True, init=False)
class FiveCrop(Transform):
    """Crops the four corners and the centre. Results have one more dimension: `[B, 5, 3, height, width]`.

    Later transforms are applied to all crops alike.

    >>> FiveCrop(224)
    FiveCrop(size=(224, 224))
    """

    size: tuple[int, int]

    def __init__(self, size: Size) -> None:
        set_fields(self, size=pair("size", size))


@dataclass(frozen=True, init=False)
class TenCrop(Transform):
    """`FiveCrop` of the image and of the mirrored image: `[B, 10, 3, height, width]`.

    >>> TenCrop(224).vertical_flip
    False
    """

    size: tuple[int, int]
    vertical_flip: bool

    def __init__(self, size: Size, vertical_flip: bool = False) -> None:
        set_fields(self, size=pair("size", size), vertical_flip=flag("vertical_flip", vertical_flip))
