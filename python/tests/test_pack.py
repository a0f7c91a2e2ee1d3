"""Packs: what goes in comes out, whatever happens in between."""

from __future__ import annotations

import filecmp
import io
import os
import random
import signal
import subprocess
import sys
import tarfile
import time

import feedline as fl
import numpy as np
import pytest
from feedline import transforms as T
from made_images import encode, make_image


def same(a, b):
    names = sorted(p.name for p in a.iterdir())
    return names == sorted(p.name for p in b.iterdir()) and all(filecmp.cmp(a / n, b / n, shallow=False) for n in names)


def test_a_pack_equals_its_source(folder, tmp_path):
    source = fl.open(folder)
    packed = fl.pack(folder, tmp_path / "p", progress=False)
    assert (packed.classes, len(packed), packed.schema) == (source.classes, len(source), source.schema)
    for index in range(len(source)):
        assert packed[index] == source[index]


def test_every_kind_of_field(tmp_path):
    rows = [
        {
            "image": encode(make_image(n, 20 + n, 15)),
            "number": n - 3,
            "real": n / 4,
            "word": "ü" * n,
            "tree": {"n": n, "list": [1, None, "x"]},
            "blob": bytes(range(n)),
            "array": np.arange(6, dtype=np.float32).reshape(2, 3) + n,
        }
        for n in range(9)
    ]
    packed = fl.pack(iter(rows), tmp_path / "p", progress=False)
    kinds = {
        "image": "image",
        "number": "int",
        "real": "float",
        "word": "text",
        "tree": "json",
        "blob": "bytes",
        "array": "array",
    }
    assert packed.schema == kinds
    for row, back in zip(rows, packed, strict=True):
        assert np.array_equal(back.pop("array"), row.pop("array"))
        assert back == row
    with fl.Loader(packed, batch_size=9, decode="none", output="numpy") as loader:
        (batch,) = loader
    assert batch["number"].tolist() == [n - 3 for n in range(9)]
    assert batch["real"].tolist() == [n / 4 for n in range(9)]
    assert batch["word"] == ["ü" * n for n in range(9)]
    assert batch["tree"][2] == {"n": 2, "list": [1, None, "x"]}
    assert [bytes(b) for b in batch["blob"]] == [bytes(range(n)) for n in range(9)]
    assert batch["array"].shapes == [(2, 3)] * 9
    assert np.array_equal(batch["array"][4], np.arange(6, dtype=np.float32).reshape(2, 3) + 4)


def test_a_tar_of_samples(tmp_path):
    shard = tmp_path / "shard-000.tar"
    with tarfile.open(shard, "w") as tar:
        for number in range(5):
            for name, data in (
                (f"{number:03}.jpg", encode(make_image(number, 30, 20))),
                (f"{number:03}.cls", str(number % 2).encode()),
            ):
                member = tarfile.TarInfo(name)
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    dataset = fl.open(str(tmp_path / "shard-{000..000}.tar"))
    assert (dataset.format, len(dataset)) == ("webdataset", 5)
    assert dataset[3]["key"] == "003"
    assert dataset[3]["label"] == 1
    packed = fl.pack(dataset, tmp_path / "p", progress=False)
    assert packed[3] == dataset[3]


def test_packs_do_not_depend_on_workers(many, tmp_path):
    one = fl.pack(many, tmp_path / "one", workers=1, part_bytes=30_000, progress=False)
    four = fl.pack(many, tmp_path / "four", workers=4, part_bytes=30_000, progress=False)
    assert same(tmp_path / "one", tmp_path / "four")
    other = fl.pack(many, tmp_path / "other", part_bytes=90_000, progress=False)
    assert one.fingerprint == four.fingerprint == other.fingerprint


def test_kill_and_resume(many, tmp_path):
    """Killed at 20 random moments, a pack is completed by the same call, to the same bytes."""
    script = "import sys, feedline as fl; fl.pack(sys.argv[1], sys.argv[2], workers=2, part_bytes=8000, progress=False)"
    command = [sys.executable, "-c", script, str(many)]

    def start(target):
        process = subprocess.Popen([*command, str(target)])
        # Most of the time goes into starting Python; aim at the part after it.
        while not target.exists() and process.poll() is None:
            time.sleep(0.001)
        return process

    process = start(tmp_path / "whole")
    begun = time.monotonic()
    assert process.wait() == 0
    whole = time.monotonic() - begun
    rng = random.Random(1)
    unfinished = 0
    for number in range(20):
        target = tmp_path / f"killed{number}"
        process = start(target)
        time.sleep(whole * rng.uniform(0.0, 0.9))
        process.send_signal(signal.SIGKILL)
        process.wait()
        manifest = target / "feedline.json"
        if target.exists() and not manifest.exists():
            unfinished += 1
            if any(target.iterdir()):
                with pytest.raises(fl.Error):
                    fl.open(target, format="pack")
        fl.pack(many, target, workers=1, part_bytes=8000, progress=False)
        assert same(tmp_path / "whole", target)
    assert unfinished > 0


