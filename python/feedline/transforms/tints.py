"""Single changes of colour, and those of other libraries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from feedline._checks import numbers, whole

from .base import Transform, counts, low_high, probability, set_fields
from .bends import spread
from .colour import Amount, amount

__all__ = [
    "CLAHE",
    "ChannelDropout",
    "RGBShift",
    "RandomBrightness",
    "RandomColorJitterHSV",
    "RandomColorJitterYIQ",
    "RandomContrast",
    "RandomGamma",
    "RandomHue",
    "RandomSaturation",
]


def _range(name: str, value: Amount, middle: float, least: float) -> tuple[float, float]:
    return amount(name, value, middle, least) or (middle, middle)


class _Factor(Transform):
    random = True
    magnitude: tuple[float, float]
    p: float

    def _set(self, magnitude: Amount, p: float) -> None:
        set_fields(self, magnitude=_range("magnitude", magnitude, 1.0, 0.0), p=probability(p))


@dataclass(frozen=True, init=False)
class RandomBrightness(_Factor):
    """Multiplies every value by a factor from 1 ± `magnitude` (or from a range), with probability `p`.

    >>> RandomBrightness(0.4)
    RandomBrightness(magnitude=(0.6, 1.4), p=0.5)
    """

    magnitude: tuple[float, float]
    p: float

    def __init__(self, magnitude: Amount = 0.4, p: float = 0.5) -> None:
        self._set(magnitude, p)


@dataclass(frozen=True, init=False)
class RandomContrast(_Factor):
    """Moves values away from the mean grey (factors above 1) or towards it, with probability `p`.

    >>> RandomContrast((0.5, 1.5), p=1.0).magnitude
    (0.5, 1.5)
    """

    magnitude: tuple[float, float]
    p: float

    def __init__(self, magnitude: Amount = 0.4, p: float = 0.5) -> None:
        self._set(magnitude, p)


@dataclass(frozen=True, init=False)
class RandomSaturation(_Factor):
    """Moves values away from each pixel's grey (factors above 1) or towards it, with probability `p`.

    >>> RandomSaturation().p
    0.5
    """

    magnitude: tuple[float, float]
    p: float

    def __init__(self, magnitude: Amount = 0.4, p: float = 0.5) -> None:
        self._set(magnitude, p)


@dataclass(frozen=True, init=False)
class RandomHue(Transform):
    """Rotates the hue by up to ± `hue` (at most 0.5), with probability `p`.

    >>> RandomHue(0.1).hue
    (-0.1, 0.1)
    """

    random = True
    hue: tuple[float, float]
    p: float

    def __init__(self, hue: Amount = 0.1, p: float = 0.5) -> None:
        set_fields(self, hue=_range("hue", hue, 0.0, -1.0), p=probability(p))


@dataclass(frozen=True, init=False)
class RandomGamma(Transform):
    """Computes `255 (x / 255)^gamma` with a random exponent, with probability `p`.

    >>> RandomGamma((0.8, 1.2)).gamma
    (0.8, 1.2)
    """

    random = True
    gamma: tuple[float, float]
    p: float

    def __init__(self, gamma: float | Sequence[float] = (0.8, 1.2), p: float = 0.5) -> None:
        set_fields(self, gamma=spread("gamma", gamma), p=probability(p))


@dataclass(frozen=True, init=False)
class RandomColorJitterHSV(Transform):
    """Changes hue, saturation and value in floats, then contrast about middle grey, rounded once; with probability `p`.

    `hue` is a part of the circle, the others are factors 1 ± x, or ranges.

    >>> RandomColorJitterHSV(hue=0.1, saturation=0.4).saturation
    (0.6, 1.4)
    """

    random = True
    p: float
    hue: tuple[float, float]
    saturation: tuple[float, float]
    value: tuple[float, float]
    contrast: tuple[float, float]

    def __init__(
        self,
        p: float = 0.8,
        hue: Amount = 0.0,
        saturation: Amount = 0.0,
        value: Amount = 0.0,
        contrast: Amount = 0.0,
    ) -> None:
        set_fields(self, p=probability(p), hue=_range("hue", hue, 0.0, -1.0))
        factors = {"saturation": saturation, "value": value, "contrast": contrast}
        set_fields(self, **{name: _range(name, given, 1.0, 0.0) for name, given in factors.items()})


@dataclass(frozen=True, init=False)
class RandomColorJitterYIQ(Transform):
    """Applies one random colour matrix through YIQ: hue (degrees), saturation, value, brightness, contrast.

    >>> RandomColorJitterYIQ(hue=18).hue
    (-18.0, 18.0)
    """

    random = True
    p: float
    hue: tuple[float, float]
    saturation: tuple[float, float]
    value: tuple[float, float]
    brightness: tuple[float, float]
    contrast: tuple[float, float]

    def __init__(
        self,
        p: float = 0.8,
        hue: Amount = 0.0,
        saturation: Amount = 0.0,
        value: Amount = 0.0,
        brightness: Amount = 0.0,
        contrast: Amount = 0.0,
    ) -> None:
        set_fields(self, p=probability(p), hue=_range("hue", hue, 0.0, -1e6))
        factors = {"saturation": saturation, "value": value, "brightness": brightness, "contrast": contrast}
        set_fields(self, **{name: _range(name, given, 1.0, 0.0) for name, given in factors.items()})


@dataclass(frozen=True, init=False)
class RGBShift(Transform):
    """Adds a random number of levels to each channel, with probability `p`.

    >>> RGBShift().r_shift_limit
    (-20.0, 20.0)
    """

    random = True
    r_shift_limit: tuple[float, float]
    g_shift_limit: tuple[float, float]
    b_shift_limit: tuple[float, float]
    p: float

    def __init__(
        self, r_shift_limit: Amount = 20, g_shift_limit: Amount = 20, b_shift_limit: Amount = 20, p: float = 0.5
    ) -> None:
        limits = {"r_shift_limit": r_shift_limit, "g_shift_limit": g_shift_limit, "b_shift_limit": b_shift_limit}
        set_fields(self, **{name: _range(name, given, 0.0, -255.0) for name, given in limits.items()})
        set_fields(self, p=probability(p))


@dataclass(frozen=True, init=False)
class ChannelDropout(Transform):
    """Fills one or two channels with `fill`, with probability `p`.

    >>> ChannelDropout().channel_drop_range
    (1, 1)
    """

    random = True
    channel_drop_range: tuple[int, int]
    fill: int
    p: float

    def __init__(self, channel_drop_range: Sequence[int] = (1, 1), fill: int = 0, p: float = 0.5) -> None:
        set_fields(self, channel_drop_range=counts("channel_drop_range", channel_drop_range))
        set_fields(self, fill=whole("fill", fill, 0, 255), p=probability(p))


@dataclass(frozen=True, init=False)
class CLAHE(Transform):
    """Equalises lightness tile by tile, with limited contrast, with probability `p`.

    >>> CLAHE(4.0).clip_limit
    (1.0, 4.0)
    """

    random = True
    clip_limit: tuple[float, float]
    tile_grid_size: tuple[int, int]
    p: float

    def __init__(
        self, clip_limit: float | Sequence[float] = 4.0, tile_grid_size: Sequence[int] = (8, 8), p: float = 0.5
    ) -> None:
        given = numbers(clip_limit)
        limit = low_high("clip_limit", (1.0, given[0]) if len(given) == 1 else clip_limit, 0.0)
        set_fields(self, clip_limit=limit, tile_grid_size=counts("tile_grid_size", tile_grid_size), p=probability(p))
