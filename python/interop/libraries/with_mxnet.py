"""Runs under MXNet: packs images with labels, one and several."""

import sys

import mxnet as mx
from samples import COUNT, encoded
from values import save


def write(folder):
    """A file of one label a record, with an index, and one of several labels, without."""
    indexed = mx.recordio.MXIndexedRecordIO(f"{folder}/one.idx", f"{folder}/one.rec", "w")
    plain = mx.recordio.MXRecordIO(f"{folder}/several.rec", "w")
    one, several = [], []
    for number in range(COUNT):
        image, labels = encoded(number, "JPEG"), [float(number), 0.5, -1.0]
        header = mx.recordio.IRHeader(0, float(number % 3), number, 0)
        indexed.write_idx(number, mx.recordio.pack(header, image))
        plain.write(mx.recordio.pack(mx.recordio.IRHeader(0, labels, number, 0), image))
        one.append({"image": image, "label": number % 3, "id": number})
        several.append({"image": image, "label": mx.nd.array(labels).asnumpy(), "id": number})
    indexed.close()
    plain.close()
    save(f"{folder}/one.json", one)
    save(f"{folder}/several.json", several)


if __name__ == "__main__":
    {"write": write}[sys.argv[1]](*sys.argv[2:])
