"""Images and folders of images that tests make for themselves."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from PIL import Image


def make_image(seed: int, width: int, height: int) -> np.ndarray:
    """An image with smooth parts, edges and noise, different for every seed."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    waves = [np.sin(x / rng.uniform(5, 40) + rng.uniform(0, 6)) * np.cos(y / rng.uniform(5, 40)) for _ in range(3)]
    image = np.stack(waves, axis=-1) * 80 + 128
    image[height // 3 : height // 2, width // 4 : width // 2] = rng.integers(0, 255, 3)
    image += rng.normal(0, 6, image.shape)
    return image.clip(0, 255).astype(np.uint8)


def encode(pixels: np.ndarray, kind: str = "JPEG", **options: object) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, kind, **options)
    return buffer.getvalue()


def make_folder(root: Path, per_class: int = 4, size: tuple[int, int] = (96, 72)) -> Path:
    """Three classes of JPEGs of slightly different sizes."""
    number = 0
    for name in ("cat", "dog", "owl"):
        folder = root / name
        folder.mkdir(parents=True)
        for at in range(per_class):
            pixels = make_image(number, size[0] + 3 * number % 17, size[1] + 5 * number % 13)
            (folder / f"{at:03}.jpg").write_bytes(encode(pixels, quality=85, subsampling=number % 3))
            number += 1
    return root
