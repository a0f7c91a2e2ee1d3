"""Windows of arrays beside NumPy's slices."""

from __future__ import annotations

import json

import feedline as fl
import ml_dtypes
import numpy as np
import pytest
import torch
from feedline import transforms as T
from feedline.errors import OptionError, SampleError

SHAPES = [(9, 12, 7), (16, 8, 8), (8, 30, 11), (5, 9, 20)]


@pytest.fixture(scope="module")
def volumes():
    draw = np.random.default_rng(0)
    return [draw.normal(size=shape).astype(np.float32) for shape in SHAPES]


def batches(volumes, *window, **knobs):
    ds = fl.open([{"volume": volume, "number": n} for n, volume in enumerate(volumes)])
    with fl.Loader(ds, transforms={"volume": [T.ArrayWindow(*window)]}, output="numpy", **knobs) as loader:
        return list(loader)


def padded(volume, size):
    room = [(0, max(0, want - have)) for want, have in zip(size, volume.shape, strict=True)]
    return np.pad(volume, room)


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8", "int16", "bool", "float64"])
def test_windows_are_numpys_slices(volumes, dtype):
    arrays = [(volume * 100).astype(dtype) for volume in volumes]
    (batch,) = batches(arrays, (6, 8, 7), "center", batch_size=4)
    assert batch["volume"].shape == (4, 6, 8, 7)
    assert batch["volume"].dtype == dtype
    for array, window in zip(arrays, batch["volume"], strict=True):
        filled = padded(array, (6, 8, 7))
        start = [(max(side, want) - want) // 2 for side, want in zip(array.shape, (6, 8, 7), strict=True)]
        slices = tuple(slice(s, s + want) for s, want in zip(start, (6, 8, 7), strict=True))
        assert np.array_equal(window, filled[slices])
    (batch,) = batches(arrays, (3, 4, 5), "start", batch_size=4)
    for array, window in zip(arrays, batch["volume"], strict=True):
        assert np.array_equal(window, padded(array, (3, 4, 5))[:3, :4, :5])


def test_bfloat16(volumes, tmp_path):
    arrays = [torch.from_numpy(volume).to(torch.bfloat16) for volume in volumes]
    rows = [{"volume": volume.astype(ml_dtypes.bfloat16)} for volume in volumes]
    ds = fl.pack(rows, tmp_path / "pack", progress=False)
    with fl.Loader(ds, transforms={"volume": [T.ArrayWindow((5, 8, 7), "start")]}, batch_size=4) as loader:
        (batch,) = list(loader)
    assert batch["volume"].dtype == torch.bfloat16
    for array, window in zip(arrays, batch["volume"], strict=True):
        assert torch.equal(window, array[:5, :8, :7])


def test_random_windows_are_inside_and_resume(volumes):
    size = (4, 8, 6)
    knobs = {"batch_size": 1, "shuffle": True, "seed": 3}
    ds = fl.open([{"volume": volume} for volume in volumes])
    ops = {"volume": [T.ArrayWindow(size)]}
    starts, states, whole = set(), [], []
    with fl.Loader(ds, transforms=ops, output="numpy", num_workers=2, **knobs) as loader:
        for epoch in range(20):
            for batch in loader:
                volume, window = volumes[batch["index"][0]], batch["volume"][0]
                found = np.argwhere(volume == window[0, 0, 0])[0]
                slices = tuple(slice(s, s + want) for s, want in zip(found, size, strict=True))
                assert np.array_equal(window, volume[slices])
                starts.add((int(batch["index"][0]), *found.tolist()))
                if epoch == 19:
                    whole.append(batch["volume"])
                    states.append(json.dumps(loader.state_dict()))
    assert len(starts) > 60
    for at, state in enumerate(states[:-1]):
        with fl.Loader(ds, transforms=ops, output="numpy", **knobs) as loader:
            loader.load_state_dict(json.loads(state))
            for ours, batch in zip(whole[at + 1 :], loader, strict=True):
                assert np.array_equal(ours, batch["volume"])


def test_grids_cover_everything(volumes):
    (batch,) = batches(volumes, (4, 5, 4), "grid", None, batch_size=4)
    for volume, windows in zip(volumes, batch["volume"], strict=True):
        starts = [
            sorted({min(at, max(side - want, 0)) for at in range(0, max(side - want, 0) + want, want)})
            for side, want in zip(volume.shape, (4, 5, 4), strict=True)
        ]
        expected = [volume[a : a + 4, b : b + 5, c : c + 4] for a in starts[0] for b in starts[1] for c in starts[2]]
        assert windows.shape == (len(expected), 4, 5, 4)
        assert np.array_equal(windows, np.stack(expected))
    (batch,) = batches(volumes, (8, None, None), "grid", (1, 1, 1), batch_size=4)
    assert [len(windows) for windows in batch["volume"]] == [2, 9, 1, 1]


def test_whole_dimensions_are_ragged(volumes):
    (batch,) = batches(volumes, (2, None, 3), "start", batch_size=4)
    for volume, window in zip(volumes, batch["volume"], strict=True):
        assert np.array_equal(window, volume[:2, :, :3])


def test_what_cannot_be_is_refused(volumes):
    with pytest.raises(SampleError, match="window of 2"):
        batches(volumes, (4, 4), "start")
    with pytest.raises(SampleError, match="pad='zeros'"):
        batches(volumes, (6, 8, 8), "start", None, "error", batch_size=4)
    for wrong in [((),), ((0, 1),), ("ab",), ((4,), "left"), ((4,), "random", 2), ((4,), "grid", (1, 2))]:
        with pytest.raises(OptionError):
            T.ArrayWindow(*wrong)
    ds = fl.open([{"volume": volume} for volume in volumes])
    with pytest.raises(OptionError, match="stands alone"):
        fl.Loader(ds, transforms={"volume": [T.ArrayWindow((4, 4, 4)), T.ArrayWindow((2, 2, 2))]})
