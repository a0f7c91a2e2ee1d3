"""Images decoded by nvImageCodec, with its CPU back end: no GPU is here."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import feedline as fl
import numpy as np
import pytest
from feedline import _device
from feedline import transforms as T
from PIL import Image


@pytest.fixture
def regions(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The boxes that the decoder was asked for."""
    asked: list[Any] = []
    decode = _device.Decoder.decode

    def noted(self: _device.Decoder, wanted: Any) -> list[Any]:
        asked.extend(box for _, box in wanted if box is not None)
        return decode(self, wanted)

    monkeypatch.setattr(_device.Decoder, "decode", noted)
    return asked


OPS = [T.RandomResizedCrop(16), T.RandomHorizontalFlip(), T.Normalize.imagenet()]


def knobs(**more: Any) -> dict[str, Any]:
    return {"batch_size": 5, "shuffle": True, "seed": 3, "transforms": OPS, "output": "torch", **more}


def test_the_device_equals_the_engine(folder: Path, regions: list[Any]) -> None:
    ds = fl.open(folder)
    ours = list(fl.Loader(ds, **knobs()))
    theirs = list(fl.Loader(ds, **knobs(decode="device", device="cpu")))
    assert len(regions) == 12
    for one, other in zip(ours, theirs, strict=True):
        assert one.keys() == other.keys()
        assert one["index"].tolist() == other["index"].tolist()
        assert (one["image"] - other["image"]).abs().mean() < 0.02
    views = {"image": {"a": OPS, "b": [T.RandomResizedCrop(8), T.Normalize.imagenet()]}}
    one, other = (
        next(iter(fl.Loader(ds, **knobs(transforms=views, **more))))
        for more in ({}, {"decode": "device", "device": "cpu"})
    )
    assert all((one["image"][v] - other["image"][v]).abs().mean() < 0.02 for v in "ab")


def test_images_of_every_kind(tmp_path: Path) -> None:
    """Turned by EXIF, grey, with four colours, with a palette: as the engine's, but for the resize's rounding."""
    rng = np.random.default_rng(4)
    photo = Image.fromarray(rng.integers(0, 255, (12, 16, 3), dtype=np.uint8)).resize((96, 72))
    turned = Image.Exif()
    turned[0x112] = 6
    photo.save(tmp_path / "a.jpg", exif=turned)
    photo.convert("L").save(tmp_path / "b.jpg")
    photo.convert("CMYK").save(tmp_path / "c.jpg")
    photo.save(tmp_path / "d.jpg", progressive=True)
    photo.save(tmp_path / "e.png")
    photo.convert("P").save(tmp_path / "f.png")
    photo.save(tmp_path / "g.webp", lossless=True)
    ds = fl.open(tmp_path)
    for ops in ([T.CenterCrop(40)], [T.RandomResizedCrop(32), T.RandomHorizontalFlip()]):
        plain: dict[str, Any] = {"transforms": ops, "output": "torch", "batch_size": 7}
        ours, theirs = (
            next(iter(fl.Loader(ds, **plain, **more))) for more in ({}, {"decode": "device", "device": "cpu"})
        )
        for row in range(7):
            assert (ours["image"][row] - theirs["image"][row]).abs().max() <= 2 / 255, (row, ops)


def test_resume_and_states(folder: Path) -> None:
    ds = fl.open(folder)
    loader = fl.Loader(ds, **knobs(decode="device", device="cpu"))
    iterator = iter(loader)
    next(iterator)
    state = json.loads(json.dumps(loader.state_dict()))
    rest = list(iterator)
    again = fl.Loader(ds, **knobs(decode="device", device="cpu"))
    again.load_state_dict(state)
    for one, other in zip(rest, again, strict=True):
        assert (one["image"] == other["image"]).all()
    other = fl.Loader(ds, **knobs(decode="device", device="cpu", transforms=[T.CenterCrop(8)]))
    with pytest.raises(fl.Error, match="does not fit"):
        other.load_state_dict(state)


def test_bad_samples(tmp_path: Path) -> None:
    for number in range(6):
        path = tmp_path / f"{number}.jpg"
        Image.new("RGB", (20, 20), (number * 30, 0, 0)).save(path)
        if number == 2:
            # The header is whole, the rest is not there.
            path.write_bytes(path.read_bytes()[:400])
    ds = fl.open(tmp_path)
    plain = {"transforms": [T.CenterCrop(16)], "decode": "device", "device": "cpu", "batch_size": 6, "output": "torch"}
    with pytest.raises(fl.Error, match="cannot decode"):
        list(fl.Loader(ds, **plain))
    skipping = fl.Loader(ds, on_error="skip", **plain)
    assert [batch["index"].tolist() for batch in skipping] == [[0, 1, 3, 4, 5]]
    assert [error["index"] for error in skipping.errors()] == [2]
    replaced = next(iter(fl.Loader(ds, on_error="replace", **plain)))
    assert len(replaced["index"]) == len(replaced["image"]) == 6
    assert 2 not in replaced["index"].tolist()


def test_conflicting_options_are_refused(folder: Path) -> None:
    ds = fl.open(folder)
    for more, reason in [
        ({"device": None}, "needs device="),
        ({"dtype": "uint8"}, "float32"),
        ({"return_params": True}, "has no pixels"),
        ({"batch_transforms": [T.OneHot(3)]}, "has no pixels"),
        ({"as_tuple": True}, "has no pixels"),
    ]:
        with pytest.raises(fl.Error, match=reason):
            fl.Loader(ds, **{**knobs(decode="device", device="cpu"), **more})


def test_without_nvimagecodec_the_error_says_what_to_install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nvidia.nvimgcodec", None)
    with pytest.raises(fl.Error, match="nvimgcodec"):
        next(iter(fl.Loader(fl.open(folder), **knobs(decode="device", device="cpu"))))
