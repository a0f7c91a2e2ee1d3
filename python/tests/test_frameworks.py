"""Where frameworks take a loader for a `DataLoader`, or put it in one."""

from __future__ import annotations

import copy
import pickle

import feedline as fl
import pytest
import torch
from feedline import samplers
from feedline.torch import as_iterable
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, RandomSampler, SequentialSampler

KNOBS = {"decode": "none", "output": "torch", "fields": ["label"], "num_workers": 1, "batch_size": 8}
FORK = {"batch_size": None, "num_workers": 2, "multiprocessing_context": "fork"}


@pytest.fixture(scope="module")
def data(many):
    return fl.open(many).select(range(60))


def numbers(batches):
    return [batch["index"].tolist() for batch in batches]


NAMES = (
    "batch_sampler", "batch_size", "collate_fn", "dataset", "drop_last", "generator", "in_order", "multiprocessing_context",
    "num_workers", "persistent_workers", "pin_memory", "pin_memory_device", "prefetch_factor", "sampler", "timeout",
    "worker_init_fn",
)  # fmt: skip


def test_the_names_of_a_dataloader_make_one(data):
    """What a framework builds from them gives the loader's own batches, and the loader knows how far it is."""
    with (
        fl.Loader(data, shuffle=True, seed=5, **KNOBS) as loader,
        fl.Loader(data, shuffle=True, seed=5, **KNOBS) as plain,
    ):
        taken = {name: getattr(loader, name) for name in NAMES}
        for name in ("batch_size", "drop_last", "sampler"):  # a DataLoader takes these or a batch_sampler
            taken.pop(name)
        around = DataLoader(**taken)
        assert len(around) == len(loader) == 8
        for _ in range(2):
            assert numbers(around) == numbers(plain)
        assert loader.state_dict() == plain.state_dict()
        with pytest.raises(fl.OptionError, match="collate_fn: the loader makes batches from stored data"):
            next(iter(DataLoader(data, batch_size=4, collate_fn=loader.collate_fn)))


class Skipping:
    """As Accelerate's: passes on what comes after the first batches."""

    def __init__(self, batch_sampler, skip):
        self.batch_sampler, self.skip = batch_sampler, skip

    def __iter__(self):
        return (batch for number, batch in enumerate(self.batch_sampler) if number >= self.skip)


@pytest.mark.parametrize("sampler", [None, samplers.SubsetRandom(range(7, 50)), samplers.Buckets()])
def test_batches_can_be_skipped_as_accelerate_does(data, sampler):
    knobs = {**KNOBS, "sampler": sampler, "drop_last": sampler is None}
    with fl.Loader(data, **knobs) as loader, fl.Loader(data, **knobs) as plain:
        for made in (loader, plain):
            made.set_epoch(3)
        rest = numbers(plain)[2:]
        around = DataLoader(
            loader.dataset, batch_sampler=Skipping(loader.batch_sampler, 2), collate_fn=loader.collate_fn
        )
        assert numbers(around) == rest
        assert loader.state_dict() == plain.state_dict()


def test_the_sampler_attribute_matches_the_order(data):
    with fl.Loader(data, **KNOBS) as loader:
        assert isinstance(loader.sampler, SequentialSampler)
        assert list(loader.sampler) == list(range(60))
    with fl.Loader(data, shuffle=True, **KNOBS) as loader:
        assert isinstance(loader.sampler, RandomSampler)
        assert (len(loader.sampler), loader.epoch) == (60, 0)
        expected = list(loader.sampler)
        assert [index for batch in loader for index in batch["index"].tolist()] == expected != list(loader.sampler)
    with fl.Loader(data, shuffle=True, rank=1, world_size=2, **KNOBS) as loader:
        assert isinstance(loader.sampler, DistributedSampler)
        assert (loader.sampler.rank, loader.sampler.num_replicas, len(loader.sampler)) == (1, 2, 30)
        loader.sampler.set_epoch(4)
        assert loader.epoch == 4
        assert [index for batch in loader.batch_sampler for index in batch] == list(loader.sampler)
        assert pickle.loads(pickle.dumps(next(iter(loader.batch_sampler)))) == next(iter(loader.batch_sampler))


@pytest.mark.parametrize("persistent", [False, True])
def test_passes_of_dataloader_workers_are_epochs_of_their_own(data, persistent):
    """Without `set_epoch`: workers that are started again know of each other."""
    with fl.Loader(data, shuffle=True, **KNOBS) as plain, fl.Loader(data, shuffle=True, **KNOBS) as loader:
        shim = as_iterable(loader)
        around = DataLoader(shim, persistent_workers=persistent, **FORK)
        passes = [numbers(around) for _ in range(3)]
        assert passes == [numbers(plain) for _ in range(3)]
        shim.set_epoch(1)
        assert numbers(around) == passes[1]


