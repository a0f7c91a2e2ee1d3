"""Small environments by py-lmdb: plain values, Caffe's Datum, many keys (a tree of several levels), overflow pages.

Python packages: lmdb. Datum is written by hand; its fields are channels 1, height 2, width 3, data 4, label 5, encoded 7.
"""

import shutil
from pathlib import Path

import lmdb

HERE = Path(__file__).parent
JPEG = (HERE / "../litdata/a.jpg").read_bytes()


def varint(number):
    """Protobuf's numbers."""
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def datum(number, *, encoded):
    """A Datum with a JPEG, or with raw pixels."""
    data = JPEG if encoded else bytes(range(number, number + 2 * 3 * 3))
    sizes = b"" if encoded else b"\x08\x03\x10\x02\x18\x03"
    return sizes + b"\x22" + varint(len(data)) + data + b"\x28" + varint(number) + (b"\x38\x01" if encoded else b"")


def make(name, items, **how):
    """One environment, without its lock file."""
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    with lmdb.open(str(folder), map_size=1 << 24, **how) as environment:
        with environment.begin(write=True) as transaction:
            for key, value in items:
                transaction.put(key, value)
    (folder / "lock.mdb").unlink()


make("caffe", [(b"%08d" % n, datum(n, encoded=True)) for n in range(5)])
make("pixels", [(b"%08d" % n, datum(n, encoded=False)) for n in range(3)])
make("files", [(f"k{n}".encode(), JPEG + bytes(5000 * (n == 1))) for n in range(3)] + [(b"__len__", b"3")])
make("many", [(b"%06d" % n, b"value %d" % n) for n in range(1000)])
