"""Runs under LitData (any generation): writes samples, reads what was written here, prints its orders."""

import inspect
import json
import sys
from importlib.metadata import version
from pathlib import Path

import litdata
import numpy as np
import torch
from litdata.streaming.item_loader import TokensLoader
from litdata.streaming.writer import BinaryWriter
from PIL import Image
from samples import COUNT, encoded, pixels, sample
from values import save

FILES = Path(sys.argv[2]) / "files"


def everything(number):
    """A leaf of each kind."""
    values = sample(number)
    return {
        "image": Image.open(FILES / f"{number}.jpg"),
        "drawn": Image.fromarray(pixels(number)),
        "integer": values["integer"],
        "number": values["number"],
        "flag": number % 2 == 0,
        "text": values["text"] or "-",
        "blob": values["blob"] + b"\x00",
        "tensor": torch.from_numpy(values["matrix"]),
        "line": torch.arange(4) + number,
        "array": values["levels"],
        "row": values["shorts"],
        "nested": {"deep": number, "pair": [number, "x"]},
    }


def rows(number):
    """Only what JSON and bytes hold: a table for newer versions."""
    return {"image": encoded(number, "JPEG"), "label": number, "text": sample(number)["text"] or "-"}


def tokens(number):
    """A run of tokens."""
    return torch.arange(10 * number, 10 * number + 7, dtype=torch.int32)


def numbers(number):
    """For orders: the sample is its number."""
    return {"number": number, "rest": torch.zeros(2, 3)}


KINDS = {"everything": everything, "rows": rows, "tokens": tokens, "numbers": numbers}


def write(folder):
    """One data set with `optimize`, as users do, the others with what that writes with; each in its own folder."""
    FILES.mkdir(parents=True)
    for number in range(COUNT):
        (FILES / f"{number}.jpg").write_bytes(encoded(number, "JPEG"))
    for kind in ("everything", "rows"):
        make(f"{folder}/{kind}-small", kind, chunk_size=5)
        make(f"{folder}/{kind}-large", kind, chunk_bytes="64MB")
        make(f"{folder}/{kind}-zstd", kind, chunk_size=5, compression="zstd")
    # Older loaders want to know how their readers will cut the stream.
    make(f"{folder}/tokens", "tokens", chunk_bytes="64MB", item_loader=TokensLoader(block_size=7))
    if tuple(map(int, version("litdata").split("."))) >= (0, 2, 45):  # whose orders are compared
        litdata.optimize(numbers, list(range(1000)), output_dir=f"{folder}/numbers", num_workers=1, chunk_size=300)


def make(folder, kind, **how):
    """One data set, and what is in it."""
    Path(folder).mkdir()  # older writers want it to be there
    if "item_loader" in how and "item_loader" not in inspect.signature(BinaryWriter).parameters:
        del how["item_loader"]  # 0.2.6 knows tokens by itself
    writer = BinaryWriter(folder, **how)
    for number in range(COUNT):
        writer[number] = KINDS[kind](number)
    writer.done()
    writer.merge()
    made = [KINDS[kind](number) for number in range(COUNT)]
    save(f"{folder}.json", [one if isinstance(one, dict) else {"value": one} for one in made])


def read(folder, into):
    """What StreamingDataset makes of a folder."""
    data = litdata.StreamingDataset(folder)
    save(into, [dict(data[number]) for number in range(len(data))])


def orders(folder, into, questions):
    """What each rank of a StreamingDataLoader gets, batch by batch."""
    from litdata.utilities.env import _DistributedEnv  # the only way to be one of several ranks without starting them

    answers = []
    for ask in json.loads(questions):
        ranks = []
        for rank in range(ask["world"]):
            env = {"shuffle": ask["shuffle"], "seed": ask["seed"], "drop_last": ask["drop_last"]}
            if ask["window"] is not None:
                env["item_shuffle_window"] = ask["window"]
            data = litdata.StreamingDataset(folder, **env)
            data.distributed_env = _DistributedEnv(ask["world"], rank, 1)
            loader = litdata.StreamingDataLoader(data, batch_size=ask["batch"], num_workers=ask["workers"])
            ranks.append([[batch["number"].tolist() for batch in loader] for _ in range(ask["epochs"])])
        answers.append(ranks)
    Path(into).write_text(json.dumps(answers))


if __name__ == "__main__":
    np.random.seed(0)
    {"write": write, "read": read, "orders": orders}[sys.argv[1]](*sys.argv[2:])
