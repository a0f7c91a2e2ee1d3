"""A folder in which every tenth file is damaged, in ten ways: no batch depends on when or where it is made."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys

import feedline as fl
import numpy as np
import pytest
from feedline import transforms as T
from made_images import make_image
from PIL import Image

COUNT = 100


def encoded(number, kind="JPEG", **options):
    buffer = io.BytesIO()
    Image.fromarray(make_image(number, 40, 30)).save(buffer, kind, **options)
    return buffer.getvalue()


def flipped(data, at):
    return data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]


DAMAGES = [
    lambda _: b"",
    lambda n: encoded(n)[: len(encoded(n)) // 2],
    lambda _: b"<html><body>404</body></html>",
    lambda _: bytes(2000),
    lambda n: encoded(n, "PNG")[:-40],
    lambda n: flipped(encoded(n, "PNG"), 60),
    lambda n: encoded(n, "WEBP")[:-30],
    lambda n: encoded(n, "TIFF", compression="tiff_lzw")[:500],
    lambda n: encoded(n)[:20] + bytes(300),
    lambda n: encoded(n, "PNG")[:16] + b"\x7f\xff\xff\xff\x7f\xff\xff\xff" + encoded(n, "PNG")[24:],
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("damaged")
    for number in range(COUNT):
        data = DAMAGES[number // 10](number) if number % 10 == 3 else encoded(number)
        (root / f"{number:03}.jpg").write_bytes(data)
    return root


BAD = list(range(3, COUNT, 10))


def run(folder, on_error, epoch, rank, **knobs):
    """Batches, and who was found bad."""
    options = {"batch_size": 8, "shuffle": True, "seed": 5, "output": "numpy", "dtype": "uint8", "rank": rank}
    options |= {"world_size": 2, "transforms": [T.RandomResizedCrop(16)], "on_error": on_error, **knobs}
    with fl.Loader(fl.open(folder), **options) as loader:
        loader.set_epoch(epoch)
        batches = [(batch["index"].tolist(), batch["image"].tobytes()) for batch in loader]
        return batches, loader.errors()


@pytest.mark.parametrize("on_error", ["skip", "replace"])
def test_same_batches_every_run(folder, on_error):
    for epoch in range(3):
        seen: list[int] = []
        for rank in range(2):
            first, errors = run(folder, on_error, epoch, rank, num_workers=1)
            again, _ = run(folder, on_error, epoch, rank, num_workers=3)
            assert first == again
            assert len(first) == 7
            delivered = [index for batch, _ in first for index in batch]
            assert not set(delivered) & set(BAD)
            seen += [error["index"] for error in errors]
            assert all(f"{error['index']:03}.jpg" in str(error) for error in errors)
        assert set(seen) == set(BAD)


def test_raise_names_the_first(folder):
    with pytest.raises(fl.SampleError, match="003.jpg"):
        run(folder, "raise", 0, 0, shuffle=False, world_size=1)


def test_packing_skips_and_reports_them(folder, tmp_path):
    packed = fl.pack(folder, tmp_path / "pack", on_error="skip", progress=False)
    assert len(packed) == COUNT - len(BAD)
    manifest = (tmp_path / "pack" / "feedline.json").read_text()
    assert manifest.count('"reason"') == len(BAD)
    with fl.Loader(packed, batch_size=50, transforms=[T.CenterCrop(16)], output="numpy") as loader:
        assert sum(len(batch["index"]) for batch in loader) == len(packed)


@pytest.mark.parametrize(("check", "left"), [("none", 100), ("header", 93), ("decode", 90)])
def test_the_checks_of_packing(folder, tmp_path, check, left):
    packed = fl.pack(folder, tmp_path / "pack", image="as-is", on_error="skip", check=check, progress=False)
    assert len(packed) == left


def test_packing_that_raises_names_the_sample(folder, tmp_path):
    with pytest.raises(fl.Error, match="003.jpg"):
        fl.pack(folder, tmp_path / "pack", image="as-is", check="decode", progress=False)


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_verify_writes_a_list(folder, tmp_path, kind):
    report = tmp_path / f"bad.{kind}"
    command = [sys.executable, "-m", "feedline", "verify", str(folder), "--decode", "--report", str(report)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    text = report.read_text()
    rows = list(csv.DictReader(io.StringIO(text))) if kind == "csv" else json.loads(text)
    assert sorted(int(row["sample"]) for row in rows) == BAD
    assert all(row["reason"] for row in rows)


def test_sample_numbers_are_consistent_after_select(folder):
    """`errors()` names samples as `batch["index"]` does."""
    chosen = fl.open(folder).select(range(10, 30))
    with fl.Loader(chosen, batch_size=4, on_error="skip", transforms=[T.CenterCrop(8)], output="numpy") as loader:
        delivered = np.concatenate([batch["index"] for batch in loader])
        bad = [error["index"] for error in loader.errors()]
    assert sorted([*delivered.tolist(), *bad]) == list(range(20))
    assert bad == [3, 13]
