"""What the tests of knobs share."""

from __future__ import annotations

import io

import feedline as fl
import numpy as np
from feedline import transforms as T
from PIL import Image


def knob(*_names):
    """Marks a test as the proof of these knobs; `tools/options_table.py` reads it."""
    return lambda test: test


def tiny_images(root):
    """20 tiny images of two shapes."""
    rng = np.random.default_rng(0)
    for number in range(20):
        shape = (16, 24, 3) if number % 2 else (24, 16, 3)
        buffer = io.BytesIO()
        Image.fromarray(rng.integers(0, 256, shape, dtype=np.uint8)).save(buffer, "JPEG", quality=90)
        folder = root / f"class{number // 10}"
        folder.mkdir(exist_ok=True)
        (folder / f"{number:02}.jpg").write_bytes(buffer.getvalue())
    return fl.open(root)


CROP = {"transforms": [T.CenterCrop(8)]}


def first(dataset, **knobs):
    with fl.Loader(dataset, **{"batch_size": 4, "output": "numpy", **CROP, **knobs}) as loader:
        return next(iter(loader))
