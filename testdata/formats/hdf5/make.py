"""Small files by h5py: contiguous and chunked datasets, filters, byte orders, texts, lists, groups; what is not read.

Python packages: h5py, numpy.
"""

from pathlib import Path

import h5py
import numpy as np

HERE = Path(__file__).parent
JPEG = (HERE / "../litdata/a.jpg").read_bytes()
ROWS = 5
PIXELS = np.arange(ROWS * 4 * 6 * 3, dtype=np.uint8).reshape(ROWS, 4, 6, 3)


def put_all(file):
    """Every kind of column."""
    number = np.arange(ROWS)
    file["pixels"] = PIXELS
    file["label"] = (number * 3 - 4).astype("<i4")
    file["weight"] = number / 4
    file["big"] = (number[:, None] * 1000 + np.arange(3)).astype(">i2")
    file["half"] = (number[:, None] / 2 + np.arange(2)).astype(np.float16)
    file["flag"] = number % 2 == 1
    file["unsigned"] = (np.uint64(2**62) + number.astype(np.uint64)).astype(">u8")
    whole = {"shuffle": True, "fletcher32": True}
    file.create_dataset("packed", data=PIXELS.astype("<f4"), chunks=(2, 3, 4, 2), compression="gzip", **whole)
    file.create_dataset("lzf-is-not-read", data=PIXELS, chunks=(2, 4, 6, 3), compression="lzf")
    file.create_dataset("grown", data=number, chunks=(2,), maxshape=(None,), compression="gzip")
    file.create_dataset("empty", shape=(ROWS, 2), dtype="<f4", chunks=(2, 2), fillvalue=1.5)
    text = file.create_dataset("text", (ROWS,), dtype=h5py.string_dtype())
    fixed = file.create_dataset("fixed", (ROWS,), dtype=h5py.string_dtype("utf-8", 8))
    files = file.create_dataset("file", (ROWS,), dtype=h5py.vlen_dtype(np.uint8))
    lists = file.create_dataset("list", (ROWS,), dtype=h5py.vlen_dtype(np.dtype("<i2")))
    for n in range(ROWS):
        text[n] = "é" * n + str(n)
        fixed[n] = f"f{n}"
        files[n] = np.frombuffer(JPEG, np.uint8)
        lists[n] = np.arange(n, dtype="<i2") - 1
    file["group/inner"] = number * 2
    file["record"] = np.zeros(ROWS, dtype=[("a", "<i4"), ("b", "<f8")])
    file["single"] = 7


with h5py.File(HERE / "all.h5", "w") as file:
    put_all(file)
with h5py.File(HERE / "latest.h5", "w", libver="latest") as file:
    put_all(file)
with h5py.File(HERE / "split.h5", "w", userblock_size=512) as file:
    for split, rows in [("train", 4), ("test", 2)]:
        file[f"{split}/x"] = PIXELS[:rows]
        file[f"{split}/y"] = np.arange(rows)
