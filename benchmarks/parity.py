"""Our pixels beside Pillow's and torchvision's, on any folder of images.

    python benchmarks/parity.py FOLDER... [--manifest manifest.csv]

For every file: the whole image against `Image.open().convert("RGB")` turned by its EXIF orientation; Resize(256) +
CenterCrop(224) and a fixed box resized to 224 against torchvision on PIL images. With a manifest (columns path and tier),
files of the tiers reject and bomb must be refused, and files of the tier deep must have the right size.
"""

from __future__ import annotations

import argparse
import collections
import csv
import io
from pathlib import Path

import feedline as fl
import numpy as np
from feedline import transforms as T
from PIL import Image, ImageOps
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as F

SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".avif", ".qoi"}
SUFFIXES |= {".pbm", ".pgm", ".ppm", ".pnm", ".pam", ".pfm", ".jxl", ".jp2", ".j2k", ".jpx", ".heic", ".hdr", ".dib"}


def reference(data: bytes):
    """Pillow's pixels, or None where Pillow refuses."""
    try:
        return ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")
    except Exception:  # noqa: BLE001 - whatever Pillow raises, it refused
        return None


def ours(data: bytes, place: Path, recipe=None):
    """Our pixels through a loader, or the error."""
    dataset = fl.pack(
        [{"image": data}], place, schema={"image": "image"}, image="as-is", progress=False, overwrite=True
    )
    try:
        if recipe is None:
            return dataset.decoded()[0]["image"]
        with fl.Loader(
            dataset, transforms=recipe, dtype="uint8", memory_format="channels_last", output="numpy"
        ) as loader:
            return next(iter(loader))["image"][0]
    except fl.Error as error:
        return error


def worst(a, b) -> int:
    b = np.asarray(b)
    if isinstance(a, Exception):
        return 999
    return 999 if a.shape != b.shape else int(np.abs(a.astype(int) - b.astype(int)).max())


def box(width: int, height: int):
    """A fixed box in the middle of the left half or so, at least one pixel."""
    w, h = max(1, width * 2 // 3), max(1, height * 3 // 5)
    return (width - w) // 3, (height - h) // 2, w, h


def check(data: bytes, place: Path) -> dict[str, int | str]:
    theirs = reference(data)
    mine = ours(data, place)
    if theirs is None or isinstance(mine, Exception):
        return {
            "refused": f"{'Pillow' if theirs is None else ''} {'feedline' if isinstance(mine, Exception) else ''}".strip()
        }
    result: dict[str, int | str] = {"decode": worst(mine, theirs)}
    validation = v2.Compose([v2.Resize(256), v2.CenterCrop(224)])(theirs)
    result["validation"] = worst(ours(data, place, [T.Resize(256), T.CenterCrop(224)]), validation)
    x, y, w, h = box(*theirs.size)
    # A centre crop of the same box: pad so that the box is in the middle, crop it, resize it.
    left, top = max(0, theirs.size[0] - w - 2 * x), max(0, theirs.size[1] - h - 2 * y)
    right, bottom = max(0, 2 * x + w - theirs.size[0]), max(0, 2 * y + h - theirs.size[1])
    recipe = [T.Pad((left, top, right, bottom)), T.CenterCrop((h, w)), T.Resize((224, 224))]
    cropped = F.resized_crop(theirs, y, x, h, w, [224, 224])
    result["box"] = worst(ours(data, place, recipe), cropped)
    return result


def main() -> None:
    import tempfile

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--manifest", type=Path)
    arguments = parser.parse_args()
    tiers = {}
    if arguments.manifest:
        with arguments.manifest.open() as file:
            tiers = {str(arguments.manifest.parent / row["path"]): row["tier"] for row in csv.DictReader(file)}
    Image.MAX_IMAGE_PIXELS = 178_956_970
    levels: dict[str, collections.Counter[int]] = collections.defaultdict(collections.Counter)
    notable = []
    with tempfile.TemporaryDirectory() as place:
        for folder in arguments.folders:
            for file in sorted(p for p in folder.rglob("*") if p.suffix.lower() in SUFFIXES):
                result = check(file.read_bytes(), Path(place) / "one")
                tier = tiers.get(str(file), "must")
                if "refused" in result:
                    notable.append(f"{tier:8} refused by {result['refused']}: {file.name}")
                    continue
                for what, level in result.items():
                    levels[f"{tier} {what}"][int(level)] += 1
                if int(result["decode"]) > 0 or max(int(result["validation"]), int(result["box"])) > 1:
                    notable.append(f"{tier:8} {result}: {file.name}")
    for what, counts in sorted(levels.items()):
        print(f"{what:18} files by largest difference: {dict(sorted(counts.items()))}")
    print("\n".join(notable))


if __name__ == "__main__":
    main()
