"""Every knob does something that can be seen, or is refused with the reason. `docs/options.md` is made from this file."""

from __future__ import annotations

import io
import json
import os
import pickle
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import warnings
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import feedline as fl
import numpy as np
import pytest
from engine_threads import engine_threads, eventually
from feedline import samplers
from feedline import transforms as T
from feedline._options import DEFAULTS, REFUSED
from pictures import make_folder
from PIL import Image

ROOT = Path(__file__).parents[2]


def knob(*_names):
    """Marks a test as the proof of these knobs; `tools/options_table.py` reads it."""
    return lambda test: test


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """20 tiny images of two shapes."""
    root = tmp_path_factory.mktemp("tiny")
    rng = np.random.default_rng(0)
    for number in range(20):
        shape = (16, 24, 3) if number % 2 else (24, 16, 3)
        buffer = io.BytesIO()
        Image.fromarray(rng.integers(0, 256, shape, dtype=np.uint8)).save(buffer, "JPEG", quality=90)
        folder = root / f"class{number // 10}"
        folder.mkdir(exist_ok=True)
        (folder / f"{number:02}.jpg").write_bytes(buffer.getvalue())
    return fl.open(root)


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


CROP = {"transforms": [T.CenterCrop(8)]}


def indices(dataset, **knobs):
    with fl.Loader(dataset, **{"output": "numpy", "decode": "none", **knobs}) as loader:
        return [batch["index"].tolist() for batch in loader]


def flat(batches):
    return [index for batch in batches for index in batch]


def first(dataset, **knobs):
    with fl.Loader(dataset, **{"batch_size": 4, "output": "numpy", **CROP, **knobs}) as loader:
        return next(iter(loader))


@knob("batch_size")
def test_batch_size(tiny):
    """batches have this many samples"""
    assert [len(batch) for batch in indices(tiny, batch_size=8)] == [8, 8, 4]
    with pytest.raises(fl.OptionError, match="batch_size: 0"):
        fl.Loader(tiny, batch_size=0)


@knob("drop_last")
def test_drop_last(tiny):
    """a last batch that is not full is left out, and `stats()` counts its samples"""
    with fl.Loader(tiny, batch_size=8, drop_last=True, decode="none") as loader:
        assert [len(batch["index"]) for batch in loader] == [8, 8]
        assert loader.stats()["dropped_per_epoch"] == 4


@knob("shuffle")
def test_shuffle(tiny):
    """`True` and `"full"` permute; `"block"` permutes blocks and windows; each epoch in another order"""
    plain = flat(indices(tiny))
    full = flat(indices(tiny, shuffle=True))
    assert plain == list(range(20))
    assert plain != full == flat(indices(tiny, shuffle="full"))
    assert sorted(flat(indices(tiny, shuffle="block"))) == plain
    with pytest.raises(fl.OptionError, match="shuffle: 'yes'"):
        fl.Loader(tiny, shuffle="yes")


@knob("seed")
def test_seed(tiny):
    """another seed gives another order and other crops; the same seed the same"""
    assert indices(tiny, shuffle=True, seed=1) == indices(tiny, shuffle=True, seed=1)
    assert indices(tiny, shuffle=True, seed=1) != indices(tiny, shuffle=True, seed=2)
    crop = {"transforms": [T.RandomResizedCrop(8)]}
    images = [first(tiny, seed=seed, **crop)["image"] for seed in (1, 1, 2)]
    assert np.array_equal(images[0], images[1])
    assert not np.array_equal(images[0], images[2])


@knob("sampler")
def test_sampler(tiny):
    """determines which samples an epoch has, in which order; refused together with `shuffle`"""
    assert indices(tiny, sampler=[3, 1, 1]) == [[3, 1, 1]]
    assert len(indices(tiny, sampler=samplers.Weighted(range(20), 33), batch_size=33)[0]) == 33
    with pytest.raises(fl.OptionError, match="already gives the order"):
        fl.Loader(tiny, sampler=[0], shuffle=True)


