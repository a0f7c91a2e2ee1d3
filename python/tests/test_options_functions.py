"""Every knob does something that can be seen: functions in Python."""

from __future__ import annotations

import os

import feedline as fl
import numpy as np
import pytest
from feedline import transforms as T
from option_data import CROP, first, knob, tiny_images


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return tiny_images(tmp_path_factory.mktemp("tiny"))


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
