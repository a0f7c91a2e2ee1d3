"""Which epoch comes when: torch's samplers, new loaders, a first look."""

from __future__ import annotations

import warnings

import feedline as fl
import numpy as np
import pytest
import torch
from feedline import _repeats as repeats
from feedline import samplers
from feedline import transforms as T
from torch.utils.data import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

PLAIN = {"decode": "none", "output": "numpy", "num_workers": 1, "batch_size": 40}


@pytest.fixture(scope="module")
def data(many):
    return fl.open(many)


def epochs(data, count=2, **knobs):
    with fl.Loader(data, **PLAIN, **knobs) as loader:
        return [[index for batch in loader for index in batch["index"].tolist()] for _ in range(count)]


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (RandomSampler, samplers.Random()),
        (lambda data: RandomSampler(data, replacement=True, num_samples=70), samplers.Random(True, 70)),
        (lambda data: RandomSampler(data, num_samples=20), samplers.Random(num_samples=20)),
        (lambda _: SubsetRandomSampler(range(5, 55)), samplers.SubsetRandom(np.arange(5, 55))),
        (lambda _: WeightedRandomSampler([0.0, 1.0] * 75, 60), samplers.Weighted([0.0, 1.0] * 75, 60)),
        (SequentialSampler, samplers.Sequential()),
    ],
)
def test_torchs_samplers_have_an_order_for_every_epoch(data, theirs, ours):
    first, second = epochs(data, sampler=theirs(data))
    assert [first, second] == epochs(data, sampler=ours)
    if isinstance(ours, samplers.Sequential):
        assert first == second == list(range(150))
        return
    assert first != second
    assert len(first) == len(second)
    if isinstance(ours, samplers.SubsetRandom):
        assert sorted(first) == sorted(second) == list(range(5, 55))
    if isinstance(ours, samplers.Weighted):
        assert all(index % 2 for index in first + second)


def test_a_shuffled_subset_resumes_and_is_split_among_ranks(data):
    knobs = {**PLAIN, "batch_size": 8, "sampler": SubsetRandomSampler(range(0, 100, 2)), "seed": 3}
    with fl.Loader(data, **knobs) as loader, fl.Loader(data, **knobs) as fresh:
        loader.set_epoch(2)
        running = iter(loader)
        next(running)
        fresh.load_state_dict(loader.state_dict())
        rest = [batch["index"].tolist() for batch in running]
        assert rest == [batch["index"].tolist() for batch in fresh]
    halves = [epochs(data, sampler=knobs["sampler"], seed=3, rank=rank, world_size=2)[0] for rank in range(2)]
    assert sorted(halves[0] + halves[1]) == list(range(0, 100, 2))
    assert epochs(data, sampler=knobs["sampler"], seed=3) != epochs(data, sampler=knobs["sampler"], seed=4)


class Moody(torch.utils.data.Sampler):
    """Another order each time it is asked."""

    def __iter__(self):
        return iter(torch.randperm(150).tolist())


class Steady:
    def __iter__(self):
        return iter([4, 2, 9])


def test_orders_that_would_be_frozen_are_refused(data):
    generator = torch.Generator().manual_seed(1)
    for sampler, said in (
        (Moody(), r"gives another order each time(.|\n)*indices\(epoch\)"),
        (DistributedSampler(data, 2, 0), "TorchDistributed"),
        (BatchSampler(RandomSampler(data), 4, drop_last=False), "use sampler= and batch_size="),
        (RandomSampler(data, generator=generator), "generator of a RandomSampler would not be used"),
        (SubsetRandomSampler([1, 2], generator=generator), "generator of a SubsetRandomSampler"),
        (RandomSampler(range(10)), "over 10 samples, but the data set has 150"),
    ):
        with pytest.raises(fl.OptionError, match=said):
            fl.Loader(data, sampler=sampler, **PLAIN)
    assert epochs(data, sampler=Steady()) == [[4, 2, 9]] * 2


@pytest.fixture
def attentive(monkeypatch):
    """As in a fresh process."""
    monkeypatch.setattr(repeats, "_warned", False)
    monkeypatch.setattr(repeats, "_given", {})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


RANDOM = {**PLAIN, "shuffle": True, "seed": 91}


@pytest.mark.usefixtures("attentive")
def test_a_new_loader_for_each_epoch_is_warned_about_once(data):
    list(fl.Loader(data, **RANDOM))
    with pytest.warns(fl.RepeatedEpochWarning, match=r"epoch 0 .*set_epoch"):
        list(fl.Loader(data, **RANDOM))
    list(fl.Loader(data, **RANDOM))


@pytest.mark.usefixtures("attentive")
def test_repeated_augmentation_is_noticed_too(data):
    crops = {**PLAIN, "decode": "exact", "transforms": {"image": {"a": [T.RandomCrop(8)], "b": [T.CenterCrop(8)]}}}
    list(fl.Loader(data, **crops))
    with pytest.warns(fl.RepeatedEpochWarning):
        iter(fl.Loader(data, **crops))


@pytest.mark.usefixtures("attentive")
def test_intended_repeats_are_not_warned_about(data):
    list(fl.Loader(data, **PLAIN))
    list(fl.Loader(data, **PLAIN))  # validation: nothing is drawn
    first = fl.Loader(data, **RANDOM)
    list(first)
    list(first)
    placed = fl.Loader(data, **RANDOM)
    placed.set_epoch(0)
    list(placed)
    resumed = fl.Loader(data, **RANDOM)
    resumed.load_state_dict(placed.state_dict())
    list(resumed)
    sought = fl.Loader(data, **RANDOM)
    sought.seek(1)
    list(sought)
    list(fl.Loader(data, **{**RANDOM, "seed": 92}))
    next(iter(fl.Loader(data, **{**RANDOM, "seed": 93})))
    list(fl.Loader(data, **{**RANDOM, "seed": 93}))  # a first look at one batch is no epoch


def test_peeking_starts_an_epoch_and_set_epoch_restarts_it(data):
    with fl.Loader(data, **RANDOM) as loader, fl.Loader(data, **RANDOM) as other:
        look = next(iter(loader))["index"].tolist()
        assert loader.epoch == 1
        loader.set_epoch(0)
        again = [batch["index"].tolist() for batch in loader]
        assert again[0] == look
        assert again == [batch["index"].tolist() for batch in other]
        assert loader.epoch == 1