@knob("transforms")
def test_transforms(tiny):
    """a list for the image, a dict by field, or several views of one image"""
    assert first(tiny)["image"].shape == (4, 3, 8, 8)
    views = {"image": {"small": [T.CenterCrop(4)], "large": [T.CenterCrop(12)]}}
    batch = first(tiny, transforms=views)["image"]
    assert (batch["small"].shape, batch["large"].shape) == ((4, 3, 4, 4), (4, 3, 12, 12))
    with pytest.raises(fl.OptionError, match="add parentheses"):
        fl.Loader(tiny, transforms=[T.Resize])
    with pytest.raises(fl.OptionError, match=r"not one of feedline.transforms"):
        fl.Loader(tiny, transforms=[lambda image: image])


@knob("fields")
def test_fields(tiny):
    """only these fields are read"""
    assert sorted(first(tiny, fields=["label"], transforms=None)) == ["index", "label"]
    with pytest.raises(fl.OptionError, match="no field 'colour'"):
        fl.Loader(tiny, fields=["colour"])


@knob("num_workers")
def test_num_workers(tiny):
    """this many threads run; results do not depend on it"""
    before = engine_threads()
    with fl.Loader(tiny, num_workers=3, **CROP) as loader:
        running = iter(loader)
        next(running)
        assert len(engine_threads() - before) == 3
        assert loader.stats()["threads"] == 3
        del running
    assert eventually(lambda: engine_threads() <= before)
    assert np.array_equal(first(tiny, num_workers=1)["image"], first(tiny, num_workers=5)["image"])
    with pytest.raises(fl.OptionError, match="num_workers"):
        fl.Loader(tiny, num_workers=100_000)


@knob("prefetch")
def test_prefetch(tiny):
    """at most this many batches are prepared ahead of the consumer"""
    for ahead in (1, 3):
        with fl.Loader(tiny, batch_size=2, prefetch=ahead, num_workers=1, **CROP) as loader:
            running = iter(loader)
            next(running)
            time.sleep(0.2)
            # One delivered, `ahead` ready, one being filled.
            assert loader.stats()["samples"] <= 2 * (ahead + 2)
            assert loader.stats()["depth"] == ahead + 1
    with pytest.raises(fl.OptionError, match="prefetch"):
        fl.Loader(tiny, prefetch=0)


@knob("read_ahead")
def test_read_ahead(tiny, tmp_path):
    """bytes are read before they are needed, so many reads at once; batches stay the same"""
    path = tmp_path / "pack"
    fl.pack(tiny, path, progress=False)
    dataset = fl.open(path)
    expected = first(dataset, read_ahead="off")["image"]
    with fl.Loader(dataset, read_ahead=3, batch_size=4, output="numpy", **CROP) as loader:
        assert np.array_equal(next(iter(loader))["image"], expected)
        assert loader.stats()["read_ahead"]["active"]
        # A worker that comes first reads for itself; somewhere it does not.
        assert any(list(loader) and loader.stats()["read_ahead"]["reads"] for _ in range(1000))
    with fl.Loader(dataset, options=fl.LoaderOptions().read_ahead("off"), **CROP) as loader:
        list(loader)
        assert not loader.stats()["read_ahead"]["allowed"]
    for wrong in ("on", 0, 5000, None, True, 2.5):
        with pytest.raises(fl.OptionError, match="read_ahead"):
            fl.Loader(dataset, read_ahead=wrong)


@knob("rank", "world_size")
def test_rank_and_world_size(tiny, monkeypatch):
    """this rank's share of every global batch; found in the environment if not given"""
    assert indices(tiny, batch_size=5, rank=1, world_size=2) == [[5, 6, 7, 8, 9], [15, 16, 17, 18, 19]]
    for names in (("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS")):
        with monkeypatch.context() as patch:
            patch.setenv(names[0], "1")
            patch.setenv(names[1], "2")
            assert indices(tiny, batch_size=5)[0] == [5, 6, 7, 8, 9]
            assert indices(tiny, batch_size=5, rank=0, world_size=1)[0] == [0, 1, 2, 3, 4]
    with pytest.raises(fl.OptionError, match="go together"):
        fl.Loader(tiny, rank=1)
    with pytest.raises(fl.OptionError, match="not below world_size"):
        fl.Loader(tiny, rank=2, world_size=2)


