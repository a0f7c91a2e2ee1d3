"""Runs under py-lmdb: environments of image files, of bytes of all sizes, and one that was written in many transactions."""

import sys

import lmdb
from samples import COUNT, encoded
from values import save


def write(folder):
    """Each with what is in it."""
    files = {f"{number:05}": encoded(number, "JPEG") for number in range(COUNT)}
    sizes = {f"s{number:04}": bytes([number % 256]) * (number * 37 % 9001) for number in range(700)}
    for name, values, field in (("files", files, "image"), ("sizes", sizes, "value")):
        with lmdb.open(f"{folder}/{name}", map_size=1 << 27) as environment, environment.begin(write=True) as put:
            for key, value in values.items():
                put.put(key.encode(), value)
        save(f"{folder}/{name}.json", [{"key": key, field: value} for key, value in values.items()])
    # One value a transaction, every third taken away again, backwards: pages are freed and used again.
    with lmdb.open(f"{folder}/changed.lmdb", map_size=1 << 27, subdir=False) as environment:
        for key in reversed(sizes):
            with environment.begin(write=True) as put:
                put.put(key.encode(), sizes[key])
        for key in list(sizes)[::3]:
            with environment.begin(write=True) as put:
                put.delete(key.encode())
    left = [{"key": key, "value": value} for number, (key, value) in enumerate(sizes.items()) if number % 3]
    save(f"{folder}/changed.json", left)


if __name__ == "__main__":
    {"write": write}[sys.argv[1]](*sys.argv[2:])
