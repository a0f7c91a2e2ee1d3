"""Every knob does something that can be seen, or is refused with the reason: order, threads, ranks, options as a whole.

`docs/options.md` is made from this file and those beside it (`test_options_*.py`).
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import feedline as fl
import numpy as np
import pytest
from engine_threads import engine_threads, eventually
from feedline import samplers
from feedline import transforms as T
from feedline._options import DEFAULTS, REFUSED
from option_data import CROP, first, knob, tiny_images


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return tiny_images(tmp_path_factory.mktemp("tiny"))


ROOT = Path(__file__).parents[2]


def indices(dataset, **knobs):
    with fl.Loader(dataset, **{"output": "numpy", "decode": "none", **knobs}) as loader:
        return [batch["index"].tolist() for batch in loader]


def flat(batches):
    return [index for batch in batches for index in batch]


@knob("batch_size")
def test_batch_size(tiny):
    """batches have this many samples"""
    assert [len(batch) for batch in indices(tiny, batch_size=8)] == [8, 8, 4]
    with pytest.raises(fl.OptionError, match="batch_size: 0"):
        fl.Loader(tiny, batch_size=0)


@knob("drop_last")
def test_drop_last(tiny):
    """a last batch that is not full is left out, and `stats()` counts its samples"""
    with fl.Loader(tiny, batch_size=8, drop_last=True, decode="none") as loader:
        assert [len(batch["index"]) for batch in loader] == [8, 8]
        assert loader.stats()["dropped_per_epoch"] == 4


@knob("shuffle")
def test_shuffle(tiny):
    """`True` and `"full"` permute; `"block"` permutes blocks and windows; each epoch in another order"""
    plain = flat(indices(tiny))
    full = flat(indices(tiny, shuffle=True))
    assert plain == list(range(20))
    assert plain != full == flat(indices(tiny, shuffle="full"))
    assert sorted(flat(indices(tiny, shuffle="block"))) == plain
    with pytest.raises(fl.OptionError, match="shuffle: 'yes'"):
        fl.Loader(tiny, shuffle="yes")


@knob("seed")
def test_seed(tiny):
    """another seed gives another order and other crops; the same seed the same"""
    assert indices(tiny, shuffle=True, seed=1) == indices(tiny, shuffle=True, seed=1)
    assert indices(tiny, shuffle=True, seed=1) != indices(tiny, shuffle=True, seed=2)
    crop = {"transforms": [T.RandomResizedCrop(8)]}
    images = [first(tiny, seed=seed, **crop)["image"] for seed in (1, 1, 2)]
    assert np.array_equal(images[0], images[1])
    assert not np.array_equal(images[0], images[2])


@knob("sampler")
def test_sampler(tiny):
    """determines which samples an epoch has, in which order; refused together with `shuffle`"""
    assert indices(tiny, sampler=[3, 1, 1]) == [[3, 1, 1]]
    assert len(indices(tiny, sampler=samplers.Weighted(range(20), 33), batch_size=33)[0]) == 33
    with pytest.raises(fl.OptionError, match="already gives the order"):
        fl.Loader(tiny, sampler=[0], shuffle=True)


@knob("fields")
def test_fields(tiny):
    """only these fields are read"""
    assert sorted(first(tiny, fields=["label"], transforms=None)) == ["index", "label"]
    with pytest.raises(fl.OptionError, match="no field 'colour'"):
        fl.Loader(tiny, fields=["colour"])


@knob("num_workers")
def test_num_workers(tiny):
    """this many threads run; results do not depend on it"""
    before = engine_threads()
    with fl.Loader(tiny, num_workers=3, **CROP) as loader:
        running = iter(loader)
        next(running)
        assert len(engine_threads() - before) == 3
        assert loader.stats()["threads"] == 3
        del running
    assert eventually(lambda: engine_threads() <= before)
    assert np.array_equal(first(tiny, num_workers=1)["image"], first(tiny, num_workers=5)["image"])
    with pytest.raises(fl.OptionError, match="num_workers"):
        fl.Loader(tiny, num_workers=100_000)


@knob("prefetch")
def test_prefetch(tiny):
    """at most this many batches are prepared ahead of the consumer"""
    for ahead in (1, 3):
        with fl.Loader(tiny, batch_size=2, prefetch=ahead, num_workers=1, **CROP) as loader:
            running = iter(loader)
            next(running)
            time.sleep(0.2)
            # One delivered, `ahead` ready, one being filled.
            assert loader.stats()["samples"] <= 2 * (ahead + 2)
            assert loader.stats()["depth"] == ahead + 1
    with pytest.raises(fl.OptionError, match="prefetch"):
        fl.Loader(tiny, prefetch=0)


@knob("numa")
def test_numa(tiny):
    """threads run on the CPUs of this node, which `stats()["cpus"]` tells; a node that does not exist is refused"""
    if sys.platform != "linux":
        with pytest.raises(fl.OptionError, match="numa: .* needs Linux"):
            fl.Loader(tiny, numa="auto")
        return
    with fl.Loader(tiny, numa="auto", **CROP) as loader:
        assert loader.stats()["cpus"] == []
    with pytest.raises(fl.OptionError, match="numa: there is no node 60000"):
        fl.Loader(tiny, options=fl.LoaderOptions().numa(60000))


@knob("read_ahead")
def test_read_ahead(tiny, tmp_path):
    """bytes are read before they are needed, so many reads at once; batches stay the same"""
    path = tmp_path / "pack"
    fl.pack(tiny, path, progress=False)
    dataset = fl.open(path)
    expected = first(dataset, read_ahead="off")["image"]
    with fl.Loader(dataset, read_ahead=3, batch_size=4, output="numpy", **CROP) as loader:
        assert np.array_equal(next(iter(loader))["image"], expected)
        assert loader.stats()["read_ahead"]["active"]
        # A worker that is first reads the bytes itself; that must not be so for all of them.
        assert any(list(loader) and loader.stats()["read_ahead"]["reads"] for _ in range(1000))
    with fl.Loader(dataset, options=fl.LoaderOptions().read_ahead("off"), **CROP) as loader:
        list(loader)
        assert not loader.stats()["read_ahead"]["allowed"]
    for wrong in ("on", 0, 5000, None, True, 2.5):
        with pytest.raises(fl.OptionError, match="read_ahead"):
            fl.Loader(dataset, read_ahead=wrong)


@knob("rank", "world_size")
def test_rank_and_world_size(tiny, monkeypatch):
    """this rank's share of every global batch; found in the environment if not given"""
    assert indices(tiny, batch_size=5, rank=1, world_size=2) == [[5, 6, 7, 8, 9], [15, 16, 17, 18, 19]]
    for names in (("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS")):
        with monkeypatch.context() as patch:
            patch.setenv(names[0], "1")
            patch.setenv(names[1], "2")
            assert indices(tiny, batch_size=5)[0] == [5, 6, 7, 8, 9]
            assert indices(tiny, batch_size=5, rank=0, world_size=1)[0] == [0, 1, 2, 3, 4]
    with pytest.raises(fl.OptionError, match="go together"):
        fl.Loader(tiny, rank=1)
    with pytest.raises(fl.OptionError, match="not below world_size"):
        fl.Loader(tiny, rank=2, world_size=2)


