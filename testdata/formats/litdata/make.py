"""Makes the fixtures of this folder with litdata itself; the tests know what it was given.

    python make.py 0.2.45   the folders that the older writer gives another layout
    python make.py 0.2.76   all others

Run it with that version of litdata installed. Times and salts differ from run to run; the tests do not look at them.
"""

import json
import shutil
import struct
import sys
from pathlib import Path

import numpy as np
import torch
from litdata.streaming.item_loader import TokensLoader
from litdata.streaming.writer import BinaryWriter
from litdata.utilities.encryption import FernetEncryption
from PIL import Image

HERE = Path(__file__).parent
PICTURE = Image.fromarray((np.arange(8 * 6 * 3) % 255).astype("uint8").reshape(6, 8, 3))
JPEG = HERE / "a.jpg"


def make(name, items, **options):
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    writer = BinaryWriter(str(folder), **options)
    for number, item in enumerate(items):
        writer[number] = item
    writer.done()
    writer._merge_no_wait()
    return folder


def every_leaf(number):
    return {
        "image": Image.open(JPEG),
        "label": number,
        "name": f"s{number}",
        "f": 0.5 * number,
        "b": bool(number % 2),
        "raw": b"abc" * number,
        "t": torch.arange(6, dtype=torch.int32).reshape(2, 3),
        "t1": torch.arange(4, dtype=torch.int64),
        "n": np.arange(6, dtype=np.float32).reshape(3, 2),
        "n1": np.arange(3, dtype=np.uint16),
        "pil": PICTURE,
        "list": [1, (2, "x")],
    }


def tokens():
    return [torch.arange(10 * i, 10 * i + 7, dtype=torch.int32) for i in range(3)]


def older():
    PICTURE.save(JPEG)
    items = [every_leaf(n) for n in range(3)]
    make("classic", items, chunk_size=2)
    make("zstd-chunk-0.2.45", items, chunk_size=2, compression="zstd")
    for level in ("sample", "chunk"):
        encryption = FernetEncryption(password="x", level=level)
        items = [{"a": n + 1, "s": f"hello {n}"} for n in range(3)]
        folder = make(f"fernet-{level}", items, chunk_size=2, encryption=encryption)
        encryption.save(str(folder / "fernet.json"))
    make("tokens-0.2.45", tokens(), chunk_bytes="64MB", item_loader=TokensLoader())
    make("pickled", [(np.int64(3), np.float32(2.5), True, None)], chunk_size=2)
    make("list", [[1, 2, 3]], chunk_size=2)
    make("scalar", [7], chunk_size=2)


def newer():
    from litdata import TemporalArrayLoader

    jpeg = JPEG.read_bytes()
    pairs = [{"image": Image.open(JPEG), "label": n} for n in range(5)]
    make("classic-0.2.76", [{**p, "name": f"s{n}"} for n, p in enumerate(pairs)], chunk_size=3)
    make("arrow", [{"image": jpeg, "label": n} for n in range(5)], chunk_size=3)
    make("frames", pairs, chunk_size=5, compression="zstd", compression_batch_size=2)
    make("zstd-sample", pairs, chunk_size=3, compression="zstd", compression_level="sample")
    make("zstd-chunk", pairs, chunk_size=3, compression="zstd", compression_level="chunk")
    nested = [{"text": f"hello {n}", "tags": ["a", "b"] * n, "m": {"x": n, "y": None}} for n in range(5)]
    make("arrow-nested", nested, chunk_size=3)
    make("tuple", [(jpeg, n) for n in range(5)], chunk_size=3)
    leaves = {
        "t": torch.arange(6).reshape(2, 3),
        "n": np.arange(3, dtype=np.uint16),
        "b": True,
        "f": 0.5,
        "l": [1, 2, 3],
        "j": {"a": [1, {"b": None}]},
    }
    make("json", [leaves] * 4, chunk_size=3)
    make("tokens", tokens(), chunk_bytes="64MB", item_loader=TokensLoader())
    records = [
        {
            "features": np.arange(2 * frames, dtype=np.float32).reshape(frames, 2),
            "score": np.arange(frames, dtype=np.float32),
            "valid": np.ones(frames, bool),
        }
        for frames in (10, 6)
    ]
    loader = TemporalArrayLoader(field_groups=[["features"], ["score", "valid"]])
    make("temporal", records, chunk_bytes="64MB", item_loader=loader)
    make("text", [f"plain {n}" for n in range(4)], chunk_size=3)
    make("arrow-zstd", [{"text": "x" * 2000 + str(n), "y": n} for n in range(600)], chunk_size=600, compression="zstd")
    arrow_of_many_kinds(jpeg)


def rows_of_many_kinds(jpeg):
    """Rows with what JSON-like samples have: lacking keys, nulls, lists of records, bytes in structs, whole floats."""
    rows = []
    for n in range(7):
        row = {
            "picture": {"bytes": jpeg, "path": f"ü{n}.jpg"},
            "flag": n % 2 == 0,
            "score": n / 4,
            "text": None if n == 3 else f"日本 {n}",
            "boxes": [{"at": [n, -n], "name": "b", "ok": True}] * (n % 3),
            "raw": bytes([n]) * n,
        }
        if n % 2:
            row["sometimes"] = n
        if n == 4:
            row["picture"] = None
        rows.append(row)
    return rows


def arrow_of_many_kinds(jpeg):
    rows = rows_of_many_kinds(jpeg)
    plain = make("arrow-kinds", rows, chunk_size=4)
    rewrite(plain, HERE / "arrow-stream", "new_stream")
    rewrite(plain, HERE / "arrow-lz4", "new_file", compression="lz4")
    unlike = [{"a": [1, 2], "n": 0}, {"a": [3], "n": 1}, {"a": [], "n": 2}, {"a": [1, "x"], "n": 3}]
    make("arrow-and-classic", unlike, chunk_size=2)


def rewrite(plain, folder, kind, **options):
    """The same rows as IPC streams, which writers before 0.2.7x left, or compressed as litdata has it with codecs that
    its releases on PyPI cannot be given."""
    import pyarrow as pa

    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(plain, folder)
    index = json.loads((folder / "index.json").read_text())
    for chunk in index["chunks"]:
        path = folder / chunk["filename"]
        data = path.read_bytes()
        (length,) = struct.unpack_from("<I", data, len(data) - 12)
        table = pa.ipc.open_file(pa.py_buffer(data[-12 - length : -12])).read_all()
        sink = pa.BufferOutputStream()
        with getattr(pa.ipc, kind)(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
            writer.write_table(table, max_chunksize=3)
        table = sink.getvalue().to_pybytes()
        path.write_bytes(data[: -12 - length] + table + struct.pack("<I", len(table)) + data[-8:])
        chunk["chunk_bytes"] = path.stat().st_size
    (folder / "index.json").write_text(json.dumps(index))


if __name__ == "__main__":
    {"0.2.45": older, "0.2.76": newer}[sys.argv[1]]()
