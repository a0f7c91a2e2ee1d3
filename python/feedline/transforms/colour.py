"""Colours. Arithmetic is Pillow's, as in torchvision on PIL images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from feedline._checks import numbers, real, whole

from .base import LARGEST, Chance, Like, Transform, like_name, low_high, probability, set_fields

__all__ = [
    "ColorJitter",
    "Grayscale",
    "RandomAdjustSharpness",
    "RandomAutocontrast",
    "RandomChannelPermutation",
    "RandomEqualize",
    "RandomGrayscale",
    "RandomInvert",
    "RandomPhotometricDistort",
    "RandomPosterize",
    "RandomSolarize",
]

Amount = float | Sequence[float] | None


def amount(name: str, value: Amount, middle: float, least: float) -> tuple[float, float] | None:
    """An amount as in torchvision: x for [middle - x, middle + x], or a range; `None` if it changes nothing."""
    if value is None:
        return None
    given = numbers(value)
    if len(given) == 1:
        by = real(name, given[0], 0.0)
        span = (max(least, middle - by), middle + by)
    else:
        span = low_high(name, value, least)
    return None if span == (middle, middle) else span


@dataclass(frozen=True, init=False)
class ColorJitter(Transform):
    """Changes brightness, contrast, saturation and hue, in random order, each by a random amount.

    An amount is one number x, for factors from max(0, 1 - x) to 1 + x (hue: shifts from -x to x, at most 0.5), or a
    range. Each step is rounded down to 8 bits before the next, as on PIL images; `like="tensor"` uses the grey and
    the hue of torchvision for tensors.

    >>> ColorJitter(0.4, hue=0.1)
    ColorJitter(brightness=(0.6, 1.4), contrast=None, saturation=None, hue=(-0.1, 0.1), like='pil')
    """

    random = True
    brightness: tuple[float, float] | None
    contrast: tuple[float, float] | None
    saturation: tuple[float, float] | None
    hue: tuple[float, float] | None
    like: str = "pil"

    def __init__(
        self,
        brightness: Amount = None,
        contrast: Amount = None,
        saturation: Amount = None,
        hue: Amount = None,
        *,
        like: Like = "pil",
    ) -> None:
        set_fields(self, like=like_name(like))
        factors = {"brightness": brightness, "contrast": contrast, "saturation": saturation}
        for name, value in factors.items():
            set_fields(self, **{name: amount(name, value, 1.0, 0.0)})
        set_fields(self, hue=amount("hue", hue, 0.0, -1.0))


@dataclass(frozen=True)
class Grayscale(Transform):
    """Converts to grey, in one channel or in three equal ones.

    >>> Grayscale(3)
    Grayscale(num_output_channels=3, like='pil')
    """

    num_output_channels: int = 1
    like: str = "pil"

    def __post_init__(self) -> None:
        set_fields(self, like=like_name(self.like))
        set_fields(self, num_output_channels=whole("num_output_channels", self.num_output_channels, 1, LARGEST))


@dataclass(frozen=True)
class RandomGrayscale(Chance):
    """Converts to grey in all channels, with probability `p`.

    >>> RandomGrayscale()
    RandomGrayscale(p=0.1, like='pil')
    """

    p: float = 0.1
    like: str = "pil"

    def __post_init__(self) -> None:
        super().__post_init__()
        set_fields(self, like=like_name(self.like))


@dataclass(frozen=True)
class RandomChannelPermutation(Transform):
    """Puts the channels in random order.

    >>> RandomChannelPermutation()
    RandomChannelPermutation()
    """

    random = True


@dataclass(frozen=True, init=False)
class RandomPhotometricDistort(Transform):
    """Changes brightness, contrast, saturation, hue and the order of channels, each with probability `p`, as in SSD.

    >>> RandomPhotometricDistort().hue
    (-0.05, 0.05)
    """

    random = True
    brightness: tuple[float, float]
    contrast: tuple[float, float]
    saturation: tuple[float, float]
    hue: tuple[float, float]
    p: float
    like: str

    def __init__(
        self,
        brightness: Sequence[float] = (0.875, 1.125),
        contrast: Sequence[float] = (0.5, 1.5),
        saturation: Sequence[float] = (0.5, 1.5),
        hue: Sequence[float] = (-0.05, 0.05),
        p: float = 0.5,
        *,
        like: Like = "pil",
    ) -> None:
        set_fields(self, like=like_name(like))
        factors = {"brightness": brightness, "contrast": contrast, "saturation": saturation}
        set_fields(self, **{name: low_high(name, value, 0.0) for name, value in factors.items()})
        set_fields(self, hue=low_high("hue", hue), p=probability(p))


@dataclass(frozen=True)
class RandomInvert(Chance):
    """Subtracts every value from 255, with probability `p`.

    >>> RandomInvert(1.0)
    RandomInvert(p=1.0)
    """

    p: float = 0.5


@dataclass(frozen=True)
class RandomPosterize(Chance):
    """Keeps the upper `bits` of every value, with probability `p`.

    >>> RandomPosterize(4)
    RandomPosterize(bits=4, p=0.5)
    """

    bits: int
    p: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        set_fields(self, bits=whole("bits", self.bits, 0, LARGEST))


@dataclass(frozen=True)
class RandomSolarize(Chance):
    """Inverts values of at least `threshold`, with probability `p`.

    >>> RandomSolarize(128, p=0.2)
    RandomSolarize(threshold=128.0, p=0.2)
    """

    threshold: float
    p: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        set_fields(self, threshold=real("threshold", self.threshold))


@dataclass(frozen=True)
class RandomEqualize(Chance):
    """Equalises the histogram of each channel, with probability `p`.

    >>> RandomEqualize()
    RandomEqualize(p=0.5)
    """

    p: float = 0.5


@dataclass(frozen=True)
class RandomAutocontrast(Chance):
    """Stretches each channel from black to white, with probability `p`.

    >>> RandomAutocontrast()
    RandomAutocontrast(p=0.5)
    """

    p: float = 0.5


@dataclass(frozen=True)
class RandomAdjustSharpness(Chance):
    """Smooths (factor below 1) or sharpens (above), with probability `p`.

    >>> RandomAdjustSharpness(2.0)
    RandomAdjustSharpness(sharpness_factor=2.0, p=0.5)
    """

    sharpness_factor: float
    p: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        set_fields(self, sharpness_factor=real("sharpness_factor", self.sharpness_factor, 0.0))
