# environment: torch
"""torch's own protocols: StatefulDataLoader, torchdata.nodes, torch.compile, FSDP, and timm's recipe."""

from __future__ import annotations

import warnings

import feedline as fl
import pytest
import timm.data
import torch
import torch._dynamo.testing
from feedline import transforms as T
from feedline.timm import create_loader
from feedline.torch import as_iterable
from feedline.torchdata import Node
from torchdata import nodes
from torchdata.stateful_dataloader import StatefulDataLoader

KNOBS = {"batch_size": 4, "shuffle": True, "seed": 3, "fields": ["label"], "decode": "none"}


def numbers(batches):
    return [batch["index"].tolist() for batch in batches]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stateful_dataloader_resumes(packed, workers):
    made = {"batch_size": None, "num_workers": workers, "multiprocessing_context": "fork" if workers else None}
    with fl.Loader(packed, **KNOBS) as plain, fl.Loader(packed, **KNOBS) as loader, fl.Loader(packed, **KNOBS) as other:
        expected = [numbers(plain), numbers(plain)]
        around = StatefulDataLoader(as_iterable(loader), **made)
        running = iter(around)
        taken = [next(running)["index"].tolist() for _ in range(5)]
        state = around.state_dict()
        again = StatefulDataLoader(as_iterable(other), **made)
        again.load_state_dict(state)
        rest = numbers(again)
        assert taken + rest == expected[0]
        assert numbers(again) == expected[1]


def test_a_node_resumes(packed):
    with fl.Loader(packed, **KNOBS) as plain, fl.Loader(packed, **KNOBS) as loader, fl.Loader(packed, **KNOBS) as other:
        expected = [numbers(plain), numbers(plain)]
        graph = nodes.Loader(nodes.Mapper(Node(loader), lambda batch: batch["index"].tolist()))
        running = iter(graph)
        taken = [next(running) for _ in range(5)]
        state = graph.state_dict()
        again = nodes.Loader(nodes.Mapper(Node(other), lambda batch: batch["index"].tolist()))
        again.load_state_dict(state)
        assert taken + list(again) == expected[0]
        assert list(again) == expected[1]


def train(model, loader, epochs=1):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    losses = []
    for _ in range(epochs):
        for batch in loader:
            loss = torch.nn.functional.cross_entropy(model(batch["image"]), batch["label"])
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
    return losses


def tiny():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(3 * 16 * 16, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)
    )


@pytest.mark.timeout(600)
def test_a_compiled_step_takes_batches_without_compiling_again(packed):
    knobs = {
        **KNOBS,
        "fields": ["image", "label"],
        "decode": "exact",
        "transforms": [T.RandomResizedCrop(16), T.Normalize.imagenet()],
    }
    with fl.Loader(packed, **knobs) as loader, fl.Loader(packed, **knobs) as same:
        torch._dynamo.reset()
        counts = torch._dynamo.testing.CompileCounter()
        compiled = torch.compile(tiny(), backend=counts)
        assert train(compiled, loader, 2) == pytest.approx(train(tiny(), same, 2), rel=1e-5)
        assert counts.frame_count == 1


def test_fully_sharded_parameters(packed, tmp_path):
    """FSDP2 keeps parameters as DTensors; batches are plain tensors of this rank."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    torch.distributed.init_process_group("gloo", rank=0, world_size=1, init_method=f"file://{tmp_path}/meet")
    try:
        knobs = {
            **KNOBS,
            "fields": ["image", "label"],
            "decode": "exact",
            "transforms": [T.RandomResizedCrop(16), T.Normalize.imagenet()],
        }
        with fl.Loader(packed, **knobs) as loader, fl.Loader(packed, **knobs) as same:
            model = tiny()
            fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
            assert train(model, loader) == pytest.approx(train(tiny(), same), rel=1e-5)
    finally:
        torch.distributed.destroy_process_group()


def test_timm_evaluates_the_same_images(folder):
    theirs = timm.data.create_loader(
        timm.data.ImageDataset(str(folder)),
        (3, 24, 24),
        6,
        use_prefetcher=False,
        num_workers=0,
        crop_pct=0.9,
        persistent_workers=False,
    )
    with create_loader(str(folder), (3, 24, 24), 6, crop_pct=0.9) as ours, warnings.catch_warnings():
        assert len(ours) == len(theirs) == 8
        for (image, label), (other, expected) in zip(ours, theirs, strict=True):
            assert torch.equal(label, expected)
            # One of 256 levels, after division by the standard deviation.
            assert (image - other).abs().max() < 1.01 / 255 / 0.224


def test_timm_trains_and_refuses_what_is_unsupported(folder):
    with create_loader(str(folder), 24, 8, is_training=True, re_prob=0.25, color_jitter=0.4, seed=1) as loader:
        image, label = next(iter(loader))
        assert (image.shape, label.dtype) == ((8, 3, 24, 24), torch.int64)
    with pytest.raises(fl.OptionError, match="auto_augment: 'rand-m9' is not supported here"):
        create_loader(str(folder), 24, 8, is_training=True, auto_augment="rand-m9")
    with pytest.raises(fl.OptionError, match="re_mode"):
        create_loader(str(folder), 24, 8, is_training=True, re_prob=0.2, re_mode="pixel")
    with pytest.raises(fl.OptionError, match="no other rank is known"):
        create_loader(str(folder), 24, 8, distributed=True)
