"""images.rec and images.idx by MXNet 1.9.1: four JPEGs with labels; the third has the magic number in a comment."""

import io
import struct
from pathlib import Path

import mxnet as mx
import numpy as np
from PIL import Image

HERE = Path(__file__).parent
MAGIC = struct.pack("<I", 0xCED7230A)


def jpeg(number):
    """A JPEG; the magic number stands at a multiple of 4 in the record, where the writer must cut it."""
    pixels = (np.arange(6 * 8 * 3) * (number + 1) % 255).astype("uint8").reshape(6, 8, 3)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG")
    content = file.getvalue()
    if number != 2:
        return content
    comment = b"..".ljust(2 + (-(24 + 2 + 4 + 2)) % 4, b".") + MAGIC + b"...."
    return content[:2] + b"\xff\xfe" + struct.pack(">H", len(comment) + 2) + comment + content[2:]


writer = mx.recordio.MXIndexedRecordIO(str(HERE / "images.idx"), str(HERE / "images.rec"), "w")
for number in range(4):
    header = mx.recordio.IRHeader(0, float(number % 3), number, 0)
    writer.write_idx(number, mx.recordio.pack(header, jpeg(number)))
writer.close()
