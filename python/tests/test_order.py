"""Which samples come in which order: complete, disjoint over ranks, equal on every number of them."""

from __future__ import annotations

import io
import pickle
from collections import Counter

import feedline as fl
import numpy as np
import pytest
from feedline import samplers
from feedline import transforms as T
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

PLAIN = {"output": "numpy", "decode": "none", "fields": ["label"], "num_workers": 1}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """40 tiny images: three shapes, classes of 5, 10 and 25."""
    root = tmp_path_factory.mktemp("tiny")
    for number in range(40):
        buffer = io.BytesIO()
        size = [(24, 16), (16, 24), (30, 20)][number % 3]
        Image.new("RGB", size, (number * 6, 0, 255 - number * 6)).save(buffer, "PNG")
        folder = root / ("a" if number < 5 else "b" if number < 15 else "c")
        folder.mkdir(exist_ok=True)
        (folder / f"{number:02}.png").write_bytes(buffer.getvalue())
    return fl.open(root)


def order(dataset, epoch=0, **knobs):
    with fl.Loader(dataset, **{"batch_size": 8, **PLAIN, **knobs}) as loader:
        loader.set_epoch(epoch)
        return [batch["index"].tolist() for batch in loader]


def flat(batches):
    return [index for batch in batches for index in batch]


EVERY_ONCE = {
    "sequential": {},
    "full": {"shuffle": True},
    "block": {"shuffle": "block"},
    "small blocks": {"sampler": samplers.Block(block=3, window=2)},
    "random": {"sampler": samplers.Random()},
    "buckets": {"sampler": samplers.Buckets()},
    "indices": {"sampler": range(39, -1, -1)},
    "weighted once": {"sampler": samplers.Weighted(range(1, 41), replacement=False)},
}


@pytest.mark.parametrize("name", EVERY_ONCE)
def test_every_sample_once(tiny, name):
    first, again, second = (order(tiny, epoch, **EVERY_ONCE[name]) for epoch in (0, 0, 1))
    assert sorted(flat(first)) == sorted(flat(second)) == list(range(40))
    assert first == again
    assert (first == second) == (name in ("sequential", "indices"))


@settings(max_examples=40, deadline=None)
@given(
    length=st.integers(1, 40),
    batch_size=st.integers(1, 7),
    world=st.integers(1, 5),
    drop_last=st.booleans(),
    name=st.sampled_from(sorted(set(EVERY_ONCE) - {"indices", "weighted once"})),
)
def test_ranks_share_an_epoch(tiny, *, length, batch_size, world, drop_last, name):
    """Equal counts, disjoint but for the padding that `stats()` tells, complete but for what `drop_last` leaves."""
    dataset = tiny.select(range(length))
    knobs = {**PLAIN, **EVERY_ONCE[name], "batch_size": batch_size, "drop_last": drop_last, "world_size": world}
    counts, seen = set(), Counter()
    for rank in range(world):
        with fl.Loader(dataset, rank=rank, **knobs) as loader:
            batches = [batch["index"].tolist() for batch in loader]
            stats = loader.stats()
        assert len(batches) == len(loader)
        counts.add(len(batches))
        seen.update(flat(batches))
    assert len(counts) == 1
    assert sum(seen.values()) == length - stats["dropped_per_epoch"] + stats["padded_per_epoch"]
    assert len(seen) == length - stats["dropped_per_epoch"]
    assert drop_last or stats["dropped_per_epoch"] == 0


