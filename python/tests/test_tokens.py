"""Windows of tokens and packed sequences, beside models in NumPy."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import feedline as fl
import numpy as np
import pytest
from feedline import samplers
from feedline import transforms as T
from feedline.errors import OptionError
from made_images import make_folder

RECORDED = Path(__file__).parents[2] / "testdata" / "formats" / "litdata"


def stream(count, dtype="uint16", seed=0):
    return np.random.default_rng(seed).integers(0, min(50_000, np.iinfo(dtype).max), count).astype(dtype)


def megatron(path, documents, code=8):
    """Megatron's files, as its IndexedDatasetBuilder writes them: one sequence for each document."""
    np.concatenate(documents).tofile(path.with_suffix(".bin"))
    sizes = np.array([len(document) for document in documents], np.int32)
    pointers = np.concatenate([[0], np.cumsum(sizes[:-1] * documents[0].itemsize)]).astype(np.int64)
    with path.with_suffix(".idx").open("wb") as out:
        out.write(b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, code, len(sizes), len(sizes) + 1))
        out.write(sizes.tobytes() + pointers.tobytes() + np.arange(len(sizes) + 1, dtype=np.int64).tobytes())


def batches(ds, *ops, **knobs):
    knobs = {"output": "numpy", "num_workers": 2, **knobs}
    with fl.Loader(ds, transforms={"tokens": list(ops)}, **knobs) as loader:
        return list(loader)


def joined(found, name):
    return np.concatenate([batch[name] for batch in found])


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
@pytest.mark.parametrize(("size", "stride"), [(16, None), (7, 3), (5, 11)])
def test_windows_equal_numpys(tmp_path, dtype, size, stride):
    tokens = stream(1000, dtype)
    tokens.tofile(tmp_path / "train.bin")
    ds = fl.open(tmp_path / "train.bin", format="tokens", dtype=dtype)
    assert (ds.format, len(ds), ds.schema) == ("tokens", 1, {"tokens": "array"})
    found = batches(ds, T.TokenWindow(size, targets=True, stride=stride), batch_size=8)
    model = np.lib.stride_tricks.sliding_window_view(tokens, size + 1)[:: stride or size].astype(np.int64)
    assert found[0]["tokens"].dtype == np.int64
    assert np.array_equal(joined(found, "tokens"), model[:, :-1])
    assert np.array_equal(joined(found, "targets"), model[:, 1:])
    assert joined(found, "index").tolist() == list(range(len(model)))


