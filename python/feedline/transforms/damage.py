"""Blur, noise, compression, holes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from feedline._checks import flag, real, whole

from .base import LARGEST, Fill, Transform, colour, counts, low_high, probability, set_fields
from .bends import spread

__all__ = [
    "JPEG",
    "CoarseDropout",
    "Cutout",
    "Defocus",
    "GaussianNoise",
    "GridMask",
    "MotionBlur",
    "PILGaussianBlur",
    "SaltAndPepper",
]


@dataclass(frozen=True, init=False)
class PILGaussianBlur(Transform):
    """`PIL.ImageFilter.GaussianBlur` with a radius from `radius`, with probability `p`: three box blurs.

    Recipes that were written for PIL images (SimCLR, MoCo, DINO) use this one; `GaussianBlur` is torchvision's.

    >>> PILGaussianBlur((0.1, 2.0), p=0.5).radius
    (0.1, 2.0)
    """

    random = True
    radius: tuple[float, float]
    p: float

    def __init__(self, radius: float | Sequence[float] = (0.1, 2.0), p: float = 1.0) -> None:
        set_fields(self, radius=spread("radius", radius), p=probability(p))


@dataclass(frozen=True, init=False)
class MotionBlur(Transform):
    """Averages along a line of 3 to 7 pixels in a random direction, with probability `p`.

    >>> MotionBlur(9).blur_limit
    (3, 9)
    """

    random = True
    blur_limit: tuple[int, int]
    angle_range: tuple[float, float]
    direction_range: tuple[float, float]
    p: float

    def __init__(
        self,
        blur_limit: int | Sequence[int] = (3, 7),
        angle_range: Sequence[float] = (0.0, 360.0),
        direction_range: Sequence[float] = (-1.0, 1.0),
        p: float = 0.5,
    ) -> None:
        limit = (3, blur_limit) if isinstance(blur_limit, int) else blur_limit
        set_fields(self, blur_limit=counts("blur_limit", limit), angle_range=low_high("angle_range", angle_range))
        set_fields(self, direction_range=low_high("direction_range", direction_range, -1.0), p=probability(p))


@dataclass(frozen=True, init=False)
class Defocus(Transform):
    """Averages over a disc of a random `radius` with a soft edge, as if out of focus, with probability `p`.

    >>> Defocus().radius
    (3, 10)
    """

    random = True
    radius: tuple[int, int]
    alias_blur: tuple[float, float]
    p: float

    def __init__(
        self,
        radius: int | Sequence[int] = (3, 10),
        alias_blur: float | Sequence[float] = (0.1, 0.5),
        p: float = 0.5,
    ) -> None:
        set_fields(self, radius=counts("radius", radius), alias_blur=spread("alias_blur", alias_blur), p=probability(p))


@dataclass(frozen=True, init=False)
class GaussianNoise(Transform):
    """Adds normal noise to every value, in units where white is 1. `sigma` may be a range.

    >>> GaussianNoise(sigma=(0.01, 0.1)).sigma
    (0.01, 0.1)
    """

    random = True
    mean: float
    sigma: tuple[float, float]
    clip: bool
    p: float

    def __init__(
        self, mean: float = 0.0, sigma: float | Sequence[float] = 0.1, clip: bool = True, *, p: float = 1.0
    ) -> None:
        set_fields(self, mean=real("mean", mean), sigma=spread("sigma", sigma))
        set_fields(self, clip=flag("clip", clip), p=probability(p))


@dataclass(frozen=True, init=False)
class SaltAndPepper(Transform):
    """Makes a random share of the pixels white or black, with probability `p`.

    >>> SaltAndPepper().amount
    (0.01, 0.06)
    """

    random = True
    amount: tuple[float, float]
    salt_vs_pepper: tuple[float, float]
    p: float

    def __init__(
        self,
        amount: float | Sequence[float] = (0.01, 0.06),
        salt_vs_pepper: float | Sequence[float] = (0.4, 0.6),
        p: float = 0.5,
    ) -> None:
        set_fields(self, amount=spread("amount", amount), p=probability(p))
        set_fields(self, salt_vs_pepper=spread("salt_vs_pepper", salt_vs_pepper))


@dataclass(frozen=True, init=False)
class JPEG(Transform):
    """Compresses as JPEG with a random quality from 1 to 100 and decompresses again.

    >>> JPEG((5, 50)).quality
    (5, 50)
    """

    random = True
    quality: tuple[int, int]

    def __init__(self, quality: int | Sequence[int]) -> None:
        set_fields(self, quality=counts("quality", quality))


@dataclass(frozen=True, init=False)
class Cutout(Transform):
    """Fills one square of `crop_size` pixels inside the image with `fill`, as FFCV does.

    >>> Cutout(8).crop_size
    8
    """

    random = True
    crop_size: int
    fill: tuple[int, int, int]

    def __init__(self, crop_size: int, fill: Fill = 0) -> None:
        set_fields(self, crop_size=whole("crop_size", crop_size, 0, LARGEST), fill=colour(fill))


@dataclass(frozen=True, init=False)
class CoarseDropout(Transform):
    """Fills several boxes with `fill`, with probability `p`. Sides up to 1 are shares of the image's, else pixels.

    Masks, boxes and keypoints (`targets`) are not changed: an object under a filled box keeps them.

    >>> CoarseDropout((3, 6)).num_holes_range
    (3, 6)
    """

    random = True
    num_holes_range: tuple[int, int]
    hole_height_range: tuple[float, float]
    hole_width_range: tuple[float, float]
    fill: tuple[int, int, int]
    p: float

    def __init__(
        self,
        num_holes_range: int | Sequence[int] = (1, 2),
        hole_height_range: float | Sequence[float] = (0.1, 0.2),
        hole_width_range: float | Sequence[float] = (0.1, 0.2),
        fill: Fill = 0,
        p: float = 0.5,
    ) -> None:
        set_fields(self, num_holes_range=counts("num_holes_range", num_holes_range), fill=colour(fill))
        set_fields(self, hole_height_range=spread("hole_height_range", hole_height_range))
        set_fields(self, hole_width_range=spread("hole_width_range", hole_width_range), p=probability(p))


@dataclass(frozen=True, init=False)
class GridMask(Transform):
    """Fills a grid of squares with `fill`, with probability `p`.

    `d` is the distance between squares as a share of the shorter side (or a range), `ratio` the share that is kept.

    >>> GridMask(0.3).d
    (0.3, 0.3)
    """

    random = True
    d: tuple[float, float]
    ratio: float
    fill: tuple[int, int, int]
    p: float

    def __init__(self, d: float | Sequence[float] = 0.5, ratio: float = 0.6, p: float = 0.5, *, fill: Fill = 0) -> None:
        set_fields(self, d=spread("d", d), ratio=real("ratio", ratio, 0.0, 1.0), fill=colour(fill), p=probability(p))