@pytest.mark.parametrize("world", [2, 3, 4, 8])
@pytest.mark.parametrize("name", EVERY_ONCE)
def test_global_batches_do_not_depend_on_the_world_size(tiny, name, world):
    alone = order(tiny, 1, batch_size=24, **EVERY_ONCE[name])
    parts = [
        order(tiny, 1, batch_size=24 // world, rank=rank, world_size=world, **EVERY_ONCE[name]) for rank in range(world)
    ]
    together = [flat(part) for part in zip(*parts, strict=True)]
    # A global batch with fewer samples than ranks repeats some.
    assert [batch[: len(one)] for batch, one in zip(together, alone, strict=True)] == alone


def test_block_shuffle_keeps_neighbours_near(tiny):
    """A window of two blocks of five reads two blocks."""
    batches = order(tiny, batch_size=10, sampler=samplers.Block(block=5, window=2))
    assert all(len({index // 5 for index in batch}) == 2 for batch in batches)
    assert batches != order(tiny, batch_size=10)


def test_random_with_replacement(tiny):
    drawn = flat(order(tiny, sampler=samplers.Random(replacement=True, num_samples=400)))
    assert len(drawn) == 400
    assert len(set(drawn)) > 35
    assert max(Counter(drawn).values()) > 1
    assert len(flat(order(tiny, sampler=samplers.Random(num_samples=10)))) == 10
    with pytest.raises(fl.OptionError, match="41 samples of 40 need replacement"):
        order(tiny, sampler=samplers.Random(num_samples=41))


def test_weighted(tiny):
    weights = np.zeros(40)
    weights[[3, 7]] = 1, 3
    drawn = Counter(flat(order(tiny, sampler=samplers.Weighted(weights, num_samples=4000))))
    assert set(drawn) == {3, 7}
    assert 2850 < drawn[7] < 3150
    for bad in ([1.0] * 39, [-1.0] * 40, [0.0] * 40, [float("nan")] * 40):
        with pytest.raises(fl.OptionError):
            order(tiny, sampler=samplers.Weighted(bad))
    with pytest.raises(fl.OptionError, match="only 2 have a weight"):
        order(tiny, sampler=samplers.Weighted(weights, 3, replacement=False))


def test_balanced(tiny):
    with fl.Loader(tiny, batch_size=3, sampler=samplers.Balanced(num_samples=60), **PLAIN) as loader:
        batches = [sorted(batch["label"].tolist()) for batch in loader]
    assert batches == [[0, 1, 2]] * 20
    with pytest.raises(fl.OptionError, match="no integer field 'colour'"):
        order(tiny, sampler=samplers.Balanced("colour"))


def test_buckets_give_batches_of_one_shape(tiny):
    with fl.Loader(tiny, batch_size=6, sampler=samplers.Buckets(), output="numpy") as loader:
        shapes = [batch["image"].shape for batch in loader]
    assert {shape[1:] for shape in shapes} == {(3, 16, 24), (3, 24, 16), (3, 20, 30)}
    assert sum(shape[0] for shape in shapes) == 40
    sizes = [(8, 12), (12, 8)]
    knobs = {"sampler": samplers.Buckets(sizes), "transforms": [T.BucketResize(sizes), T.Normalize.imagenet()]}
    with fl.Loader(tiny, batch_size=6, output="numpy", drop_last=True, **knobs) as loader:
        shapes = {batch["image"].shape for batch in loader}
    assert shapes == {(6, 3, 8, 12), (6, 3, 12, 8)}


def test_buckets_with_torch_channels_last(tiny):
    import torch

    with fl.Loader(tiny, batch_size=4, sampler=samplers.Buckets(), memory_format="channels_last") as loader:
        batch = next(iter(loader))["image"]
    assert batch.shape[1] == 3
    assert batch.is_contiguous(memory_format=torch.channels_last)


def test_mix_has_exact_shares(tiny):
    small, large = tiny.select(range(4)), tiny.select(range(4, 40))
    mixed = fl.mix([(small, 0.25), (large, 0.75)], epoch_samples=48)
    assert len(mixed) == 40
    seen = Counter()
    for epoch in range(6):
        drawn = flat(order(mixed, epoch))
        assert len(drawn) == 48
        assert sum(index < 4 for index in drawn) == 12
        seen.update(index for index in drawn if index >= 4)
    assert set(seen.values()) == {6}, "36 of the large set per epoch: each once"
    assert pickle.loads(pickle.dumps(mixed)).weights == [0.25, 0.75]
    with pytest.raises(fl.OptionError, match="draws by its weights"):
        order(mixed, shuffle="block")
    with pytest.raises(fl.OptionError):
        order(fl.mix([(small, -1), (large, 1)]))


def test_select_and_concat(tiny):
    both = fl.concat([tiny.select([5, 1]), tiny.select([0])])
    assert len(both) == 3
    assert flat(order(both)) == [0, 1, 2]
    assert [both[i]["path"] for i in range(3)] == [tiny[i]["path"] for i in (5, 1, 0)]


def test_any_iterable_of_indices(tiny):
    assert flat(order(tiny, sampler=(i * i for i in range(6)))) == [0, 1, 4, 9, 16, 25]
    assert flat(order(tiny, sampler=np.array([3, 3, 2]))) == [3, 3, 2]
    import torch

    subset = torch.utils.data.SubsetRandomSampler([1, 2, 3])
    assert sorted(flat(order(tiny, sampler=subset))) == [1, 2, 3]
    for bad, said in (([40], "entry 0 is 40"), ([-1], "negative"), ([0.5], "whole numbers")):
        with pytest.raises(fl.OptionError, match=said):
            order(tiny, sampler=bad)


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("workers", [0, 1, 2, 3])
@pytest.mark.parametrize("knobs", [{"shuffle": True}, {"sampler": samplers.Buckets()}, {"drop_last": True}])
def test_inside_dataloader_workers(tiny, workers, knobs):
    """The same batches in the same order, whatever the number of worker processes."""
    from feedline.torch import as_iterable
    from torch.utils.data import DataLoader

    knobs = {**PLAIN, "output": "torch", "batch_size": 6, **knobs}
    expected = [batch["index"].tolist() for batch in fl.Loader(tiny, **knobs)]
    context = "spawn" if workers == 1 else "fork" if workers else None
    shim = as_iterable(fl.Loader(tiny, **knobs))
    loader = DataLoader(shim, batch_size=None, num_workers=workers, multiprocessing_context=context)
    assert [batch["index"].tolist() for batch in loader] == expected


@pytest.mark.parametrize("persistent", [False, True])
def test_dataloader_workers_over_several_epochs(tiny, persistent):
    from feedline.torch import as_iterable
    from torch.utils.data import DataLoader

    knobs = {**PLAIN, "output": "torch", "batch_size": 6, "shuffle": True}
    plain = fl.Loader(tiny, **knobs)
    shim = as_iterable(fl.Loader(tiny, **knobs))
    workers = {"num_workers": 2, "multiprocessing_context": "fork", "persistent_workers": persistent}
    loader = DataLoader(shim, batch_size=None, **workers)
    for epoch in range(3):
        if not persistent:
            shim.set_epoch(epoch)
        assert [b["index"].tolist() for b in loader] == [b["index"].tolist() for b in plain], epoch


def test_direct_crops_have_torchvisions_distribution(tmp_path):
    """`method="direct"` and torchvision's rejection: the same areas, ratios and places where everything fits."""
    import torch
    from torchvision.transforms import v2

    # An image whose colours tell the place: red grows to the right, green downwards.
    y, x = np.mgrid[0:200, 0:250]
    Image.fromarray(np.stack([x, y, 0 * x], -1).astype(np.uint8)).save(tmp_path / "ramp.png")
    dataset = fl.open(tmp_path)
    crop = {"scale": (0.1, 0.5), "ratio": (3 / 4, 4 / 3)}
    knobs = {"sampler": [0] * 8, "dtype": "uint8", "output": "numpy", "num_workers": 1}
    boxes = []
    with fl.Loader(dataset, transforms=[T.RandomResizedCrop(32, **crop, method="direct")], **knobs) as loader:
        for epoch in range(1500):
            loader.seek(epoch)
            red, green = next(iter(loader))["image"][0, :2].astype(float)
            boxes.append([red.min(), red.max(), green.min(), green.max()])
    ours = np.array(boxes)
    torch.manual_seed(0)
    image = torch.zeros(3, 200, 250)
    drawn = [v2.RandomResizedCrop(32, **crop).make_params([image]) for _ in range(6000)]
    theirs = np.array([[p["left"], p["left"] + p["width"], p["top"], p["top"] + p["height"]] for p in drawn], float)

    def measures(b):
        width, height = b[:, 1] - b[:, 0], b[:, 3] - b[:, 2]
        return width * height / 50_000, np.log(width / height), (b[:, 0] + b[:, 1]) / 2, (b[:, 2] + b[:, 3]) / 2

    for mine, other, slack in zip(measures(ours), measures(theirs), (0.02, 0.03, 4, 4), strict=True):
        quantiles = np.linspace(0.1, 0.9, 9)
        assert np.abs(np.quantile(mine, quantiles) - np.quantile(other, quantiles)).max() < slack * 2
