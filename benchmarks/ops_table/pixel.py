"""Rows that blur, hide, add noise, and make tensors."""

from __future__ import annotations

from typing import Any

from feedline import transforms as T

from .rows import MEAN, STD, Row, plan


def pixel() -> list[Row]:
    return [*blurs(), *hidden(), *effects(), *policies(), *tensors()]


def blurs() -> list[Row]:
    def blur(kernel: int, sigma: float) -> Row:
        return Row(
            f"GaussianBlur {kernel}, sigma {sigma}",
            [T.GaussianBlur(kernel, (sigma, sigma))],
            lambda v2: v2.GaussianBlur(kernel, (sigma, sigma)),
            opencv=lambda cv2, kept: (
                lambda image: kept(cv2.GaussianBlur, image, (kernel, kernel), sigma, borderType=cv2.BORDER_REFLECT_101)
            ),
            albumentations=lambda alb: alb.GaussianBlur((kernel, kernel), (sigma, sigma), p=1),
            kornia_rs=lambda kornia, _: (
                lambda image: kornia.imgproc.gaussian_blur(image, (kernel, kernel), (sigma, sigma))
            ),
            other_work={"kornia-rs"},
            why="kornia-rs makes another border (25 levels away) and, for kernels of 3, other weights.",
        )

    return [blur(3, 0.8), blur(9, 1.7), blur(23, 1.5)]


def jpeg(cv2: Any, _: Any) -> Any:
    def trip(image: Any) -> Any:
        _, packed = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 50])
        return cv2.imdecode(packed, cv2.IMREAD_COLOR)

    return trip


def hidden() -> list[Row]:
    return [
        Row(
            "RandomErasing",
            [T.RandomErasing(1.0)],
            lambda v2: v2.RandomErasing(1.0),
            only_tensor=True,
            albumentations=lambda alb: alb.Erasing(p=1),
        ),
        Row(
            "GaussianNoise, sigma 0.1",
            plan("GaussianNoise", sigma=0.1),
            lambda v2: v2.Compose([v2.ToDtype(__import__("torch").float32, scale=True), v2.GaussianNoise(sigma=0.1)]),
            only_tensor=True,
            albumentations=lambda alb: alb.GaussNoise(std_range=(0.1, 0.1), p=1),
        ),
        Row(
            "JPEG, quality 50",
            plan("JPEG", 50),
            lambda v2: v2.JPEG(50),
            opencv=jpeg,
            albumentations=lambda alb: alb.ImageCompression(quality_range=(50, 50), p=1),
        ),
    ]


def effects() -> list[Row]:
    """What torchvision does not have."""

    def clahe(cv2: Any, kept: Any) -> Any:
        tiles = cv2.createCLAHE(4.0, (8, 8))

        def equalise(image: Any) -> Any:
            lab = cv2.cvtColor(image, cv2.COLOR_RGB2LAB)
            lab[..., 0] = tiles.apply(lab[..., 0])
            return kept(cv2.cvtColor, lab, cv2.COLOR_LAB2RGB)

        return equalise

    def pillow(_v2: Any) -> Any:
        from PIL import ImageFilter

        return lambda image: image.filter(ImageFilter.GaussianBlur(1.5))

    return [
        Row("PILGaussianBlur, radius 1.5", [T.PILGaussianBlur(1.5)], pillow, only_pil=True),
        Row(
            "CLAHE",
            [T.CLAHE((4.0, 4.0), (8, 8), p=1.0)],
            opencv=clahe,
            albumentations=lambda alb: alb.CLAHE((4.0, 4.0), (8, 8), p=1),
        ),
        Row(
            "MotionBlur, 7",
            [T.MotionBlur((7, 7), p=1.0)],
            albumentations=lambda alb: alb.MotionBlur((7, 7), p=1),
        ),
        Row(
            "Defocus, radius 4",
            [T.Defocus((4, 4), (0.3, 0.3), p=1.0)],
            albumentations=lambda alb: alb.Defocus((4, 4), (0.3, 0.3), p=1),
        ),
        Row(
            "SaltAndPepper",
            [T.SaltAndPepper(p=1.0)],
            albumentations=lambda alb: alb.SaltAndPepper(p=1),
        ),
        Row(
            "CoarseDropout",
            [T.CoarseDropout((4, 4), p=1.0)],
            albumentations=lambda alb: alb.CoarseDropout((4, 4), p=1),
        ),
        Row("RGBShift", [T.RGBShift(p=1.0)], albumentations=lambda alb: alb.RGBShift(p=1)),
        Row(
            "OpticalDistortion",
            [T.OpticalDistortion((0.4, 0.4))],
            albumentations=lambda alb: alb.OpticalDistortion((0.4, 0.4), p=1),
        ),
    ]


def policies() -> list[Row]:
    return [
        Row("AutoAugment", [T.AutoAugment()], lambda v2: v2.AutoAugment()),
        Row("RandAugment", [T.RandAugment()], lambda v2: v2.RandAugment()),
        Row("TrivialAugmentWide", [T.TrivialAugmentWide()], lambda v2: v2.TrivialAugmentWide()),
        Row("AugMix", [T.AugMix()], lambda v2: v2.AugMix()),
    ]


def tensors() -> list[Row]:
    def normalise(v2: Any) -> Any:
        import torch

        return v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)])

    return [
        Row(
            "to float32 and Normalize, CHW",
            [T.Normalize(MEAN, STD)],
            normalise,
            dtype="float32",
            memory_format="channels_first",
        ),
        Row(
            "to float32 and Normalize, HWC",
            [T.Normalize(MEAN, STD)],
            albumentations=lambda alb: alb.Normalize(MEAN, STD, p=1),
            dtype="float32",
        ),
    ]
