"""Writes testdata/resize: what Pillow and torchvision make of a synthetic image, for crates/feedline-pixels/tests.

Run with Pillow, torch and torchvision installed (written with 13.0.0, 2.15.0, 0.29.2):
    python tools/make_resize_golden.py

golden.txt has one line per case: name filter image_w image_h crop(x y w h) resized(w h) window(x y w h) fill flip_h
flip_v offset; golden.bin holds the RGB bytes of every case one after another, each from its offset.
"""

from pathlib import Path

import numpy as np
from PIL import Image
from torchvision.transforms import InterpolationMode
from torchvision.transforms import functional as F

OUT = Path(__file__).parent.parent / "testdata" / "resize"
FILTERS = {
    "nearest": InterpolationMode.NEAREST,
    "box": InterpolationMode.BOX,
    "bilinear": InterpolationMode.BILINEAR,
    "hamming": InterpolationMode.HAMMING,
    "bicubic": InterpolationMode.BICUBIC,
    "lanczos": InterpolationMode.LANCZOS,
}


def synthetic(width: int, height: int) -> Image.Image:
    """Gradients with hard edges and noise; tests/golden.rs makes the same one."""
    x, y = np.meshgrid(np.arange(width, dtype=np.uint32), np.arange(height, dtype=np.uint32))
    noise = (x * 2654435761 + y * 2246822519) & 0xFFFFFFFF
    noise = ((noise ^ (noise >> 15)) * 2654435761 & 0xFFFFFFFF) >> 24
    red = (x * 255 // max(width - 1, 1) + noise // 8).clip(0, 255)
    green = np.where((x // 7 + y // 5) % 2 == 0, 0, 255)
    blue = noise
    return Image.fromarray(np.stack([red, green, blue], -1).astype(np.uint8))


def cases():
    boxes = [
        # image, crop (x, y, w, h), resized (w, h)
        ((97, 71), (0, 0, 97, 71), (40, 30)),
        ((97, 71), (13, 9, 60, 50), (48, 48)),
        ((97, 71), (13, 9, 60, 50), (60, 21)),
        ((97, 71), (13, 9, 31, 17), (31, 40)),
        ((97, 71), (50, 30, 11, 7), (33, 37)),
        ((97, 71), (96, 70, 1, 1), (5, 3)),
        ((97, 71), (0, 0, 97, 71), (1, 1)),
        ((640, 3), (0, 0, 640, 3), (7, 9)),
        ((3, 500), (0, 0, 3, 500), (9, 11)),
    ]
    for name in FILTERS:
        for image, crop, resized in boxes:
            yield name, image, crop, resized, (0, 0, *resized), 0, False, False
    yield "bilinear", (97, 71), (13, 9, 60, 50), (48, 48), (0, 0, 48, 48), 0, True, False
    yield "bilinear", (97, 71), (13, 9, 60, 50), (48, 48), (0, 0, 48, 48), 0, True, True
    yield "bicubic", (97, 71), (0, 0, 97, 71), (44, 32), "center 24 24", 0, True, False
    yield "bilinear", (97, 71), (0, 0, 97, 71), (44, 32), "center 25 27", 0, False, False
    yield "bilinear", (97, 71), (0, 0, 97, 71), (44, 32), "center 51 27", 0, True, True
    yield "nearest", (97, 71), (0, 0, 97, 71), (44, 32), "center 51 39", 0, True, False
    yield "bilinear", (97, 71), (0, 0, 97, 71), (97, 71), "center 64 80", 0, True, False
    yield "bilinear", (20, 20), (0, 0, 20, 20), (20, 20), (-4, 3, 20, 20), 128, False, False


def expected(name, image, crop, resized, window, fill, flip_h, flip_v):
    x, y, w, h = crop
    picture = F.resized_crop(synthetic(*image), y, x, h, w, [resized[1], resized[0]], FILTERS[name])
    if isinstance(window, str):
        width, height = map(int, window.split()[1:])
        picture = F.center_crop(picture, [height, width])
        edge = lambda have, want: -((want - have) // 2) if have < want else round((have - want) / 2)
        window = (edge(resized[0], width), edge(resized[1], height), width, height)
    elif window != (0, 0, *resized):
        canvas = Image.new("RGB", window[2:], (fill, fill, fill))
        canvas.paste(picture, (-window[0], -window[1]))
        picture = canvas
    picture = F.hflip(picture) if flip_h else picture
    picture = F.vflip(picture) if flip_v else picture
    return picture.tobytes(), window


def main() -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    lines, blob = [], b""
    for case in cases():
        name, image, crop, resized, _, fill, flip_h, flip_v = case
        pixels, window = expected(*case)
        numbers = [*image, *crop, *resized, *window, fill, int(flip_h), int(flip_v), len(blob)]
        lines.append(" ".join([name, *map(str, numbers)]))
        blob += pixels
    (OUT / "golden.txt").write_text("\n".join(lines) + "\n")
    (OUT / "golden.bin").write_bytes(blob)


if __name__ == "__main__":
    main()
