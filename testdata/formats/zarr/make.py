"""Small arrays by zarr-python: both versions, every codec that is read, odd chunks, shards, texts, chunks never written.

Every array of `v2` and `v3` holds the same numbers: `arange(7 * 5 * 6)` of shape (7, 5, 6). `large` is for Blosc's blocks.
Python packages: zarr, numcodecs, numpy.
"""

import shutil
from pathlib import Path

import numcodecs
import numpy as np
import zarr
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, ShardingCodec, TransposeCodec, ZstdCodec

HERE = Path(__file__).parent
NUMBERS = np.arange(7 * 5 * 6).reshape(7, 5, 6)
LARGE = np.arange(16 * 33 * 7).reshape(16, 33, 7)
CHUNKS = (4, 3, 4)


def fresh(name, version):
    """An empty group."""
    shutil.rmtree(HERE / name, ignore_errors=True)
    return zarr.create_group(HERE / name, zarr_format=version)


def put(group, name, data, chunks=CHUNKS, **how):
    """One array."""
    group.create_array(name, shape=data.shape, dtype=data.dtype, chunks=chunks, **how)[:] = data


v3 = fresh("v3", 3)
put(v3, "zstd", NUMBERS.astype("<i4"))
put(v3, "plain", NUMBERS.astype("<i2"), compressors=None)
put(v3, "big", NUMBERS.astype("<f8"), compressors=GzipCodec(), serializer=BytesCodec(endian="big"))
put(v3, "sum", NUMBERS.astype("<u2"), compressors=[ZstdCodec(), Crc32cCodec()])
put(v3, "blosc", NUMBERS.astype("<f4"), compressors=BloscCodec(cname="lz4", shuffle="bitshuffle"))
put(v3, "turned", NUMBERS.astype("<i8"), filters=TransposeCodec(order=(2, 0, 1)))
put(v3, "shards", NUMBERS.astype("<i4"), shards=(8, 6, 8), compressors=ZstdCodec())
put(v3, "deep/dots", NUMBERS.astype("<u1"), chunk_key_encoding={"name": "v2", "separator": "."})
start = ShardingCodec(chunk_shape=CHUNKS, codecs=[BytesCodec(), Crc32cCodec()], index_location="start")
put(v3, "start", NUMBERS.astype("<i4"), chunks=(8, 6, 8), serializer=start, compressors=None)
v3.create_array("half", shape=(7, 4), dtype="f2", chunks=(2, 3), fill_value=1.5)[2:4] = 2
v3.create_array("text", shape=(7,), dtype=str, chunks=(3,))[:] = np.array(["é" * n for n in range(7)], dtype=object)
v3.create_array("label", shape=(7,), dtype="i8", chunks=(4,))[:] = np.arange(7) * 3

v2 = fresh("v2", 2)
put(v2, "usual", NUMBERS.astype("<i4"))
put(v2, "plain", NUMBERS.astype(">i2"), compressors=None)
put(v2, "turned", NUMBERS.astype("<i4"), order="F")
put(v2, "slashes", NUMBERS.astype("<u1"), chunk_key_encoding={"name": "v2", "separator": "/"})
for name, codec in {
    "zlib": numcodecs.Zlib(), "gzip": numcodecs.GZip(), "bz2": numcodecs.BZ2(), "lz4": numcodecs.LZ4(),
    "blosc": numcodecs.Blosc(),
}.items():  # fmt: skip
    put(v2, name, NUMBERS.astype("<i4"), compressors=codec)
put(v2, "delta-is-not-read", NUMBERS.astype("<i4"), filters=[numcodecs.Delta(dtype="<i4")])

large = fresh("large", 2)
for name in ["blosclz", "lz4", "lz4hc", "zlib", "zstd"]:
    for shuffle, how in enumerate(["none", "bytes", "bits"]):
        codec = numcodecs.Blosc(cname=name, clevel=9, shuffle=shuffle, blocksize=4096 * (shuffle == 1))
        put(large, f"{name}-{how}", LARGE.astype("<i4"), (16, 33, 7), compressors=codec)

shutil.rmtree(HERE / "one", ignore_errors=True)
one = zarr.create_array(HERE / "one", shape=(3, 2, 2, 3), dtype="u1", chunks=(1, 2, 2, 3))
one[:] = np.arange(36).reshape(3, 2, 2, 3)