def test_rank_discovery_is_logged(tiny, monkeypatch, caplog):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("SLURM_PROCID", "3")
    monkeypatch.setenv("SLURM_NTASKS", "8")
    with caplog.at_level("INFO", "feedline"):
        fl.Loader(tiny)
    assert "rank 0 of 4, from RANK/WORLD_SIZE" in caplog.text


def test_rank_discovery_prefers_torch_to_the_environment_to_jax(monkeypatch):
    from feedline._ranks import discover

    for name in ("RANK", "WORLD_SIZE", "SLURM_PROCID", "SLURM_NTASKS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setitem(sys.modules, "torch.distributed", None)
    jax = SimpleNamespace(process_index=lambda: 1, process_count=lambda: 3)
    jax._src = SimpleNamespace(xla_bridge=SimpleNamespace(_backends={"cpu": 1}))
    monkeypatch.setitem(sys.modules, "jax", None)
    assert discover(None, None) == (0, 1)
    monkeypatch.setitem(sys.modules, "jax", jax)
    assert discover(None, None) == (1, 3)
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "5")
    assert discover(None, None) == (2, 5)
    ready = {"is_available": lambda: True, "is_initialized": lambda: True}
    ranked = SimpleNamespace(**ready, get_rank=lambda: 6, get_world_size=lambda: 7)
    monkeypatch.setitem(sys.modules, "torch.distributed", ranked)
    assert discover(None, None) == (6, 7)
    assert discover(0, 1) == (0, 1)


@knob("cache_dir")
def test_cache_dir(tiny, tmp_path):
    """remote data are cached in this folder; refused for local data, which need no cache"""
    with pytest.raises(fl.OptionError, match=r"cache_dir: .*local data"):
        fl.Loader(tiny, cache_dir=tmp_path)


