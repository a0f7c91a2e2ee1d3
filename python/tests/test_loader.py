"""The loader as a user sees it: batches, order, outputs, errors."""

from __future__ import annotations

import pickle
import threading

import feedline as fl
import numpy as np
import pytest
import torch
from feedline import transforms as T

CROP = [T.RandomResizedCrop(24), T.RandomHorizontalFlip()]


def indices(loader):
    return [batch["index"].tolist() for batch in loader]


def stream(loader):
    """Everything a loader gives, as bytes."""
    return [(np.asarray(b["index"]).tobytes(), np.asarray(b["image"]).tobytes()) for b in loader]


def test_batches_are_torch_tensors_by_default(folder):
    with fl.Loader(folder, batch_size=5, transforms=CROP, fields=["image", "label", "path"]) as loader:
        assert len(loader) == 3
        batches = list(loader)
    assert [len(b["label"]) for b in batches] == [5, 5, 2]
    assert batches[0]["image"].dtype == torch.float32
    assert batches[0]["image"].shape == (5, 3, 24, 24)
    assert batches[0]["label"].dtype == torch.int64
    assert torch.cat([b["label"] for b in batches]).tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert batches[0]["path"][0].endswith("cat/000.jpg")


def test_drop_last_and_order(folder):
    with fl.Loader(folder, batch_size=5, drop_last=True, decode="none") as loader:
        assert indices(loader) == [list(range(5)), list(range(5, 10))]
        assert loader.stats()["dropped_per_epoch"] == 2


def test_shuffle_is_a_permutation_that_changes_with_seed_and_epoch(many):
    def epoch(seed, number):
        with fl.Loader(many, batch_size=7, shuffle=True, seed=seed, decode="none") as loader:
            loader.set_epoch(number)
            return sum(indices(loader), [])

    first = epoch(0, 0)
    assert sorted(first) == list(range(150))
    assert first == epoch(0, 0)
    assert first != epoch(0, 1)
    assert first != epoch(1, 0)


def test_each_iteration_is_the_next_epoch(many):
    with fl.Loader(many, batch_size=50, shuffle=True, decode="none") as loader:
        first, second = indices(loader), indices(loader)
        assert first != second
        loader.set_epoch(0)
        assert indices(loader) == first


def test_the_number_of_threads_changes_no_byte(many):
    results = []
    for threads in (1, 2, 7):
        with fl.Loader(
            many, batch_size=16, shuffle=True, transforms=CROP, num_workers=threads, output="numpy"
        ) as loader:
            results.append(stream(loader))
    assert results[0] == results[1] == results[2]


def test_pack_and_folder_give_the_same_bytes(many, tmp_path):
    packed = fl.pack(many, tmp_path / "pack", progress=False)
    results = []
    for dataset in (fl.open(many), packed):
        with fl.Loader(dataset, batch_size=16, shuffle=True, transforms=CROP, output="numpy") as loader:
            results.append(stream(loader))
    assert results[0] == results[1]


def test_ranks_share_an_epoch(many):
    seen = []
    for rank in range(4):
        with fl.Loader(many, batch_size=8, shuffle=True, rank=rank, world_size=4, decode="none") as loader:
            assert len(loader) == 5
            seen += sum(indices(loader), [])
    assert sorted(seen) == list(range(150))


