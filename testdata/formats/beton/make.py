"""Wrote the files of this folder, with FFCV 1.0.2; `python make.py expected` tells what is in them, without FFCV.

The files are kept as zstd, for most of their 4 MiB is the zeros of unfinished pages.
"""

import hashlib
import json
import struct
import subprocess
import sys

import numpy as np

MODES = ["raw", "jpg", "proportion", "smart"]


def image(i):
    return np.random.default_rng(i).integers(0, 255, (20 + i, 30 + 2 * i, 3), dtype=np.uint8)


def write():
    import torch
    from ffcv.fields import BytesField, FloatField, IntField, JSONField, NDArrayField, RGBImageField, TorchTensorField
    from ffcv.writer import DatasetWriter

    class Samples:
        def __len__(self):
            return 5

        def __getitem__(self, i):
            return (
                image(i),
                i * 3 - 4,
                i / 4,
                np.frombuffer(b"xyz" * (i + 1), dtype="uint8"),
                np.arange(6, dtype="float32").reshape(2, 3) + np.float32(i),
                {"k": int(i), "s": "e"},
                torch.arange(4, dtype=torch.int64) + int(i),
            )

    for mode in MODES:
        fields = {
            "img": RGBImageField(write_mode=mode, smart_threshold=2000),
            "lab": IntField(),
            "flt": FloatField(),
            "by": BytesField(),
            "nd": NDArrayField(np.dtype("float32"), (2, 3)),
            "js": JSONField(),
            "tt": TorchTensorField(torch.int64, (4,)),
        }
        name = f"{mode}.beton"
        DatasetWriter(name, fields, num_workers=2, page_size=1 << 21).from_indexed_dataset(Samples())
        subprocess.run(["zstd", "-q", "-19", "-f", "--rm", name], check=True)


def expected():
    """Hash and mode of every image, found with the allocation table; raw ones must be the generator's pixels."""
    result = {}
    for mode in MODES:
        file = subprocess.run(["zstd", "-dcq", f"{mode}.beton.zst"], check=True, capture_output=True).stdout
        _, fields, _, samples, table = struct.unpack("<HHIQQ", file[:24])
        lengths = {pointer: size for _, pointer, size in struct.iter_unpack("<QQQ", file[table:])}
        result[mode] = []
        for i in range(samples):
            kind, width, height, pointer = struct.unpack_from("<BHHQ", file, 24 + 1041 * fields + 80 * i)
            data = file[pointer : pointer + lengths[pointer]]
            assert (height, width) == image(i).shape[:2]
            assert kind == 0 or data == image(i).tobytes()
            result[mode].append({"raw": kind == 1, "sha256": hashlib.sha256(data).hexdigest()})
    with open("expected.json", "w") as out:
        json.dump(result, out, indent=1)


if __name__ == "__main__":
    if sys.argv[1:] != ["expected"]:
        write()
    expected()