@knob("persistent_workers")
def test_persistent_workers(tiny):
    """threads are kept between epochs, or end with each"""
    for keep in (True, False):
        with fl.Loader(tiny, num_workers=2, persistent_workers=keep, decode="none") as loader:
            before = engine_threads()
            list(loader)
            want = 2 if keep else 0
            assert eventually(lambda new=want, old=before: len(engine_threads() - old) == new)


@knob("auto_tune")
def test_auto_tune(tiny):
    """threads and prefetching are adjusted from epoch to epoch within the limits; batches stay the same"""
    knobs = {"batch_size": 2, "num_workers": 4, "prefetch": 1, "output": "numpy", **CROP}
    with fl.Loader(tiny, auto_tune=True, **knobs) as tuned, fl.Loader(tiny, **knobs) as plain:
        settings = set()
        for _ in range(4):
            for ours, theirs in zip(tuned, plain, strict=True):
                assert np.array_equal(ours["image"], theirs["image"])
                time.sleep(0.003)  # a consumer that is slower than the engine: threads are given back
            settings.add((tuned.stats()["threads"], tuned.stats()["depth"]))
        assert len(settings) > 1
        assert plain.stats()["threads"] == 4


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_knobs_of_other_loaders_are_refused_with_the_reason(tiny, name):
    for make in (lambda: fl.Loader(tiny, **{name: 1}), lambda: fl.LoaderOptions(**{name: 1})):
        with pytest.raises(fl.OptionError, match=name) as caught:
            make()
        assert REFUSED[name] in str(caught.value)
    with pytest.raises(fl.OptionError, match="no such knob"):
        fl.Loader(tiny, batchsize=3)


@knob("options")
def test_options_builder(tiny):
    """the same knobs step by step: every step a new value, equal if equal, picklable, readable"""
    options = (
        fl.LoaderOptions()
        .with_batch_size(5).shuffle(on=True, seed=42).num_workers(1).pin_memory(on=False).persistent_workers(on=True)
        .with_timeout(30.0).channels_last().random_sampling(replacement=False).with_generator_seed(12345)
        .drop_last(on=True).prefetch(2).auto_tune().with_output("numpy").with_decode("none")
    )  # fmt: skip
    assert (options.batch_size_value, options["seed"], options["memory_format"]) == (5, 12345, "channels_last")
    assert options == pickle.loads(pickle.dumps(options))
    assert options != options.with_batch_size(6)
    with fl.Loader(tiny, options=options) as loader:
        assert loader.options["timeout"] == 30.0
        assert len(next(iter(loader))["index"]) == 5
    assert fl.Loader(tiny, options=options, batch_size=2).batch_size == 2
    replaced = options.shuffle(on=False).random_sampling(replacement=True)
    assert replaced["sampler"] == samplers.Random(replacement=True)
    weighted = fl.LoaderOptions().weighted_sampling([1.0] * 20)
    assert weighted == pickle.loads(pickle.dumps(weighted))
    assert len(list(fl.Loader(tiny, options=weighted))) == 1


def test_presets(tiny):
    options = fl.LoaderOptions()
    assert options.gpu_optimized()["pin_memory"]
    two = options.distributed_optimized(1, 2)
    assert (two["rank"], two["world_size"], two["pin_memory"]) == (1, 2, True)
    debug = options.debug_mode()
    assert (debug["num_workers"], debug["persistent_workers"], debug["timeout"]) == (1, False, 10.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for preset in (options.gpu_optimized(), two, debug):
            assert list(fl.Loader(tiny, options=preset))


def test_a_loader_can_stand_in_for_a_dataloader(tiny):
    """`len`, `iter`, nested loops, threads, pickling."""
    loader = fl.Loader(tiny, batch_size=7, output="numpy", decode="none", num_workers=1)
    assert len(loader) == len(list(loader)) == 3
    nested = [(a["index"][0], b["index"][0]) for a in loader for b in loader]
    assert len(nested) == 9
    copy = pickle.loads(pickle.dumps(loader))
    assert copy.options == loader.options
    results = []
    thread = threading.Thread(target=lambda: results.extend(copy))
    thread.start()
    thread.join()
    assert len(results) == 3


def test_every_knob_has_a_test():
    table = subprocess.run(
        [sys.executable, ROOT / "tools/options_table.py"], capture_output=True, text=True, check=True
    ).stdout
    missing = [name for name in DEFAULTS if f"| `{name}` |" not in table]
    assert not missing


def test_the_table_in_the_docs_is_up_to_date():
    """Write it again with `python tools/options_table.py --write`."""
    subprocess.run([sys.executable, ROOT / "tools/options_table.py", "--check"], check=True)
