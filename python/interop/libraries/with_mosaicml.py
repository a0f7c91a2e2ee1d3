"""Runs under MosaicML Streaming: writes samples, reads what was written here, prints its orders."""

import decimal
import json
import sys

import numpy as np
from PIL import Image
from samples import COUNT, encoded, pixels, sample
from streaming import MDSWriter, StreamingDataset
from streaming.base.partition import get_partitions
from streaming.base.shuffle import get_shuffle
from values import save

COLUMNS = {
    "jpeg": "jpeg",
    "png": "png",
    "pil": "pil",
    "integer": "int",
    "number": "float64",
    "half": "float16",
    "small": "uint8",
    "short": "int16",
    "text": "str",
    "blob": "bytes",
    "any": "ndarray",
    "typed": "ndarray:uint8",
    "fixed": "ndarray:float32:2,3",
    "json": "json",
    "digits": "str_int",
    "decimal": "str_decimal",
}


def row(number):
    """What the writer is given."""
    values = sample(number)
    return {
        "jpeg": encoded(number, "JPEG"),
        "png": encoded(number, "PNG"),
        "pil": Image.fromarray(pixels(number)),
        "integer": values["integer"],
        "number": np.float64(values["number"]),
        "half": np.float16(number / 2),
        "small": np.uint8(number),
        "short": np.int16(-number),
        "text": values["text"],
        "blob": values["blob"],
        "any": values["shorts"],
        "typed": values["levels"],
        "fixed": values["matrix"],
        "json": values["json"],
        "digits": -number,
        "decimal": decimal.Decimal(number) / 10,
    }


def expected(number):
    """What a reader should find."""
    given = row(number)
    numbers = {name: int(given[name]) for name in ("small", "short", "digits")}
    floats = {name: float(given[name]) for name in ("number", "half")}
    return {**given, **numbers, **floats, "decimal": str(given["decimal"])}


def write(folder):
    """Shards as MDSWriter makes them, a folder for each way of compressing."""
    for compression in ["none", "zstd:7", "gz", "br:5", "bz2", "snappy"]:
        how = {"compression": None if compression == "none" else compression, "hashes": ["sha1", "xxh3_128", "xxh64"]}
        out = f"{folder}/{compression.partition(':')[0]}"
        with MDSWriter(out=out, columns=COLUMNS, size_limit=30_000, **how) as writer:
            for number in range(COUNT):
                writer.write(row(number))
    save(f"{folder}/expected.json", [expected(number) for number in range(COUNT)])


def read(folder, into):
    """What StreamingDataset makes of a folder."""
    data = StreamingDataset(local=folder, batch_size=1, shuffle=False)
    save(into, [dict(data[number]) for number in range(data.num_samples)])


def orders(into, questions):
    """Shuffles and partitions for what is asked."""
    answers = []
    for ask in json.loads(questions):
        canonical, seed, epoch, block = ask["canonical"], ask["seed"], ask["epoch"], ask["block"]
        order = get_shuffle(ask["method"], np.array(ask["shards"]), canonical, seed, epoch, block)
        places = get_partitions(
            "relaxed", sum(ask["shards"]), canonical, ask["nodes"], ask["ranks_per_node"], ask["workers"], ask["batch"]
        )
        ranks = (
            places.reshape(-1, *places.shape[2:]).transpose(0, 2, 1, 3).reshape(places.shape[0] * places.shape[1], -1)
        )
        answers.append([order[rank[rank >= 0]].tolist() for rank in ranks])
    with open(into, "w") as file:
        json.dump(answers, file)


if __name__ == "__main__":
    {"write": write, "read": read, "orders": orders}[sys.argv[1]](*sys.argv[2:])
