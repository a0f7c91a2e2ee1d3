"""Writes kinds.tar.gz with webdataset 1.0.2: a field of every kind its encoders know and we read."""

import gzip
import pathlib

import numpy as np
import webdataset as wds

here = pathlib.Path(__file__).parent
with wds.TarWriter(str(here / "kinds.tar"), mtime=0) as writer:
    for i in range(4):
        sample = {
            "__key__": f"d/{i:05d}",
            "cls": i % 3,
            "txt": f"héllo {i}",
            "json": {"i": i},
            "npy": (np.arange(6, dtype="f4") + i / 2).reshape(2, 3),
            "x.ten": [(np.arange(6, dtype="i4") * i).reshape(3, 2)],
            "txt.gz": f"zipped {i}",
            "pyd": {"a": i},
            "bin": bytes(range(i)),
        }
        if i % 2:
            del sample["json"]
        writer.write(sample)
tar = (here / "kinds.tar").read_bytes()
(here / "kinds.tar").unlink()
(here / "kinds.tar.gz").write_bytes(gzip.compress(tar, mtime=0))
