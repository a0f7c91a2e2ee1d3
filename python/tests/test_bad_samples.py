"""Who takes the place of a bad sample, how bad samples are counted and what they are called; storage that fails."""

from __future__ import annotations

import io
import json
import threading
from pathlib import Path

import feedline as fl
import numpy as np
import pytest
from feedline import transforms as T
from PIL import Image
from web import Handler, serving

CROP = {"transforms": [T.CenterCrop(8)], "output": "numpy"}


def image_bytes(width: int = 16, height: int = 16) -> bytes:
    pixels = np.random.default_rng(width * 1000 + height).integers(0, 255, (height, width, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "jpeg")
    return out.getvalue()


def make(folder: Path, count: int, bad: set[int], sizes: tuple[tuple[int, int], ...] = ((16, 16),)) -> fl.Dataset:
    """Images `000.jpg` and so on, in turn of these sizes; the bad ones are cut short, behind their header."""
    folder.mkdir()
    whole = [image_bytes(*size) for size in sizes]
    for number in range(count):
        data = whole[number % len(whole)]
        (folder / f"{number:04}.jpg").write_bytes(data[:-80] if number in bad else data)
    return fl.open(folder)


def indices(loader: fl.Loader) -> list[int]:
    return [int(index) for batch in loader for index in batch["index"]]


def test_substitutes_come_only_from_the_order(tmp_path: Path) -> None:
    dataset = make(tmp_path / "d", 60, set(range(0, 60, 3)))
    some = list(range(30))
    weights = [1.0 if n < 30 else 0.0 for n in range(60)]
    for sampler in (
        some,
        range(30),
        fl.samplers.Weighted(weights, num_samples=60),
        fl.samplers.Weighted(weights, num_samples=30, replacement=False),
    ):
        with fl.Loader(dataset, sampler=sampler, batch_size=7, on_error="replace", **CROP) as loader:
            for _ in range(5):
                had = indices(loader)
                assert len(had) == (60 if len(had) > 30 else 30)
                assert all(index < 30 and index % 3 for index in had)


def test_substitutes_come_from_the_same_bucket(tmp_path: Path) -> None:
    """Batches of whole images can be stacked: a substitute has the size of the rest."""
    dataset = make(tmp_path / "d", 90, set(range(0, 90, 7)), sizes=((16, 16), (24, 16), (16, 24)))
    sampler = fl.samplers.Buckets()
    with fl.Loader(
        dataset, sampler=sampler, batch_size=5, on_error="replace", collate={"image": "stack"}, output="numpy"
    ) as loader:
        for _ in range(4):
            batches = list(loader)
            assert len(batches) == 18
            for batch in batches:
                assert len({int(index) % 3 for index in batch["index"]}) == 1
                assert batch["image"].shape[0] == 5


@pytest.mark.parametrize("on_error", ["skip", "replace"])
def test_images_without_a_size_are_bad_samples_of_the_fullest_bucket(tmp_path: Path, on_error: str) -> None:
    """It is unknown where they belong; with `raise` the loader says so when it is made."""
    sizes = ((16, 16), (24, 16), (24, 16))
    dataset = make(tmp_path / "d", 60, set(), sizes=sizes)
    for number in (3, 4, 50):
        (tmp_path / "d" / f"{number:04}.jpg").write_bytes(b"\xff\xd8\xff nothing")
    dataset = fl.open(tmp_path / "d")
    knobs = {"sampler": fl.samplers.Buckets(), "batch_size": 5, "collate": {"image": "stack"}, "output": "numpy"}
    with pytest.raises(fl.SampleError, match="sample 3"):
        fl.Loader(dataset, **knobs)
    with fl.Loader(dataset, on_error=on_error, **knobs) as loader:
        batches = list(loader)
        assert sorted(error["index"] for error in loader.errors()) == [3, 4, 50]
    counts = [len(batch["index"]) for batch in batches]
    # 19 of the first size, so the three wait among the 38 + 3 others.
    assert sum(counts) == (60 if on_error == "replace" else 57)
    for batch in batches:
        assert len({bool(index % 3) for index in batch["index"].tolist()}) == 1


def test_substitutes_come_from_the_same_member_of_a_mix(tmp_path: Path) -> None:
    first = make(tmp_path / "a", 40, set(range(0, 40, 2)))
    second = make(tmp_path / "b", 60, set())
    mixed = fl.mix([(first, 0.5), (second, 0.5)], epoch_samples=60)
    with fl.Loader(mixed, batch_size=10, on_error="replace", **CROP) as loader:
        for _ in range(4):
            assert sum(index < 40 for index in indices(loader)) == 30


def test_no_substitute_left_is_an_error(tmp_path: Path) -> None:
    dataset = make(tmp_path / "d", 20, {3, 4})
    with fl.Loader(dataset, sampler=[3, 4, 3], on_error="replace", **CROP) as loader:
        with pytest.raises(fl.TooManyBadSamplesError, match=r"sample 3 is bad and so are all 1 substitutes.*0004\.jpg"):
            list(loader)
    with fl.Loader(dataset, sampler=[3], on_error="replace", **CROP) as loader:
        with pytest.raises(fl.TooManyBadSamplesError, match=r"sample 3 is bad and .* no other sample.*0003\.jpg"):
            list(loader)


def test_bad_samples_count_once(tmp_path: Path) -> None:
    bad = {1, 50, 51, 99, 120, 150, 199}
    dataset = make(tmp_path / "d", 200, bad)
    for policy in ("skip", "replace"):
        with fl.Loader(dataset, shuffle=True, batch_size=50, on_error=policy, max_errors=7, **CROP) as loader:
            for _ in range(5):
                had = indices(loader)
                assert not bad & set(had)
                assert len(had) == (200 if policy == "replace" else 193)
            assert {error["index"] for error in loader.errors()} == bad
            assert len(loader.errors()) == 7
    for words in ("100 in a row", "1 %", "at least"):
        assert words in " ".join((fl.Loader.__doc__ or "").split())


def test_a_resumed_run_stops_at_the_same_bad_sample(tmp_path: Path) -> None:
    dataset = make(tmp_path / "d", 60, set(range(2, 60, 6)))
    knobs = {"batch_size": 4, "shuffle": True, "seed": 7, "on_error": "skip", "max_errors": 6, **CROP}

    def run(state: dict | None) -> tuple[list[list[int]], list[dict]]:
        with fl.Loader(dataset, **knobs) as loader:
            if state is not None:
                loader.load_state_dict(state)
            had: list[list[int]] = []
            states = [loader.state_dict()]
            with pytest.raises(fl.TooManyBadSamplesError):
                for batch in loader:
                    had.append(batch["index"].tolist())
                    states.append(json.loads(json.dumps(loader.state_dict())))
            return had, states

    whole, states = run(None)
    assert len(whole) > 5
    for number in (1, len(whole) // 2, len(whole)):
        assert run(states[number])[0] == whole[number:]
    with fl.Loader(dataset, batch_size=4, **CROP) as clean:
        assert "bad" not in clean.state_dict()


def test_errors_batches_and_exceptions_use_the_same_numbers(tmp_path: Path) -> None:
    bad = make(tmp_path / "d", 20, {17})
    other = make(tmp_path / "e", 10, set())
    sets = {
        "plain": (bad, 17),
        "select": (bad.select([4, 17, 5]), 1),
        "concat": (fl.concat([other, bad]), 27),
        "mix": (fl.mix([(other, 0.5), (bad, 0.5)], epoch_samples=40), 27),
        "both": (fl.concat([other, bad.select([17, 2])]), 10),
        "cached": (bad.select([17, 5]).cached(tmp_path / "cache"), 0),
    }
    for name, (dataset, index) in sets.items():
        with fl.Loader(dataset, on_error="skip", **CROP) as loader:
            had = indices(loader)
            (error,) = loader.errors()
        assert index not in had, name
        assert (error["index"], error["source_index"]) == (index, 17), name
        with fl.Loader(dataset, **CROP) as loader, pytest.raises(fl.SampleError) as caught:
            list(loader)
        assert (caught.value.sample, caught.value.source_sample) == (index, 17), name
        assert (f"sample {index} (17 of its source)" in str(caught.value)) == (index != 17), name
        with pytest.raises(fl.SampleError) as caught:
            dataset.decoded()[index]
        assert (caught.value.sample, caught.value.source_sample) == (index, 17), name


def test_errors_are_bounded_under_raise(tmp_path: Path) -> None:
    dataset = make(tmp_path / "d", 4, {1})
    with fl.Loader(dataset, batch_size=2, **CROP) as loader:
        for _ in range(20):
            with pytest.raises(fl.SampleError):
                list(loader)
        assert len(loader.errors()) == 1


def test_an_outage_is_not_a_bad_sample(tmp_path: Path) -> None:
    fl.pack(make(tmp_path / "d", 40, set()), tmp_path / "www" / "p", progress=False)
    with serving(tmp_path / "www") as address:
        options = {"retry_seconds": "0.2"}
        dataset = fl.open(f"{address}/p", storage_options=options)
        for policy in ("skip", "replace", "raise"):
            with fl.Loader(dataset, batch_size=10, on_error=policy, prefetch=1, num_workers=1, **CROP) as loader:
                Handler.broken = True
                iterator = iter(loader)
                with pytest.raises(fl.StorageError):
                    next(iterator)
                assert loader.errors() == []
                assert loader.state_dict()["samples"] == 0
                # The store is back: nothing was lost.
                Handler.broken = False
                assert [int(i) for batch in iterator for i in batch["index"]] == list(range(40))


def test_one_epoch_for_each_of_many_threads(tmp_path: Path) -> None:
    dataset = make(tmp_path / "d", 30, set())
    with fl.Loader(dataset, shuffle=True, batch_size=10, num_workers=2, **CROP) as loader:
        begun = threading.Barrier(6)
        found: list[tuple[int, ...]] = []

        def work() -> None:
            begun.wait()
            found.append(tuple(int(i) for batch in loader for i in batch["index"]))

        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(found)) == 6
        assert loader.epoch == 6
