"""Every transform beside torchvision's (on PIL images and on tensors) and timm's, with the same parameters.

    python benchmarks/transform_parity.py FOLDER [--photos 50] [--json results.json]

For each: the largest and the mean difference in levels, and the bias (mean signed difference), over the photos and over
images of odd sizes. Warps are compared inside the image and at its border apart: Pillow decides inside or outside per
pixel, torch fades.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from feedline import transforms as T
from PIL import Image, ImageFilter
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2 import functional as F

ODD = [(1, 1), (1, 37), (41, 1), (3, 5), (4096, 3)]
BILINEAR, NEAREST = InterpolationMode.BILINEAR, InterpolationMode.NEAREST


def fixed(op: Any) -> Callable[[np.ndarray], np.ndarray]:
    return lambda image: T.apply(op, image)


def act(**action: Any) -> Callable[[np.ndarray], np.ndarray]:
    """What the engine makes of one action."""

    def run(image: np.ndarray) -> np.ndarray:
        params = {"version": 1, "image": image.shape[:2], "actions": [action], "normalize": None, "channels": 3}
        return T.replay(params, image)

    return run


def fits(radius: int) -> Callable[[np.ndarray], bool]:
    return lambda image: min(image.shape[:2]) > radius


def always(_image: np.ndarray) -> bool:
    return True


def pairs(like: str) -> list[Any]:  # noqa: C901 - one line per operation
    """Name, ours, theirs, whether it is a warp, and which images it is for."""
    found: list[Any] = []

    def add(name: str, ours: Any, theirs: Any, *, warp: bool = False, where: Any = always) -> None:
        found.append((name, ours, theirs, warp, where))

    one = {"like": like}
    for factor in (0.3, 0.7, 1.3, 1.9):
        add(f"brightness {factor}", act(do="Brightness", factor=factor), lambda i, f=factor: F.adjust_brightness(i, f))
        add(f"contrast {factor}", act(do="Contrast", factor=factor, **one), lambda i, f=factor: F.adjust_contrast(i, f))
        add(
            f"saturation {factor}",
            act(do="Saturation", factor=factor, **one),
            lambda i, f=factor: F.adjust_saturation(i, f),
        )
        add(f"sharpness {factor}", act(do="Sharpness", factor=factor), lambda i, f=factor: F.adjust_sharpness(i, f))
    for turn in (-0.3, 0.0, 0.1):
        add(f"hue {turn}", act(do="Hue", turn=turn, **one), lambda i, t=turn: F.adjust_hue(i, t))
    add("gamma 0.8", fixed(T.RandomGamma(0.8, p=1.0)), lambda i: F.adjust_gamma(i, 0.8))
    add("grayscale", fixed(T.Grayscale(3, like)), lambda i: F.rgb_to_grayscale(i, 3))
    add("invert", fixed(T.RandomInvert(1.0)), F.invert)
    add("posterize 3", fixed(T.RandomPosterize(3, 1.0)), lambda i: F.posterize(i, 3))
    add("solarize 128", fixed(T.RandomSolarize(128, 1.0)), lambda i: F.solarize(i, 128))
    add("equalize", fixed(T.RandomEqualize(1.0)), F.equalize)
    add("autocontrast", act(do="Autocontrast", **one), F.autocontrast)
    add("jpeg 50", fixed(T.JPEG(50)), lambda i: F.jpeg(i, 50))
    add(
        "gaussian blur 9",
        fixed(T.GaussianBlur(9, 1.5)),
        lambda i: F.gaussian_blur(i, [9, 9], [1.5, 1.5]),
        where=fits(4),
    )
    add(
        "gaussian blur 23",
        fixed(T.GaussianBlur(23, 2.0)),
        lambda i: F.gaussian_blur(i, [23, 23], [2.0, 2.0]),
        where=fits(11),
    )
    for name in ("bilinear", "bicubic"):
        add(f"resize to half, {name}", _half(name), lambda i, n=name: F.resize(i, _half_of(i), InterpolationMode(n)))
    add("resize(64), bilinear", fixed(T.Resize(64)), lambda i: F.resize(i, [64], BILINEAR), where=fits(3))
    add("center crop", fixed(T.CenterCrop((50, 70))), lambda i: F.center_crop(i, [50, 70]))
    for mode in ("constant", "edge", "reflect", "symmetric"):
        if like == "tensor" and mode == "symmetric":
            continue
        add(
            f"pad {mode}",
            fixed(T.Pad((3, 4, 5, 2), 7, mode)),
            lambda i, m=mode: F.pad(i, [3, 4, 5, 2], 7, m),
            where=fits(6),
        )
    add("hflip", fixed(T.RandomHorizontalFlip(1.0)), F.horizontal_flip)
    add("vflip", fixed(T.RandomVerticalFlip(1.0)), F.vertical_flip)
    for name, mode in (("nearest", NEAREST), ("bilinear", BILINEAR)):
        if like == "tensor" and name == "nearest":
            continue
        add(
            f"rotate 17, {name}",
            fixed(T.RandomRotation((17, 17), name, like=like)),
            lambda i, m=mode: F.rotate(i, 17, m),
            warp=True,
        )
        add(
            f"affine, {name}",
            fixed(T.RandomAffine((25, 25), None, (1.3, 1.3), (10, 10, -7, -7), name, like=like)),
            lambda i, m=mode: F.affine(i, 25, [0, 0], 1.3, [10, -7], m),
            warp=True,
        )
    if like == "pil":
        for radius in (0.1, 0.7, 2.0):
            add(
                f"PIL gaussian blur {radius}",
                fixed(T.PILGaussianBlur(radius)),
                lambda i, r=radius: i.filter(ImageFilter.GaussianBlur(r)),
            )
        add(
            "rotate 17, bicubic (timm)",
            fixed(T.RandomRotation((17, 17), "bicubic")),
            lambda i: i.rotate(17, Image.BICUBIC),
            warp=True,
        )
        for name in ("box", "lanczos"):
            add(
                f"resize to half, {name}", _half(name), lambda i, n=name: F.resize(i, _half_of(i), InterpolationMode(n))
            )
    return found


def _half(name: Any) -> Callable[[np.ndarray], np.ndarray]:
    return lambda image: T.apply(T.Resize([max(1, image.shape[0] // 2), max(1, image.shape[1] // 2)], name), image)


def _half_of(image: Any) -> list[int]:
    height, width = F.get_size(image)
    return [max(1, height // 2), max(1, width // 2)]


def difference(ours: np.ndarray, theirs: Any, like: str) -> np.ndarray:
    other = np.asarray(theirs) if like == "pil" else theirs.numpy().transpose(1, 2, 0)
    assert ours.shape == other.shape, (ours.shape, other.shape)
    return ours.astype(int) - other.astype(int)


def inside(image: np.ndarray, ours: Callable[..., Any]) -> np.ndarray:
    """Where a warp of a white image is white: away from its border."""
    white = ours(np.full_like(image, 255))
    solid = (white.min(axis=2) == 255).astype(np.uint8)
    padded = np.pad(solid, 2)
    shifts = [padded[y : y + solid.shape[0], x : x + solid.shape[1]] for y in range(5) for x in range(5)]
    return np.minimum.reduce(shifts).astype(bool)


def measure(images: list[np.ndarray], like: str) -> list[dict[str, Any]]:
    rows = []
    for name, ours, theirs, warp, where in pairs(like):
        levels, edge = [], []
        for image in images:
            if not where(image):
                continue
            given = Image.fromarray(image) if like == "pil" else torch.from_numpy(image.transpose(2, 0, 1).copy())
            found = difference(ours(image), theirs(given), like)
            if warp:
                solid = inside(image, ours)
                edge.append(found[~solid].ravel())
                found = found[solid]
            levels.append(found.ravel())
        every = np.concatenate(levels)
        row = {"op": name, "against": f"torchvision, {like}", "max": 0, "mean": 0.0, "bias": 0.0, "border": None}
        if every.size:
            row |= {"max": int(np.abs(every).max()), "mean": float(np.abs(every).mean()), "bias": float(every.mean())}
        if warp:
            border = np.concatenate(edge)
            row["border"] = int(np.abs(border).max()) if border.size else 0
        rows.append(row)
    return rows


def photographs(folder: Path, count: int) -> list[np.ndarray]:
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in {".jpg", ".jpeg", ".png"})
    chosen = files[:: max(1, len(files) // count)][:count]
    made = []
    for path in chosen:
        with Image.open(path) as image:
            made.append(np.asarray(image.convert("RGB").resize((256, 224))))
    return made


def odd_sizes() -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    return [generator.integers(0, 256, (height, width, 3), dtype=np.uint8) for width, height in ODD]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--photos", type=int, default=50)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    images = photographs(arguments.folder, arguments.photos) + odd_sizes()
    rows = [*measure(images, "pil"), *measure(images, "tensor")]
    print(f"{len(images)} images\n{'op':28} {'against':22} {'max':>4} {'mean':>8} {'bias':>8} {'border':>6}")
    for row in rows:
        border = "" if row["border"] is None else row["border"]
        print(f"{row['op']:28} {row['against']:22} {row['max']:4} {row['mean']:8.4f} {row['bias']:8.4f} {border:>6}")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
