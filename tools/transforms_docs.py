"""Writes the tables and images of docs/transforms.md: every transform of the engine, done to one photo by the engine.

    python tools/transforms_docs.py PHOTO [--parity parity.json] [--speed speed.json] [--check]

Images go to docs/transforms/. Parity comes from `benchmarks/transform_parity.py --json`, speed from the JSON that
`benchmarks/transforms.py --docs` writes. `--check` only tells whether every transform is in the page.
"""

from __future__ import annotations

import argparse
import inspect
import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
from feedline import _feedline
from feedline import transforms as T
from PIL import Image, ImageDraw

PAGE = Path(__file__).parent.parent / "docs" / "transforms.md"
PICTURES = PAGE.parent / "transforms"
BEGIN, END = "<!-- every transform: written by tools/transforms_docs.py -->", "<!-- end -->"
SIDE = 144
DRAWS = 3


def shown() -> dict[str, dict[str, Any]]:
    """Each family's transforms, with parameters that show what they do."""
    grid = np.indices((SIDE, SIDE)).sum(axis=0) // 12 % 2
    pattern = np.repeat((grid * 255)[..., None], 3, axis=2)
    return {
        "geometry": {
            "RandomResizedCrop": T.RandomResizedCrop(SIDE),
            "Resize": T.Resize((SIDE // 2, SIDE)),
            "CenterCrop": T.CenterCrop(96),
            "ResizedCenterCrop": T.ResizedCenterCrop(SIDE, 0.6),
            "RandomCrop": T.RandomCrop(SIDE, 20, padding_mode="reflect"),
            "Pad": T.Pad(20, padding_mode="symmetric"),
            "BucketResize": T.BucketResize([(96, 144), (144, 96)]),
            "RandomHorizontalFlip": T.RandomHorizontalFlip(1.0),
            "RandomVerticalFlip": T.RandomVerticalFlip(1.0),
            "RandomRotation": T.RandomRotation(30, "bilinear"),
            "RandomAffine": T.RandomAffine(20, (0.1, 0.1), (0.7, 1.2), 15, "bilinear"),
            "RandomPerspective": T.RandomPerspective(0.5, 1.0),
            "ElasticTransform": T.ElasticTransform(120.0),
            "OpticalDistortion": T.OpticalDistortion((-0.9, 0.9)),
            "RandomRotate": T.RandomRotate(1.0, pad_mode="reflection"),
            "RandomZoom": T.RandomZoom(1.0),
            "RandomRotateObject": T.RandomRotateObject(1.0),
            "RandomZoomOut": T.RandomZoomOut(127, (1.0, 2.5), 1.0),
            "RandomTranslate": T.RandomTranslate(30),
            "ScaleJitter": T.ScaleJitter((SIDE, SIDE), (0.4, 1.0)),
            "RandomShortestSize": T.RandomShortestSize([64, 96, 144]),
            "RandomResize": T.RandomResize(64, 144),
            "Letterbox": T.Letterbox((SIDE, 96)),
            "RandomPatchShuffle": T.RandomPatchShuffle([24, 36, 48], 1.0),
            "RandomIoUCrop": T.RandomIoUCrop(),
            "FiveCrop": T.FiveCrop(80),
            "TenCrop": T.TenCrop(80),
        },
        "colour": {
            "ColorJitter": T.ColorJitter(0.4, 0.4, 0.4, 0.2),
            "Grayscale": T.Grayscale(3),
            "RandomGrayscale": T.RandomGrayscale(1.0),
            "RandomChannelPermutation": T.RandomChannelPermutation(),
            "RandomPhotometricDistort": T.RandomPhotometricDistort(p=0.8),
            "RandomInvert": T.RandomInvert(1.0),
            "RandomPosterize": T.RandomPosterize(2, 1.0),
            "RandomSolarize": T.RandomSolarize(128, 1.0),
            "RandomEqualize": T.RandomEqualize(1.0),
            "RandomAutocontrast": T.RandomAutocontrast(1.0),
            "RandomAdjustSharpness": T.RandomAdjustSharpness(4.0, 1.0),
            "RandomBrightness": T.RandomBrightness(0.6, 1.0),
            "RandomContrast": T.RandomContrast(0.8, 1.0),
            "RandomSaturation": T.RandomSaturation(1.0, 1.0),
            "RandomHue": T.RandomHue(0.5, 1.0),
            "RandomGamma": T.RandomGamma((0.4, 2.5), 1.0),
            "RandomColorJitterHSV": T.RandomColorJitterHSV(1.0, 0.2, 0.5, 0.4, 0.4),
            "RandomColorJitterYIQ": T.RandomColorJitterYIQ(1.0, 60, 0.5, 0.2, 0.3, 0.3),
            "RGBShift": T.RGBShift(60, 60, 60, 1.0),
            "ChannelDropout": T.ChannelDropout(p=1.0),
            "CLAHE": T.CLAHE(4.0, p=1.0),
        },
        "pixels": {
            "GaussianBlur": T.GaussianBlur(15, (1.0, 4.0)),
            "PILGaussianBlur": T.PILGaussianBlur((1.0, 4.0)),
            "MotionBlur": T.MotionBlur((9, 21), p=1.0),
            "Defocus": T.Defocus((3, 6), p=1.0),
            "GaussianNoise": T.GaussianNoise(sigma=(0.05, 0.2)),
            "SaltAndPepper": T.SaltAndPepper((0.02, 0.15), p=1.0),
            "PowerLawNoise": T.PowerLawNoise((0.5, 2.5), (0.3, 0.7), p=1.0),
            "JPEG": T.JPEG((2, 12)),
            "RandomErasing": T.RandomErasing(1.0, value=127),
            "Cutout": T.Cutout(48),
            "CoarseDropout": T.CoarseDropout((3, 8), p=1.0),
            "GridMask": T.GridMask((0.15, 0.4), p=1.0),
            "CircularMask": T.CircularMask(12),
            "RandomEmbed": T.RandomEmbed(200, (0.4, 0.6), (0.4, 0.6), "power_law", fade_radius=40.0),
            "RandomBackgroundBlend": T.RandomBackgroundBlend("power_law", fade_mode="circular"),
            "Poison": T.Poison(pattern, np.full((SIDE, SIDE), 0.3), range(DRAWS)),
        },
        "policies": {
            "AutoAugment": T.AutoAugment(),
            "RandAugment": T.RandAugment(2, 15),
            "RandAugment, timm": T.RandAugment.timm("rand-m9-mstd0.5-inc1"),
            "TrivialAugmentWide": T.TrivialAugmentWide(),
            "AugMix": T.AugMix(),
            "ThreeAugment": T.ThreeAugment(),
        },
        "composition": {
            "Compose": T.Compose([T.RandomInvert(1.0), T.CenterCrop(96)]),
            "RandomApply": T.RandomApply([T.RandomInvert(1.0)]),
            "RandomChoice": T.RandomChoice([T.RandomInvert(1.0), T.Grayscale(3), T.RandomEqualize(1.0)]),
            "RandomOrder": T.RandomOrder([T.RandomPosterize(2, 1.0), T.GaussianBlur(9, 2.0)]),
            "SomeOf": T.SomeOf([T.RandomInvert(1.0), T.RandomVerticalFlip(1.0), T.GaussianBlur(9, 2.0)], 2),
            "Schedule": T.CenterCrop(T.Schedule({0: 64, 1: 96, 2: 144})),
        },
    }


def applied(op: Any, photo: Image.Image, draw: int) -> Image.Image:
    """One draw; several crops become one image."""
    if isinstance(op, T.RandomIoUCrop):
        return T.apply(op, photo, seed=1, epoch=draw, index=draw, boxes=[[30, 30, 110, 120]])[0].convert("RGB")
    made = T.apply(op, photo, seed=1, epoch=draw, index=draw)
    if not isinstance(made, tuple):
        return made.convert("RGB")
    across, (width, height) = math.ceil(math.sqrt(len(made))), made[0].size
    grid = Image.new("RGB", (across * (width + 6), math.ceil(len(made) / across) * (height + 6)), "white")
    for number, crop in enumerate(made):
        grid.paste(crop, (number % across * (width + 6), number // across * (height + 6)))
    return grid


def sheet(ops: dict[str, Any], photo: Image.Image) -> Image.Image:
    """A row per transform: the photo, then some draws."""
    width, height = 150 + (DRAWS + 1) * (SIDE + 6), SIDE + 6
    page = Image.new("RGB", (width, height * len(ops)), "white")
    pen = ImageDraw.Draw(page)
    for row, (name, op) in enumerate(ops.items()):
        pen.text((4, row * height + SIDE // 2), name, fill="black")
        for column, picture in enumerate([photo, *(applied(op, photo, draw) for draw in range(DRAWS))]):
            picture.thumbnail((SIDE, SIDE))
            page.paste(picture, (150 + column * (SIDE + 6), row * height))
        photo = photo.copy()
    return page


def parameters(name: str) -> str:
    cls = getattr(T, name.split(",", maxsplit=1)[0])
    found = [p for p in inspect.signature(cls.__init__).parameters.values() if p.name != "self"]
    return ", ".join(p.name if p.default is p.empty else f"{p.name}={_short(p.default)}" for p in found) or "-"


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, tuple):
        return f"({', '.join(_short(each) for each in value)})"
    return repr(value)


def tables(parity: dict[str, str], speed: dict[str, Any]) -> str:
    lines = []
    for family, ops in shown().items():
        lines += ["", f"### {family.capitalize()}", "", f"![{family}](transforms/{family}.jpg)", ""]
        lines += [
            "| transform | what | parameters | pixels against torchvision | µs at 224² |",
            "|---|---|---|---|---|",
        ]
        for name in ops:
            first = (
                (inspect.getdoc(getattr(T, name.split(",")[0])) or "").split("\n")[0].rstrip(".").replace("|", "\\|")
            )
            took = f"{speed[name]:.0f}" if name in speed else "-"
            lines.append(f"| `{name}` | {first} | {parameters(name)} | {parity.get(name, '-')} | {took} |")
    lines += ["", "### Floats and labels", "", "| transform | what | parameters |", "|---|---|---|"]
    lines += [plain_row(name) for name in ("Normalize", "RGBToLGN", "RGBToMagno", "ReplaceLabel")]
    lines += ["", "### Tokens, audio and video", "", "| transform | what | parameters |", "|---|---|---|"]
    lines += [plain_row(name) for name in OTHER]
    lines += ["", "### Views", "", "| transform | what | parameters |", "|---|---|---|"]
    lines += [plain_row(name) for name in ("MultiCrop", "Yoked")]
    return "\n".join(lines)


OTHER = (
    "TokenWindow",
    "ArrayWindow",
    "AudioWindow",
    "Resample",
    "Mono",
    "RandomGain",
    "RandomNoise",
    "BackgroundNoise",
    "MelSpectrogram",
    "AmplitudeToDB",
    "FrequencyMasking",
    "TimeMasking",
    "Clip",
)
"""Transforms of other fields than images."""


def plain_row(name: str) -> str:
    first = " ".join((inspect.getdoc(getattr(T, name)) or "").split("\n\n")[0].split())
    return f"| `{name}` | {first} | {parameters(name)} |"


# Which rows of the parity table speak for which transform.
WORDS = {
    "ColorJitter": ("brightness", "contrast", "saturation", "hue"),
    "RandomBrightness": ("brightness",),
    "RandomContrast": ("contrast",),
    "RandomSaturation": ("saturation",),
    "RandomHue": ("hue",),
    "RandomPhotometricDistort": ("brightness", "contrast", "saturation", "hue"),
    "RandomGamma": ("gamma",),
    "Grayscale": ("grayscale",),
    "RandomGrayscale": ("grayscale",),
    "RandomInvert": ("invert",),
    "RandomPosterize": ("posterize",),
    "RandomSolarize": ("solarize",),
    "RandomEqualize": ("equalize",),
    "RandomAutocontrast": ("autocontrast",),
    "RandomAdjustSharpness": ("sharpness",),
    "GaussianBlur": ("gaussian blur",),
    "PILGaussianBlur": ("PIL gaussian blur",),
    "JPEG": ("jpeg",),
    "Resize": ("resize",),
    "RandomResizedCrop": ("resize",),
    "Letterbox": ("resize",),
    "ScaleJitter": ("resize",),
    "RandomShortestSize": ("resize",),
    "CenterCrop": ("center crop",),
    "Pad": ("pad",),
    "RandomHorizontalFlip": ("hflip",),
    "RandomVerticalFlip": ("vflip",),
    "RandomRotation": ("rotate",),
    "RandomAffine": ("affine",),
}


def agreement(rows: list[dict[str, Any]]) -> dict[str, str]:
    """In words, from the parity tool's results on PIL images."""
    found = {}
    for name, words in WORDS.items():
        mine = [r for r in rows if r["against"].endswith("pil") and r["op"].startswith(words)]
        if not mine:
            continue
        most, bias = max(r["max"] for r in mine), max((r["bias"] for r in mine), key=abs)
        text = "equal" if most == 0 else f"at most {most} level{'s' if most > 1 else ''}, bias {bias:+.3f}"
        edge = max((r["border"] or 0 for r in mine), default=0)
        found[name] = f"{text}; at the border {edge}" if edge else text
    return found


# Rows of the benchmark that have another name than the transform they time.
ROWS = {
    "RandomBrightness": "brightness",
    "RandomContrast": "contrast",
    "RandomSaturation": "saturation",
    "RandomHue": "hue",
    "RandomGamma": "gamma",
    "Normalize": "to float32 and Normalize",
}


def timed(result: dict[str, Any]) -> dict[str, float]:
    """Microseconds of each transform at 224 x 224: those of the first row that begins with its name."""
    rows = [(row["op"], row["times"]["feedline"]["best"]) for row in result["ops"] if row["size"] == 224]
    found = {}
    for name in (name for ops in shown().values() for name in ops):
        begin = ROWS.get(name, name)
        times = [time for row, time in rows if row == begin or row.startswith((f"{begin} ", f"{begin},"))]
        if times:
            found[name] = times[0]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photo", type=Path, nargs="?")
    parser.add_argument("--parity", type=Path)
    parser.add_argument("--speed", type=Path)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    page = PAGE.read_text()
    missing = sorted(name for name in _feedline.transform_names() if f"| `{name}" not in page)
    if arguments.check:
        sys.exit(f"docs/transforms.md lacks {', '.join(missing)}" if missing else 0)
    if arguments.photo is None:
        parser.error("a photo is needed")
    with Image.open(arguments.photo) as opened:
        image = opened.convert("RGB")
    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    photo = image.crop((left, top, left + side, top + side)).resize((SIDE, SIDE))
    PICTURES.mkdir(exist_ok=True)
    for family, ops in shown().items():
        sheet(ops, photo.copy()).save(PICTURES / f"{family}.jpg", quality=80)
    parity = agreement(json.loads(arguments.parity.read_text())) if arguments.parity else {}
    speed = timed(json.loads(arguments.speed.read_text())) if arguments.speed else {}
    before, rest = page.split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}{tables(parity, speed)}\n\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main()
