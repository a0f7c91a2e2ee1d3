"""`batch_map=`: functions of whole batches."""

from __future__ import annotations

import threading
import time

import feedline as fl
import pytest
from map_functions import BYTES, CROP, everything, fails_on_none, tiny_images


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return tiny_images(tmp_path_factory.mktemp("tiny") / "data")


def doubled(batch):
    return {"index": batch["index"], "image": batch["image"] * 2, "thread": threading.current_thread().name}


def test_batch_map_gets_batches_as_the_user_does(tiny):
    torch = pytest.importorskip("torch")
    knobs = {"transforms": [CROP], "dtype": "float32", "output": "torch"}
    plain = everything(tiny, **knobs)
    made = everything(tiny, batch_map=doubled, **knobs)
    assert all(torch.equal(a["image"] * 2, b["image"]) for a, b in zip(plain, made, strict=True))
    assert {batch["thread"] for batch in made} == {"feedline-ahead"}
    both = everything(tiny, batch_map=lambda batch: (batch["image"], batch["label"]), map=fails_on_none, **knobs)
    assert torch.equal(both[0][0], plain[0]["image"])


SEEN = []


def watch(batch, rng):
    SEEN.append(int(batch["index"][0]))
    return {**batch, "drawn": rng.random()}


def test_batch_map_runs_ahead_and_resumes(tiny):
    SEEN.clear()
    knobs = {**BYTES, "fields": ["label"], "batch_size": 2, "prefetch": 2, "batch_map": watch}
    with fl.Loader(tiny, **knobs) as loader:
        running = iter(loader)
        first = next(running)
        deadline = time.monotonic() + 30
        while len(SEEN) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.1)
        assert SEEN == [0, 2, 4], "two batches ahead, no more"
        state = loader.state_dict()
        assert state["samples"] == 2
        rest = [batch["drawn"] for batch in running]
        assert first["drawn"] not in rest
    with fl.Loader(tiny, **knobs) as loader:
        loader.load_state_dict(state)
        assert [batch["drawn"] for batch in loader] == rest


def test_batch_map_errors_name_the_batch(tiny):
    def fail(batch):
        if 10 in batch["index"]:
            raise KeyError("ten")
        return batch

    with fl.Loader(tiny, **BYTES, batch_size=4, fields=["label"], batch_map=fail) as loader:
        loader.seek(1, 1)
        running = iter(loader)
        next(running)
        with pytest.raises(fl.DataError, match=r"batch 2 of epoch 1: batch_map failed: KeyError: 'ten'") as caught:
            next(running)
        assert isinstance(caught.value.__cause__, KeyError)
        assert [int(batch["index"][0]) for batch in running] == [12, 16, 20]


def test_a_batch_map_timeout_keeps_its_batch(tiny, tmp_path):
    def wait(batch):
        while not (tmp_path / "gate").exists():
            time.sleep(0.01)
        return batch

    with fl.Loader(tiny, **BYTES, batch_size=12, fields=["label"], batch_map=wait, timeout=0.2) as loader:
        running = iter(loader)
        with pytest.raises(fl.LoaderTimeoutError, match="batch_map has not returned"):
            next(running)
        assert loader.state_dict()["samples"] == 0
        (tmp_path / "gate").touch()
        running._core._timeout = 60
        assert [len(batch["index"]) for batch in running] == [12, 12]
