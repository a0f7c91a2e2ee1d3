"""Values and neighbourhoods: blur, erasing, normalisation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from feedline._checks import choice, flag, numbers, real, refuse

from .base import Transform, counts, low_high, pair, per_channel, probability, set_fields

__all__ = ["GaussianBlur", "Normalize", "RandomErasing", "ToTensor"]


@dataclass(frozen=True, init=False)
class GaussianBlur(Transform):
    """Blurs with a Gaussian whose standard deviation is drawn from `sigma`; edges are mirrored.

    `kernel_size` is odd: one number, or (width, height).

    >>> GaussianBlur(23, sigma=(0.1, 2.0)).kernel_size
    (23, 23)
    """

    random = True
    kernel_size: tuple[int, int]
    sigma: tuple[float, float]

    def __init__(self, kernel_size: int | Sequence[int], sigma: float | Sequence[float] = (0.1, 2.0)) -> None:
        width, height = pair("kernel_size", kernel_size)
        if width % 2 == 0 or height % 2 == 0:
            refuse("kernel_size", kernel_size, "an odd number, or two")
        given = numbers(sigma)
        spread = (real("sigma", given[0], 0.0),) * 2 if len(given) == 1 else low_high("sigma", sigma, 0.0)
        set_fields(self, kernel_size=(width, height), sigma=spread)


@dataclass(frozen=True, init=False)
class RandomErasing(Transform):
    """Erases a box of random area and aspect ratio, with probability `p`.

    `value` fills it: one number, one per channel, or `"random"` for normal noise. After `Normalize` (its usual
    place) it is in the units of the normalised image; before it, from 0 to 255, without noise. `mode` uses timm's
    names: `"const"` (0), `"rand"` (one normal value per channel) or `"pixel"` (noise). `count` is a number of boxes, or
    (fewest, most); each gets its share of the area. `RandomErasing.timm()` has timm's defaults. Masks, boxes and
    keypoints (`targets`) are not changed: an object under the box keeps them, as in torchvision.

    >>> RandomErasing(value="random").value
    'random'
    """

    random = True
    p: float
    scale: tuple[float, float]
    ratio: tuple[float, float]
    value: tuple[float, float, float] | str
    mode: str | None
    count: tuple[int, int]

    def __init__(
        self,
        p: float = 0.5,
        scale: Sequence[float] = (0.02, 0.33),
        ratio: Sequence[float] = (0.3, 3.3),
        value: float | str | Sequence[float] = 0.0,
        inplace: bool = False,
        *,
        mode: Literal["const", "rand", "pixel"] | None = None,
        count: int | Sequence[int] = 1,
    ) -> None:
        named = None if mode is None else choice("mode", mode, ("const", "rand", "pixel"))
        set_fields(self, mode=named, count=counts("count", count))
        flag("inplace", inplace)  # there is no input that could be changed in place
        held = choice("value", value, ("random",)) if isinstance(value, str) else per_channel("value", value)
        set_fields(self, p=probability(p), scale=low_high("scale", scale, 0.0), ratio=low_high("ratio", ratio, 0.0))
        set_fields(self, value=held)

    def to_spec(self) -> dict[str, Any]:
        """The transform as plain data."""
        value: Any = "random" if isinstance(self.value, str) else {"channels": self.value}
        spec = {"op": "RandomErasing", "p": self.p, "scale": self.scale, "ratio": self.ratio, "value": value}
        return {**spec, "mode": self.mode, "count": self.count}

    @classmethod
    def timm(cls, p: float = 0.5, mode: Literal["const", "rand", "pixel"] = "const", count: int = 1) -> RandomErasing:
        """The version of timm: areas up to a third, ratios from 0.3 to 1 / 0.3."""
        return cls(p, (0.02, 1 / 3), (0.3, 1 / 0.3), mode=mode, count=(1, count) if count > 1 else 1)


@dataclass(frozen=True, init=False)
class Normalize(Transform):
    """Computes `(x - mean) / std` per channel, with `x` from 0 to 1. Comes last; only `RandomErasing` may follow.

    >>> Normalize(0.5, 0.5)
    Normalize(mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))
    """

    mean: tuple[float, float, float]
    std: tuple[float, float, float]

    def __init__(self, mean: float | Sequence[float], std: float | Sequence[float], inplace: bool = False) -> None:
        flag("inplace", inplace)  # as in RandomErasing
        set_fields(self, mean=per_channel("mean", mean), std=per_channel("std", std))

    @classmethod
    def imagenet(cls) -> Normalize:
        """ImageNet's mean and standard deviation."""
        return cls([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])


@dataclass(frozen=True)
class ToTensor(Transform):
    """Changes nothing, because results are tensors anyway; torchvision lists need it between PIL images and floats.

    >>> ToTensor().to_spec() is None
    True
    """

    def to_spec(self) -> None:
        """None: there is nothing to do."""
        return
