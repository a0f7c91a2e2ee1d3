"""Batches belong to whoever holds them; memory stays flat."""

from __future__ import annotations

import gc
import resource

import feedline as fl
import numpy as np
import pytest
import torch
from feedline import transforms as T

CROP = [T.RandomResizedCrop(32)]


def rss():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


@pytest.mark.parametrize("output", ["torch", "numpy", "jax"])
def test_batches_that_are_kept_do_not_change(many, output):
    knobs = {"batch_size": 8, "transforms": CROP, "shuffle": True, "output": output}
    with fl.Loader(many, **knobs) as loader:
        kept = list(loader)
    with fl.Loader(many, **knobs) as loader:
        for batch, again in zip(kept, loader, strict=True):
            assert np.array_equal(np.asarray(batch["image"]), np.asarray(again["image"]))
            assert np.array_equal(np.asarray(batch["index"]), np.asarray(again["index"]))
    addresses = {np.asarray(batch["image"]).ctypes.data for batch in kept}
    assert len(addresses) == len(kept)


def test_a_column_outlives_everything_else(many):
    loader = fl.Loader(many, batch_size=8, transforms=CROP)
    image = next(iter(loader))["image"]
    before = image.clone()
    list(loader)
    loader.close()
    del loader
    gc.collect()
    with fl.Loader(many, batch_size=8, transforms=CROP) as other:
        list(other)
    assert torch.equal(image, before)


def test_writing_into_a_batch_is_allowed(many):
    with fl.Loader(many, batch_size=8, transforms=CROP) as loader:
        batch = next(iter(loader))
        batch["image"].mul_(2)
        batch["label"] += 1


def test_memory_is_reused(many):
    with fl.Loader(many, batch_size=8, transforms=CROP, output="numpy") as loader:
        for _ in range(5):
            for batch in loader:
                del batch
        memory = loader.stats()["memory"]
    assert memory["reused"] > 3 * memory["fresh"]
    gc.collect()


def test_memory_is_flat_over_many_epochs(many):
    with fl.Loader(many, batch_size=16, transforms=CROP) as loader:
        for _ in range(5):
            list(loader)
        gc.collect()
        before = rss()
        for _ in range(50):
            for _batch in loader:
                pass
        gc.collect()
        assert rss() - before < 8 << 20


def test_peak_memory_is_bounded_by_the_prefetch(tmp_path):
    """(prefetch + 3) batches; run in a fresh process so that torch's and earlier tests' memory does not count."""
    import subprocess
    import sys

    script = """
import sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from made_images import make_folder
import feedline as fl
from feedline import transforms as T
folder = make_folder(Path(sys.argv[1]) / "data", per_class=60)
def peak_bytes():
    # Not getrusage: its peak is inherited from the process that started us.
    lines = open("/proc/self/status").read().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) * 1024
base = peak_bytes()
knobs = dict(batch_size=32, transforms=[T.RandomResizedCrop(224)], prefetch=2, output="numpy")
with fl.Loader(folder, **knobs) as loader:
    for _ in range(3):
        for batch in loader:
            pass
peak = peak_bytes()
batch = 32 * 3 * 224 * 224 * 4
print(peak - base, (2 + 3) * batch + 150 * 2**20)
"""
    here = __file__.rsplit("/", 1)[0]
    run = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path), here], capture_output=True, text=True, check=True
    )
    used, allowed = map(int, run.stdout.split())
    assert 3 * 32 * 3 * 224 * 224 * 4 < used <= allowed
