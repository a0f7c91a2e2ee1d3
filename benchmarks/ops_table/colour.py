"""Rows that change colours."""

from __future__ import annotations

from typing import Any

import numpy as np
from feedline import transforms as T

from .rows import Row, plan


def colour() -> list[Row]:
    return [*jitters(), *tables(), *histograms()]


def look_up(function: Any) -> Any:
    table = np.clip([function(x) for x in range(256)], 0, 255).astype(np.uint8)
    return lambda cv2, kept: lambda image: kept(cv2.LUT, image, table)


def hue(cv2: Any, kept: Any) -> Any:
    def turn(image: Any) -> Any:
        hsv = cv2.cvtColor(image, cv2.COLOR_RGB2HSV_FULL)
        hsv[..., 0] += 25
        return kept(cv2.cvtColor, hsv, cv2.COLOR_HSV2RGB_FULL)

    return turn


def saturation(cv2: Any, kept: Any) -> Any:
    def blend(image: Any) -> Any:
        grey = cv2.cvtColor(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB)
        return kept(cv2.addWeighted, image, 1.3, grey, -0.3, 0)

    return blend


def contrast(cv2: Any, kept: Any) -> Any:
    def blend(image: Any) -> Any:
        mean = cv2.mean(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY))[0]
        return kept(cv2.convertScaleAbs, image, alpha=1.3, beta=-0.3 * round(mean))

    return blend


def grey(cv2: Any, kept: Any) -> Any:
    return lambda image: kept(cv2.cvtColor, cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB)


def jitters() -> list[Row]:
    def jitter(alb: Any, **factors: Any) -> Any:
        none = {"brightness": (1, 1), "contrast": (1, 1), "saturation": (1, 1), "hue": (0, 0)}
        return alb.ColorJitter(**{**none, **factors}, p=1)

    fixed = (1.3, 1.3)
    return [
        Row(
            "brightness",
            [T.ColorJitter(brightness=fixed)],
            lambda v2: v2.ColorJitter(brightness=fixed),
            opencv=look_up(lambda x: x * 1.3),
            albumentations=lambda alb: jitter(alb, brightness=fixed),
        ),
        Row(
            "contrast",
            [T.ColorJitter(contrast=fixed)],
            lambda v2: v2.ColorJitter(contrast=fixed),
            opencv=contrast,
            albumentations=lambda alb: jitter(alb, contrast=fixed),
        ),
        Row(
            "saturation",
            [T.ColorJitter(saturation=fixed)],
            lambda v2: v2.ColorJitter(saturation=fixed),
            opencv=saturation,
            albumentations=lambda alb: jitter(alb, saturation=fixed),
        ),
        Row(
            "hue",
            [T.ColorJitter(hue=(0.1, 0.1))],
            lambda v2: v2.ColorJitter(hue=(0.1, 0.1)),
            opencv=hue,
            albumentations=lambda alb: jitter(alb, hue=(0.1, 0.1)),
        ),
        Row(
            "ColorJitter, all four",
            [T.ColorJitter(0.4, 0.4, 0.4, 0.1)],
            lambda v2: v2.ColorJitter(0.4, 0.4, 0.4, 0.1),
            albumentations=lambda alb: alb.ColorJitter((0.6, 1.4), (0.6, 1.4), (0.6, 1.4), (-0.1, 0.1), p=1),
        ),
        Row(
            "Grayscale, 3 channels",
            [T.Grayscale(3)],
            lambda v2: v2.Grayscale(3),
            opencv=grey,
            albumentations=lambda alb: alb.ToGray(p=1),
        ),
    ]


def tables() -> list[Row]:
    return [
        Row(
            "RandomChannelPermutation",
            [T.RandomChannelPermutation()],
            lambda v2: v2.RandomChannelPermutation(),
            albumentations=lambda alb: alb.ChannelShuffle(p=1),
        ),
        Row(
            "RandomPhotometricDistort",
            [T.RandomPhotometricDistort()],
            lambda v2: v2.RandomPhotometricDistort(),
        ),
        Row(
            "RandomInvert",
            [T.RandomInvert(1.0)],
            lambda v2: v2.RandomInvert(1.0),
            opencv=lambda cv2, kept: lambda image: kept(cv2.bitwise_not, image),
            albumentations=lambda alb: alb.InvertImg(p=1),
        ),
        Row(
            "RandomPosterize, 4 bits",
            [T.RandomPosterize(4, 1.0)],
            lambda v2: v2.RandomPosterize(4, 1.0),
            opencv=lambda cv2, kept: lambda image: kept(cv2.bitwise_and, image, (0xF0, 0xF0, 0xF0, 0)),
            albumentations=lambda alb: alb.Posterize(4, p=1),
        ),
        Row(
            "RandomSolarize, 128",
            [T.RandomSolarize(128, 1.0)],
            lambda v2: v2.RandomSolarize(128, 1.0),
            opencv=look_up(lambda x: 255 - x if x >= 128 else x),
            albumentations=lambda alb: alb.Solarize((0.5, 0.5), p=1),
        ),
        Row(
            "gamma",
            plan("RandomGamma", (1.4, 1.4)),
            lambda v2: v2.Lambda(lambda image: v2.functional.adjust_gamma(image, 1.4)),
            opencv=look_up(lambda x: 255 * (x / 255) ** 1.4),
        ),
    ]


def histograms() -> list[Row]:
    return [
        Row(
            "RandomEqualize",
            [T.RandomEqualize(1.0)],
            lambda v2: v2.RandomEqualize(1.0),
            albumentations=lambda alb: alb.Equalize(mode="pil", by_channels=True, p=1),
        ),
        Row(
            "RandomAutocontrast",
            [T.RandomAutocontrast(1.0)],
            lambda v2: v2.RandomAutocontrast(1.0),
            albumentations=lambda alb: alb.AutoContrast(method="pil", p=1),
        ),
        Row(
            "RandomAdjustSharpness",
            [T.RandomAdjustSharpness(1.7, 1.0)],
            lambda v2: v2.RandomAdjustSharpness(1.7, 1.0),
        ),
    ]
