"""`map=` and `T.Python`: functions that fail, hang or kill their process."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import feedline as fl
import numpy as np
import pytest
from feedline import transforms as T
from feedline._callback import start
from map_functions import BYTES, CROP, by_sample, everything, fails_on_none, fails_on_seven, tiny_images


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return tiny_images(tmp_path_factory.mktemp("tiny") / "data")


class Once:
    """Does something bad to its own process, once, at one sample."""

    def __init__(self, marker, sample):
        self.marker = Path(marker)
        self.sample = sample

    def __call__(self, sample):
        if sample["index"] == self.sample and not self.marker.exists():
            self.marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return sample


def kills_at_six(sample):
    if sample["index"] == 6:
        os.kill(os.getpid(), signal.SIGKILL)
    return sample


class Gate:
    """Holds one sample until a file is there."""

    def __init__(self, gate, sample):
        self.gate = Path(gate)
        self.sample = sample

    def __call__(self, sample):
        while sample["index"] == self.sample and not self.gate.exists():
            time.sleep(0.01)
        return sample


def test_a_function_that_raises_is_a_bad_sample(tiny):
    knobs = {"map": fails_on_seven, "fields": ["label"]}
    with fl.Loader(tiny, **BYTES, batch_size=8, **knobs) as loader:
        running = iter(loader)
        with pytest.raises(fl.SampleError, match=r"sample 3: cannot transform sample(?s:.*)no such colour") as caught:
            next(running)
        assert (caught.value.sample, caught.value.stage) == (3, "transform")
        assert "fails_on_seven" in caught.value.reason
        assert "callback" not in caught.value.reason, "frames of feedline itself help nobody"
        with pytest.raises(fl.SampleError, match="sample 10"):
            next(running)
        assert loader.state_dict()["samples"] == 16
        assert [error["index"] for error in loader.errors()] == [3, 10]
    with fl.Loader(tiny, **BYTES, batch_size=8, on_error="skip", **knobs) as loader:
        batches = list(loader)
        assert batches[0]["index"].tolist() == [0, 1, 2, 4, 5, 6, 7]
        assert [len(batch["label"]) for batch in batches] == [7, 7, 7]
        assert (loader.stats()["skipped"], len(loader.errors())) == (3, 3)
        assert {error["stage"] for error in loader.errors()} == {"transform"}
    with pytest.raises(fl.TooManyBadSamplesError):
        everything(tiny, on_error="skip", max_errors=1, **knobs)


def test_substitutes_are_deterministic(tiny):
    knobs = {"map": fails_on_seven, "transforms": [CROP], "on_error": "replace"}
    with fl.Loader(tiny, **BYTES, batch_size=8, **knobs) as loader:
        batches = list(loader)
        assert (loader.stats()["replaced"], loader.stats()["skipped"]) == (3, 0)
    assert [len(batch["index"]) for batch in batches] == [8, 8, 8]
    chosen = [int(batch["index"][at]) for batch, at in zip(batches, (3, 2, 1), strict=True)]
    assert all(index % 7 != 3 for index in chosen)
    plain = by_sample(everything(tiny, transforms=[CROP]))
    labels = {index: tiny[index]["label"] for index in range(24)}
    for batch in batches:
        for index, image, label in zip(batch["index"], batch["image"], batch["label"], strict=True):
            assert np.array_equal(image, plain[int(index)])
            assert label == labels[int(index)]
    again = everything(tiny, num_workers=1, **{**knobs, "batch_size": 8})
    assert [batch["index"].tolist() for batch in again] == [batch["index"].tolist() for batch in batches]


@pytest.mark.parametrize("policy", ["skip", "replace"])
def test_bad_images_of_a_python_transform(tiny, policy):
    """Other columns of the batch (dense and ragged) lose or change the row too."""
    plain = {index: tiny[index] for index in range(24)}
    means = sorted(
        np.asarray(image, dtype=float).mean() for image in by_sample(everything(tiny, transforms=[CROP])).values()
    )
    bound = (means[5] + means[6]) / 2
    views = {"image": {"whole": [], "crop": [CROP, T.Python(FailsBelow(bound))]}}
    with fl.Loader(tiny, **BYTES, batch_size=8, transforms=views, on_error=policy) as loader:
        batches = list(loader)
        assert loader.stats()["skipped" if policy == "skip" else "replaced"] == 6
    assert sum(len(batch["index"]) for batch in batches) == (18 if policy == "skip" else 24)
    for batch in batches:
        assert len(batch["image"]["whole"]) == len(batch["image"]["crop"]) == len(batch["index"]) == len(batch["label"])
        for row, index in enumerate(batch["index"]):
            assert batch["label"][row] == plain[int(index)]["label"]
            assert batch["image"]["crop"][row].mean() >= bound
            height, width = batch["image"]["whole"][row].shape[1:]
            top, left = round((height - 16) / 2), round((width - 16) / 2)
            middle = batch["image"]["whole"][row][:, top : top + 16, left : left + 16]
            assert np.array_equal(middle, batch["image"]["crop"][row])


class FailsBelow:
    def __init__(self, bound):
        self.bound = bound

    def __call__(self, image):
        if image.mean() < self.bound:
            raise ValueError("too dark")
        return image


def always_fails(_):
    raise ValueError("never")


def test_a_batch_without_samples(tiny):
    for policy in ("skip", "replace"):
        with pytest.raises(fl.TooManyBadSamplesError, match="never"):
            everything(tiny, map=always_fails, on_error=policy, max_errors=10**6, fields=["label"])


def test_a_timeout_keeps_its_batch(tiny, tmp_path):
    gate = tmp_path / "gate"
    knobs = {**BYTES, "batch_size": 6, "fields": ["label"], "map": Gate(gate, 7), "timeout": 20.0}
    with fl.Loader(tiny, **knobs) as loader:
        running = iter(loader)
        assert next(running)["index"].tolist() == [0, 1, 2, 3, 4, 5]
        running._core._timeout = 0.2
        for _ in range(2):
            with pytest.raises(fl.LoaderTimeoutError, match=r"no batch within 0\.2 s: a function of map"):
                next(running)
            assert loader.state_dict()["samples"] == 6
        gate.touch()
        running._core._timeout = 60.0
        assert [batch["index"].tolist()[0] for batch in running] == [6, 12, 18]
        assert loader.state_dict()["epoch"] == 1


@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
def test_a_killed_worker_is_replaced_and_its_work_done_again(tiny, tmp_path, context, caplog):
    knobs = {"fields": ["label"], "multiprocessing_context": context, "num_workers": 2}
    with fl.Loader(tiny, **{**BYTES, **knobs}, batch_size=8, map=Once(tmp_path / "marker", 11)) as loader:
        for _ in range(2):
            assert [batch["index"].tolist() for batch in loader] == [list(range(at, at + 8)) for at in (0, 8, 16)]
        assert (tmp_path / "marker").exists()
    assert "a worker process of map or T.Python ended (SIGKILL" in caplog.text


def test_workers_forked_at_once_do_not_hold_each_others_sockets(monkeypatch):
    """The end of a worker is noticed even if another one was started at the same time."""
    starter = start.Starter("fork", SimpleNamespace(run=None), b"")
    second, workers = threading.Thread(target=lambda: workers.append(starter.start())), []

    def ends_slowly(plain=start.ends):
        made = plain()
        if not second.ident:
            second.start()
            second.join(0.5)  # as long as another thread would need to start a worker, if it may
        return made

    monkeypatch.setattr(start, "ends", ends_slowly)
    first = starter.start()
    second.join()
    try:
        assert [worker.channel.receive() for worker in (first, *workers)] == [None, None]
        os.kill(first.pid, signal.SIGKILL)
        first.channel.link.settimeout(20)
        with pytest.raises(EOFError):
            first.channel.receive()
    finally:
        for worker in (first, *workers):
            worker.end()


def test_a_killed_server_is_replaced(tiny):
    with fl.Loader(tiny, **BYTES, batch_size=8, map=fails_on_none, fields=["label"]) as loader:
        assert len(list(loader)) == 3
        starter = loader._callables._pool._starter
        starter._server[0].kill()
        starter._server[0].wait()
        for place in loader._callables._pool._runners:
            if place._worker is not None:
                os.kill(place._worker.pid, signal.SIGKILL)
        assert len(list(loader)) == 3


def test_a_sample_that_kills_its_workers_repeatedly_is_named(tiny):
    knobs = {"map": kills_at_six, "fields": ["label"], "batch_size": 8}
    with pytest.raises(fl.SampleError, match=r"sample 6.*ended its worker process 3 times \(SIGKILL") as caught:
        everything(tiny, **knobs)
    assert caught.value.sample == 6
    skipped = everything(tiny, on_error="skip", **knobs)
    assert skipped[0]["index"].tolist() == [0, 1, 2, 3, 4, 5, 7]
