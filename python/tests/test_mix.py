"""A mix stays a mix, or an error says why not."""

from __future__ import annotations

import pickle
import time

import feedline as fl
import pytest

PLAIN = {"decode": "none", "output": "numpy", "num_workers": 1}


@pytest.fixture
def parts(many):
    ds = fl.open(many)
    return ds.select(range(20)), ds.select(range(20, 150))


def share(dataset, **knobs):
    """How many samples of an epoch come from the first data set."""
    with fl.Loader(dataset, batch_size=8, **PLAIN, **knobs) as loader:
        found = [index for batch in loader for index in batch["index"].tolist()]
    return sum(index < 20 for index in found), len(found)


def test_a_cached_mix_is_a_mix(parts, tmp_path):
    mixed = fl.mix([(parts[0], 0.75), (parts[1], 0.25)], epoch_samples=80)
    cached = mixed.cached(tmp_path)
    assert isinstance(cached, fl.Mix)
    assert (cached.weights, cached.epoch_samples) == (mixed.weights, 80)
    assert share(cached) == share(mixed) == (60, 80)
    end = time.monotonic() + 60
    while not cached.copy_status["complete"] and time.monotonic() < end:
        time.sleep(0.01)
    assert (cached.copy_status["samples"], cached.copy_status["total"]) == (150, 150)
    assert mixed.copy_status is None


def test_a_mix_with_a_disk_cache_is_a_mix(servers, tmp_path):
    ds = fl.open("s3://bucket/animals", storage_options=servers.options)
    mixed = fl.mix([(ds.select(range(4)), 3), (ds.select(range(4, 12)), 1)], epoch_samples=16)
    with fl.Loader(mixed, batch_size=16, cache_dir=tmp_path / "cache", **PLAIN) as loader:
        assert isinstance(loader.dataset, fl.Mix)
        assert int((next(iter(loader))["index"] < 4).sum()) == 12


def test_operations_that_would_undo_a_mix_are_refused(parts, tmp_path):
    mixed = fl.mix([(parts[0], 0.75), (parts[1], 0.25)], epoch_samples=80)
    with pytest.raises(fl.OptionError, match=r"select: .*\nhint: select from each data set, then mix"):
        mixed.select([0, 1])
    with pytest.raises(fl.OptionError, match="concat: a mix"):
        fl.concat([parts[0], mixed])
    with pytest.raises(fl.OptionError, match="a mix has weights"):
        fl.pack(mixed, tmp_path / "pack", progress=False)
    with pytest.raises(fl.OptionError, match="a mix has weights"):
        fl.convert(mixed, tmp_path / "tars", to="webdataset", progress=False)


def test_nested_mixes_are_flattened(parts):
    small, large = parts
    inner = fl.mix([(small, 1), (large, 3)])
    outer = fl.mix([(small, 1), (inner, 1)], epoch_samples=80)
    assert outer.weights == [1.0, 0.25, 0.75]
    assert outer.lengths == [20, 20, 130]
    with fl.Loader(outer, batch_size=8, **PLAIN) as loader:
        found = [index for batch in loader for index in batch["index"].tolist()]
    assert [sum(low <= i < high for i in found) for low, high in ((0, 20), (20, 40), (40, 170))] == [40, 10, 30]


def batches(loader):
    return [batch["index"].tolist() for batch in loader]


@pytest.mark.parametrize("taken", [0, 1, 9, 10])
def test_weights_set_within_an_epoch_do_not_change_it(parts, taken):
    """The state carries the weights of the running epoch and those to come."""
    mixed = fl.mix([(parts[0], 0.75), (parts[1], 0.25)], epoch_samples=80)
    with fl.Loader(mixed, batch_size=8, **PLAIN) as loader:
        running = iter(loader)
        for _ in range(taken):
            next(running)
        loader.set_weights([0.0, 1.0])
        state, frozen = loader.state_dict(), pickle.dumps(loader)
        rest, following = batches(running), batches(loader)
    assert min(min(batch) for batch in following) >= 20
    expected = [rest, following] if taken < 10 else [following]
    with fl.Loader(mixed, batch_size=8, **PLAIN) as fresh, pickle.loads(frozen) as thawed:
        fresh.load_state_dict(state)
        assert fresh.state_dict() == state
        fresh.skip(0)
        assert fresh.state_dict() == state
        for other in (fresh, thawed):
            assert [batches(other) for _ in expected] == expected


def test_weights_set_before_an_epoch_are_part_of_the_state(parts):
    mixed = fl.mix([(parts[0], 0.75), (parts[1], 0.25)], epoch_samples=80)
    with fl.Loader(mixed, batch_size=8, **PLAIN) as loader, fl.Loader(mixed, batch_size=8, **PLAIN) as fresh:
        loader.set_weights([0.5, 0.5])
        running = iter(loader)
        next(running)
        fresh.load_state_dict(loader.state_dict())
        assert batches(fresh) == batches(running)
        assert batches(fresh) == batches(loader)
