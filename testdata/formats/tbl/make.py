"""Wrote the files of this folder, with turboloader 2.39.0: three JPEGs with labels, and raw pixels without."""

import io

import numpy as np
import turboloader
from PIL import Image


def jpeg(i):
    out = io.BytesIO()
    Image.fromarray(np.full((40 + i, 60 + i, 3), i * 40, np.uint8)).save(out, "JPEG")
    return out.getvalue()


for name, compress in [("plain", False), ("lz4", True)]:
    writer = turboloader.TblWriterV2(f"{name}.tbl", enable_compression=compress)
    for i in range(3):
        number = writer.add_sample(jpeg(i), turboloader.SampleFormat.JPEG, 60 + i, 40 + i)
        writer.add_metadata(number, f'{{"label": {i}}}', turboloader.MetadataType.JSON)
    writer.add_sample(bytes(4 * 5 * 3), turboloader.SampleFormat.RAW_U8, 5, 4)
    writer.finalize()
