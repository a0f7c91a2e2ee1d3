"""A Python without the interpreter lock: many threads at once, the same results as one. `make test-free-threaded`."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import feedline as fl
import numpy as np
import pytest
from feedline import transforms as T
from made_images import make_folder

THREADS = 8
OPS = [T.RandomResizedCrop(24), T.RandomHorizontalFlip(), T.Normalize.imagenet()]
KNOBS = {"batch_size": 5, "shuffle": True, "output": "numpy", "num_workers": 2}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    place = tmp_path_factory.mktemp("data")
    return fl.pack(make_folder(place / "animals", per_class=16), place / "pack", part_bytes=20_000, progress=False)


def together(work):
    """Runs `work(number)` in many threads that begin at the same moment."""
    begin = threading.Barrier(THREADS)

    def run(number):
        begin.wait()
        return work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(run, range(THREADS)))


def epoch(ds, seed, **knobs):
    with fl.Loader(ds, seed=seed, **{**KNOBS, "transforms": OPS, **knobs}) as loader:
        return [(batch["index"].tolist(), batch["image"].copy()) for batch in loader]


def equal(one, other):
    return len(one) == len(other) and all(
        a[0] == b[0] and np.array_equal(a[1], b[1]) for a, b in zip(one, other, strict=True)
    )


def test_the_interpreter_lock_stays_off(data):
    """A module that did not say that it can do without would turn it on for everybody."""
    assert not sys._is_gil_enabled()
    list(fl.Loader(data, **KNOBS, transforms=OPS))
    assert not sys._is_gil_enabled()


def test_a_loader_for_each_thread(data):
    alone = [epoch(data, seed) for seed in range(THREADS)]
    for found, expected in zip(together(lambda seed: epoch(data, seed)), alone, strict=True):
        assert equal(found, expected)


def test_samples_from_one_data_set(data):
    expected = [data[n] for n in range(len(data))]
    for found in together(lambda _: [data[n] for n in range(len(data))]):
        assert found == expected


def test_threads_share_one_iteration(data):
    """Every batch is somebody's, none is anybody's twice."""
    with fl.Loader(data, seed=1, **KNOBS, fields=["label"], decode="none") as loader:
        running = iter(loader)

        def take(_):
            return [batch["index"].tolist() for batch in running]

        taken = [batch for mine in together(take) for batch in mine]
        assert sorted(index for batch in taken for index in batch) == list(range(len(data)))


def test_stats_of_a_running_loader(data):
    """States, statistics and errors are asked for while others take batches."""
    with fl.Loader(data, seed=1, **KNOBS, transforms=OPS) as loader:

        def look(number):
            if number % 2:
                return [batch["index"].tolist() for batch in loader]
            return [(loader.state_dict(), loader.stats(), loader.errors()) for _ in range(50)]

        for mine in together(look)[1::2]:
            assert sorted(index for batch in mine for index in batch) == list(range(len(data)))


def test_functions_run_in_threads(data):
    ran = set()

    def brighter(sample):
        ran.add(threading.get_ident())
        return {**sample, "label": sample["label"] + 100}

    knobs = {**KNOBS, "transforms": [T.Resize((16, 16))], "map": brighter, "dtype": "uint8"}
    with fl.Loader(data, seed=2, **knobs) as loader:
        labels = {
            int(n): int(label) for batch in loader for n, label in zip(batch["index"], batch["label"], strict=True)
        }
    assert ran, "worker processes would have a set of their own"
    assert labels == {n: data[n]["label"] + 100 for n in range(len(data))}


def test_a_loader_closed_during_an_iteration(data):
    for _ in range(20):
        loader = fl.Loader(data, seed=1, **KNOBS, transforms=OPS)

        def run(number, loader=loader):
            if number == 0:
                loader.close()
                return None
            try:
                return sum(len(batch["index"]) for batch in loader)
            except fl.errors.ClosedError as error:
                return error

        assert all(isinstance(found, fl.errors.ClosedError) or found == len(data) for found in together(run)[1:])


def test_packing_in_parallel(tmp_path):
    def pack(number):
        rows = [{"number": number * 100 + n, "text": f"row {n}"} for n in range(50)]
        return fl.pack(rows, tmp_path / str(number), progress=False)["number"].tolist()

    assert together(pack) == [[number * 100 + n for n in range(50)] for number in range(THREADS)]
