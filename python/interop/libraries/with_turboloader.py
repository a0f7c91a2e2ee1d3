"""Runs under TurboLoader: writes samples as TBL."""

import json
import sys

import turboloader
from samples import COUNT, encoded, pixels
from values import save


def write(folder):
    """JPEG images with a label each, as they are and compressed."""
    save(f"{folder}/expected.json", one(f"{folder}/plain.tbl", compressed=False))
    one(f"{folder}/lz4.tbl", compressed=True)


def one(file, compressed):
    """One file, and what is in it."""
    writer = turboloader.TblWriterV2(file, enable_compression=compressed)
    expected = []
    for number in range(COUNT):
        data = encoded(number, "JPEG")
        height, width, _ = pixels(number).shape
        at = writer.add_sample(data, turboloader.SampleFormat.JPEG, width, height)
        writer.add_metadata(at, json.dumps({"label": number % 3}), turboloader.MetadataType.JSON)
        expected.append({"image": data, "label": number % 3, "metadata": {"label": number % 3}})
    writer.finalize()
    return expected


if __name__ == "__main__":
    {"write": write}[sys.argv[1]](*sys.argv[2:])