def test_shards_are_one_stream(tmp_path):
    parts = [stream(count, seed=count) for count in (100, 1, 257, 42)]
    for number, part in enumerate(parts):
        part.tofile(tmp_path / f"shard-{number:03}.bin")
    whole = np.concatenate(parts).astype(np.int64)
    model = np.lib.stride_tricks.sliding_window_view(whole, 11)[::10]
    names = [tmp_path / f"shard-{number:03}.bin" for number in range(4)]
    for given in (names, str(tmp_path / "shard-*.bin"), str(tmp_path / "shard-{000..003}.bin"), tmp_path):
        ds = fl.open(given, format="tokens", dtype=np.uint16)
        assert np.array_equal(joined(batches(ds, T.TokenWindow(10, True)), "tokens"), model[:, :-1])
    within = batches(fl.open(names, format="tokens", dtype="uint16"), T.TokenWindow(10, across=False))
    model = np.concatenate([part[: len(part) // 10 * 10].reshape(-1, 10) for part in parts])
    assert np.array_equal(joined(within, "tokens"), model)


def test_megatrons_documents(tmp_path):
    documents = [stream(count, seed=count) for count in (5, 100, 33, 1, 61)]
    megatron(tmp_path / "text", documents)
    ds = fl.open(tmp_path / "text.bin")
    assert (ds.format, len(ds)) == ("tokens", 5)
    assert all(np.array_equal(ds[at]["tokens"], document) for at, document in enumerate(documents))
    whole = np.concatenate(documents)
    model = whole[: len(whole) // 16 * 16].reshape(-1, 16)
    assert np.array_equal(joined(batches(ds, T.TokenWindow(16)), "tokens"), model)
    # A split by documents: the windows of its parts.
    chosen = [4, 1]
    whole = np.concatenate([documents[at] for at in chosen])
    found = joined(batches(ds.select(chosen), T.TokenWindow(16)), "tokens")
    assert np.array_equal(found, whole[: len(whole) // 16 * 16].reshape(-1, 16))


@pytest.mark.parametrize("name", ["tokens", "tokens-0.2.45"])
def test_litdatas_tokens(name):
    ds = fl.open(RECORDED / name)
    (field,) = ds.schema
    whole = np.concatenate([ds[at][field] for at in range(len(ds))]).astype(np.int64)
    with fl.Loader(ds, transforms=[T.TokenWindow(3, targets=True)], batch_size=2, output="numpy") as loader:
        found = list(loader)
    model = np.lib.stride_tricks.sliding_window_view(whole, 4)[::3]
    assert np.array_equal(joined(found, field), model[:, :-1])
    assert np.array_equal(joined(found, "targets"), model[:, 1:])


def test_random_windows_begin_anywhere(tmp_path):
    tokens = stream(5000)
    tokens.tofile(tmp_path / "x.bin")
    ds = fl.open(tmp_path / "x.bin", format="tokens", dtype="uint16")
    with fl.Loader(ds, transforms=[T.TokenWindow(50, True, policy="random")], batch_size=16, seed=3) as loader:
        first, second = [list(loader) for _ in range(2)]
    starts = [np.concatenate([batch["index"].numpy() for batch in epoch]) for epoch in (first, second)]
    assert len(starts[0]) == 100
    assert len(np.unique(starts[0] % 50)) > 30
    assert not np.array_equal(*starts)
    for batch in first:
        for start, window, target in zip(batch["index"], batch["tokens"], batch["targets"], strict=True):
            assert np.array_equal(window, tokens[start : start + 50].astype(np.int64))
            assert np.array_equal(target, tokens[start + 1 : start + 51].astype(np.int64))


@pytest.mark.parametrize("policy", ["sequential", "random"])
def test_resumes_at_every_batch_and_on_other_ranks(tmp_path, policy):
    stream(2000).tofile(tmp_path / "x.bin")
    ds = fl.open(tmp_path / "x.bin", format="tokens", dtype="uint16")
    shuffled = {"shuffle": policy == "sequential", "seed": 7, "output": "numpy"}
    ops = {"transforms": [T.TokenWindow(20, True, policy=policy)]}
    with fl.Loader(ds, batch_size=8, **ops, **shuffled) as loader:
        whole, states = [], []
        for batch in loader:
            whole.append(batch)
            states.append(json.dumps(loader.state_dict()))
    for at, state in enumerate(states[:-1]):
        with fl.Loader(ds, batch_size=8, **ops, **shuffled) as loader:
            loader.load_state_dict(json.loads(state))
            assert np.array_equal(joined(list(loader), "tokens"), joined(whole[at + 1 :], "tokens"))
    halves = []
    for rank in range(2):
        with fl.Loader(ds, batch_size=4, rank=rank, world_size=2, **ops, **shuffled) as loader:
            loader.load_state_dict(json.loads(states[1]))
            halves.append(list(loader))
    for ours, *parts in zip(whole[2:], *halves, strict=True):
        assert np.array_equal(ours["targets"], joined(parts, "targets"))


def test_a_trillion_tokens_start_at_once(tmp_path):
    with (tmp_path / "x.bin").open("wb") as out:
        try:
            out.truncate(2 * 10**12)
        except OSError:
            pytest.skip("this file system has no files of two terabytes")
    ds = fl.open(tmp_path / "x.bin", format="tokens", dtype="uint16")
    with fl.Loader(ds, transforms=[T.TokenWindow(1024, True)], shuffle=True, batch_size=4) as loader:
        assert len(loader) == -(-((10**12 - 1025) // 1024 + 1) // 4)
        assert next(iter(loader))["tokens"].shape == (4, 1024)


def test_impossible_settings_are_refused(tmp_path):
    stream(100).tofile(tmp_path / "x.bin")
    path = tmp_path / "x.bin"
    ds = fl.open(path, format="tokens", dtype="uint16")
    for make, words in [
        (lambda: fl.open(path, format="tokens"), "dtype"),
        (lambda: fl.open(path, format="tokens", dtype="float32"), "dtype"),
        (lambda: fl.open(path, format="tokens", dtype="uint16", split="train"), "no splits"),
        (lambda: T.TokenWindow(0), "size"),
        (lambda: T.TokenWindow(8, stride=4, policy="random"), "stride"),
        (lambda: fl.Loader(ds, transforms=[T.TokenWindow(100, targets=True)]), "101 tokens"),
        (lambda: fl.Loader(ds, transforms={"tokens": [T.CenterCrop(8)]}), "TokenWindow"),
        (lambda: fl.Loader(ds, transforms=[T.TokenWindow(8)], sampler=samplers.TorchRandom()), "windows"),
        (lambda: fl.Loader(ds, transforms=[T.TokenWindow(8, policy="random")], sampler=[0]), "sampler"),
        (lambda: T.apply([T.TokenWindow(8)], np.zeros((9, 9, 3), np.uint8)), "tokens"),
    ]:
        with pytest.raises(fl.Error, match=words):
            make()
    huge = np.array([1, 2**64 - 1, 3], np.uint64)
    huge.tofile(tmp_path / "huge.bin")
    ds = fl.open(tmp_path / "huge.bin", format="tokens", dtype="uint64")
    with pytest.raises(fl.Error, match="64-bit"), fl.Loader(ds, transforms=[T.TokenWindow(3)]) as loader:
        list(loader)


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """200 texts of 1 to 60 tokens, each token of a text its number."""
    lengths = np.random.default_rng(1).integers(1, 60, 200)
    samples = [{"tokens": np.full(n, at, np.int64), "n": int(n)} for at, n in enumerate(lengths)]
    return fl.pack(samples, tmp_path_factory.mktemp("texts") / "pack", progress=False), lengths


def rows_of(batch):
    """The samples of every row."""
    return [batch["index"][a:b].tolist() for a, b in zip(batch["rows"][:-1], batch["rows"][1:], strict=True)]


@pytest.mark.parametrize("given", ["tokens", "n", "list"])
def test_packed_rows_are_flat_sequences(texts, given):
    ds, lengths = texts
    packed = samplers.Packed(128, lengths if given == "list" else given, window=64)
    with fl.Loader(ds, batch_size=4, sampler=packed, seed=5, output="numpy") as loader:
        count, found = len(loader), list(loader)
    assert count == len(found)
    seen = []
    for batch in found:
        bounds, tokens = batch["cu_seqlens"], batch["tokens"]
        assert (bounds.dtype, batch["position_ids"].dtype, batch["rows"].dtype) == (np.int32, np.int64, np.int64)
        assert np.array_equal(bounds, tokens.offsets)
        assert np.array_equal(tokens.data, np.repeat(batch["index"], np.diff(bounds)))
        places = np.concatenate([np.arange(lengths[at]) for at in batch["index"]])
        assert np.array_equal(batch["position_ids"], places)
        for row in rows_of(batch):
            assert 0 < lengths[row].sum() <= 128
            seen += row
    assert sorted(seen) == list(range(200))
    assert all(len(batch["rows"]) == 5 for batch in found[:-1])


def test_packed_rows_resume_and_are_the_same_on_any_ranks(texts):
    ds, _ = texts
    packed = samplers.Packed(100, "n", window=50)
    with fl.Loader(ds, batch_size=4, sampler=packed, seed=5, output="numpy") as loader:
        epochs = [[rows_of(batch) for batch in loader] for _ in range(2)]
        assert epochs[0] != epochs[1]
        states, loader_rows = [], []
        loader.seek(1)
        for batch in loader:
            loader_rows.append(rows_of(batch))
            states.append(loader.state_dict())
        assert loader_rows == epochs[1]
    for at, state in enumerate(states[:-1]):
        with fl.Loader(ds, batch_size=4, sampler=packed, seed=5, output="numpy") as loader:
            loader.load_state_dict(state)
            assert [rows_of(batch) for batch in loader] == epochs[1][at + 1 :]
    parts = []
    for rank in range(2):
        with fl.Loader(ds, batch_size=2, rank=rank, world_size=2, sampler=packed, seed=5, output="numpy") as loader:
            loader.load_state_dict(states[0])
            parts.append([rows_of(batch) for batch in loader])
    assert [a + b for a, b in zip(*parts, strict=True)] == epochs[1][1:]


def test_images_and_text_share_rows(tmp_path):
    ds = fl.open(make_folder(tmp_path / "photos", per_class=8, size=(64, 48)))
    packed = samplers.Packed(60, [3] * len(ds), patches={"image": 16})
    sizes = np.array([sample["image"].shape[:2] for sample in ds.decoded()])
    lengths = 3 + (-(-sizes // 16)).prod(axis=1)
    ops = [T.CenterCrop(32)]
    with fl.Loader(ds, batch_size=2, sampler=packed, transforms=ops, output="numpy") as loader:
        for batch in loader:
            assert batch["image"].shape == (len(batch["index"]), 3, 32, 32)
            assert np.array_equal(np.diff(batch["cu_seqlens"]), lengths[batch["index"]])
            assert np.diff(batch["rows"]).max() >= 2


def test_impossible_packing_is_refused(texts):
    ds, lengths = texts
    for knobs, words in [
        ({"sampler": samplers.Packed(20, "n")}, "drop_long"),
        ({"sampler": samplers.Packed(99, [1, 2])}, "2 lengths for 200"),
        ({"sampler": samplers.Packed(99, "nothing")}, "nothing"),
        ({"sampler": samplers.Packed(99, "n", patches={"image": 14})}, "image"),
        ({"sampler": samplers.Packed(99, "n"), "on_error": "replace"}, "substitute"),
        ({"sampler": samplers.Packed(99, "n"), "shuffle": True}, "shuffle"),
    ]:
        with pytest.raises(OptionError, match=words):
            fl.Loader(ds, **knobs)
    with fl.Loader(ds, sampler=samplers.Packed(20, "n", drop_long=True), output="numpy") as loader:
        seen = np.concatenate([batch["index"] for batch in loader])
    assert sorted(seen) == np.flatnonzero(lengths <= 20).tolist()


def test_a_million_samples_are_packed_well(tmp_path):
    ds = fl.pack([{"n": 1}], tmp_path / "one", progress=False).select(np.zeros(10**6, int))
    draw = np.random.default_rng(2)
    image = draw.random(10**6) < 0.94
    texts = np.where(image, 180, 600) * np.exp(draw.normal(0, 0.8, 10**6))
    lengths = np.minimum(texts.astype(int) + 20 + np.where(image, 576, 0), 4096)
    with fl.Loader(ds, sampler=samplers.Packed(4096, lengths), batch_size=1) as loader:
        assert lengths.sum() / (4096 * len(loader)) > 0.97