def test_rank_is_found_in_the_environment(many, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with fl.Loader(many, batch_size=75, decode="none") as loader:
        assert indices(loader) == [list(range(75, 150))]


def test_undecoded_bytes_equal_the_files(folder, tmp_path):
    files = sorted(folder.rglob("*.jpg"))
    for dataset in (fl.open(folder), fl.pack(folder, tmp_path / "p", progress=False)):
        with fl.Loader(dataset, batch_size=6, decode="none", output="numpy") as loader:
            batches = list(loader)
        images = [bytes(image) for batch in batches for image in batch["image"]]
        assert images == [file.read_bytes() for file in files]
        for batch in batches:
            assert batch["image_size"].shape == (6, 2)
            assert batch["image"].offsets[0] == 0
            assert batch["image"].offsets[-1] == len(batch["image"].data)


@pytest.mark.parametrize("output", ["torch", "numpy", "jax", "dlpack"])
def test_outputs(folder, output):
    with fl.Loader(folder, batch_size=4, transforms=[T.CenterCrop(16)], output=output) as loader:
        batch = next(iter(loader))
    image = np.from_dlpack(batch["image"]) if output == "dlpack" else np.asarray(batch["image"])
    assert image.shape == (4, 3, 16, 16)
    assert 0.2 < image.mean() < 0.8


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "uint8"])
@pytest.mark.parametrize("memory_format", ["channels_first", "channels_last"])
def test_types_and_layouts(folder, dtype, memory_format):
    knobs = {"batch_size": 4, "transforms": [T.CenterCrop(16)], "dtype": dtype, "memory_format": memory_format}
    with fl.Loader(folder, **knobs) as loader:
        image = next(iter(loader))["image"]
    assert image.dtype == getattr(torch, dtype)
    assert image.shape == (4, 3, 16, 16)
    last = memory_format == "channels_last"
    assert image.is_contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)
    with fl.Loader(folder, **{**knobs, "output": "numpy"}) as loader:
        array = next(iter(loader))["image"]
    assert array.shape == ((4, 16, 16, 3) if last else (4, 3, 16, 16))


def test_nested_iteration(folder):
    with fl.Loader(folder, batch_size=4, decode="none") as loader:
        pairs = [(a["index"][0].item(), b["index"][0].item()) for a in loader for b in loader]
    assert pairs == [(a, b) for a in (0, 4, 8) for b in (0, 4, 8)]


