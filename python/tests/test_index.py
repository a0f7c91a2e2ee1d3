"""Seek indexes of JPEGs that are stored without one: batches never depend on them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import feedline as fl
import numpy as np
import pytest
from buckets import Servers
from feedline import transforms as T
from made_images import make_folder
from PIL import Image

RECIPE = [T.RandomResizedCrop(64), T.RandomHorizontalFlip(), T.Normalize.imagenet()]
KNOBS = {"batch_size": 8, "shuffle": True, "seed": 3, "transforms": RECIPE, "output": "numpy", "num_workers": 2}


@pytest.fixture
def photos(tmp_path, monkeypatch) -> Path:
    """24 photos that are large enough to be indexed, and a cache of its own."""
    monkeypatch.setenv("FEEDLINE_CACHE_DIR", str(tmp_path / "cache"))
    return make_folder(tmp_path / "photos", per_class=8, size=(480, 360))


def epochs(dataset, count: int = 3, **knobs) -> list[np.ndarray]:
    found = []
    with fl.Loader(dataset, **KNOBS, **knobs) as loader:
        for _ in range(count):
            found += [batch["image"] for batch in loader]
    return found


def same(one: list[np.ndarray], other: list[np.ndarray]) -> bool:
    return len(one) == len(other) and all((a == b).all() for a, b in zip(one, other, strict=True))


def stored(folder: Path) -> list[Path]:
    return sorted((folder / "cache/index").glob("checkpoints-*/*.seeks"))


def known(path: Path) -> int:
    """How many images are indexed to their end."""
    command = [sys.executable, "-m", "feedline", "index", str(path), "--json"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return json.loads(text)["known"]


@pytest.mark.parametrize("system", ["folder", "webdataset", "mds", "litdata", "parquet", "beton"])
def test_every_format_gives_the_same_batches(photos, tmp_path, system):
    source = photos
    if system != "folder":
        source = tmp_path / ("data.beton" if system == "beton" else "data")
        fl.convert(photos, source, to=system, progress=False)
    dataset = fl.open(source)
    plain = epochs(dataset, index="off")
    assert not stored(tmp_path)
    assert same(epochs(dataset), plain)
    assert same(epochs(dataset, index="build"), plain)
    assert stored(tmp_path)
    assert same(epochs(dataset), plain)
    assert known(source) == len(dataset)


def test_a_bucket_gives_the_same_batches(servers: Servers, tmp_path, monkeypatch):
    monkeypatch.setenv("FEEDLINE_CACHE_DIR", str(tmp_path / "cache"))
    near = make_folder(servers.folder / "bucket" / "photos", per_class=4, size=(480, 360))
    far = fl.open("s3://bucket/photos", storage_options=servers.options)
    plain = epochs(near, index="off")
    assert not stored(tmp_path)
    assert same(epochs(far, index="build"), plain)
    (file,) = stored(tmp_path)
    # One entry of 24 bytes for each image, after the header: all were found by their bytes.
    assert int.from_bytes(file.read_bytes()[16:24], "little") == len(far)
    written = file.stat().st_mtime_ns
    assert same(epochs(far), plain)
    assert [(found, found.stat().st_mtime_ns) for found in stored(tmp_path)] == [(file, written)]


def test_progressive_images_have_none(photos, tmp_path):
    for path in photos.rglob("*.jpg"):
        Image.open(path).save(path, quality=95, progressive=True)
    dataset = fl.open(photos)
    assert same(epochs(dataset, index="build"), epochs(dataset, index="off"))
    assert not stored(tmp_path)


def test_fast_pixels_views_and_resume(photos):
    dataset = fl.open(photos)
    views = {"image": {"a": RECIPE, "b": [T.Resize((40, 40)), T.Normalize.imagenet()]}}
    for knobs in ({"decode": "fast"}, {"transforms": views}):
        found = []
        for index in ("off", "build", "auto"):
            with fl.Loader(dataset, **{**KNOBS, **knobs, "index": index}) as loader:
                images = [batch["image"] for _ in range(2) for batch in loader]
            found.append([view for each in images for view in (each.values() if isinstance(each, dict) else [each])])
        assert same(found[1], found[0])
        assert same(found[2], found[0])
    with fl.Loader(dataset, **KNOBS, index="off") as loader:
        plain = [batch["image"] for batch in loader]
    with fl.Loader(dataset, **KNOBS) as loader:
        batches = iter(loader)
        next(batches)
        state = loader.state_dict()
    with fl.Loader(dataset, **KNOBS) as loader:
        loader.load_state_dict(state)
        assert same([batch["image"] for batch in loader], plain[1:])


def test_a_file_replaced_by_another_of_the_same_size_and_time(photos):
    epochs(fl.open(photos), index="build")
    one, other = photos / "cat/000.jpg", photos / "dog/003.jpg"
    seen, size = one.stat(), max(one.stat().st_size, other.stat().st_size)
    # What follows the end marker is not decoded.
    swapped = {one: other.read_bytes().ljust(size, b"\0"), other: one.read_bytes().ljust(size, b"\0")}
    for path, content in swapped.items():
        path.write_bytes(content)
    dataset = fl.open(photos)
    epochs(dataset, index="build")
    for path, content in zip((one, other), reversed(list(swapped.values())), strict=True):
        path.write_bytes(content)
        os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    dataset = fl.open(photos)
    assert same(epochs(dataset), epochs(dataset, index="off"))


def test_damaged_and_truncated_files_are_ignored_and_rebuilt(photos, tmp_path):
    dataset = fl.open(photos)
    plain = epochs(dataset, index="off")
    epochs(dataset, index="build")
    assert known(photos) == len(dataset)
    for damage in (
        lambda b: b[: len(b) // 2],
        lambda _: b"",
        lambda b: b[:64] + bytes(255 - x for x in b[64:]),
        # Every entry of the table leads to the value of another.
        lambda b: b[:80] + b[80 + 24 : 80 + 24 * 20] + b[80 : 80 + 24] + b[80 + 24 * 20 :],
    ):
        for file in stored(tmp_path):
            content = file.read_bytes()
            file.unlink()  # it may be mapped
            file.write_bytes(damage(content))
        assert same(epochs(dataset), plain)
        epochs(dataset, index="build")
        assert known(photos) == len(dataset)


def test_a_cache_that_cannot_be_written_changes_nothing(photos, tmp_path, monkeypatch):
    dataset = fl.open(photos)
    plain = epochs(dataset, index="off")
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("FEEDLINE_CACHE_DIR", str(tmp_path / "file"))
    for index in ("auto", "build"):
        assert same(epochs(dataset, index=index), plain)
    assert not stored(tmp_path)


def test_index_files_are_private(photos, tmp_path):
    epochs(fl.open(photos), index="build")
    for file in stored(tmp_path):
        assert file.stat().st_mode & 0o777 == 0o600
        assert file.parent.stat().st_mode & 0o777 == 0o700
    assert not list(tmp_path.glob("cache/**/*.tmp"))


RANK = """
import sys
import feedline as fl
from feedline import transforms as T
knobs = {"batch_size": 4, "shuffle": True, "transforms": [T.RandomResizedCrop(64)], "output": "numpy", "num_workers": 1}
with fl.Loader(sys.argv[1], rank=int(sys.argv[2]), world_size=2, index="build", **knobs) as loader:
    for _ in range(2):
        for batch in loader:
            pass
"""


def test_several_processes_share_an_index(photos):
    ranks = [subprocess.Popen([sys.executable, "-c", RANK, str(photos), str(rank)]) for rank in range(2)]
    assert [rank.wait() for rank in ranks] == [0, 0]
    dataset = fl.open(photos)
    assert known(photos) == len(dataset)
    assert same(epochs(dataset), epochs(dataset, index="off"))
