"""Small data sets of other kinds than photos: scenes with masks and boxes, sounds, clips."""

from __future__ import annotations

import json
import wave
from pathlib import Path

import numpy as np
from PIL import Image


def make_scenes(root: Path, scenes: int = 16) -> Path:
    """Coloured squares on grey in `images`, with `masks`, Pascal VOC's `boxes` and COCO's `instances.json`."""
    for folder in ("images", "masks", "boxes"):
        (root / folder).mkdir(parents=True)
    rng = np.random.default_rng(0)
    images, annotations = [], []
    for number in range(scenes):
        image, mask = np.full((72, 96, 3), 90, np.uint8), np.zeros((72, 96), np.uint8)
        objects = ""
        for label in range(1, 4):
            x, y = (int(v) for v in rng.integers(4, [60, 40]))
            image[y : y + 24, x : x + 24, label - 1] = 240
            mask[y : y + 24, x : x + 24] = label
            box = f"<xmin>{x}</xmin><ymin>{y}</ymin><xmax>{x + 24}</xmax><ymax>{y + 24}</ymax>"
            objects += f"<object><name>c{label}</name><bndbox>{box}</bndbox></object>"
            outline = [x, y, x + 24, y, x + 24, y + 24, x, y + 24]
            found = {"bbox": [x, y, 24, 24], "category_id": label, "area": 576, "iscrowd": 0, "segmentation": [outline]}
            annotations.append({"id": len(annotations) + 1, "image_id": number, **found})
        Image.fromarray(image).save(root / "images" / f"{number}.jpg")
        Image.fromarray(mask).save(root / "masks" / f"{number}.png")
        (root / "boxes" / f"{number}.xml").write_text(f"<annotation>{objects}</annotation>")
        images.append({"id": number, "file_name": f"{number}.jpg", "width": 96, "height": 72})
    categories = [{"id": label, "name": f"c{label}"} for label in range(1, 4)]
    content = {"images": images, "annotations": annotations, "categories": categories}
    (root / "instances.json").write_text(json.dumps(content))
    return root


def make_sounds(root: Path, per_class: int = 8) -> Path:
    """Low and high tones of three quarters of a second."""
    for word, hertz in (("low", 300), ("high", 1500)):
        (root / word).mkdir(parents=True)
        for number in range(per_class):
            tone = np.sin(2 * np.pi * (hertz + 20 * number) * np.arange(6000) / 8000)
            with wave.open(str(root / word / f"{number}.wav"), "wb") as out:
                out.setparams((1, 2, 8000, 0, "NONE", ""))
                out.writeframes((tone * 9000).astype("<i2").tobytes())
    return root


def make_clips(root: Path, per_class: int = 3, frames: int = 20) -> Path:
    """Red and blue videos with a line that moves."""
    import av

    for label, colour in (("red", (200, 40, 40)), ("blue", (40, 40, 200))):
        (root / label).mkdir(parents=True)
        for number in range(per_class):
            with av.open(str(root / label / f"{number}.mp4"), "w") as file:
                stream = file.add_stream("libx264", rate=25)
                stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
                for at in range(frames):
                    pixels = np.full((48, 64, 3), colour, np.uint8)
                    pixels[:, (at * 3 + number) % 64] = 255
                    file.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
                file.mux(stream.encode())
    return root
