"""Saved states: the rest of a run is the same to the byte, wherever it was stopped and whichever process resumes it."""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import subprocess
import sys
import textwrap
from itertools import product

import feedline as fl
import numpy as np
import pytest
from feedline import samplers
from feedline import transforms as T
from PIL import Image

ORDERS = ("sequential", "full", "block", "weighted", "mix", "buckets")
CROP = [T.RandomResizedCrop(8), T.RandomHorizontalFlip()]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """26 tiny images of two shapes in two classes."""
    root = tmp_path_factory.mktemp("tiny")
    rng = np.random.default_rng(0)
    for number in range(26):
        shape = (16, 24, 3) if number % 3 else (24, 16, 3)
        buffer = io.BytesIO()
        Image.fromarray(rng.integers(0, 256, shape, dtype=np.uint8)).save(buffer, "JPEG", quality=90)
        folder = root / ("even" if number % 2 else "odd")
        folder.mkdir(exist_ok=True)
        (folder / f"{number:02}.jpg").write_bytes(buffer.getvalue())
    return fl.open(root)


def dataset_of(tiny, order):
    if order != "mix":
        return tiny
    return fl.mix([(tiny.select(range(9)), 0.6), (tiny.select(range(9, 26)), 0.4)], epoch_samples=29)


def knobs_of(order, views):
    order_knobs = {
        "full": {"shuffle": True},
        "block": {"sampler": samplers.Block(block=3, window=2)},
        "weighted": {"sampler": samplers.Weighted(np.arange(1, 27), 30)},
        "buckets": {"sampler": samplers.Buckets()},
    }.get(order, {})
    transforms = {"image": {"a": CROP, "b": [T.CenterCrop(8)]}} if views else {"image": CROP}
    return {**order_knobs, "transforms": transforms, "output": "numpy", "dtype": "uint8", "seed": 5}


def digest(batch):
    image = batch["image"]
    parts = [image[name] for name in sorted(image)] if isinstance(image, dict) else [image]
    hasher = hashlib.blake2b()
    for array in (batch["index"], batch["label"], *parts):
        hasher.update(f"{array.shape}{array.dtype}".encode() + np.ascontiguousarray(array).tobytes())
    return hasher.hexdigest()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("world", [1, 2, 4])
