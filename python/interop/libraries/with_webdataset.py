"""Runs under webdataset: writes samples, or reads what was written here."""

import io
import sys
from pathlib import Path

import numpy as np
import webdataset
from samples import COUNT, encoded, sample
from values import save


def write(folder):
    """Three shards, every kind of member; some samples lack some."""
    expected = []
    writer = webdataset.ShardWriter(f"{folder}/part-%04d.tar", maxcount=9, verbose=0)
    for number in range(COUNT):
        values = sample(number)
        key = f"sub/sample{number:04d}"
        members = {
            "jpg": encoded(number, "JPEG"),
            "mask.png": encoded(number, "PNG"),
            "cls": values["integer"],
            "txt": values["text"],
            "json": values["json"],
            "npy": values["matrix"],
            "levels.npy": values["levels"],
            "bin": values["blob"],
        }
        if number % 4 == 3:
            del members["txt"], members["npy"]
        writer.write({"__key__": key, **members})
        expected.append({"key": key, **members})
    writer.close()
    save(f"{folder}/expected.json", expected)


def read(folder, into):
    """What webdataset makes of a folder of tars."""
    shards = sorted(str(shard) for shard in Path(folder).glob("*.tar"))
    found = []
    for raw in webdataset.WebDataset(shards, shardshuffle=False, empty_check=False):
        one = {"key": raw["__key__"]}
        for suffix, data in raw.items():
            kind = suffix.rsplit(".", 1)[-1]
            if suffix.startswith("__"):
                continue
            if kind == "npy":
                one[suffix] = np.load(io.BytesIO(data))
            elif kind in {"cls", "txt", "json"}:
                one[suffix] = webdataset.autodecode.basichandlers(kind, data)
            else:
                one[suffix] = data
        found.append(one)
    save(into, found)


def read_wids(folder, into):
    """By number, through the index, backwards."""
    import wids

    data = wids.ShardListDataset(f"{folder}/wids.json", transformations=[], cache_dir=f"{folder}/../cache", keep=True)
    found = []
    for number in reversed(range(len(data))):
        members = {name: member for name, member in data[number].items() if name.startswith(".")}
        found.append({name: member.read() for name, member in members.items()})
    save(into, found[::-1])


if __name__ == "__main__":
    {"write": write, "read": read, "read_wids": read_wids}[sys.argv[1]](*sys.argv[2:])
