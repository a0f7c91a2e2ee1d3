"""Modules for frameworks, as far as they need only what the tests have; `make test-frameworks` has the frameworks."""

from __future__ import annotations

import feedline as fl
import numpy as np
import pytest
import torch
from feedline.timm import create_loader


def test_timm_arguments_make_a_loader(folder):
    with create_loader(str(folder), (3, 24, 24), 4, is_training=True, re_prob=0.25, vflip=0.5, seed=1) as loader:
        image, label = next(iter(loader))
        assert (image.shape, image.dtype, label.dtype) == ((4, 3, 24, 24), torch.float32, torch.int64)
        assert (loader.drop_last, len(loader)) == (True, 3)
    with create_loader(str(folder), 24, 5, crop_pct=0.9) as loader:
        assert [len(label) for _, label in loader] == [5, 5, 2]


@pytest.mark.parametrize(
    ("knob", "value"), [("auto_augment", "rand-m9"), ("num_aug_repeats", 3), ("crop_mode", "border"), ("nonsense", 1)]
)
def test_unsupported_timm_arguments_are_refused(folder, knob, value):
    with pytest.raises(fl.OptionError, match=knob):
        create_loader(str(folder), 24, 4, is_training=True, **{knob: value})


def test_global_arrays_of_one_process(folder):
    jax = pytest.importorskip("jax")
    import feedline.jax
    from jax.sharding import NamedSharding, PartitionSpec

    mesh = jax.make_mesh((1,), ("data",))
    rows = NamedSharding(mesh, PartitionSpec("data"))
    knobs = {"batch_size": 6, "shuffle": True, "decode": "none", "output": "numpy", "fields": ["label"]}
    with fl.Loader(folder, **knobs) as loader, fl.Loader(folder, **knobs) as plain:
        batches = feedline.jax.sharded(loader, rows)
        for made, expected in zip(batches, plain, strict=True):
            assert isinstance(made["label"], jax.Array)
            assert made["label"].sharding == rows
            assert np.array_equal(made["index"], expected["index"])
        assert batches.state_dict() == plain.state_dict()
    with fl.Loader(folder, rank=1, world_size=2) as loader, pytest.raises(fl.OptionError, match="process 0 of 1"):
        feedline.jax.sharded(loader, rows)


@pytest.mark.parametrize("module", ["lightning", "huggingface"])
def test_a_missing_framework_is_named(module):
    import importlib

    package = {"lightning": "lightning", "huggingface": "transformers"}[module]
    if importlib.util.find_spec(package) is None:
        with pytest.raises(ModuleNotFoundError, match=rf"pip install 'feedline\[{module}\]'"):
            importlib.import_module(f"feedline.{module}")
    else:
        assert importlib.import_module(f"feedline.{module}")