def test_every_batch_of_an_epoch_can_be_resumed_from(tiny, order, world):
    """Save after every batch, restore into a fresh loader with other threads, compare all that is left."""
    dataset = dataset_of(tiny, order)
    for threads, drop_last, views in product((1, 2, 7), (False, True), (False, True)):
        knobs = {**knobs_of(order, views), "drop_last": drop_last, "batch_size": 8 // world, "world_size": world}
        for rank in range(world):
            with fl.Loader(dataset, rank=rank, num_workers=threads, **knobs) as loader:
                loader.set_epoch(2)
                states, stream = [loader.state_dict()], []
                for batch in loader:
                    stream.append(digest(batch))
                    states.append(json.loads(json.dumps(loader.state_dict())))
                assert len(stream) == len(loader) > 2
            for at, state in enumerate(states[:-1]):
                with fl.Loader(dataset, rank=rank, num_workers=1 + at % 3, **knobs) as fresh:
                    fresh.load_state_dict(state)
                    assert [digest(batch) for batch in fresh] == stream[at:], (threads, drop_last, views, rank, at)
            assert (states[-1]["epoch"], states[-1]["samples"]) == (3, 0)


def rank_batches(dataset, knobs, world, state=None):
    """Global batches as lists of samples, put together from all ranks; and rank 0's states."""
    ranks, states = [], []
    for rank in range(world):
        with fl.Loader(dataset, batch_size=12 // world, rank=rank, world_size=world, **knobs) as loader:
            if state is not None:
                loader.load_state_dict(state)
            mine = []
            taken = [loader.state_dict()]
            for batch in loader:
                mine.append(dict(zip(batch["index"].tolist(), map(bytes, batch["image"]), strict=True)))
                taken.append(loader.state_dict())
            ranks.append(mine)
            states.append(taken)
    assert all(taken == states[0] for taken in states), "states are the same on every rank"
    merged = [{k: v for part in parts for k, v in part.items()} for parts in zip(*ranks, strict=True)]
    return merged, states[0]


def test_a_hundred_restarts_on_other_numbers_of_ranks(tiny):
    """Random (ranks, stop, new ranks): the same global batches, augmentation included."""
    rng = random.Random(1)
    known = {}
    for turn in range(100):
        order = ORDERS[turn % len(ORDERS)]
        dataset = known.setdefault((order, "data"), dataset_of(tiny, order))
        knobs = {**knobs_of(order, views=False), "num_workers": 1}
        old, new = rng.choice([1, 2, 3, 4, 6]), rng.choice([1, 2, 3, 4, 6])
        if (order, old) not in known:
            known[order, old] = rank_batches(dataset, knobs, old)
        batches, states = known[order, old]
        stop = rng.randrange(len(batches))
        rest, _ = rank_batches(dataset, knobs, new, states[stop])
        assert rest == batches[stop:], (order, old, stop, new)


def test_an_interrupted_loop_is_resumed(tiny):
    loader = fl.Loader(tiny, batch_size=4, shuffle=True, prefetch=4, output="numpy", decode="none")
    for number, _ in enumerate(loader):
        if number == 1:
            break
    state = loader.state_dict()
    assert (state["epoch"], state["samples"]) == (0, 8)
    fresh = fl.Loader(tiny, batch_size=4, shuffle=True, output="numpy", decode="none")
    whole = [batch["index"].tolist() for batch in fresh]
    fresh.load_state_dict(state)
    fresh.set_epoch(0)  # what training loops do at the start of every epoch must not lose the place
    assert [batch["index"].tolist() for batch in fresh] == whole[2:]
    assert fresh.state_dict()["epoch"] == 1


def test_a_batch_that_failed_counts_as_received(tmp_path):
    for number in range(8):
        Image.new("RGB", (8, 8)).save(tmp_path / f"{number}.jpg")
    (tmp_path / "1.jpg").write_bytes(b"no picture")
    knobs = {"batch_size": 2, "output": "numpy", "transforms": [T.CenterCrop(8)], "num_workers": 1}
    loader = fl.Loader(fl.open(tmp_path), **knobs)
    running = iter(loader)
    with pytest.raises(fl.SampleError):
        next(running)
    assert next(running)["index"].tolist() == [2, 3]
    fresh = fl.Loader(fl.open(tmp_path), **knobs)
    fresh.load_state_dict(loader.state_dict())
    assert next(iter(fresh))["index"].tolist() == [4, 5]


def test_states_are_small_and_plain(tiny):
    loader = fl.Loader(tiny, batch_size=4, **knobs_of("weighted", views=True))
    text = json.dumps(loader.state_dict())
    assert len(text) < 1024
    assert json.loads(text)["version"] == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"seed": 9}, "seed was 5, is 9"),
        ({"shuffle": False}, "the order was full shuffle, is sequential"),
        ({"transforms": {"image": [T.CenterCrop(8)]}}, "transforms was image: RandomResizedCrop"),
        ({"dtype": "float32"}, "pixels was uint8"),
        ({"drop_last": True}, "drop_last was false, is true"),
    ],
)
def test_options_that_would_change_batches_are_refused(tiny, change, said):
    knobs = knobs_of("full", views=False)
    state = fl.Loader(tiny, **knobs).state_dict()
    other = fl.Loader(tiny, **{**knobs, **change})
    with pytest.raises(fl.StateError, match=said):
        other.load_state_dict(state)
    other.load_state_dict(state, strict=False)
    assert len(list(other)) == len(other)


def test_other_data_are_refused(tiny):
    state = fl.Loader(tiny, decode="none").state_dict()
    with pytest.raises(fl.StateError, match=r"fingerprint was .* is .*number of samples was 26, is 25"):
        fl.Loader(tiny.select(range(25)), decode="none").load_state_dict(state)
    with pytest.raises(fl.StateError, match="version"):
        fl.Loader(tiny, decode="none").load_state_dict({**state, "version": 77})
    with pytest.raises(fl.StateError):
        fl.Loader(tiny, decode="none").load_state_dict({})


def test_another_batch_size_resumes_at_the_same_sample(tiny):
    knobs = {"shuffle": True, "output": "numpy", "decode": "none"}
    loader = fl.Loader(tiny, batch_size=4, **knobs)
    whole = np.concatenate([batch["index"] for batch in loader])
    loader.seek(0, 3)
    other = fl.Loader(tiny, batch_size=5, **knobs)
    other.load_state_dict(loader.state_dict())
    assert np.concatenate([batch["index"] for batch in other]).tolist() == whole[12:].tolist()
    bucketed = fl.Loader(tiny, batch_size=4, sampler=samplers.Buckets(), decode="none")
    bucketed.seek(0, 1)
    with pytest.raises(fl.StateError, match="global batch size was 4, is 5"):
        fl.Loader(tiny, batch_size=5, sampler=samplers.Buckets(), decode="none").load_state_dict(bucketed.state_dict())


