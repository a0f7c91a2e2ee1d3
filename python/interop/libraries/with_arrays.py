"""Runs under h5py, zarr and array_record: the same rows in each, with every type and compression that is read."""

import sys

import h5py
import numpy as np
import zarr
from array_record.python.array_record_module import ArrayRecordWriter
from samples import COUNT, encoded
from values import save

TYPES = ["u1", "<u2", ">u4", "i1", ">i2", "<i4", "<i8", "<f2", ">f4", "<f8"]


def rows():
    """Columns by name: numbers of every type in rows of several shapes."""
    rng = np.random.default_rng(5)
    columns = {"label": rng.integers(-5, 1000, COUNT), "weight": rng.normal(size=COUNT)}
    for number, code in enumerate(TYPES):
        shape = (COUNT, *[(7,), (3, 5), (4, 3, 2)][number % 3])
        columns[f"c{number}"] = rng.integers(0, 100, shape).astype(code)
    return columns


def native(array):
    """The same numbers in this machine's byte order."""
    return array.astype(array.dtype.newbyteorder("="))


def expect(path, columns):
    """One dictionary a row."""
    one = {"label": int, "weight": float}
    save(path, [{name: one.get(name, native)(column[n]) for name, column in columns.items()} for n in range(COUNT)])


def write(folder):
    """HDF5 in several layouts, Zarr of both versions, and records."""
    columns = rows()
    expect(f"{folder}/arrays.json", columns)
    layouts = {
        "contiguous": {}, "chunked": {"chunks": True}, "gzip": {"compression": "gzip", "shuffle": True, "fletcher32": True},
        "offset": {"chunks": True, "fletcher32": True},
    }  # fmt: skip
    for name, how in layouts.items():
        for version in ("earliest", "latest"):
            with h5py.File(f"{folder}/{name}-{version}.h5", "w", libver=version) as file:
                for column, data in columns.items():
                    file.create_dataset(column, data=data, **how)
    for version in (2, 3):
        group = zarr.create_group(f"{folder}/v{version}.zarr", zarr_format=version)
        for column, given in columns.items():
            data = native(given) if version == 3 else given
            chunks = tuple(max(1, side // 2) for side in data.shape)
            group.create_array(column, shape=data.shape, dtype=data.dtype, chunks=chunks)[:] = data
    shards = zarr.create_group(f"{folder}/shards.zarr")
    for column, data in columns.items():
        chunks = (2, *data.shape[1:])
        shards.create_array(column, shape=data.shape, dtype=native(data).dtype, chunks=chunks, shards=(6, *chunks[1:]))[
            :
        ] = data
    files = [encoded(number, "JPEG") for number in range(COUNT)]
    for name, options in {"zstd": "group_size:1", "groups": "group_size:4,brotli:3"}.items():
        writer = ArrayRecordWriter(f"{folder}/{name}.array_record", options)
        for content in files:
            writer.write(content)
        writer.close()
    save(f"{folder}/records.json", [{"image": content} for content in files])


if __name__ == "__main__":
    {"write": write}[sys.argv[1]](*sys.argv[2:])