def test_rank_discovery_is_logged(tiny, monkeypatch, caplog):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("SLURM_PROCID", "3")
    monkeypatch.setenv("SLURM_NTASKS", "8")
    with caplog.at_level("INFO", "feedline"):
        fl.Loader(tiny)
    assert "rank 0 of 4, from RANK/WORLD_SIZE" in caplog.text


def test_rank_discovery_prefers_torch_to_the_environment_to_jax(monkeypatch):
    from feedline._ranks import discover

    for name in ("RANK", "WORLD_SIZE", "SLURM_PROCID", "SLURM_NTASKS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setitem(sys.modules, "torch.distributed", None)
    jax = SimpleNamespace(process_index=lambda: 1, process_count=lambda: 3)
    jax._src = SimpleNamespace(xla_bridge=SimpleNamespace(_backends={"cpu": 1}))
    monkeypatch.setitem(sys.modules, "jax", None)
    assert discover(None, None) == (0, 1)
    monkeypatch.setitem(sys.modules, "jax", jax)
    assert discover(None, None) == (1, 3)
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "5")
    assert discover(None, None) == (2, 5)
    ready = {"is_available": lambda: True, "is_initialized": lambda: True}
    ranked = SimpleNamespace(**ready, get_rank=lambda: 6, get_world_size=lambda: 7)
    monkeypatch.setitem(sys.modules, "torch.distributed", ranked)
    assert discover(None, None) == (6, 7)
    assert discover(0, 1) == (0, 1)


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


@knob("dtype")
def test_dtype(tiny):
    """element type of images"""
    import torch

    for name in ("float32", "float16", "bfloat16", "uint8"):
        assert first(tiny, output="torch", dtype=name)["image"].dtype == getattr(torch, name)
    assert first(tiny, output="torch", dtype=torch.float16)["image"].dtype == torch.float16
    assert first(tiny, dtype=np.uint8)["image"].dtype == np.uint8
    with pytest.raises(fl.OptionError, match="dtype"):
        fl.Loader(tiny, dtype="int4")


@pytest.fixture
def glass(tmp_path):
    """One image that is half transparent, and that asks to be turned."""
    pixels = np.zeros((4, 6, 4), np.uint8)
    pixels[..., 0], pixels[..., 3] = 200, 51
    exif = Image.Exif()
    exif[0x112] = 6
    Image.fromarray(pixels).save(tmp_path / "glass.png", exif=exif)
    return fl.open(tmp_path)


@knob("mode")
def test_mode(glass):
    """kind of values of an image; also by field"""
    loader = {"dtype": "uint8", "transforms": [T.CenterCrop(2)]}
    assert first(glass, mode="L", **loader)["image"].shape == (1, 1, 2, 2)
    assert first(glass, mode={"image": "RGBA"}, **loader)["image"][0, :, 0, 0].tolist() == [200, 0, 0, 51]
    with pytest.raises(fl.OptionError, match="mode"):
        fl.Loader(glass, mode="rgb")
    with pytest.raises(fl.OptionError, match="there is no field 'mask'"):
        fl.Loader(glass, mode={"mask": "index"})
    with pytest.raises(fl.OptionError, match="not decoded"):
        fl.Loader(glass, mode="L", decode="none")


@knob("background")
def test_background(glass):
    """colour behind transparent pixels; without one, opacity is dropped"""
    loader = {"dtype": "uint8", "transforms": [T.CenterCrop(2)]}
    assert first(glass, **loader)["image"][0, :, 0, 0].tolist() == [200, 0, 0]
    assert first(glass, background=(0, 100, 255), **loader)["image"][0, :, 0, 0].tolist() == [40, 80, 204]
    with pytest.raises(fl.OptionError, match="background"):
        fl.Loader(glass, background=(1, 2))


