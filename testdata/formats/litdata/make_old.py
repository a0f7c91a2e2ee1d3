"""Small sets of older releases: until 0.2.39 the index's `chunk_bytes` left the chunk's head out.

    TMPDIR=some-folder python make_old.py FOLDER

Run it under the release that FOLDER is named after (old-0.2.6, ...).
"""

import shutil
import sys
from pathlib import Path

import numpy as np
import torch
from litdata.streaming.item_loader import TokensLoader
from litdata.streaming.writer import BinaryWriter
from PIL import Image

HERE = Path(__file__).parent


def make(folder, items, **options):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)  # 0.2.6 does not
    writer = BinaryWriter(str(folder), **options)
    for number, item in enumerate(items):
        writer[number] = item
    writer.done()
    writer.merge()


def sample(number):
    return {
        "image": Image.open(HERE / "a.jpg"),
        "label": number,
        "name": f"s{number}",
        "raw": b"abc" * number,
        "t": torch.arange(6, dtype=torch.int32).reshape(2, 3),
        "n1": np.arange(3, dtype=np.uint16),
        "mask": np.array([[True, False], [False, number == 1]]),
    }


def main(folder):
    items = [sample(number) for number in range(3)]
    make(folder / "plain", items, chunk_size=2)
    make(folder / "zstd", items, chunk_size=2, compression="zstd")
    tokens = [torch.arange(10 * i, 10 * i + 7, dtype=torch.int32) for i in range(3)]
    try:
        make(folder / "tokens", tokens, chunk_bytes="64MB", item_loader=TokensLoader())
    except TypeError:  # 0.2.6 is not told the loader
        make(folder / "tokens", tokens, chunk_bytes="64MB")
    try:
        from litdata.utilities.encryption import FernetEncryption
    except ImportError:  # before 0.2.9
        return
    for level in ("sample", "chunk"):
        encryption = FernetEncryption(password="x", level=level)
        where = folder / f"fernet-{level}"
        make(where, [{"a": n + 1, "s": f"hello {n}"} for n in range(3)], chunk_size=2, encryption=encryption)
        encryption.save(str(where / "fernet.json"))


if __name__ == "__main__":
    main(HERE / sys.argv[1])
