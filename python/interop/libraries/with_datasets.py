"""Runs under Hugging Face datasets and pyarrow: writes samples, reads what was written here."""

import sys
from pathlib import Path

import datasets
import pyarrow.parquet
from samples import COUNT, encoded, sample
from values import save

FEATURES = datasets.Features(
    {
        "image": datasets.Image(),
        "label": datasets.ClassLabel(names=["ant", "bee", "cat"]),
        "integer": datasets.Value("int64"),
        "small": datasets.Value("uint8"),
        "number": datasets.Value("float64"),
        "text": datasets.Value("string"),
        "blob": datasets.Value("binary"),
        "flag": datasets.Value("bool"),
        "maybe": datasets.Value("string"),
    }
)


def row(number):
    """A row."""
    values = sample(number)
    return {
        "image": {"bytes": encoded(number, "JPEG" if number % 2 else "PNG"), "path": f"{number}.jpg"},
        "label": number % 3,
        "integer": values["integer"],
        "small": number,
        "number": values["number"],
        "text": values["text"],
        "blob": values["blob"],
        "flag": number % 2 == 0,
        "maybe": None if number % 5 == 2 else f"m{number}",
    }


def write(folder):
    """Parquet, and Arrow as `save_to_disk` lays it out: one set, and one with splits."""
    rows = [row(number) for number in range(COUNT)]
    table = datasets.Dataset.from_dict({name: [one[name] for one in rows] for name in FEATURES}, features=FEATURES)
    table.to_parquet(f"{folder}/data.parquet", batch_size=9)
    table.save_to_disk(f"{folder}/disk", num_shards=2)
    halves = {"train": table.select(range(15)), "test": table.select(range(15, COUNT))}
    datasets.DatasetDict(halves).save_to_disk(f"{folder}/splits")
    save(f"{folder}/expected.json", [{**one, "image": one["image"]["bytes"]} for one in rows])


def read(folder, into):
    """What pyarrow makes of a folder of Parquet files, and that datasets agrees about how many there are."""
    files = sorted(Path(folder).rglob("*.parquet"))
    rows = [one for file in files for one in pyarrow.parquet.read_table(file).to_pylist()]
    through = datasets.load_dataset("parquet", data_files=[str(file) for file in files], split="train")
    assert len(through) == len(rows)
    assert list(through.features) == list(rows[0])
    save(into, [{name: _image(value) for name, value in one.items()} for one in rows])


def _image(value):
    return value["bytes"] if isinstance(value, dict) and set(value) == {"bytes", "path"} else value


if __name__ == "__main__":
    {"write": write, "read": read}[sys.argv[1]](*sys.argv[2:])
