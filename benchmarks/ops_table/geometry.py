"""Rows that move pixels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from feedline import transforms as T

from .rows import Row, plan

NO_ANTIALIAS = {"OpenCV", "albumentations"}
NO_ANTIALIAS_WHY = "The others in brackets do not antialias."


def geometry(size: int) -> list[Row]:
    return [*resizes(size), *flips(), *warps(size)]


def resizes(size: int) -> list[Row]:
    half = size // 2
    return [
        Row(
            "RandomResizedCrop to 224",
            plan("RandomResizedCrop", 224),
            lambda v2: v2.RandomResizedCrop(224, antialias=True),
            albumentations=lambda alb: alb.RandomResizedCrop((224, 224), p=1),
            other_work={"albumentations"},
            why=NO_ANTIALIAS_WHY,
        ),
        Row(
            "Resize to half, bilinear",
            plan("Resize", (half, half)),
            lambda v2: v2.Resize((half, half), antialias=True),
            opencv=lambda cv2, kept: (
                lambda image: kept(cv2.resize, image, (half, half), interpolation=cv2.INTER_LINEAR)
            ),
            albumentations=lambda alb: alb.Resize(half, half, p=1),
            kornia_rs=lambda kornia, _: lambda image: kornia.imgproc.resize(image, (half, half), "bilinear"),
            other_work={*NO_ANTIALIAS, "kornia-rs"},
            why=NO_ANTIALIAS_WHY,
        ),
        Row(
            "Resize to half, bicubic",
            plan("Resize", (half, half), interpolation="bicubic"),
            lambda v2: v2.Resize((half, half), v2.InterpolationMode.BICUBIC, antialias=True),
            opencv=lambda cv2, kept: lambda image: kept(cv2.resize, image, (half, half), interpolation=cv2.INTER_CUBIC),
            kornia_rs=lambda kornia, _: lambda image: kornia.imgproc.resize(image, (half, half), "bicubic"),
            other_work={"OpenCV"},
            why=NO_ANTIALIAS_WHY,
        ),
        Row(
            "CenterCrop to half",
            plan("CenterCrop", half),
            lambda v2: v2.CenterCrop(half),
            other_work={"torchvision (tensor)"},
            why="The tensor's crop is a view, nothing is copied.",
        ),
        Row(
            "Pad by 16, reflect",
            plan("Pad", 16, padding_mode="reflect"),
            lambda v2: v2.Pad(16, padding_mode="reflect"),
            opencv=lambda cv2, kept: (
                lambda image: kept(cv2.copyMakeBorder, image, 16, 16, 16, 16, cv2.BORDER_REFLECT_101)
            ),
        ),
    ]


def flips() -> list[Row]:
    return [
        Row(
            "RandomHorizontalFlip",
            plan("RandomHorizontalFlip", 1.0),
            lambda v2: v2.RandomHorizontalFlip(1.0),
            opencv=lambda cv2, kept: lambda image: kept(cv2.flip, image, 1),
            albumentations=lambda alb: alb.HorizontalFlip(p=1),
            kornia_rs=lambda kornia, _: kornia.imgproc.horizontal_flip,
        ),
        Row(
            "RandomVerticalFlip",
            plan("RandomVerticalFlip", 1.0),
            lambda v2: v2.RandomVerticalFlip(1.0),
            opencv=lambda cv2, kept: lambda image: kept(cv2.flip, image, 0),
            albumentations=lambda alb: alb.VerticalFlip(p=1),
            kornia_rs=lambda kornia, _: kornia.imgproc.vertical_flip,
        ),
    ]


def turning(size: int) -> Any:
    """The inverse of a turn by 30 degrees about the middle."""
    sine, cosine, middle = math.sin(math.pi / 6), math.cos(math.pi / 6), size / 2
    x, y = middle * (1 - cosine) - middle * sine, middle * (1 - cosine) + middle * sine
    return np.array([[cosine, sine, x], [-sine, cosine, y]])


def warps(size: int) -> list[Row]:
    matrix = turning(size)
    skewed = np.array([[1.1, 0.1, -9.0], [0.05, 0.9, 4.0], [0.0002, -0.0003, 1.0]])
    degrees, exact = (30, 30), {"expand": False}

    def cv_warp(flag: str) -> Any:
        return lambda cv2, kept: (
            lambda image: kept(cv2.warpAffine, image, matrix, (size, size), flags=getattr(cv2, flag))
        )

    def kornia_warp(how: str) -> Any:
        flat = tuple(float(value) for value in matrix.reshape(-1))
        return lambda kornia, _: lambda image: kornia.imgproc.warp_affine(image, flat, (size, size), how)

    return [
        Row(
            "RandomRotation by 30, nearest",
            [T.RandomRotation(degrees, "nearest")],
            lambda v2: v2.RandomRotation(degrees, v2.InterpolationMode.NEAREST, **exact),
            opencv=cv_warp("INTER_NEAREST"),
            kornia_rs=kornia_warp("nearest"),
        ),
        Row(
            "RandomRotation by 30, bilinear",
            [T.RandomRotation(degrees, "bilinear")],
            lambda v2: v2.RandomRotation(degrees, v2.InterpolationMode.BILINEAR, **exact),
            opencv=cv_warp("INTER_LINEAR"),
            albumentations=lambda alb: alb.Rotate(degrees, p=1),
            kornia_rs=kornia_warp("bilinear"),
        ),
        Row(
            "RandomAffine, bilinear",
            [T.RandomAffine((25, 25), None, (1.2, 1.2), (10, 10), interpolation="bilinear")],
            lambda v2: v2.RandomAffine((25, 25), None, (1.2, 1.2), (10, 10), v2.InterpolationMode.BILINEAR),
            opencv=cv_warp("INTER_LINEAR"),
            albumentations=lambda alb: alb.Affine(scale=(1.2, 1.2), rotate=(25, 25), shear=(10, 10), p=1),
        ),
        Row(
            "RandomPerspective, bilinear",
            [T.RandomPerspective(0.3, 1.0)],
            lambda v2: v2.RandomPerspective(0.3, 1.0),
            opencv=lambda cv2, kept: lambda image: kept(cv2.warpPerspective, image, skewed, (size, size)),
            albumentations=lambda alb: alb.Perspective((0.05, 0.1), p=1),
        ),
        Row(
            "ElasticTransform",
            plan("ElasticTransform"),
            lambda v2: v2.ElasticTransform(),
            albumentations=lambda alb: alb.ElasticTransform(50, 5, p=1),
        ),
    ]
