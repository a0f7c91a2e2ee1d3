"""Images in front of backgrounds, and patterns on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from feedline._checks import choice, flag, listed, numbers, real, refuse, whole

from .base import Fill, Size, Transform, colour, counts, pair, per_channel, probability, set_fields, two
from .bends import spread

__all__ = [
    "CircularMask",
    "Poison",
    "PowerLawNoise",
    "RGBToLGN",
    "RGBToMagno",
    "RandomBackgroundBlend",
    "RandomEmbed",
    "ReplaceLabel",
]

Background = Literal["zeros", "constant", "power_law"]


def _background(value: Any) -> str:
    return choice("background", value, ("zeros", "constant", "power_law"))


@dataclass(frozen=True, init=False)
class CircularMask(Transform):
    """Shows a disc; the rest is `fill`. The disc's edge falls as a Gaussian to `tol` within `blur_span` pixels.

    >>> CircularMask().blur_span
    8.0
    """

    blur_span: float
    tol: float
    fill: tuple[int, int, int]

    def __init__(self, blur_span: float = 8.0, tol: float = 0.0005, *, fill: Fill = 0) -> None:
        set_fields(self, blur_span=real("blur_span", blur_span, 0.0), tol=real("tol", tol, 0.0), fill=colour(fill))


@dataclass(frozen=True, init=False)
class RandomEmbed(Transform):
    """Puts the image on a canvas of `canvas_size`, its centre at a random place, optionally faded into the background.

    `x_range` and `y_range` are shares of the canvas (one number or a range); `background` is black (`"zeros"`), `fill`
    (`"constant"`) or noise (`"power_law"`) with an exponent from `alpha_range`.

    >>> RandomEmbed(256, x_range=(0.3, 0.7)).y_range
    (0.5, 0.5)
    """

    random = True
    canvas_size: tuple[int, int]
    x_range: tuple[float, float]
    y_range: tuple[float, float]
    background: str
    fill: tuple[int, int, int]
    alpha_range: tuple[float, float]
    color_noise: bool
    fade_radius: float | None
    p_fade: float

    def __init__(
        self,
        canvas_size: Size,
        x_range: float | Sequence[float] = 0.5,
        y_range: float | Sequence[float] = 0.5,
        background: Background = "zeros",
        fill: Fill = None,
        alpha_range: float | Sequence[float] = 2.0,
        color_noise: bool = True,
        fade_radius: float | None = None,
        p_fade: float = 1.0,
    ) -> None:
        set_fields(self, canvas_size=pair("canvas_size", canvas_size), background=_background(background))
        set_fields(self, x_range=spread("x_range", x_range, -10.0), y_range=spread("y_range", y_range, -10.0))
        set_fields(self, fill=colour(fill), alpha_range=spread("alpha_range", alpha_range))
        radius = None if fade_radius is None else real("fade_radius", fade_radius, 0.0)
        set_fields(self, color_noise=flag("color_noise", color_noise), fade_radius=radius)
        set_fields(self, p_fade=real("p_fade", p_fade, 0.0, 1.0))


@dataclass(frozen=True, init=False)
class RandomBackgroundBlend(Transform):
    """Fades the image into a background of the same size.

    `fade_mode` is `"circular"` (a disc with a Gaussian edge), `"cosine"`, or nothing; the fade begins at `fade_radius`
    (a share of half the shorter side) and ends `inset` pixels before the edge. Noise has `mean` and deviates from it by
    up to `std` times `noise_scale`, in units where white is 1. Images have no alpha channel here: only the fade
    matters.

    >>> RandomBackgroundBlend("power_law", fade_mode="cosine").alpha_range
    (2.0, 2.0)
    """

    random = True
    background: str
    fill: tuple[int, int, int]
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    alpha_range: tuple[float, float]
    color_noise: bool
    noise_scale: float
    fade_mode: str | None
    fade_radius: float
    inset: float
    p_fade: float
    p_background: float

    def __init__(
        self,
        background: Background = "zeros",
        fill: Fill = None,
        mean: float | Sequence[float] = 0.5,
        std: float | Sequence[float] = 0.5,
        alpha_range: float | Sequence[float] = 2.0,
        color_noise: bool = True,
        noise_scale: float = 1.0,
        fade_mode: Literal["circular", "cosine"] | None = None,
        fade_radius: float = 0.5,
        inset: float = 0.0,
        p_fade: float = 1.0,
        p_background: float = 1.0,
    ) -> None:
        mode = None if fade_mode is None else choice("fade_mode", fade_mode, ("circular", "cosine"))
        set_fields(self, background=_background(background), fill=colour(fill), fade_mode=mode)
        set_fields(self, mean=per_channel("mean", mean), std=per_channel("std", std))
        set_fields(self, alpha_range=spread("alpha_range", alpha_range), color_noise=flag("color_noise", color_noise))
        set_fields(self, noise_scale=real("noise_scale", noise_scale, 0.0), inset=real("inset", inset, 0.0))
        set_fields(self, fade_radius=real("fade_radius", fade_radius, 0.0), p_fade=real("p_fade", p_fade, 0.0, 1.0))
        set_fields(self, p_background=real("p_background", p_background, 0.0, 1.0))


@dataclass(frozen=True, init=False)
class PowerLawNoise(Transform):
    """Blends noise whose power falls as 1/f^alpha over the image, with a random `strength`, with probability `p`.

    >>> PowerLawNoise(alpha_range=(1, 2)).strength
    (0.1, 0.5)
    """

    random = True
    alpha_range: tuple[float, float]
    strength: tuple[float, float]
    color_noise: bool
    p: float

    def __init__(
        self,
        alpha_range: float | Sequence[float] = 2.0,
        strength: float | Sequence[float] = (0.1, 0.5),
        color_noise: bool = True,
        p: float = 0.5,
    ) -> None:
        set_fields(self, alpha_range=spread("alpha_range", alpha_range), strength=spread("strength", strength))
        set_fields(self, color_noise=flag("color_noise", color_noise), p=probability(p))


@dataclass(frozen=True, init=False)
class Poison(Transform):
    """Blends `mask` into the samples `indices`: `x (1 - alpha) + mask alpha`, clamped and truncated, as FFCV does.

    `mask` is an array (height, width, 3) of levels, `alpha` an array (height, width) from 0 to 1; images must have that
    size at this point of the list.

    >>> import numpy as np
    >>> Poison(np.zeros((4, 4, 3)), np.ones((4, 4)), [7, 3]).indices
    (3, 7)
    """

    mask: tuple[float, ...]
    alpha: tuple[float, ...]
    size: tuple[int, int]
    indices: tuple[int, ...]
    clamp: tuple[int, int]

    def __init__(self, mask: Any, alpha: Any, indices: Sequence[int], clamp: Sequence[int] = (0, 255)) -> None:
        try:
            pattern, shares = np.asarray(mask, np.float32), np.asarray(alpha, np.float32)
        except (TypeError, ValueError, OverflowError):
            refuse("mask", mask, "an array (height, width, 3), with alpha of its (height, width)")
        if pattern.ndim != 3 or pattern.shape[2] != 3 or shares.shape != pattern.shape[:2]:  # noqa: PLR2004 - colours
            refuse("mask", pattern.shape, "an array (height, width, 3), with alpha of its (height, width)")
        given = listed("indices", indices, "a list of sample indices")
        chosen = sorted({whole("indices", index, 0, 2**63 - 1) for index in given})
        set_fields(self, mask=tuple(pattern.ravel().tolist()), alpha=tuple(shares.ravel().tolist()))
        set_fields(self, size=pattern.shape[:2], indices=tuple(chosen))
        low, high = counts("clamp", clamp)
        set_fields(self, clamp=(whole("clamp", low, 0, 255), whole("clamp", high, 0, 255)))


@dataclass(frozen=True, init=False)
class ReplaceLabel(Transform):
    """Gives the samples `indices` the label `new_label`, as FFCV does. It is used in the list of an integer field.

    >>> {"image": [], "label": [ReplaceLabel([7, 3], 0)]}["label"][0].indices
    (3, 7)
    """

    indices: tuple[int, ...]
    new_label: int

    def __init__(self, indices: Sequence[int], new_label: int) -> None:
        given = listed("indices", indices, "a list of sample indices")
        chosen = sorted({whole("indices", index, 0, 2**63 - 1) for index in given})
        set_fields(self, indices=tuple(chosen), new_label=whole("new_label", new_label, -(2**63), 2**63 - 1))


def _five(name: str, value: float | Sequence[float]) -> tuple[float, ...]:
    given = numbers(value)
    full = {1: given * 5, 5: given}.get(len(given))
    if full is None:
        refuse(name, value, "one number or five")
    return tuple(real(name, each) for each in full)


@dataclass(frozen=True, init=False)
class RGBToLGN(Transform):
    """Five colour-opponent channels instead of colours and of `Normalize`, as floats: parvo (long minus middle
    wavelengths, and the reverse), magno (light on dark, dark on light), konio (short minus the others).

    Each is a Gaussian minus a wider one, with the standard deviations (centre, surround); `rectify` sets negative
    values to zero.

    >>> RGBToLGN().parvo
    (1.5, 5.0)
    """

    parvo: tuple[float, float]
    magno: tuple[float, float]
    konio: tuple[float, float]
    rectify: bool
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __init__(
        self,
        parvo: Sequence[float] = (1.5, 5.0),
        magno: Sequence[float] = (2.5, 5.0),
        konio: Sequence[float] = (2.5, 6.5),
        rectify: bool = True,
        mean: float | Sequence[float] = 0.0,
        std: float | Sequence[float] = 1.0,
    ) -> None:
        sigmas = {"parvo": parvo, "magno": magno, "konio": konio}
        set_fields(self, **{name: two(name, given, "(centre, surround)", 0.0) for name, given in sigmas.items()})
        set_fields(self, rectify=flag("rectify", rectify), mean=_five("mean", mean), std=_five("std", std))


@dataclass(frozen=True, init=False)
class RGBToMagno(Transform):
    """Two channels, light on dark and dark on light, instead of colours and of `Normalize`, as floats.

    >>> RGBToMagno().magno
    (2.5, 5.0)
    """

    magno: tuple[float, float]
    rectify: bool

    def __init__(self, magno: Sequence[float] = (2.5, 5.0), rectify: bool = True) -> None:
        set_fields(self, magno=two("magno", magno, "(centre, surround)", 0.0), rectify=flag("rectify", rectify))
