"""Every knob does something that can be seen: batches and how they are delivered."""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import feedline as fl
import numpy as np
import pytest
from option_data import CROP, first, knob, tiny_images
from PIL import Image


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return tiny_images(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    """Ten images, of which number 3 is not one."""
    root = tmp_path_factory.mktemp("broken")
    for number in range(10):
        path = root / f"{number}.jpg"
        Image.new("RGB", (16, 16), (number * 20, 0, 0)).save(path, "JPEG")
        if number == 3:
            path.write_bytes(path.read_bytes()[:200])
    return fl.open(root)


@knob("output")
def test_output(tiny):
    """torch, NumPy, JAX or DLPack"""
    assert isinstance(first(tiny, output="numpy")["image"], np.ndarray)
    plain = first(tiny, output="dlpack", fields=["image", "path"], collate="ragged")
    assert hasattr(plain["image"], "__dlpack__")
    assert hasattr(plain["path"].data, "__dlpack__")
    import torch

    assert isinstance(first(tiny, output="torch")["image"], torch.Tensor)
    assert isinstance(first(tiny, output="auto")["image"], torch.Tensor)
    with pytest.raises(fl.OptionError, match="output: 'tf'"):
        fl.Loader(tiny, output="tf")


@knob("device", "non_blocking")
def test_device(tiny):
    """device of the torch tensors; refused for other outputs. On a CPU-only machine: `cpu` and `meta`"""
    import torch

    for non_blocking in (True, False):
        batch = first(tiny, output="torch", device="cpu", non_blocking=non_blocking)
        assert batch["image"].device == torch.device("cpu")
        assert first(tiny, output="torch", device="meta", non_blocking=non_blocking)["image"].is_meta
    with pytest.raises(fl.OptionError, match="device: only for torch"):
        fl.Loader(tiny, output="numpy", device="cpu")


def test_copies_to_a_gpu_run_on_a_stream_of_their_own():
    """The calls in their order, on stand-ins: there is no GPU here."""
    from feedline._output import _copier

    calls = []
    cuda = MagicMock()
    cuda.Stream.side_effect = lambda device: calls.append(("Stream", device)) or "side"
    cuda.stream.side_effect = lambda stream: calls.append(("stream", stream)) or MagicMock()
    cuda.current_stream.return_value.wait_stream.side_effect = lambda stream: calls.append(("wait", stream))
    tensor = MagicMock()
    tensor.to.side_effect = lambda target, non_blocking: calls.append(("to", target.type, non_blocking)) or tensor
    tensor.record_stream.side_effect = lambda _: calls.append(("record",))
    gpu = SimpleNamespace(type="cuda")
    copy = _copier(SimpleNamespace(cuda=cuda), gpu, non_blocking=True)
    assert calls == []
    copy(tensor)
    assert calls == [("Stream", gpu), ("stream", "side"), ("to", "cuda", True), ("wait", "side"), ("record",)]
    calls.clear()
    copy(tensor)
    assert calls == [("stream", "side"), ("to", "cuda", True), ("wait", "side"), ("record",)], "one stream for all"
    calls.clear()
    _copier(SimpleNamespace(cuda=cuda), gpu, non_blocking=False)(tensor)
    assert calls == [("to", "cuda", False)]


@knob("pin_memory")
def test_pin_memory(tiny):
    """page-locked with CUDA, a warning without; refused for other outputs"""
    import torch

    if torch.cuda.is_available():
        assert first(tiny, output="torch", pin_memory=True)["image"].is_pinned()
    else:
        with pytest.warns(UserWarning, match="nothing is page-locked"):
            first(tiny, output="torch", pin_memory=True)
    with pytest.raises(fl.OptionError, match="pin_memory: only for torch"):
        fl.Loader(tiny, output="numpy", pin_memory=True)


@knob("missing")
def test_missing():
    """missing numbers: 0 (NaN for floats) and `NAME.valid`, or NaN, or a bad sample"""
    dataset = fl.open(Path(__file__).parents[2] / "testdata/formats/parquet/missing.parquet")
    batch = first(dataset, transforms=None, batch_size=3)
    assert (batch["x"].tolist(), batch["x.valid"].tolist()) == ([1, 0, 3], [True, False, True])
    assert (batch["y"][:2].tolist(), batch["y.valid"].tolist()) == ([0.5, 1.5], [True, True, False])
    assert (batch["x.valid"].dtype, batch["z"].tolist(), "z.valid" in batch) == (np.bool_, [7, 8, 9], False)
    batch = first(dataset, transforms=None, batch_size=3, missing="nan")
    assert (batch["x"][[0, 2]].tolist(), np.isnan(batch["x"][1]), "x.valid" in batch) == ([1.0, 3.0], True, False)
    with pytest.raises(fl.SampleError, match="sample 1"):
        first(dataset, transforms=None, batch_size=3, missing="error")
    with pytest.raises(fl.OptionError, match="missing"):
        first(dataset, transforms=None, missing="zero")


@knob("timeout")
def test_timeout(tmp_path):
    """an error when no batch is ready for this long; tested with a pipe without a writer"""
    for number in range(3):
        Image.new("RGB", (8, 8)).save(tmp_path / f"{number}.jpg")
    dataset = fl.open(tmp_path)
    (tmp_path / "1.jpg").unlink()
    os.mkfifo(tmp_path / "1.jpg")
    loader = fl.Loader(dataset, batch_size=3, timeout=0.3, decode="none", num_workers=1)
    begun = time.monotonic()
    try:
        with pytest.raises(fl.LoaderTimeoutError, match=r"no batch within 0\.3 s") as caught:
            next(iter(loader))
        assert 0.3 <= time.monotonic() - begun < 5
        assert isinstance(caught.value, TimeoutError)
    finally:
        # Lets a worker that waits for the pipe go.
        os.close(os.open(tmp_path / "1.jpg", os.O_RDWR | os.O_NONBLOCK))
    with pytest.raises(fl.OptionError, match="timeout"):
        fl.Loader(dataset, timeout=0)


@knob("on_error", "max_errors")
def test_on_error(broken):
    """a bad sample raises, is left out, or is replaced; too many of them raise"""
    knobs = {"batch_size": 5, "output": "numpy", **CROP}
    with pytest.raises(fl.SampleError, match=r"3\.jpg") as caught:
        list(fl.Loader(broken, **knobs))
    assert caught.value.sample == 3
    with fl.Loader(broken, on_error="skip", **knobs) as loader:
        assert [len(batch["index"]) for batch in loader] == [4, 5]
        assert (loader.stats()["skipped"], loader.errors()[0]["index"]) == (1, 3)
    with fl.Loader(broken, on_error="replace", **knobs) as loader:
        assert [len(batch["index"]) for batch in loader] == [5, 5]
        assert loader.stats()["replaced"] == 1
    with pytest.raises(fl.TooManyBadSamplesError):
        list(fl.Loader(broken, on_error="skip", max_errors=0, **knobs))
    with pytest.raises(fl.OptionError, match="max_errors"):
        fl.Loader(broken, max_errors=3)


@knob("collate")
def test_collate(tiny):
    """values of different sizes: ragged, stacked if they agree, padded, or a list"""
    whole = {"transforms": None}
    assert isinstance(first(tiny, **whole)["image"], fl.Ragged)
    padded = first(tiny, collate="pad", fields=["image"], **whole)["image"]
    assert padded.shape == (4, 3, 24, 24)
    assert not padded[0, :, :, 16:].any()
    listed = first(tiny, collate={"image": "list"}, **whole)["image"]
    assert [image.shape for image in listed] == [(3, 24, 16), (3, 16, 24)] * 2
    with pytest.raises(fl.OptionError, match="cannot be stacked"):
        first(tiny, collate={"image": "stack"}, **whole)
    same = {"sampler": range(0, 20, 2), "fields": ["image"]}
    assert first(tiny, collate="stack", **same, **whole)["image"].shape == (4, 3, 24, 16)
    with pytest.raises(fl.OptionError, match="collate: 'zip'"):
        fl.Loader(tiny, collate="zip")


@knob("as_tuple")
def test_as_tuple(tiny):
    """`True` gives tuples of all fields, names give those fields in that order; others are refused"""
    image, label = first(tiny, as_tuple=True)
    assert (len(image), len(label)) == (4, 4)
    label, path = first(tiny, as_tuple=("label", "path"))
    assert isinstance(path, list)
    assert first(tiny, options=fl.LoaderOptions().with_as_tuple(["label"]))[0].tolist() == label.tolist()
    with pytest.raises(fl.OptionError, match="as_tuple: there is no field 'masks'"):
        fl.Loader(tiny, as_tuple=("image", "masks"))


@knob("memory_budget")
def test_memory_budget(tiny):
    """fewer batches ahead if they would not fit; refused if not even three fit"""
    batch = 4 * (3 * 8 * 8 * 4 + 16)
    with fl.Loader(tiny, batch_size=4, prefetch=8, memory_budget=6 * batch, **CROP) as loader:
        list(loader)
        stats = loader.stats()
        assert stats["depth"] == 4
        assert stats["memory"]["peak_bytes"] <= 6 * batch + 4096 * 20
    with pytest.raises(fl.OptionError, match=r"memory_budget: .* three are needed"):
        fl.Loader(tiny, batch_size=4, memory_budget=batch, **CROP)


@knob("progress")
def test_progress(tiny, capsys):
    """a line about speed, waiting and bottleneck at the end of an epoch; a bar on a terminal"""
    with fl.Loader(tiny, batch_size=4, progress=True, **CROP) as loader:
        assert len(list(loader)) == 5
    assert "5/5 batches" in capsys.readouterr().err


@knob("dashboard")
def test_dashboard(tiny, capsys):
    """a page about the loader on this machine's loopback address, until the loader is closed"""
    with fl.Loader(tiny, batch_size=4, dashboard=True, **CROP) as loader:
        url = loader.dashboard
        assert url is not None
        assert url in capsys.readouterr().err
        list(loader)
        page, _, token = url.partition("?")
        with urllib.request.urlopen(f"{page}api/live?{token}") as answer:
            assert json.load(answer)["all"]["delivered"] == 20
        with fl.Loader(tiny, batch_size=4, rank=1, world_size=2, dashboard=url, **CROP) as other:
            list(other)
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                with urllib.request.urlopen(f"{page}api/live?{token}") as answer:
                    ranks = json.load(answer)["ranks"]
                if len(ranks) == 2:
                    break
                time.sleep(0.1)
        assert [rank["rank"] for rank in ranks] == [0, 1]
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"{page}api/live?{token}")
    with fl.Loader(tiny, **CROP) as loader:
        assert loader.dashboard is None
    with pytest.raises(fl.OptionError, match="dashboard"):
        fl.Loader(tiny, dashboard="http://elsewhere.example/", **CROP)
