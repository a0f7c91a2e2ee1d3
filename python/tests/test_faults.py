"""Bad samples are named and counted; nothing crashes or hangs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import feedline as fl
import numpy as np
import pytest
from feedline import transforms as T
from made_images import make_folder

CROP = [T.CenterCrop(16)]


@pytest.fixture
def damaged(tmp_path):
    """Twelve images; the second is cut, the sixth is no image at all, the ninth is empty."""
    folder = make_folder(tmp_path / "damaged")
    files = sorted(folder.rglob("*.jpg"))
    files[1].write_bytes(files[1].read_bytes()[:400])
    files[5].write_text("<html>not found</html>")
    files[8].write_bytes(b"")
    return folder


def test_raise_names_the_sample(damaged):
    with fl.Loader(damaged, batch_size=3, transforms=CROP) as loader:
        iterator = iter(loader)
        with pytest.raises(fl.SampleError) as caught:
            next(iterator)
        assert caught.value.sample == 1
        assert caught.value.shard.endswith("001.jpg")
        assert caught.value.stage == "decode"
        assert isinstance(caught.value, ValueError)
        # The batches after it can still be read.
        with pytest.raises(fl.SampleError, match="not an image"):
            next(iterator)


def test_skip_leaves_bad_samples_out(damaged):
    with fl.Loader(damaged, batch_size=4, transforms=CROP, on_error="skip") as loader:
        batches = list(loader)
        assert [b["index"].tolist() for b in batches] == [[0, 2, 3], [4, 6, 7], [9, 10, 11]]
        assert all(len(b["image"]) == 3 for b in batches)
        stats = loader.stats()
        assert (stats["failed"], stats["skipped"], stats["replaced"]) == (3, 3, 0)
        errors = loader.errors()
    assert [e["index"] for e in errors] == [1, 5, 8]
    assert all(e["reason"] and e["stage"] and e["uri"] for e in errors)


def test_replace_is_the_same_for_any_threads_and_ranks(damaged):
    def run(**knobs):
        loader = fl.Loader(damaged, transforms=CROP, on_error="replace", output="numpy", seed=5, **knobs)
        with loader:
            rows = {}
            for batch in loader:
                for index, image, label in zip(batch["index"], batch["image"], batch["label"], strict=True):
                    rows.setdefault(int(index), []).append((image.tobytes(), int(label)))
            return rows, loader.stats()

    one, stats = run(batch_size=4, num_workers=1)
    assert (stats["failed"] >= 3, stats["skipped"], stats["replaced"]) == (True, 0, 3)
    assert not {1, 5, 8} & set(one)
    assert sum(len(v) for v in one.values()) == 12
    assert run(batch_size=5, num_workers=3)[0] == one
    split = {}
    for rank in range(2):
        for index, values in run(batch_size=3, rank=rank, world_size=2)[0].items():
            split.setdefault(index, []).extend(values)
    assert {k: sorted(v) for k, v in split.items()} == {k: sorted(v) for k, v in one.items()}


def test_max_errors_ends_the_epoch(damaged):
    with fl.Loader(damaged, batch_size=4, transforms=CROP, on_error="skip", max_errors=2) as loader:
        with pytest.raises(fl.TooManyBadSamplesError, match="more than 2"):
            list(loader)


def test_a_batch_without_samples_raises(damaged):
    with fl.Loader(damaged, batch_size=1, transforms=CROP, on_error="skip") as loader:
        iterator = iter(loader)
        next(iterator)
        with pytest.raises(fl.TooManyBadSamplesError, match="no sample"):
            next(iterator)


def test_a_decompression_bomb_is_refused_without_allocating(tmp_path):
    import struct
    import zlib

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 65535, 65535, 8, 2, 0, 0, 0)
    bomb = (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    )
    (tmp_path / "bomb.png").write_bytes(bomb)
    with fl.Loader(tmp_path, transforms=CROP) as loader, pytest.raises(fl.SampleError, match="limit"):
        list(loader)


def test_damaged_packs_are_refused_or_named(folder, tmp_path):
    fl.pack(folder, tmp_path / "whole", progress=False)
    part = next((tmp_path / "whole").glob("part-*"))

    def broken(name, change):
        copy = tmp_path / name
        shutil.copytree(tmp_path / "whole", copy)
        change(copy / part.name)
        with pytest.raises(fl.Error, match=part.name):
            with fl.Loader(copy, batch_size=12, transforms=CROP) as loader:
                list(loader)
        run = subprocess.run(
            [sys.executable, "-m", "feedline", "verify", str(copy)], capture_output=True, text=True, check=False
        )
        assert run.returncode == 1
        assert part.name in run.stdout + run.stderr

    def flip(file):
        data = bytearray(file.read_bytes())
        data[len(data) // 3] ^= 4
        file.write_bytes(data)

    broken("missing", lambda file: file.unlink())
    broken("short", lambda file: file.write_bytes(file.read_bytes()[:-100]))
    broken("half", lambda file: file.write_bytes(file.read_bytes()[: file.stat().st_size // 2]))
    broken("flipped", flip)


def test_missing_and_forbidden_paths():
    with pytest.raises(FileNotFoundError, match="/no/such"):
        fl.open("/no/such/place")
    with pytest.raises(fl.OptionError, match="ftp://"):
        fl.open("ftp://host/data")


def test_an_empty_folder_is_an_error(tmp_path):
    with pytest.raises(fl.DataError, match=str(tmp_path)):
        fl.open(tmp_path)


def test_a_file_that_changes_meanwhile_is_a_bad_sample(tmp_path):
    folder = make_folder(tmp_path / "data")
    dataset = fl.open(folder)
    victim = sorted(folder.rglob("*.jpg"))[2]
    victim.unlink()
    with fl.Loader(dataset, batch_size=12, transforms=CROP, on_error="skip") as loader:
        (batch,) = loader
        assert 2 not in batch["index"].tolist()
        (error,) = loader.errors()
    assert error["shard"].endswith("002.jpg")
    assert error["stage"] == "read"


def test_timeout_is_an_error(tmp_path):
    folder = make_folder(tmp_path / "data")
    pipe = folder / "cat" / "aaa.jpg"
    with fl.Loader(folder, batch_size=12, transforms=CROP, timeout=30.0) as loader:
        assert len(list(loader)) == 1
    dataset = fl.open(folder)
    first = sorted(folder.rglob("*.jpg"))[0]
    first.unlink()
    # A pipe that nobody writes: opening it for reading blocks for ever.
    os.mkfifo(first)
    with fl.Loader(dataset, batch_size=12, transforms=CROP, timeout=0.5, num_workers=1) as loader:
        with pytest.raises((TimeoutError, fl.SampleError)):
            list(loader)
        # Let the blocked worker go, so that closing can join it.
        descriptor = os.open(first, os.O_RDWR | os.O_NONBLOCK)
        os.close(descriptor)
    assert not pipe.exists()


def test_substitutes_never_show_zeros(damaged):
    with fl.Loader(
        damaged, batch_size=12, transforms=CROP, on_error="replace", dtype="uint8", output="numpy"
    ) as loader:
        (batch,) = loader
    assert all(np.asarray(image).std() > 1 for image in batch["image"])
