"""The samples that every library is given: all kinds of values, the awkward ones among them."""

import io

import numpy as np
from PIL import Image

COUNT = 23
TEXTS = ["", "plain", "héllo wörld", "漢字 🙂", "line\nbreak\ttab", 'quotes " and \\ back']


def pixels(number, *, fixed=False):
    """A smooth image, each of another size unless `fixed`."""
    height, width = (48, 64) if fixed else (20 + number, 30 + 2 * number)
    y, x = np.mgrid[0:height, 0:width]
    planes = [(x * 3 + number * 5) % 256, (y * 4 + number) % 256, (x + y) % 256]
    return np.stack(planes, axis=-1).astype(np.uint8)


def encoded(number, kind, **how):
    """The image as a file."""
    file = io.BytesIO()
    Image.fromarray(pixels(number, **how)).save(file, kind)
    return file.getvalue()


def sample(number):
    """Everything but images."""
    return {
        "integer": [number * 3 - 4, -(2**40) + number, 2**62][number % 3],
        "number": [number / 4 - 0.5, 1e-300, -3.5e100][number % 3],
        "text": TEXTS[number % len(TEXTS)],
        "blob": bytes((7 * k + number) % 256 for k in range(5 * number)),
        "matrix": (np.arange(6).reshape(2, 3) + number).astype(np.float32),
        "levels": np.arange(4 * (number + 1), dtype=np.uint8).reshape(number + 1, 4),
        "shorts": np.array([number, -number, 7], dtype=np.int16),
        "doubles": np.linspace(0, number, 5),
        "longs": np.arange(3, dtype=np.int64) * 10**12 - number,
        "json": {"k": number, "s": "é", "list": [1, 2.5, None, True, "x"], "nested": {"a": {}}},
    }
