"""Reads past the page cache: `storage_options={"page_cache": "bypass"}`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import feedline as fl
import numpy as np
import pytest
from PIL import Image

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only on Linux")
BYPASS: dict[str, Any] = {"page_cache": "bypass"}


def from_storage() -> int:
    """Bytes that this process had the system fetch from storage so far."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("read_bytes")))


def cool(path: Path) -> int:
    """Takes the files below `path` out of the page cache; returns their size."""
    size = 0
    for file in (file for file in path.rglob("*") if file.is_file()):
        opened = os.open(file, os.O_RDONLY)
        os.fsync(opened)
        os.posix_fadvise(opened, 0, 0, os.POSIX_FADV_DONTNEED)
        size += os.fstat(opened).st_size
        os.close(opened)
    return size


def read(path: Path) -> int:
    """Reads all files below `path`; returns how much came from storage."""
    before = from_storage()
    for file in (file for file in path.rglob("*") if file.is_file()):
        file.read_bytes()
    return from_storage() - before


@pytest.fixture(params=["folder", "pack", "tar"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """60 images of about 100 kB, in three formats."""
    rng, folder = np.random.default_rng(0), tmp_path / "data" / "a"
    folder.mkdir(parents=True)
    for number in range(60):
        pixels = rng.integers(0, 256, (256, 256, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number:02}.jpg", quality=95)
    if request.param == "folder":
        return folder.parent
    path = tmp_path / str(request.param)
    if request.param == "pack":
        fl.pack(folder.parent, path, image="as-is", progress=False)
    else:
        fl.convert(folder.parent, path, to="webdataset", progress=False)
    return path


def images(path: Path, storage: dict[str, object] | None = None) -> list[bytes]:
    knobs: dict[str, Any] = {"decode": "none", "fields": ["image"], "output": "numpy", "batch_size": 7, "shuffle": True}
    found = []
    with fl.Loader(fl.open(path, storage_options=storage), num_workers=2, **knobs) as loader:
        for epoch in (0, 1):
            loader.set_epoch(epoch)
            found += [bytes(image) for batch in loader for image in batch["image"]]
    return found


def test_the_same_bytes_and_nothing_is_kept(place: Path) -> None:
    size = cool(place)
    if read(place) < size // 2:
        pytest.skip("files of this folder are always in memory")
    expected = images(place)
    assert read(place) < size // 10, "all of it is in the page cache"
    cool(place)
    before = from_storage()
    assert images(place, BYPASS) == expected
    assert from_storage() - before > 1.8 * size, "both epochs came from storage"
    # Opening may have read a part of them.
    assert read(place) > size // 2, "and nothing was kept"


def test_each_read_comes_from_storage_even_if_it_is_in_memory(place: Path) -> None:
    size = cool(place)
    if read(place) < size // 2:
        pytest.skip("files of this folder are always in memory")
    before = from_storage()
    dataset = fl.open(place, storage_options=BYPASS)
    for number in range(len(dataset)):
        dataset[number]
    assert from_storage() - before > 0.9 * size


def test_where_it_cannot_have_an_effect_it_is_refused(place: Path) -> None:
    for wrong in ("off", "none", 1):
        with pytest.raises(fl.OptionError, match="page_cache.*use, bypass"):
            fl.open(place, storage_options={"page_cache": wrong})
    with pytest.raises(fl.OptionError, match="page_cache"):
        fl.open("memory://nothing", storage_options=BYPASS)
    with pytest.raises(fl.OptionError, match="page_cache"):
        fl.open("s3://bucket/nothing", storage_options=BYPASS)
    with pytest.raises(fl.OptionError, match="storage_options=.'page_cache'"):
        fl.Loader(fl.open(place), **BYPASS)
    dataset = fl.open(place, storage_options=BYPASS)
    if dataset.format == "pack":
        with pytest.raises(fl.OptionError, match="views: mapped files"):
            list(fl.Loader(dataset, decode="none", views=True, output="numpy"))
