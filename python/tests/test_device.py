"""Images decoded by the device, with a stand-in for nvImageCodec of the same interface: no GPU is here."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import feedline as fl
import numpy as np
import pytest
from feedline import _device
from feedline import transforms as T
from PIL import Image


class StandIn:
    """Pillow behind nvImageCodec's names."""

    BackendKind = SimpleNamespace(CPU_ONLY="cpu")

    class Backend:
        def __init__(self, kind: Any) -> None:
            self.kind = kind

    class CodeStream:
        def __init__(self, data: bytes) -> None:
            self.data = data

    class Region:
        def __init__(self, *box: int) -> None:
            self.box = box

    class DecodeSource:
        def __init__(self, stream: Any, region: Any = None) -> None:
            self.stream, self.region = stream, region

    class Decoder:
        regions: list[Any] = []  # noqa: RUF012 - what was asked for

        def __init__(self, backends: Any = None, device_id: int | None = None) -> None:
            assert backends is not None or device_id is not None

        def decode(self, sources: list[Any]) -> list[Any]:
            return [self._one(source) for source in sources]

        def _one(self, source: Any) -> Any:
            stream = getattr(source, "stream", source)
            try:
                pixels = np.array(Image.open(io.BytesIO(stream.data)).convert("RGB"))
            except OSError:
                return None
            region = getattr(source, "region", None)
            if region is not None:
                top, left, bottom, right = region.box
                self.regions.append(region.box)
                pixels = pixels[top:bottom, left:right].copy()
            return pixels


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_device, "codec", lambda: StandIn)
    StandIn.Decoder.regions.clear()


OPS = [T.RandomResizedCrop(16), T.RandomHorizontalFlip(), T.Normalize.imagenet()]


def knobs(**more: Any) -> dict[str, Any]:
    return {"batch_size": 5, "shuffle": True, "seed": 3, "transforms": OPS, "output": "torch", **more}


def test_the_device_gives_what_the_engine_gives(folder: Path) -> None:
    ds = fl.open(folder)
    ours = list(fl.Loader(ds, **knobs()))
    theirs = list(fl.Loader(ds, **knobs(decode="device", device="cpu")))
    assert len(StandIn.Decoder.regions) == 12
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


def test_what_does_not_go_together_is_refused(folder: Path) -> None:
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


def test_without_nvimagecodec_it_says_what_to_install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    with pytest.raises(fl.Error, match="nvimgcodec"):
        next(iter(fl.Loader(fl.open(folder), **knobs(decode="device", device="cpu"))))
