"""Speed of every codec beside Pillow and OpenCV, in one run.

    python benchmarks/codecs.py FOLDER [--images 60] [--rounds 5] [--folder] [--only "JPEG progressive"]

Photos of a folder are written once in every format by Pillow. Then each library decodes them whole to RGB bytes, and
feedline, torchvision on PIL images and torchvision.io with v2 on tensors run the training recipe (a random box resized
to 224, flipped, normalised). `--folder` reads the files from a folder instead of a pack of the unchanged files. One
thread each (Pillow's AVIF uses as many as it likes), CPU time, libraries in turns, the best round counts. Ratios above 1
mean that feedline is faster.
"""

from __future__ import annotations

import argparse
import io
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import feedline as fl
import numpy as np
import torch
from feedline import transforms as T
from PIL import Image
from torchvision.io import ImageReadMode, decode_image
from torchvision.transforms import v2

FORMATS: dict[str, tuple[str, dict[str, Any]]] = {
    "JPEG": ("JPEG", {"quality": 90}),
    "JPEG progressive": ("JPEG", {"quality": 90, "progressive": True}),
    "PNG": ("PNG", {}),
    "WebP": ("WEBP", {"quality": 85}),
    "WebP lossless": ("WEBP", {"lossless": True, "method": 2}),
    "AVIF": ("AVIF", {"quality": 75, "speed": 8}),
    "TIFF LZW": ("TIFF", {"compression": "tiff_lzw"}),
    "GIF": ("GIF", {}),
    "BMP": ("BMP", {}),
    "JPEG 2000": ("JPEG2000", {"irreversible": True, "quality_layers": [12]}),
}
RECIPE = [T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.Normalize.imagenet()]
THEIRS = v2.Compose(
    [
        v2.RandomResizedCrop(224),
        v2.RandomHorizontalFlip(),
        v2.PILToTensor(),
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
    ]
)
ON_TENSORS = v2.Compose(
    [
        v2.RandomResizedCrop(224, antialias=True),
        v2.RandomHorizontalFlip(),
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
    ]
)


def written(photos: list[Image.Image], kind: str, options: dict[str, Any]) -> list[bytes]:
    files = []
    for photo in photos:
        buffer = io.BytesIO()
        photo.save(buffer, kind, **options)
        files.append(buffer.getvalue())
    return files


def pillow(files: list[bytes]) -> None:
    for data in files:
        np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def opencv(files: list[bytes]) -> None:
    for data in files:
        image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
        if image is None:
            raise ValueError("OpenCV does not read it")
        cv2.cvtColor(image, cv2.COLOR_BGR2RGB)


def torchvision(files: list[bytes]) -> None:
    for data in files:
        THEIRS(Image.open(io.BytesIO(data)).convert("RGB"))


def whole_io(files: list[bytes]) -> None:
    for data in files:
        decode_image(torch.frombuffer(bytearray(data), dtype=torch.uint8), ImageReadMode.RGB)


def torchvision_io(files: list[bytes]) -> None:
    for data in files:
        ON_TENSORS(decode_image(torch.frombuffer(bytearray(data), dtype=torch.uint8), ImageReadMode.RGB))


def stored(files: list[bytes], kind: str, place: Path, as_folder: bool) -> fl.Dataset:
    if not as_folder:
        rows = [{"image": data} for data in files]
        return fl.pack(rows, place / "pack", schema={"image": "image"}, image="as-is", progress=False)
    ending = {"JPEG": "jpg", "JPEG2000": "jp2"}.get(kind, kind.lower())
    for number, data in enumerate(files):
        path = place / "all" / "one" / f"{number:05}.{ending}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return fl.open(place / "all")


def feedline(dataset: fl.Dataset, recipe: Any) -> Callable[[], None]:
    options = {} if recipe else {"dtype": "uint8", "memory_format": "channels_last"}
    loader = fl.Loader(
        dataset, batch_size=10, transforms=recipe, output="numpy", num_workers=1, auto_tune=False, **options
    )

    def run() -> None:
        for _ in loader:
            pass

    return run


def seconds(run: Callable[[], None]) -> float:
    begun = time.process_time()
    run()
    return time.process_time() - begun


def measured(runs: dict[str, Callable[[], None]], rounds: int) -> dict[str, float]:
    best = dict.fromkeys(runs, float("inf"))
    for turn in range(rounds + 1):
        for name, run in runs.items():
            try:
                taken = seconds(run)
            except (ValueError, RuntimeError, cv2.error):
                continue
            if turn > 0:
                best[name] = min(best[name], taken)
    return best


def ratio(theirs: float, ours: float) -> str:
    return f"{theirs / ours:11.2f}" if theirs < float("inf") else f"{'-':>11}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--images", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", dest="as_folder", action="store_true")
    parser.add_argument("--only", choices=FORMATS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    paths = sorted(path for path in arguments.folder.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    photos = [Image.open(path).convert("RGB") for path in paths[: arguments.images]]
    print(f"{len(photos)} photos; ms an image, and how many times as long the others take")
    print(
        f"{'format':18}{'whole ms':>9}{'x Pillow':>11}{'x OpenCV':>11}{'x tv.io':>11}"
        f"{'train ms':>10}{'x PIL':>11}{'x tv.io':>11}"
    )
    for name, (kind, options) in FORMATS.items():
        if arguments.only in (None, name):
            row(name, written(photos, kind, options), kind, arguments)


def row(name: str, files: list[bytes], kind: str, arguments: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as place:
        dataset = stored(files, kind, Path(place), arguments.as_folder)
        runs = {
            "ours": feedline(dataset, None),
            "pillow": lambda: pillow(files),
            "opencv": lambda: opencv(files),
            "whole_io": lambda: whole_io(files),
            "train": feedline(dataset, RECIPE),
            "torchvision": lambda: torchvision(files),
            "train_io": lambda: torchvision_io(files),
        }
        best = measured(runs, arguments.rounds)
    whole, train = best["ours"] * 1e3 / len(files), best["train"] * 1e3 / len(files)
    others = "".join(ratio(best[name], best["ours"]) for name in ("pillow", "opencv", "whole_io"))
    recipes = "".join(ratio(best[name], best["train"]) for name in ("torchvision", "train_io"))
    print(f"{name:18}{whole:9.2f}{others}{train:10.2f}{recipes}", flush=True)


if __name__ == "__main__":
    main()