def test_a_pack_is_not_overwritten_by_accident(folder, many, tmp_path):
    fl.pack(folder, tmp_path / "p", progress=False)
    with pytest.raises(fl.Error, match="overwrite"):
        fl.pack(many, tmp_path / "p", progress=False)
    assert len(fl.pack(many, tmp_path / "p", progress=False, overwrite=True)) == 150
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "thesis.tex").write_text("years of work")
    with pytest.raises(fl.Error, match="foreign"):
        fl.pack(folder, foreign, progress=False, overwrite=True)
    assert (foreign / "thesis.tex").read_text() == "years of work"


def test_bad_samples_at_packing(folder, tmp_path):
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    (copy / "cat" / "001.jpg").write_text("no picture")
    with pytest.raises(fl.Error, match="001.jpg"):
        fl.pack(copy, tmp_path / "p", progress=False)
    packed = fl.pack(copy, tmp_path / "p", progress=False, on_error="skip")
    assert len(packed) == 11


def test_raw_pixels_and_smaller_images(folder, tmp_path):
    source = fl.open(folder).decoded()
    rgb = fl.pack(folder, tmp_path / "rgb", image="rgb", progress=False).decoded()
    for index in range(len(source)):
        assert np.array_equal(rgb[index]["image"], source[index]["image"])
    small = fl.pack(folder, tmp_path / "small", image="jpeg", shorter_side=32, quality=90, progress=False).decoded()
    assert all(min(small[i]["image"].shape[:2]) == 32 for i in range(len(small)))


def test_progressive_images_can_be_rewritten_without_loss(tmp_path):
    data = encode(make_image(1, 200, 150), "JPEG", quality=90, progressive=True)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jpg").write_bytes(data)
    kept = fl.pack(tmp_path / "in", tmp_path / "kept", progress=False)
    written = fl.pack(tmp_path / "in", tmp_path / "written", baseline=True, progress=False)
    assert kept[0]["image"] == data
    assert written[0]["image"] != data
    assert np.array_equal(kept.decoded()[0]["image"], written.decoded()[0]["image"])


@pytest.mark.parametrize("image", ["jpeg", "dct", "yuv420", "rgb", "as-is"])
def test_every_encoding_loads_the_same_images(folder, tmp_path, image):
    packed = fl.pack(folder, tmp_path / "p", image=image, progress=False)
    recipe = [T.RandomResizedCrop(32), T.RandomHorizontalFlip()]
    knobs = {"batch_size": 12, "transforms": recipe, "dtype": "uint8", "output": "numpy"}
    with fl.Loader(packed, **knobs) as one, fl.Loader(folder, **knobs) as other:
        (ours,), (theirs,) = list(one), list(other)
    difference = np.abs(ours["image"].astype(int) - theirs["image"].astype(int))
    # Halved colour resolution loses something at colour edges; the others nothing.
    assert difference.mean() < 4 if image == "yuv420" else difference.max() == 0
    views = {"image": {"a": recipe, "b": [T.Resize((20, 30))]}}
    with fl.Loader(packed, **{**knobs, "transforms": views}) as loader:
        (both,) = loader
    assert np.array_equal(both["image"]["a"], ours["image"])


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small file system")
def test_a_full_disk_is_an_error_and_packing_can_be_resumed(many, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(disk)], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount a tmpfs here: {mounted.stderr.decode().strip()}")
    try:
        with pytest.raises(OSError, match="space"):
            fl.pack(many, disk / "p", part_bytes=20_000, progress=False)
        assert not (disk / "p" / "feedline.json").exists()
        subprocess.run(["mount", "-o", "remount,size=20m", str(disk)], check=True)
        assert len(fl.pack(many, disk / "p", part_bytes=20_000, progress=False)) == 150
    finally:
        subprocess.run(["umount", str(disk)], check=False)
