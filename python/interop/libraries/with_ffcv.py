"""Runs under FFCV: writes samples, reads what was written here, prints its orders."""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from ffcv.fields import (
    BytesField,
    FloatField,
    IntField,
    JSONField,
    NDArrayField,
    RGBImageField,
    TorchTensorField,
)
from ffcv.fields.basics import IntDecoder
from ffcv.loader import Loader, OrderOption
from ffcv.reader import Reader
from ffcv.writer import DatasetWriter
from samples import COUNT, pixels, sample
from values import save


class Samples:
    """What FFCV is given."""

    def __len__(self):
        return COUNT

    def __getitem__(self, number):
        number = int(number)  # FFCV counts in NumPy's integers, which JSON does not take
        values = sample(number)
        return (
            pixels(number),
            values["integer"],
            values["number"],
            np.frombuffer(values["blob"] + b"\x00", dtype=np.uint8),
            values["matrix"],
            values["shorts"],
            values["json"],
            torch.arange(4) + number,
        )


class Numbers:
    """Large enough for several pages."""

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, number):
        return np.full((128, 128, 3), number % 256, np.uint8), number


def write(folder):
    """A .beton for each way of storing images, every field."""
    for mode in ["raw", "jpg", "proportion", "smart"]:
        fields = all_fields(mode)
        writer = DatasetWriter(f"{folder}/{mode}.beton", fields, num_workers=2, page_size=1 << 21)
        writer.from_indexed_dataset(Samples())
    names = list(fields)
    found = [dict(zip(names, Samples()[number], strict=True)) for number in range(COUNT)]
    save(f"{folder}/expected.json", [{**one, "blob": one["blob"].tobytes()} for one in found])


def all_fields(mode):
    """One of each."""
    return {
        "picture": RGBImageField(write_mode=mode, smart_threshold=4000),
        "integer": IntField(),
        "number": FloatField(),
        "blob": BytesField(),
        "matrix": NDArrayField(np.dtype("float32"), (2, 3)),
        "shorts": NDArrayField(np.dtype("int16"), (3,)),
        "json": JSONField(),
        "tensor": TorchTensorField(torch.int64, (4,)),
    }


def pages(file, count):
    """A .beton of several pages."""
    fields = {"picture": RGBImageField(write_mode="raw"), "number": IntField()}
    DatasetWriter(file, fields, num_workers=1, page_size=1 << 21).from_indexed_dataset(Numbers(int(count)))


def orders(file, into, questions):
    """Epochs of FFCV's loader, batch by batch."""
    answers = []
    for ask in json.loads(questions):
        loader = Loader(
            file,
            batch_size=ask["batch"],
            num_workers=1,
            order=OrderOption[ask["order"]],
            seed=ask["seed"],
            drop_last=ask["drop_last"],
            pipelines={"number": [IntDecoder()], "picture": None},
        )
        answers.append([[batch[0].reshape(-1).tolist() for batch in loader] for _ in range(ask["epochs"])])
    Path(into).write_text(json.dumps(answers))


def read(file, into):
    """What FFCV's reader and fields make of a file. Images are read as stored: their bytes, or their pixels."""
    reader = Reader(file)
    allocations = {int(row["ptr"]): int(row["size"]) for row in reader.alloc_table}
    content = Path(file).read_bytes()
    # FFCV makes a plain BytesField of a stored JSONField, so the descriptor says what it was.
    json_fields = {
        name for name, one in zip(reader.handlers, reader.field_descriptors, strict=True) if one["type_id"] == 5
    }
    found = []
    for record in reader.metadata:
        one = {}
        for place, (name, field) in zip(reader.metadata.dtype.names, reader.handlers.items(), strict=True):
            value = record[place]
            if isinstance(field, RGBImageField):
                start = int(value["data_ptr"])
                data = content[start : start + allocations[start]]
                raw = value["mode"] == 1
                shape = (int(value["height"]), int(value["width"]), 3)
                one[name] = np.frombuffer(data, np.uint8).reshape(shape) if raw else data
            elif name in json_fields:
                start = int(value["ptr"])
                one[name] = JSONField.unpack(np.frombuffer(content[start : start + int(value["size"])], np.uint8))
            elif isinstance(field, BytesField):
                one[name] = content[int(value["ptr"]) : int(value["ptr"]) + int(value["size"])]
            elif isinstance(field, (NDArrayField, TorchTensorField)):
                dtype = field.dtype if isinstance(field, NDArrayField) else np.dtype(str(field.dtype).split(".")[-1])
                count = int(np.prod(field.shape)) * dtype.itemsize
                one[name] = np.frombuffer(content[int(value) : int(value) + count], dtype).reshape(field.shape)
            else:
                one[name] = value.item()
        found.append(one)
    save(into, found)


if __name__ == "__main__":
    {"write": write, "pages": pages, "orders": orders, "read": read}[sys.argv[1]](*sys.argv[2:])