def test_a_state_is_refused_if_workers_made_the_batches(data):
    with fl.Loader(data, shuffle=True, **KNOBS) as loader:
        shim = as_iterable(loader)
        assert loader.state_dict()["epoch"] == shim.state_dict()["epoch"] == 0
        numbers(DataLoader(shim, **FORK))
        for place in (loader, shim):
            with pytest.raises(fl.StateError, match="StatefulDataLoader"):
                place.state_dict()
        loader.set_epoch(1)
        assert loader.state_dict()["epoch"] == 1, "somebody said where it is"
        numbers(DataLoader(shim, batch_size=None))
        assert loader.state_dict()["epoch"] == 2
        assert len(copy.deepcopy(shim)) == 8


@pytest.mark.parametrize("sampler", [None, samplers.Buckets()])
@pytest.mark.parametrize("workers", [1, 3])
def test_every_worker_reports_its_position(data, monkeypatch, workers, sampler):
    """What torchdata's `StatefulDataLoader` does in each of its workers."""
    with fl.Loader(data, sampler=sampler, **KNOBS) as loader:
        for worker in range(workers):
            info = type("Info", (), {"id": worker, "num_workers": workers})
            monkeypatch.setattr(torch.utils.data, "get_worker_info", lambda info=info: info)
            shim = as_iterable(loader)
            whole = iter(shim)
            for _ in range(2):
                next(whole)
            state = pickle.loads(pickle.dumps(shim.state_dict()))
            rest = numbers(whole)
            other = as_iterable(loader)
            other.load_state_dict(state)
            assert numbers(other) == rest
            with pytest.raises(fl.StateError, match="workers"):
                other.load_state_dict({**state, "workers": 7})
    stateful = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader
    monkeypatch.undo()
    with fl.Loader(data, sampler=sampler, **KNOBS) as loader:
        workers = {"batch_size": None, "num_workers": workers, "multiprocessing_context": "fork"}
        around = stateful(as_iterable(loader), **workers)
        running = iter(around)
        for _ in range(3):
            next(running)
        state = around.state_dict()
        rest = numbers(running)
        again = stateful(as_iterable(loader), **workers)
        again.load_state_dict(state)
        assert numbers(again) == rest


class Naive(IterableDataset):
    """Iterates a loader in every worker, as if there were one."""

    def __init__(self, make):
        self.make = make

    def __iter__(self):
        return iter(self.make())


def test_a_loader_in_dataloader_workers_must_know_its_part(data):
    made = fl.Loader(data, rank=0, world_size=1, **KNOBS)
    for make in (lambda: fl.Loader(data, **KNOBS), lambda: made):
        with pytest.raises(fl.OptionError, match=r"worker 0 of 2 of a DataLoader(.|\n)*as_iterable"):
            next(iter(DataLoader(Naive(make), **FORK)))

    def placed():
        info = torch.utils.data.get_worker_info()
        return fl.Loader(data, rank=info.id, world_size=info.num_workers, **KNOBS)

    found = sorted(index for batch in numbers(DataLoader(Naive(placed), **FORK)) for index in batch)
    assert found == list(range(60))
    one = DataLoader(Naive(lambda: fl.Loader(data, **KNOBS)), **{**FORK, "num_workers": 1})
    assert len(numbers(one)) == 8


def test_batches_are_not_split_among_ranks_twice(data, monkeypatch):
    """Accelerate's dispatcher, by what it leaves to be seen."""
    import sys
    import types

    with fl.Loader(data, rank=0, world_size=2, **KNOBS) as loader:
        shim = as_iterable(loader)
        dispatcher = type("DataLoaderDispatcher", (), {"dataset": shim})()
        state = types.SimpleNamespace(
            GradientState=lambda: types.SimpleNamespace(dataloader_references=[None, dispatcher])
        )
        monkeypatch.setitem(sys.modules, "accelerate.state", state)
        with pytest.raises(fl.OptionError, match=r"divide them among the ranks again(.|\n)*rank=0, world_size=1"):
            next(iter(DataLoader(shim, batch_size=None)))
        assert numbers(DataLoader(as_iterable(loader), batch_size=None)), "one that is not dispatched"


def test_accelerate_skips_batches(data):
    accelerate = pytest.importorskip("accelerate")
    with fl.Loader(data, shuffle=True, **KNOBS) as loader:
        expected = numbers(loader)
        loader.set_epoch(0)
        assert numbers(accelerate.skip_first_batches(loader, 3)) == expected[3:]
        assert loader.state_dict()["epoch"] == 1
