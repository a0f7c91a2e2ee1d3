"""Moved pixels: elastic fields, lenses, rotations and zooms in units of the image, patches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from feedline._checks import choice, listed, numbers, real, refuse, whole

from .base import (
    LARGEST,
    Fill,
    Transform,
    colour,
    low_high,
    probability,
    set_fields,
    tensor_interpolation,
    two,
)

__all__ = [
    "ElasticTransform",
    "OpticalDistortion",
    "RandomPatchShuffle",
    "RandomRotate",
    "RandomRotateObject",
    "RandomZoom",
]

PadMode = Literal["zeros", "border", "reflection"]


def _pad_mode(value: Any) -> str:
    return choice("pad_mode", value, ("zeros", "border", "reflection"))


def _both(name: str, value: float | Sequence[float]) -> tuple[float, float]:
    given = numbers(value)
    if len(given) not in (1, 2):
        refuse(name, value, "a number or two")
    return real(name, given[0], 0.0), real(name, given[-1], 0.0)


def spread(name: str, value: float | Sequence[float], least: float = 0.0) -> tuple[float, float]:
    """A range (low, high), or one number for a range of only that."""
    given = numbers(value)
    return (real(name, given[0], least),) * 2 if len(given) == 1 else low_high(name, value, least)


@dataclass(frozen=True, init=False)
class ElasticTransform(Transform):
    """Displaces pixels by a smooth random field. Pixels are blended as in torchvision's version for tensors.

    >>> ElasticTransform().alpha
    (50.0, 50.0)
    """

    random = True
    alpha: tuple[float, float]
    sigma: tuple[float, float]
    interpolation: str
    fill: tuple[int, int, int]

    def __init__(
        self,
        alpha: float | Sequence[float] = 50.0,
        sigma: float | Sequence[float] = 5.0,
        interpolation: Literal["nearest", "bilinear"] = "bilinear",
        fill: Fill = 0,
    ) -> None:
        set_fields(self, alpha=_both("alpha", alpha), sigma=_both("sigma", sigma))
        set_fields(self, interpolation=tensor_interpolation(interpolation), fill=colour(fill))


@dataclass(frozen=True, init=False)
class OpticalDistortion(Transform):
    """Lens distortion: `r (1 + k r² + k r⁴)` from the centre, with `k` from `distortion`, and probability `p`.

    `r` is in sides of the image, as in OpenCV; `shift` moves the centre of the lens by (x, y) pixels.

    >>> OpticalDistortion(-0.5).distortion
    (-0.5, -0.5)
    """

    random = True
    distortion: tuple[float, float]
    shift: tuple[float, float]
    pad_mode: str
    p: float

    def __init__(
        self,
        distortion: float | Sequence[float] = (-0.5, 0.5),
        shift: Sequence[float] = (0.0, 0.0),
        pad_mode: PadMode = "zeros",
        p: float = 1.0,
    ) -> None:
        set_fields(self, distortion=spread("distortion", distortion, -10.0), shift=two("shift", shift, "(x, y)"))
        set_fields(self, pad_mode=_pad_mode(pad_mode), p=probability(p))


@dataclass(frozen=True, init=False)
class RandomRotate(Transform):
    """Rotates counter-clockwise by up to ± `max_deg`, or by one of `angles`, with probability `p`.

    `center` is the centre of the rotation, as shares of width and height.

    >>> RandomRotate(angles=[0, 90, 180, 270]).angles
    (0.0, 90.0, 180.0, 270.0)
    """

    random = True
    p: float
    max_deg: float
    center: tuple[float, float]
    angles: tuple[float, ...] | None
    pad_mode: str

    def __init__(
        self,
        p: float = 0.5,
        max_deg: float = 45.0,
        center: Sequence[float] = (0.5, 0.5),
        angles: Sequence[float] | None = None,
        pad_mode: PadMode = "zeros",
    ) -> None:
        given = None if angles is None else tuple(real("angles", angle) for angle in listed("angles", angles, "angles"))
        set_fields(self, p=probability(p), max_deg=real("max_deg", max_deg, 0.0), angles=given)
        set_fields(self, center=two("center", center, "(x, y)"), pad_mode=_pad_mode(pad_mode))


@dataclass(frozen=True, init=False)
class RandomZoom(Transform):
    """Enlarges the image or, with factors below 1, shrinks it, about `center`, with probability `p`.

    >>> RandomZoom().zoom
    (0.5, 1.0)
    """

    random = True
    p: float
    zoom: tuple[float, float]
    center: tuple[float, float]
    pad_mode: str

    def __init__(
        self,
        p: float = 0.5,
        zoom: Sequence[float] = (0.5, 1.0),
        center: Sequence[float] = (0.5, 0.5),
        pad_mode: PadMode = "zeros",
    ) -> None:
        set_fields(self, p=probability(p), zoom=low_high("zoom", zoom, 0.0))
        set_fields(self, center=two("center", center, "(x, y)"), pad_mode=_pad_mode(pad_mode))


@dataclass(frozen=True, init=False)
class RandomRotateObject(Transform):
    """Rotates and zooms about an object's `center` and moves it to a random place, with probability `p`.

    >>> RandomRotateObject(center=(0.3, 0.5)).dest_x
    (0.25, 0.75)
    """

    random = True
    p: float
    max_deg: float
    center: tuple[float, float]
    scale: tuple[float, float]
    dest_x: tuple[float, float]
    dest_y: tuple[float, float]
    pad_mode: str

    def __init__(
        self,
        p: float = 0.5,
        max_deg: float = 45.0,
        center: Sequence[float] = (0.5, 0.5),
        scale: Sequence[float] = (1.0, 2.0),
        dest_x: Sequence[float] = (0.25, 0.75),
        dest_y: Sequence[float] = (0.25, 0.75),
        pad_mode: PadMode = "border",
    ) -> None:
        set_fields(self, p=probability(p), max_deg=real("max_deg", max_deg, 0.0))
        set_fields(self, center=two("center", center, "(x, y)"), scale=low_high("scale", scale, 0.0))
        set_fields(self, dest_x=low_high("dest_x", dest_x), dest_y=low_high("dest_y", dest_y))
        set_fields(self, pad_mode=_pad_mode(pad_mode))


@dataclass(frozen=True, init=False)
class RandomPatchShuffle(Transform):
    """Cuts the image into squares of one of `sizes` pixels and puts them in random order, with probability `p`.

    >>> RandomPatchShuffle([16, 32]).sizes
    (16, 32)
    """

    random = True
    sizes: tuple[int, ...]
    p: float

    def __init__(self, sizes: int | Sequence[int], p: float = 0.5) -> None:
        set_fields(self, sizes=tuple(whole("sizes", side, 1, LARGEST) for side in numbers(sizes)), p=probability(p))
