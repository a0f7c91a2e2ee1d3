"""Files whose formats have checksums of their own, for damage on the way: zip, packed tars, Parquet, HDF5, ArrayRecord.

Python packages: h5py, pyarrow, array_record, zstandard.
"""

import io
import tarfile
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard
from array_record.python.array_record_module import ArrayRecordWriter

HERE = Path(__file__).parent
JPEG = (HERE / "../litdata/a.jpg").read_bytes()
NOISE = np.random.default_rng(0).integers(0, 256, (3, 1500), np.uint8)


def tar(how):
    """Three samples."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=f"w:{how}") as out:
        for number, row in enumerate(NOISE):
            for name, content in [(f"{number}.bin", row.tobytes()), (f"{number}.cls", b"%d" % number)]:
                info = tarfile.TarInfo(name)
                info.size = len(content)
                out.addfile(info, io.BytesIO(content))
    return file.getvalue()


for how, ending in [("gz", "gz"), ("bz2", "bz2"), ("xz", "xz")]:
    (HERE / f"a.tar.{ending}").write_bytes(tar(how))
(HERE / "a.tar.zst").write_bytes(zstandard.ZstdCompressor(write_checksum=True).compress(tar("")))

with zipfile.ZipFile(HERE / "a.zip", "w") as file:
    for number, how in enumerate([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]):
        file.writestr(f"c{number}/{number}.jpg", JPEG + NOISE[number].tobytes(), how)

blobs = pa.table({"blob": [row.tobytes() for row in NOISE], "label": [0, 1, 2]})
plain = {"use_dictionary": False, "compression": "none"}
pq.write_table(blobs, HERE / "plain.parquet", write_page_checksum=True, **plain)
pq.write_table(blobs, HERE / "zstd.parquet", write_page_checksum=True, use_dictionary=["label"], compression="zstd")

with h5py.File(HERE / "a.h5", "w") as file:
    file.create_dataset("noise", data=NOISE, chunks=(1, 1500), fletcher32=True)
    file.create_dataset("packed", data=NOISE, chunks=(1, 1500), fletcher32=True, compression="gzip")

writer = ArrayRecordWriter(str(HERE / "a.array_record"), "group_size:1")
for row in NOISE:
    writer.write(row.tobytes())
writer.close()
