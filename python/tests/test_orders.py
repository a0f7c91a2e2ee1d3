"""The orders of other loaders, against numbers that their own code gave, and how they fit into the loader."""

import builtins
import json
import sys

import feedline as fl
import numpy as np
import pytest
import torch
from feedline import samplers
from feedline.samplers import Split
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, RandomSampler


def epochs_of(ds, count, **knobs):
    """The samples of every batch of `count` epochs."""
    with fl.Loader(ds, decode="none", output="numpy", fields=[], **knobs) as loader:
        return [[batch["index"].tolist() for batch in loader] for _ in range(count)]


@pytest.fixture(scope="module")
def ds(tmp_path_factory):
    """37 samples of nothing much: all that matters is their number."""
    where = tmp_path_factory.mktemp("numbers")
    return fl.pack([{"label": number} for number in range(37)], where / "pack", progress=False)


# Numbers that the originals gave, see docs/order.md.


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("py1s", "5 6 7 12 13 8 11 9 10 17 14 16 15 4 1 3 0 2"),
        ("py2s", "5 7 6 14 17 10 8 11 9 13 12 16 15 3 4 1 2 0"),
        ("py1br", "7 5 12 8 13 6 9 10 11 16 15 2 17 1 0 14 3 4"),
        ("py1e", "5 6 7 13 12 8 11 9 10 15 14 17 16 1 0 4 3 2"),
        ("naive", "7 13 16 3 12 11 4 2 8 10 15 6 9 5 14 1 17 0"),
    ],
)
def test_mosaic_shuffles_as_streaming_does(method, expected):
    order = samplers.Mosaic([5, 3, 4, 6], method=method, num_canonical_nodes=2, block_size=6)
    assert order.shuffled(1).tolist() == [int(number) for number in expected.split()]


def test_mosaic_partitions_as_streaming_does():
    order = samplers.Mosaic([18], num_canonical_nodes=2, shuffle=False)
    first, second = order.ranks(0, Split(18, 3, 2, False))
    assert first.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8]
    assert second.tolist() == [9, 10, 11, 12, 13, 14, 15, 16, 17]


def test_mosaic_defaults_follow_the_nodes():
    assert samplers.Mosaic([9], method="py1s", nodes=2).num_canonical_nodes == 128
    order = samplers.Mosaic([9], nodes=2)
    assert (order.num_canonical_nodes, order.block_size) == (2, 2_000_000)
    assert samplers.Mosaic([9], num_canonical_nodes=64).block_size == 1 << 18


