"""The image of docs/targets.md: masks and boxes drawn on what a loader made of them.

    python tools/targets_docs.py DATA docs/transforms/targets.jpg

DATA has `segmentation/membrane/{images,masks}` and `detection/{bccd,raccoon}/{images,annotations}`: MIT,
from zhixuhao/unet, Shenggan/BCCD_Dataset and datitran/raccoon_dataset.
"""

from __future__ import annotations

import sys
from pathlib import Path

import feedline as fl
import numpy as np
from feedline import transforms as T
from PIL import Image, ImageDraw

SIDE = 200
OPS = [
    T.RandomResizedCrop(SIDE, scale=(0.5, 1.0)),
    T.RandomHorizontalFlip(),
    T.RandomAffine(20, (0.05, 0.05), (0.9, 1.1), 8),
    T.ColorJitter(0.3, 0.3, 0.3, 0.05),
]
COLOURS = [(255, 80, 60), (70, 200, 255), (255, 220, 60), (140, 255, 120)]


def batches(ds, **more):
    knobs = {"batch_size": 6, "dtype": "uint8", "memory_format": "channels_last", "output": "numpy", "seed": 5}
    return next(iter(fl.Loader(ds, **knobs, **more)))


def masks(root: Path) -> list[Image.Image]:
    ds = fl.open({"image": root / "images", "mask": root / "masks"})
    made = batches(ds, transforms={"image": OPS}, targets={"mask": T.Mask(fill=255, dtype="uint8")})
    images = []
    for image, mask in zip(made["image"], made["mask"], strict=True):
        edge = (mask < 128)[..., None]
        images.append(Image.fromarray(np.where(edge, image // 2 + np.array(COLOURS[0], np.uint8) // 2, image)))
    return images


def boxes(root: Path) -> list[Image.Image]:
    ds = fl.open(root / "images", annotations=root / "annotations")
    made = batches(
        ds,
        transforms=OPS,
        fields=["image", "boxes", "label"],
        targets={"boxes": T.Boxes(labels="label", min_visibility=0.2)},
    )
    images = []
    for row, pixels in enumerate(made["image"]):
        image = Image.fromarray(pixels)
        draw = ImageDraw.Draw(image)
        for box, label in zip(made["boxes"][row], made["label"][row], strict=True):
            draw.rectangle([float(v) for v in box], outline=COLOURS[int(label) % len(COLOURS)], width=2)
        images.append(image)
    return images


def main() -> None:
    data, out = Path(sys.argv[1]), Path(sys.argv[2])
    rows = [masks(data / "segmentation/membrane"), boxes(data / "detection/bccd"), boxes(data / "detection/raccoon")]
    sheet = Image.new("RGB", (6 * SIDE, len(rows) * SIDE))
    for y, row in enumerate(rows):
        for x, image in enumerate(row):
            sheet.paste(image, (x * SIDE, y * SIDE))
    sheet.resize((sheet.width * 2 // 3, sheet.height * 2 // 3)).save(out, quality=80)


if __name__ == "__main__":
    main()