@knob("allow_truncated")
@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
@pytest.mark.parametrize("more", [{}, {"progressive": True}])
def test_allow_truncated(tmp_path, monkeypatch, kind, more):
    """JPEGs and PNGs that end early are decoded as with `LOAD_TRUNCATED_IMAGES`; otherwise they are bad samples"""
    buffer = io.BytesIO()
    Image.fromarray(np.random.default_rng(1).integers(0, 256, (64, 48, 3), dtype=np.uint8)).save(buffer, kind, **more)
    data = buffer.getvalue()[: len(buffer.getvalue()) * 2 // 3]
    (tmp_path / "cut.png").write_bytes(data)
    monkeypatch.setattr("PIL.ImageFile.LOAD_TRUNCATED_IMAGES", True)
    expected = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    knobs = {"dtype": "uint8", "memory_format": "channels_last", "transforms": None}
    found = first(fl.open(tmp_path), allow_truncated=True, **knobs)["image"][0]
    np.testing.assert_array_equal(found, expected)
    with pytest.raises(fl.SampleError, match="truncated"):
        first(fl.open(tmp_path), **knobs)


@knob("page")
def test_page(tmp_path):
    """another page of a TIFF; a file without it is a bad sample that says so"""
    pages = [Image.fromarray(np.full((5 + page, 7, 3), 40 * page, np.uint8)) for page in range(3)]
    folder = tmp_path / "files"
    folder.mkdir()
    pages[0].save(folder / "a.tif", save_all=True, append_images=pages[1:])
    pages[0].save(folder / "b.png")
    knobs = {"dtype": "uint8", "memory_format": "channels_last", "transforms": None}
    for source in (fl.open(folder), fl.pack(folder, tmp_path / "pack", image="as-is", progress=False)):
        for page, expected in enumerate(pages):
            batch = first(source.select([0]), page=page, **knobs)
            np.testing.assert_array_equal(batch["image"][0], np.asarray(expected))
        with pytest.raises(fl.SampleError, match="page 3 of a file with 3 pages"):
            first(source.select([0]), page=3, **knobs)
        with pytest.raises(fl.SampleError, match="page 1: such a file has one page"):
            first(source.select([1]), page=1, **knobs)


def test_pages_of_masks_follow_those_of_images(tmp_path):
    ramp = np.arange(5 * 7, dtype=np.uint8).reshape(5, 7)
    files = {}
    for name in ("image", "mask"):
        pages = [Image.fromarray(ramp + page) for page in range(2)]
        pages[0].save(tmp_path / name, "TIFF", save_all=True, append_images=pages[1:])
        files[name] = (tmp_path / name).read_bytes()
    schema = {"image": "image", "mask": "image"}
    ds = fl.pack([files], tmp_path / "pack", schema=schema, image="as-is", progress=False)
    batch = first(ds, page=1, transforms=None, dtype="uint8", targets={"mask": T.Mask()})
    np.testing.assert_array_equal(batch["mask"][0], ramp + 1)
    np.testing.assert_array_equal(batch["image"][0][0], ramp + 1)


@knob("exif_transpose")
def test_exif_transpose(glass):
    """images are rotated as their EXIF says, or left as stored"""
    assert first(glass, transforms=None)["image"][0].shape == (3, 6, 4)
    assert first(glass, transforms=None, exif_transpose=False)["image"][0].shape == (3, 4, 6)


@knob("memory_format")
def test_memory_format(tiny):
    """channels last in memory; torch keeps its order of dimensions"""
    import torch

    image = first(tiny, output="torch", memory_format=torch.channels_last)["image"]
    assert image.shape == (4, 3, 8, 8)
    assert image.is_contiguous(memory_format=torch.channels_last)
    assert first(tiny, memory_format="channels_last")["image"].shape == (4, 8, 8, 3)
    assert torch.equal(image, first(tiny, output="torch")["image"])


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


@knob("cache_dir")
def test_cache_dir(tiny, tmp_path):
    """remote data are cached in this folder; refused for local data, which need no cache"""
    with pytest.raises(fl.OptionError, match=r"cache_dir: .*local data"):
        fl.Loader(tiny, cache_dir=tmp_path)


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


@knob("persistent_workers")
def test_persistent_workers(tiny):
    """threads are kept between epochs, or end with each"""
    for keep in (True, False):
        with fl.Loader(tiny, num_workers=2, persistent_workers=keep, decode="none") as loader:
            before = engine_threads()
            list(loader)
            want = 2 if keep else 0
            assert eventually(lambda new=want, old=before: len(engine_threads() - old) == new)


@knob("auto_tune")
def test_auto_tune(tiny):
    """threads and prefetching are adjusted from epoch to epoch within the limits; batches stay the same"""
    knobs = {"batch_size": 2, "num_workers": 4, "prefetch": 1, "output": "numpy", **CROP}
    with fl.Loader(tiny, auto_tune=True, **knobs) as tuned, fl.Loader(tiny, **knobs) as plain:
        settings = set()
        for _ in range(4):
            for ours, theirs in zip(tuned, plain, strict=True):
                assert np.array_equal(ours["image"], theirs["image"])
                time.sleep(0.003)  # a consumer that is slower than the engine: threads are given back
            settings.add((tuned.stats()["threads"], tuned.stats()["depth"]))
        assert len(settings) > 1
        assert plain.stats()["threads"] == 4


def brighten(image):
    return image.astype(np.int32) + 1000


def noisy(image, rng):
    return image + rng.integers(0, 100, image.shape, dtype=np.uint8)


def shapes_differ(image):
    return image[:, : 4 + int(image[0, 0, 0]) % 3]


def fail_on_some(image):
    if image[0, 0, 0] > 100:
        raise KeyError("no such colour")
    return image


@knob("multiprocessing_context")
@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
def test_multiprocessing_context(tiny, context):
    """how the processes of `map` and `T.Python` are started; results do not depend on it; refused without them"""
    knobs = {"multiprocessing_context": context, "num_workers": 2, "dtype": "uint8", "batch_size": 8, "shuffle": True}
    plain = {"dtype": "uint8", "batch_size": 8, "shuffle": True, "output": "numpy", **CROP}
    expected = [batch["image"].astype(np.int32) + 1000 for batch in fl.Loader(tiny, **plain)]
    python = {"transforms": [T.CenterCrop(8), T.Python(brighten)], "output": "numpy"}
    with fl.Loader(tiny, **knobs, **python) as loader:
        for epoch in range(2):
            loader.seek(0)
            made = [batch["image"] for batch in loader]
            assert all(np.array_equal(a, b) for a, b in zip(made, expected, strict=True)), epoch
    with pytest.raises(fl.OptionError, match="only for T.Python"):
        fl.Loader(tiny, multiprocessing_context="spawn" if context == "forkserver" else context)
    with pytest.raises(fl.OptionError, match="multiprocessing_context: not one of"):
        fl.Loader(tiny, multiprocessing_context="threads")


def test_python_transforms_are_deterministic(tiny):
    """Random numbers from (seed, epoch, sample, view): not from workers, ranks, batches, or restarts."""
    knobs = {"dtype": "uint8", "shuffle": True, "output": "numpy", "multiprocessing_context": "fork"}
    crop = {"transforms": {"image": {"a": [T.CenterCrop(8), T.Python(noisy)], "b": [T.CenterCrop(8)]}}}

    def samples(epoch=1, skip=0, **more):
        with fl.Loader(tiny, **{**knobs, **crop, **more}) as loader:
            loader.seek(epoch, skip)
            batches = list(loader)
        return {int(i): v.tobytes() for b in batches for i, v in zip(b["index"], b["image"]["a"], strict=True)}

    whole = samples(num_workers=1, batch_size=5)
    assert len(whole) == 20
    assert whole == samples(num_workers=3, batch_size=7)
    assert whole != samples(num_workers=1, batch_size=5, epoch=2)
    rest = samples(num_workers=2, batch_size=5, skip=2)
    assert len(rest) == 10
    assert rest == {index: whole[index] for index in rest}
    half = samples(num_workers=1, batch_size=5, rank=1, world_size=2)
    assert half == {index: whole[index] for index in half}


def test_python_transforms_resume_and_refuse(tiny):
    knobs = {"batch_size": 4, "dtype": "uint8", "output": "numpy", "multiprocessing_context": "fork"}
    python = {"transforms": [T.CenterCrop(8), T.Python(brighten)]}
    with fl.Loader(tiny, **knobs, **python) as loader:
        running = iter(loader)
        next(running)
        state = loader.state_dict()
        assert state["samples"] == 4, "what was received counts, not what is under way"
        rest = [batch["image"] for batch in running]
    with fl.Loader(tiny, **knobs, **python) as fresh:
        fresh.load_state_dict(state)
        assert all(np.array_equal(b["image"], r) for b, r in zip(fresh, rest, strict=True))
    with pytest.raises(fl.StateError, match="T.Python was"), fl.Loader(tiny, dtype="uint8", **CROP) as other:
        other.load_state_dict(state)
    with fl.Loader(tiny, **knobs, transforms=[T.CenterCrop(8), T.Python(shapes_differ)]) as loader:
        assert isinstance(next(iter(loader))["image"], fl.Ragged)
    with fl.Loader(tiny, **knobs, transforms=[T.CenterCrop(8), T.Python(fail_on_some)]) as loader:
        with pytest.raises(fl.SampleError, match=r"fail_on_some.*\n.*raise KeyError") as caught:
            list(loader)
        assert caught.value.stage == "transform"
    for bad, said in (
        ({"transforms": [T.Normalize.imagenet(), T.Python(brighten), T.CenterCrop(8)]}, "Normalize must come last"),
        ({"transforms": [T.Python(brighten)], "dtype": "bfloat16"}, "NumPy has no bfloat16"),
    ):
        with pytest.raises(fl.OptionError, match=said):
            fl.Loader(tiny, **{**knobs, **bad})


def with_mean(sample):
    image = np.asarray(sample["image"])
    return {"mean": float(image.mean()), "axis": image.shape.index(3), "process": os.getpid()}


@knob("map", "as_")
def test_map(tiny):
    """a function applied to every sample, a dict of its fields; its images are `"numpy"`, `"pil"` or `"torch"`"""
    plain = first(tiny, dtype="uint8")["image"]
    batch = first(tiny, map=with_mean, dtype="uint8", num_workers=1)
    assert np.allclose(batch["mean"], plain.mean(axis=(1, 2, 3)))
    assert batch["axis"].tolist() == [0] * 4
    assert sorted(batch) == ["axis", "index", "mean", "process"]
    assert first(tiny, map=with_mean, as_="pil", num_workers=1)["axis"].tolist() == [2] * 4
    with pytest.raises(fl.OptionError, match="as_='tiff' is not one of"):
        fl.Loader(tiny, map=with_mean, as_="tiff")


@knob("batch_map")
def test_batch_map(tiny):
    """a function applied to every batch, in a thread ahead of the loop; the loop gets its result"""
    assert first(tiny, batch_map=lambda batch: batch["index"].sum()) == 6
    with pytest.raises(fl.OptionError, match="batch_map: 3 cannot be called"):
        fl.Loader(tiny, batch_map=3)


@knob("map_workers")
def test_map_workers(tiny):
    """where `map` and `T.Python` run: `"processes"`, or `"threads"` (the default without an interpreter lock)"""
    knobs = {"map": with_mean, "num_workers": 1}
    assert first(tiny, map_workers="threads", **knobs)["process"][0] == os.getpid()
    assert first(tiny, map_workers="processes", **knobs)["process"][0] != os.getpid()
    with pytest.raises(fl.OptionError, match="map_workers: 'fibres' is not one of"):
        fl.Loader(tiny, map_workers="fibres", **knobs)


@knob("decode")
def test_decode(tiny):
    """`"exact"` pixels, `"fast"` pixels, or the stored bytes with `image_size`"""
    batch = first(tiny, decode="none", transforms=None)
    assert bytes(batch["image"][0]) == tiny[0]["image"]
    assert batch["image_size"][0].tolist() == [24, 16]
    assert first(tiny, decode="fast")["image"].shape == first(tiny)["image"].shape
    with pytest.raises(fl.OptionError):
        fl.Loader(tiny, decode="maybe")


@knob("views")
def test_views(tiny, tmp_path):
    """undecoded values are views into a pack's mapped files; nothing is copied"""
    path = tmp_path / "pack"
    fl.pack(tiny, path, progress=False)
    dataset = fl.open(path)
    knobs = {"batch_size": 6, "decode": "none", "output": "numpy", "shuffle": True}
    with fl.Loader(dataset, **knobs) as copies, fl.Loader(dataset, views=True, **knobs) as views:
        for plain, view in zip(copies, views, strict=True):
            assert isinstance(view["image"], fl.Ragged)
            assert [v.tobytes() for v in view["image"]] == [v.tobytes() for v in plain["image"]]
            assert np.array_equal(view["image_size"], plain["image_size"])
            assert np.array_equal(view["label"], plain["label"])
    with pytest.raises(fl.OptionError, match="views: only for packs on this machine: this is folder"):
        fl.Loader(tiny, views=True, decode="none")
    with pytest.raises(fl.OptionError, match="views"):
        fl.Loader(dataset, views=True)


@knob("index")
def test_index(tmp_path, monkeypatch):
    """seek indexes of JPEGs stored without are used and collected, built whole, or neither; batches stay the same"""
    monkeypatch.setenv("FEEDLINE_CACHE_DIR", str(tmp_path / "cache"))
    photos = fl.open(make_folder(tmp_path / "photos", per_class=8, size=(640, 480)))

    def stored() -> int:
        return sum(file.stat().st_size for file in tmp_path.glob("cache/index/checkpoints-*/*.seeks"))

    knobs = {"decode": "exact", "batch_size": 24, "transforms": [T.CenterCrop((64, 64))]}
    plain = first(photos, index="off", **knobs)["image"]
    assert stored() == 0
    for mode in ("auto", "build", "auto"):
        assert (first(photos, index=mode, **knobs)["image"] == plain).all()
    assert stored() > 0
    with pytest.raises(fl.OptionError, match="index: 'always' is not one of"):
        fl.Loader(photos, index="always")


@knob("max_pixels")
def test_max_pixels(tiny):
    """larger images are bad samples"""
    with pytest.raises(fl.SampleError):
        first(tiny, max_pixels=100)
    first(tiny, max_pixels=24 * 16)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_knobs_of_other_loaders_are_refused_with_the_reason(tiny, name):
    for make in (lambda: fl.Loader(tiny, **{name: 1}), lambda: fl.LoaderOptions(**{name: 1})):
        with pytest.raises(fl.OptionError, match=name) as caught:
            make()
        assert REFUSED[name] in str(caught.value)
    with pytest.raises(fl.OptionError, match="no such knob"):
        fl.Loader(tiny, batchsize=3)


@knob("options")
def test_options_builder(tiny):
    """the same knobs step by step: every step a new value, equal if equal, picklable, readable"""
    options = (
        fl.LoaderOptions()
        .with_batch_size(5).shuffle(on=True, seed=42).num_workers(1).pin_memory(on=False).persistent_workers(on=True)
        .with_timeout(30.0).channels_last().random_sampling(replacement=False).with_generator_seed(12345)
        .drop_last(on=True).prefetch(2).auto_tune().with_output("numpy").with_decode("none")
    )  # fmt: skip
    assert (options.batch_size_value, options["seed"], options["memory_format"]) == (5, 12345, "channels_last")
    assert options == pickle.loads(pickle.dumps(options))
    assert options != options.with_batch_size(6)
    with fl.Loader(tiny, options=options) as loader:
        assert loader.options["timeout"] == 30.0
        assert len(next(iter(loader))["index"]) == 5
    assert fl.Loader(tiny, options=options, batch_size=2).batch_size == 2
    replaced = options.shuffle(on=False).random_sampling(replacement=True)
    assert replaced["sampler"] == samplers.Random(replacement=True)
    weighted = fl.LoaderOptions().weighted_sampling([1.0] * 20)
    assert weighted == pickle.loads(pickle.dumps(weighted))
    assert len(list(fl.Loader(tiny, options=weighted))) == 1


def test_presets(tiny):
    options = fl.LoaderOptions()
    assert options.gpu_optimized()["pin_memory"]
    two = options.distributed_optimized(1, 2)
    assert (two["rank"], two["world_size"], two["pin_memory"]) == (1, 2, True)
    debug = options.debug_mode()
    assert (debug["num_workers"], debug["persistent_workers"], debug["timeout"]) == (1, False, 10.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for preset in (options.gpu_optimized(), two, debug):
            assert list(fl.Loader(tiny, options=preset))


def test_a_loader_can_stand_in_for_a_dataloader(tiny):
    """`len`, `iter`, nested loops, threads, pickling."""
    loader = fl.Loader(tiny, batch_size=7, output="numpy", decode="none", num_workers=1)
    assert len(loader) == len(list(loader)) == 3
    nested = [(a["index"][0], b["index"][0]) for a in loader for b in loader]
    assert len(nested) == 9
    copy = pickle.loads(pickle.dumps(loader))
    assert copy.options == loader.options
    results = []
    thread = threading.Thread(target=lambda: results.extend(copy))
    thread.start()
    thread.join()
    assert len(results) == 3


@knob("targets")
def test_targets():
    """masks, boxes and keypoints move with their image"""
    rows = [{"image": np.zeros((8, 8, 3), np.uint8), "mask": np.eye(8, dtype=np.uint8)}]
    flip = {"transforms": {"image": [T.RandomHorizontalFlip(1.0)]}, "output": "numpy"}
    kinds = {"image": "image", "mask": "array"}
    batch = next(iter(fl.Loader(fl.open(rows, schema=kinds), targets={"mask": T.Mask()}, **flip)))
    assert (batch["mask"][0] == np.eye(8)[:, ::-1]).all()


@knob("batch_transforms")
def test_batch_transforms(tiny):
    """samples are mixed with their neighbours in the order, and labels become shares"""
    knobs = {"batch_size": 4, "transforms": [T.Resize((8, 8))], "output": "numpy"}
    mixed = next(iter(fl.Loader(tiny, batch_transforms=[T.MixUp(1.0, 2)], **knobs)))
    plain = next(iter(fl.Loader(tiny, **knobs)))
    assert mixed["label"].shape == (4, 2)
    assert not (mixed["image"] == plain["image"]).all()


@knob("repeats")
def test_repeats(tiny):
    """each sample is repeated this many times in a row, each time with its own draws; an epoch has fewer samples"""
    knobs = {"batch_size": 4, "transforms": [T.RandomResizedCrop(8)], "output": "numpy", "shuffle": True}
    batches = list(fl.Loader(tiny, repeats=2, **knobs))
    index = np.concatenate([batch["index"] for batch in batches])
    assert (index[::2] == index[1::2]).all()
    assert not (batches[0]["image"][0] == batches[0]["image"][1]).all()


@knob("return_params")
def test_return_params(tiny):
    """`batch["image.params"]` contains what was drawn for each image; `T.replay` repeats it"""
    batch = next(iter(fl.Loader(tiny, transforms=[T.RandomResizedCrop(8)], return_params=True, output="numpy")))
    assert [params["actions"][0]["do"] for params in batch["image.params"]] == ["Crop"] * 20


def test_every_knob_has_a_test():
    table = subprocess.run(
        [sys.executable, ROOT / "tools/options_table.py"], capture_output=True, text=True, check=True
    ).stdout
    missing = [name for name in DEFAULTS if f"| `{name}` |" not in table]
    assert not missing


def test_the_table_in_the_docs_is_up_to_date():
    """Write it again with `python tools/options_table.py --write`."""
    subprocess.run([sys.executable, ROOT / "tools/options_table.py", "--check"], check=True)


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