def test_seek_and_skip(tiny):
    loader = fl.Loader(tiny, batch_size=4, shuffle=True, output="numpy", decode="none")
    loader.set_epoch(3)
    third = [batch["index"].tolist() for batch in loader]
    fourth = [batch["index"].tolist() for batch in loader]
    loader.seek(3, 2)
    loader.skip(3)
    assert [batch["index"].tolist() for batch in loader] == third[5:]
    loader.seek(3, 5)
    loader.skip(4)  # 2 left in this epoch, 2 of the next
    assert loader.epoch == 4
    assert [batch["index"].tolist() for batch in loader] == fourth[2:]
    loader.seek(3)
    next(iter(loader))
    loader.skip(1)
    assert next(iter(loader))["index"].tolist() == third[2]
    for bad in ((-1, 0), (0, -1), (0, 99)):
        with pytest.raises(fl.OptionError):
            loader.seek(*bad)


def test_mix_weights_change_between_epochs(tiny):
    mixed = dataset_of(tiny, "mix")
    knobs = {"batch_size": 29, "output": "numpy", "decode": "none"}
    share = lambda batch: int((batch["index"] < 9).sum())  # noqa: E731
    loader = fl.Loader(mixed, **knobs)
    assert share(next(iter(loader))) == 17
    loader.set_weights([0.0, 1.0])
    assert share(next(iter(loader))) == 0
    # The same in a fresh loader: an epoch depends on its own weights alone.
    fresh = fl.Loader(mixed, **knobs)
    fresh.set_weights([0.0, 1.0])
    fresh.set_epoch(1)
    loader.set_epoch(1)
    assert next(iter(fresh))["index"].tolist() == next(iter(loader))["index"].tolist()
    with pytest.raises(fl.OptionError, match="3 weights for 2 data sets"):
        loader.set_weights([1, 2, 3])
    with pytest.raises(fl.OptionError, match="only be changed for a mixture"):
        fl.Loader(tiny, decode="none").set_weights([1.0])


TRAIN = """
    import json, os, sys
    import torch, torch.distributed as dist
    import feedline as fl
    from feedline import transforms as T

    data, folder, stop = sys.argv[1], sys.argv[2], int(sys.argv[3])
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = torch.nn.Linear(3 * 8 * 8, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = fl.Loader(data, batch_size=4, shuffle=True, seed=3, num_workers=1, transforms=[T.RandomResizedCrop(8)])
    assert (loader.options["rank"], loader.options["world_size"]) == (rank, 2), "found through torch.distributed"
    losses, saved = [], os.path.join(folder, "checkpoint.pt")
    if os.path.exists(saved):
        state = torch.load(saved)
        model.load_state_dict(state["model"]); loader.load_state_dict(state["loader"]); losses = state["losses"]
    while loader.epoch < 2:
        loader.set_epoch(loader.epoch)
        for batch in loader:
            loss = torch.nn.functional.cross_entropy(model(batch["image"].flatten(1)), batch["label"])
            optimizer.zero_grad(); loss.backward()
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
            optimizer.step()
            total = loss.detach().clone(); dist.all_reduce(total)
            losses.append(total.item())
            if rank == 0:
                state = {"model": model.state_dict(), "loader": loader.state_dict(), "losses": losses}
                torch.save(state, saved + ".new"); os.replace(saved + ".new", saved)
            dist.barrier()
            if len(losses) == stop:
                os.kill(os.getpid(), 9)
    if rank == 0:
        print(json.dumps(losses), flush=True)
    dist.destroy_process_group()
    # gloo's threads may still hold tensors. Giving them back while the interpreter ends aborts the process: "terminate
    # called without an active exception" (pytorch/pytorch#38228). So the interpreter does not end, the process does.
    loader.close()
    os._exit(0)
"""


def test_training_killed_and_started_again_loses_nothing(tiny, tmp_path):
    """torchrun, two processes, gloo: the losses of a run that was killed are those of one that was not."""
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(TRAIN))
    python_path = os.pathsep.join([os.path.dirname(os.path.dirname(fl.__file__)), *sys.path])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": python_path}

    def run(folder, stop):
        folder.mkdir(exist_ok=True)
        launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(script)]
        return subprocess.run(
            [*launch, tiny.uri, str(folder), str(stop)],
            capture_output=True, text=True, env=environment, check=False, timeout=300,
        )  # fmt: skip

    whole = run(tmp_path / "whole", -1)
    assert whole.returncode == 0, whole.stderr
    stop = random.Random(os.getpid()).randrange(1, 7)
    assert run(tmp_path / "killed", stop).returncode != 0
    again = run(tmp_path / "killed", -1)
    assert again.returncode == 0, again.stderr
    losses = json.loads(whole.stdout)
    assert len(losses) == 8
    assert json.loads(again.stdout) == losses, f"killed after step {stop}"