def test_many_python_threads_share_one_loader(folder):
    results = []
    with fl.Loader(folder, batch_size=4, decode="none") as loader:
        loops = [threading.Thread(target=lambda: results.append(indices(loader))) for _ in range(4)]
        for loop in loops:
            loop.start()
        for loop in loops:
            loop.join()
    assert results == [[[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]] * 4


def test_early_break_leaves_the_loader_usable(many):
    with fl.Loader(many, batch_size=4, transforms=CROP) as loader:
        for _ in range(20):
            for batch in loader:
                assert len(batch["label"]) == 4
                break
        assert sum(len(b["label"]) for b in loader) == 150


def test_resume_in_the_middle(many):
    knobs = {"batch_size": 16, "shuffle": True, "transforms": CROP, "output": "numpy"}
    with fl.Loader(many, **knobs) as loader:
        whole = stream(loader)
    with fl.Loader(many, **knobs) as loader:
        iterator = iter(loader)
        for _ in range(3):
            next(iterator)
        state = loader.state_dict()
    with fl.Loader(many, **knobs) as loader:
        loader.load_state_dict(state)
        assert stream(loader) == whole[3:]
        assert loader.epoch == 1


def test_a_state_of_other_data_is_refused(many, folder):
    with fl.Loader(many, decode="none") as loader:
        state = loader.state_dict()
    with fl.Loader(folder, decode="none") as loader, pytest.raises(fl.StateError, match="fingerprint"):
        loader.load_state_dict(state)


def test_loaders_and_datasets_pickle(folder):
    with fl.Loader(folder, batch_size=4, transforms=CROP, shuffle=True, output="numpy") as loader:
        copy = pickle.loads(pickle.dumps(loader))
        assert stream(copy) == stream(loader)
        assert copy.options == loader.options
    dataset = fl.open(folder).select([3, 1])
    again = pickle.loads(pickle.dumps(dataset))
    assert again.fingerprint == dataset.fingerprint
    assert again[1]["path"] == dataset[1]["path"]


def test_a_closed_loader_says_so(folder):
    loader = fl.Loader(folder)
    loader.close()
    loader.close()
    with pytest.raises(fl.ClosedError, match="closed"):
        iter(loader)


def test_sampler_and_fields(folder):
    with fl.Loader(folder, batch_size=2, sampler=[5, 5, 0], fields=["label"]) as loader:
        batches = list(loader)
    assert [b["index"].tolist() for b in batches] == [[5, 5], [0]]
    assert set(batches[0]) == {"index", "label"}


@pytest.mark.parametrize(
    ("knobs", "named"),
    [
        ({"batch_size": 0}, "batch_size"),
        ({"dtype": "float99"}, "dtype"),
        ({"shuffle": "sideways"}, "shuffle"),
        ({"transforms": [T.CenterCrop]}, "parentheses"),
        ({"transforms": {"picture": []}}, "picture"),
        ({"fields": ["nothing"]}, "nothing"),
        ({"on_error": "ignore"}, "ignore"),
        ({"rank": 3, "world_size": 2}, "rank"),
        ({"rank": 3}, "world_size"),
        ({"sampler": [99]}, "99"),
        ({"output": "tensorflow"}, "output"),
        ({"collate": "crumple"}, "collate"),
        ({"cache_dir": "/tmp"}, "cache_dir"),
        ({"memory_budget": 10}, "memory_budget"),
        ({"transforms": [T.Normalize.imagenet()], "dtype": "uint8"}, "uint8"),
        ({"transforms": [T.CenterCrop(8)], "decode": "none"}, "decode"),
    ],
)
def test_impossible_settings_are_refused_by_name(folder, knobs, named):
    with pytest.raises(fl.OptionError, match=named):
        fl.Loader(folder, **knobs)


def test_ragged_pad_and_list(folder):
    with fl.Loader(folder, batch_size=4, dtype="uint8", output="numpy") as loader:
        ragged = next(iter(loader))["image"]
    assert [tuple(image.shape) for image in ragged] == ragged.shapes
    with fl.Loader(
        folder,
        batch_size=4,
        dtype="uint8",
        output="numpy",
        fields=["image", "path"],
        collate={"image": "pad", "path": "list"},
    ) as loader:
        batch = next(iter(loader))
    padded = batch["image"]
    assert padded.shape == (4, 3, max(s[1] for s in ragged.shapes), max(s[2] for s in ragged.shapes))
    for row, image in enumerate(ragged):
        assert np.array_equal(padded[row][:, : image.shape[1], : image.shape[2]], image)
    assert batch["path"][0].endswith("000.jpg")


def test_stats_show_where_the_time_goes(many):
    with fl.Loader(many, batch_size=16, transforms=CROP) as loader:
        list(loader)
        stats = loader.stats()
    assert stats["samples"] == 150
    assert stats["seconds"]["decode"] > 0
    assert stats["seconds"]["transform"] > 0
    assert stats["bytes_read"] > 0
    assert isinstance(stats["bottleneck"], str)


def test_options_object(folder):
    options = fl.LoaderOptions().with_batch_size(6).drop_last(True).with_decode("none")
    with fl.Loader(folder, options=options) as loader:
        assert len(loader) == 2
        assert loader.options["drop_last"] is True
    with fl.Loader(folder, options=options, batch_size=12) as loader:
        assert len(loader) == 1


def test_a_field_name_with_a_dot_is_not_a_view(tmp_path):
    rows = [{"scores.npy": np.arange(3) + number, "a.b": number} for number in range(4)]
    ds = fl.pack(rows, tmp_path / "dots", progress=False)
    with fl.Loader(ds, batch_size=4, output="numpy", collate={"scores.npy": "stack"}) as loader:
        (batch,) = loader
    assert batch["scores.npy"].tolist() == [[n, n + 1, n + 2] for n in range(4)]
    assert batch["a.b"].tolist() == [0, 1, 2, 3]
