"""Wrote the folders here, with mosaicml-streaming 0.13.0.

`all`, `zstd` and `small` hold every encoding (raw; compressed with hashes; one sample per shard). The others hold two
columns and three samples: each compression, each text format, two writers' shards under one index, and two splits.
"""

import decimal
import os
import shutil

import numpy as np
from PIL import Image
from streaming import MDSWriter
from streaming.base.format.json.writer import JSONWriter
from streaming.base.format.xsv.writer import CSVWriter, TSVWriter, XSVWriter
from streaming.base.util import merge_index

HASHES = [
    *("md5", "sha1", "sha224", "sha256", "sha384", "sha512", "sha3_224", "sha3_256", "sha3_384", "sha3_512"),
    *("blake2b", "blake2s", "xxh32", "xxh64", "xxh128", "xxh3_64", "xxh3_128"),
]

PICTURE = Image.fromarray((np.arange(8 * 6 * 3) % 255).astype("uint8").reshape(6, 8, 3))
COLUMNS = {
    "bytes": "bytes",
    "str": "str",
    "int": "int",
    "nd": "ndarray",
    "ndt": "ndarray:int16",
    "nds": "ndarray:float32:2,3",
    "u8": "uint8",
    "i16": "int16",
    "f64": "float64",
    "f16": "float16",
    "si": "str_int",
    "sf": "str_float",
    "sd": "str_decimal",
    "pil": "pil",
    "jpeg": "jpeg",
    "png": "png",
    "pkl": "pkl",
    "json": "json",
    "ja": "list[jpeg]",
}


def sample(i):
    return {
        "bytes": b"ab" * i,
        "str": "héllo",
        "int": i - 5,
        "nd": np.arange(6, dtype=np.int32).reshape(2, 3),
        "ndt": np.arange(4, dtype=np.int16),
        "nds": np.ones((2, 3), np.float32),
        "u8": np.uint8(7),
        "i16": np.int16(-3),
        "f64": np.float64(1.5),
        "f16": np.float16(0.5),
        "si": -123456789012345678901,
        "sf": 1.25,
        "sd": decimal.Decimal("1.10"),
        "pil": PICTURE,
        "jpeg": PICTURE,
        "png": PICTURE,
        "pkl": {"a": 1},
        "json": {"k": [1, 2]},
        "ja": [PICTURE, PICTURE],
    }


def write(folder, writer=MDSWriter, columns=None, samples=None, **options):
    shutil.rmtree(folder, ignore_errors=True)
    with writer(out=folder, columns=columns or {"text": "str", "n": "int"}, **options) as out:
        for i in range(3):
            out.write(samples(i) if samples else {"text": f"sample {i}", "n": i * 1000 - 1000, "x": i / 4})


def main():
    write("all", columns=COLUMNS, samples=sample)
    write("zstd", columns=COLUMNS, samples=sample, compression="zstd:7", hashes=["sha1", "xxh64"])
    write("small", columns=COLUMNS, samples=sample, size_limit=4000)
    for codec in ["br", "bz2", "gz", "snappy"]:
        write(codec, compression=codec)
    write("hashes", hashes=sorted(HASHES), compression="gz")
    text = {"text": "str", "n": "int", "x": "float"}
    write("json", JSONWriter, text)
    write("json-gz", JSONWriter, text, compression="gz")
    write("csv", CSVWriter, text)
    write("tsv", TSVWriter, text)
    write("xsv", XSVWriter, text, separator="::", newline="\r\n")
    for part in ["merged/0", "merged/1", "splits/train", "splits/val"]:
        write(part)
    merge_index("merged")
    os.remove("merged/0/index.json")
    os.remove("merged/1/index.json")


if __name__ == "__main__":
    main()