def test_litdata_draws_chunks_and_items_as_litdata_does():
    # RandomState([42, 1]).permutation(6) is 5 0 2 1 3 4; RandomState([42, 6, 1, 3]).permutation(8) is 7 5 2 1 4 6 0 3.
    order = samplers.LitData([8] * 6, window=None).ranks(0, Split(48, 8, 1, False))[0]
    assert [block[0] // 8 for block in order.reshape(6, 8)] == [5, 0, 2, 1, 3, 4]
    assert (order.reshape(6, 8)[3] - 8).tolist() == [7, 5, 2, 1, 4, 6, 0, 3]


def test_ffcv_and_slipstream_permute_with_seed_plus_epoch():
    first, second = [5, 6, 0, 7, 3, 2, 4, 9, 1, 8], [2, 8, 9, 5, 7, 1, 4, 6, 0, 3]
    split = Split(10, 2, 1, False)
    for order in (samplers.FfcvRandom(seed=42), samplers.Slipstream(seed=42)):
        assert [order.ranks(epoch, split)[0].tolist() for epoch in range(2)] == [first, second]
    thirds = [ids.tolist() for ids in samplers.Slipstream(seed=42).ranks(0, Split(10, 2, 3, False))]
    assert thirds == [[5, 7, 4, 8], [6, 3, 9, 5], [0, 2, 1, 6]]


# torch is here: its own samplers are the measure.


def torchs_batches(sampler, batch_size, drop_last):
    return [list(batch) for batch in BatchSampler(sampler, batch_size, drop_last)]


@pytest.mark.parametrize("world_size", [1, 2, 3, 5])
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("sampler_drops", [False, True])
@pytest.mark.parametrize("drop_last", [False, True])
def test_every_rank_gets_torchs_own_batches(ds, world_size, shuffle, sampler_drops, drop_last):
    order = samplers.TorchDistributed(seed=3, shuffle=shuffle, drop_last=sampler_drops)
    for rank in range(world_size):
        ours = epochs_of(ds, 2, batch_size=4, drop_last=drop_last, sampler=order, rank=rank, world_size=world_size)
        theirs = DistributedSampler(range(37), world_size, rank, shuffle, 3, sampler_drops)
        for epoch in range(2):
            theirs.set_epoch(epoch)
            assert ours[epoch] == torchs_batches(theirs, 4, drop_last)


def test_a_data_loader_with_its_generator_is_followed(ds):
    loader = DataLoader(range(37), batch_size=5, shuffle=True, generator=torch.Generator().manual_seed(11))
    theirs = [[batch.tolist() for batch in loader] for _ in range(3)]
    assert epochs_of(ds, 3, batch_size=5, sampler=samplers.TorchRandom(seed=11)) == theirs


def test_a_bare_random_sampler_is_followed(ds):
    sampler = RandomSampler(range(37), generator=torch.Generator().manual_seed(11))
    theirs = [torchs_batches(sampler, 5, False) for _ in range(3)]
    assert epochs_of(ds, 3, batch_size=5, sampler=samplers.TorchRandom(seed=11, loader=False)) == theirs


def test_the_same_numbers_without_torch(monkeypatch):
    orders = [samplers.TorchRandom(seed=2**33 + 5), samplers.TorchRandom(5, loader=False), samplers.TorchDistributed(7)]
    split = Split(1000, 8, 1, False)
    with_torch = [order.ranks(2, split)[0].tolist() for order in orders]
    importing = builtins.__import__

    def without_torch(name, *rest):
        if name == "torch":
            raise ImportError(name)
        return importing(name, *rest)

    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.setattr(builtins, "__import__", without_torch)
    assert [order.ranks(2, split)[0].tolist() for order in orders] == with_torch


# Quasi-random, from a file with pages.


QUASI_RANDOM = [[11, 5, 6, 7, 4, 1, 3, 2, 0, 9, 8, 10], [8, 9, 10, 5, 11, 7, 6, 2, 0, 1, 4, 3]]


def beton(where, pages, page_size=1 << 21):
    """A .beton's header and allocation table, nothing else: what the order is found from."""
    header = np.zeros(1, dtype="<u2, <u2, <u4, <u8, <u8")
    entries = [(s, (p + 1) * page_size + 8 * at, 8) for p, page in enumerate(pages) for at, s in enumerate(page)]
    size = (len(pages) + 1) * page_size
    header[0] = (2, 1, page_size, sum(map(len, pages)), size)
    with where.open("wb") as file:
        file.write(header.tobytes())
        file.truncate(size)
        file.seek(size)
        file.write(np.array(entries, dtype="<u8").tobytes())
    return where


def test_quasi_random_equals_ffcv(tmp_path):
    # What FFCV 1.0.2 gave for seed 5, batch size 1, epochs 0 and 1, on pages with these samples.
    order = samplers.FfcvQuasiRandom.of(beton(tmp_path / "a.beton", [range(5), range(5, 8), range(8, 12)]), seed=5)
    assert order.pages == [[], [0, 1, 2, 3, 4], [5, 6, 7], [8, 9, 10, 11]]
    split = Split(12, 1, 1, False)
    assert [order.ranks(epoch, split)[0].tolist() for epoch in range(2)] == QUASI_RANDOM


def test_quasi_random_stays_within_its_buffer():
    pages = [range(10 * page, 10 * page + 10) for page in range(30)]
    order = samplers.FfcvQuasiRandom(pages, seed=1).ranks(4, Split(300, 2, 1, False))[0]
    assert sorted(order.tolist()) == list(range(300))
    first, last = ({number // 10: at for at, number in enumerate(each)} for each in (order[::-1], order))
    open_at_once = [sum(299 - first[page] <= at <= last[page] for page in range(30)) for at in range(300)]
    assert max(open_at_once) == 4  # twice the batch size


def test_quasi_random_refuses_what_it_cannot_do(tmp_path):
    (tmp_path / "no.beton").write_bytes(b"\x01" * 64)
    with pytest.raises(fl.DataError, match="not a .beton file of version 2"):
        samplers.FfcvQuasiRandom.of(tmp_path / "no.beton")
    with pytest.raises(fl.DataError, match="all fields are numbers"):
        samplers.FfcvQuasiRandom.of(beton(tmp_path / "empty.beton", [[]]))
    with pytest.raises(fl.OptionError, match="one process only"):
        samplers.FfcvQuasiRandom([[0]]).ranks(0, Split(1, 1, 2, False))


# In the loader.


class EveryOther:
    """An order of the user's own."""

    def indices(self, epoch):
        return [(epoch + 2 * at) % 37 for at in range(20)]


ORDERS = [
    samplers.TorchDistributed(seed=1),
    samplers.FfcvRandom(seed=1),
    samplers.Slipstream(seed=1),
    samplers.Mosaic([10, 7, 13, 7], num_canonical_nodes=1, block_size=16),
    samplers.Mosaic([10, 7, 13, 7], method="py1br", num_canonical_nodes=2, block_size=16),
    samplers.LitData([10, 7, 13, 7], num_workers=2),
    EveryOther(),
]


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: type(order).__name__)
def test_any_batch_can_be_resumed_from(ds, order):
    knobs = {"batch_size": 3, "sampler": order, "drop_last": True, "decode": "none", "output": "numpy"}
    for rank in range(2):
        whole = epochs_of(ds, 3, batch_size=3, sampler=order, drop_last=True, rank=rank, world_size=2)
        for stop in range(len(whole[1])):
            with fl.Loader(ds, rank=rank, world_size=2, **knobs) as loader:
                loader.set_epoch(1)
                for _, _ in zip(range(stop), loader, strict=False):
                    pass
                state = json.loads(json.dumps(loader.state_dict()))
            with fl.Loader(ds, rank=rank, world_size=2, **knobs) as loader:
                loader.load_state_dict(state)
                rest = [[batch["index"].tolist() for batch in loader] for _ in range(2)]
            assert rest == ([whole[1][stop:], whole[2]] if stop else [whole[1], whole[2]])


@pytest.mark.parametrize("order", [order for order in ORDERS if not isinstance(order, samplers.LitData)], ids=repr)
def test_global_batches_do_not_depend_on_the_ranks(ds, order):
    def global_batches(world_size):
        knobs = {"batch_size": 12 // world_size, "drop_last": True, "sampler": order, "world_size": world_size}
        ranks = [epochs_of(ds, 1, rank=rank, **knobs)[0] for rank in range(world_size)]
        return [sorted(sum(parts, [])) for parts in zip(*ranks, strict=True)]

    if isinstance(order, samplers.FfcvRandom):
        order = samplers.FfcvRandom(seed=1, distributed=True)
    assert global_batches(1) == global_batches(2) == global_batches(3)


def test_states_of_different_orders_differ(ds):
    knobs = {"batch_size": 4, "decode": "none"}
    with fl.Loader(ds, sampler=samplers.Slipstream(seed=1), **knobs) as loader:
        state = loader.state_dict()
    with fl.Loader(ds, sampler=samplers.Slipstream(seed=2), **knobs) as other:
        with pytest.raises(fl.StateError, match=r"order was Slipstream\(seed=1\), is Slipstream\(seed=2\)"):
            other.load_state_dict(state)
    with fl.Loader(ds, sampler=samplers.LitData([37]), batch_size=4) as loader:
        state = loader.state_dict()
    with fl.Loader(ds, sampler=samplers.LitData([37]), batch_size=5) as other:
        with pytest.raises(fl.StateError, match="batches of 4 on 1 ranks"):
            other.load_state_dict(state)


def test_impossible_settings_are_refused(ds):
    cases = [
        ({"sampler": samplers.Mosaic([36])}, "the shards have 36 samples, the data set 37"),
        ({"sampler": samplers.LitData([36])}, "the chunks have 36 samples, the data set 37"),
        ({"sampler": samplers.LitData([37]), "rank": 0, "world_size": 2}, "set drop_last=True"),
        ({"sampler": samplers.TorchRandom(), "rank": 0, "world_size": 2}, "TorchDistributed's"),
        ({"sampler": DistributedSampler(range(37), 1, 0)}, "hint: fl.samplers.TorchDistributed"),
        ({"sampler": samplers.Slipstream(), "shuffle": True}, "leave shuffle off"),
        ({"sampler": samplers.Slipstream(), "batch_size": 0}, "batch_size"),
    ]
    for knobs, message in cases:
        with pytest.raises(fl.OptionError, match=message):
            fl.Loader(ds, decode="none", **knobs)
    with pytest.raises(fl.OptionError, match="not one of naive"):
        samplers.Mosaic([1], method="py3")
    with pytest.raises(fl.OptionError, match="divides the other"):
        samplers.Mosaic([9], num_canonical_nodes=2, nodes=3)
    with pytest.raises(fl.OptionError, match="too few for 64 canonical nodes"):
        samplers.Mosaic([9], method="py1s").ranks(0, Split(9, 1, 1, False))


def test_custom_orders_are_checked(ds):
    class Odd:
        def __init__(self, lists):
            self.lists = lists

        def indices(self, epoch):
            return self.lists[epoch]

    with fl.Loader(ds, sampler=Odd([[1, 2], [1]]), decode="none") as loader:
        list(loader)
        with pytest.raises(fl.OptionError, match="epoch 1 has 1 samples, epoch 0 has 2"):
            list(loader)
    with fl.Loader(ds, sampler=Odd([[1, 37]]), decode="none") as loader:
        with pytest.raises(fl.OptionError, match="entry 1 is 37, but the data set has 37 samples"):
            list(loader)
    for wrong in ([0.5], [[1]], [-1]):
        with pytest.raises(fl.OptionError):
            fl.Loader(ds, sampler=Odd([wrong]), decode="none")


def test_indexes_are_read_from_folder_or_file(tmp_path):
    (tmp_path / "index.json").write_text('{"version": 2, "shards": [{"samples": 3}, {"samples": 4}]}')
    assert samplers.Mosaic.of(tmp_path, nodes=2).shards == (3, 4)
    with pytest.raises(fl.DataError, match="not an index of LitData"):
        samplers.LitData.of(tmp_path)
    (tmp_path / "index.json").write_text('{"chunks": [{"chunk_size": 5}], "config": {}}')
    assert samplers.LitData.of(tmp_path / "index.json", num_workers=0).chunks == (5,)
    with pytest.raises(fl.DataError, match="not an index of MosaicML"):
        samplers.Mosaic.of(tmp_path)
