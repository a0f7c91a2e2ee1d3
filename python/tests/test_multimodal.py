"""One sample of every kind through packs and the formats of other systems."""

from __future__ import annotations

import io
import subprocess
import sys

import feedline as fl
import numpy as np
import pytest
from feedline import transforms as T
from PIL import Image
from test_audio import encoded as sound
from test_audio import wave
from test_video import encoded as film

KINDS = {
    "image": "image",
    "audio": "audio",
    "video": "video",
    "tokens": "array",
    "volume": "array",
    "text": "text",
    "about": "json",
    "label": "int",
    "weight": "float",
}


def photo(number):
    out = io.BytesIO()
    Image.fromarray(np.random.default_rng(number).integers(0, 255, (40, 50, 3), dtype=np.uint8)).save(out, "PNG")
    return out.getvalue()


def samples():
    for number in range(4):
        draw = np.random.default_rng(number)
        yield {
            "image": photo(number),
            "audio": sound(wave(9000 + number, seed=number), 16_000, "FLAC"),
            "video": film(12 + number, g=4),
            "tokens": draw.integers(0, 1000, 20 + number).astype(np.int64),
            "volume": draw.normal(size=(5 + number, 6, 7)).astype(np.float32),
            "text": f"sample {number}",
            "about": {"number": number},
            "label": number % 2,
            "weight": number / 4,
        }


@pytest.fixture(scope="module")
def pack(tmp_path_factory):
    return fl.pack(samples(), tmp_path_factory.mktemp("data") / "pack", schema=KINDS, progress=False)


def batches(ds, names=None):
    names = names or {}
    ops = {
        names.get("image", "image"): [T.CenterCrop(32)],
        names.get("audio", "audio"): [T.AudioWindow(0.25, "start"), T.Mono()],
        names.get("video", "video"): [T.Clip(4, 2, "start"), T.Resize((16, 24))],
        names.get("volume", "volume"): [T.ArrayWindow((4, 4, 4), "center")],
    }
    with fl.Loader(ds, transforms=ops, batch_size=4, output="numpy", dtype="uint8") as loader:
        (batch,) = list(loader)
    return batch


def test_a_pack_and_its_batch(pack):
    assert dict(pack.schema.items()) == KINDS
    batch = batches(pack)
    assert batch["image"].shape == (4, 3, 32, 32)
    assert batch["audio"].shape == (4, 1, 4000)
    assert batch["video"].shape == (4, 4, 3, 16, 24)
    assert batch["volume"].shape == (4, 4, 4, 4)
    assert [len(tokens) for tokens in batch["tokens"]] == [20, 21, 22, 23]
    assert batch["label"].tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize("to", ["webdataset", "mds", "litdata", "parquet"])
def test_other_formats_keep_every_kind(pack, tmp_path, to):
    fl.convert(pack, tmp_path / to, to=to, progress=False)
    back = fl.open(tmp_path / to)
    found = list(back.schema)
    names = {}
    for name in KINDS:
        same = [n for n in found if n == name or n.startswith(name + ".") or n.split(".")[0] == name]
        assert same, (to, name, found)
        names[name] = same[0]
    for number, sample in enumerate(samples()):
        read = back[number]
        for name in ("image", "audio", "video"):
            assert bytes(read[names[name]]) == sample[name], (to, name)
        for name in ("tokens", "volume"):
            assert np.array_equal(read[names[name]], sample[name]), (to, name)
        assert read[names["text"]] == sample["text"]
        assert (read[names["label"]], read[names["weight"]]) == (sample["label"], sample["weight"])
    ours, theirs = batches(pack), batches(back, names)
    for name in ("image", "audio", "video", "volume"):
        assert np.array_equal(theirs[names[name]], ours[name]), (to, name)


def test_inspect_names_the_kinds(pack):
    command = [sys.executable, "-m", "feedline", "inspect", pack.uri]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    for name, kind in KINDS.items():
        assert name in shown
        assert kind in shown
