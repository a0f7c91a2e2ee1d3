"""Other systems' files: what is written comes back, whatever happens in between. (With the original libraries:
`make test-interop`.)"""

from __future__ import annotations

import filecmp
import json
import random
import signal
import subprocess
import sys
import time

import feedline as fl
import numpy as np
import pytest
from feedline import _feedline
from feedline import transforms as T
from made_images import encode, make_image

TARGETS = ["webdataset", "mds", "litdata", "beton", "parquet"]


def rows(count):
    return [
        {
            "image": encode(make_image(n, 40 + n, 35), quality=80),
            "label": n % 7 - 1,
            "real": n / 4,
            "word": "ü" * (n % 5) + "x",
            "tree": {"n": n, "list": [1, None, "x"]},
            "blob": bytes(range(1 + n % 200)),
            "array": np.arange(6, dtype=np.float32).reshape(2, 3) + n,
        }
        for n in range(count)
    ]


def place(folder, to):
    return folder / "all.beton" if to == "beton" else folder / to


def files(path):
    if path.is_file():
        return {path.name: path}
    return {str(p.relative_to(path)): p for p in path.rglob("*") if p.is_file()}


def same(a, b):
    a, b = files(a), files(b)
    return a.keys() == b.keys() and all(filecmp.cmp(a[n], b[n], shallow=False) for n in a)


def plain(value):
    """A value to compare: arrays with their shape and type."""
    if isinstance(value, np.ndarray):
        return value.dtype.name, value.shape, value.tobytes()
    return value


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    return fl.pack(rows(40), tmp_path_factory.mktemp("convert") / "p", progress=False)


def test_the_targets_are_those_documented():
    assert sorted(_feedline.convert_targets()) == sorted(TARGETS)


@pytest.mark.parametrize("to", TARGETS)
def test_every_value_round_trips(packed, tmp_path, to):
    written = fl.convert(packed, place(tmp_path, to), to=to, shard_bytes=20_000, progress=False)
    assert written.format == to
    assert len(written) == len(packed)
    assert "image" in written.schema
    assert written.schema["label"] == "int"
    for index in range(len(packed)):
        mine, back = packed[index], written[index]
        for name, value in mine.items():
            # A .beton has bytes but no text.
            expected = value.encode() if to == "beton" and name == "word" else value
            assert plain(back[name]) == plain(expected), (index, name)


@pytest.mark.parametrize("to", TARGETS)
def test_batches_are_the_same_from_every_format(packed, tmp_path, to):
    written = fl.convert(packed, place(tmp_path, to), to=to, shard_bytes=20_000, progress=False)
    recipe = {"image": [T.RandomResizedCrop(24), T.RandomHorizontalFlip(), T.Normalize.imagenet()]}

    def batches(ds):
        options = {"batch_size": 8, "shuffle": True, "seed": 3, "output": "numpy", "fields": ["image", "label"]}
        with fl.Loader(ds, transforms=recipe, **options) as loader:
            return [(b["index"].copy(), b["image"].copy(), b["label"].copy()) for b in loader]

    for mine, theirs in zip(batches(packed), batches(written), strict=True):
        for a, b in zip(mine, theirs, strict=True):
            assert np.array_equal(a, b)


@pytest.mark.parametrize("to", TARGETS)
def test_the_number_of_workers_and_the_time_change_no_byte(packed, tmp_path, to):
    one, four = place(tmp_path / "one", to), place(tmp_path / "four", to)
    for path, workers in ((one, 1), (four, 4)):
        path.parent.mkdir()
        fl.convert(packed, path, to=to, shard_bytes=10_000, workers=workers, progress=False)
    assert same(one, four)


CONVERT = """
import sys
import feedline as fl
fl.convert(sys.argv[1], sys.argv[2], to=sys.argv[3], shard_bytes=200_000, workers=2, progress=False)
"""


@pytest.mark.parametrize("to", TARGETS)
def test_a_conversion_killed_at_any_moment_resumes_to_the_same_bytes(tmp_path, to):
    big = [dict(row, blob=bytes(100_000)) for row in rows(200)]
    source = tmp_path / "source"
    fl.pack(big, source, image="as-is", progress=False)
    whole, cut = place(tmp_path / "whole", to), place(tmp_path / "cut", to)
    whole.parent.mkdir()
    cut.parent.mkdir()
    fl.convert(source, whole, to=to, shard_bytes=200_000, progress=False)
    rng = random.Random(5)
    kills = 0
    for _ in range(5):
        child = subprocess.Popen([sys.executable, "-c", CONVERT, source, cut, to], stderr=subprocess.PIPE)
        work = cut.parent / f".{cut.name}.feedline-convert" if to == "beton" else cut / ".feedline-convert"
        while child.poll() is None and not work.exists():
            time.sleep(0.001)
        time.sleep(rng.uniform(0, 0.015))
        child.send_signal(signal.SIGKILL)
        _, message = child.communicate()
        if child.returncode != -signal.SIGKILL:
            # It was done before the signal came; a finished destination is not written again.
            assert child.returncode == 0 or b"not empty" in message or b"exists" in message, message
            break
        kills += 1
    else:
        fl.convert(source, cut, to=to, shard_bytes=200_000, progress=False)
    assert kills > 0
    assert same(whole, cut)


@pytest.mark.parametrize("to", ["mds", "litdata", "beton"])
def test_a_missing_value_is_an_error_if_the_format_has_none(tmp_path, to):
    lacking = rows(5)
    lacking[3]["word"] = None
    source = fl.pack(lacking, tmp_path / "p", progress=False)
    with pytest.raises(fl.DataError, match=r"sample 3.*word"):
        fl.convert(source, place(tmp_path, to), to=to, progress=False)


@pytest.mark.parametrize("to", ["webdataset", "parquet"])
def test_a_missing_value_stays_missing(tmp_path, to):
    lacking = rows(5)
    lacking[3]["word"] = None
    source = fl.pack(lacking, tmp_path / "p", progress=False)
    written = fl.convert(source, place(tmp_path, to), to=to, progress=False)
    assert [sample["word"] for sample in written] == [row["word"] for row in lacking]


def test_an_unfinished_conversion_cannot_be_opened(packed, tmp_path):
    target = tmp_path / "half"
    fl.convert(packed, target, to="webdataset", progress=False)
    (target / ".feedline-convert").mkdir()
    (target / ".feedline-convert" / "plan.json").write_text("{}")
    with pytest.raises(fl.DataError, match="not finished"):
        fl.open(target)


def test_impossible_conversions_are_refused_at_once(packed, tmp_path):
    with pytest.raises(fl.OptionError, match="not one of 'pack'"):
        fl.convert(packed, tmp_path / "x", to="zip")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("x")
    with pytest.raises(fl.DataError, match=r"notes\.txt"):
        fl.convert(packed, tmp_path / "mine", to="mds")
    assert not (tmp_path / "x").exists()


def test_the_command_line_does_the_same(packed, tmp_path):
    command = [sys.executable, "-m", "feedline", "convert", packed.uri, tmp_path / "cli", "--to", "mds", "--json"]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    document = json.loads(shown)
    assert (document["samples"], document["to"]) == (40, "mds")
    assert len(fl.open(tmp_path / "cli")) == 40
    back = [sys.executable, "-m", "feedline", "convert", tmp_path / "cli", tmp_path / "again", "--to", "pack", "-q"]
    subprocess.run(back, check=True)
    assert fl.open(tmp_path / "again")[7]["image"] == packed[7]["image"]
