"""Undecoded values as views into the mapped files of a pack."""

from __future__ import annotations

import gc
import pickle
from pathlib import Path

import feedline as fl
import numpy as np
import pytest
import torch
from feedline import transforms as T

VIEWS = {"decode": "none", "views": True}


@pytest.fixture(scope="module")
def pack(many: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("views") / "pack"
    fl.pack(many, path, progress=False, part_bytes=60_000)
    return path


@pytest.mark.parametrize("output", ["numpy", "torch", "dlpack"])
@pytest.mark.parametrize("shuffle", [False, True, "block"])
def test_the_same_bytes_as_copies(pack: Path, output: str, shuffle: bool | str) -> None:
    knobs = {"batch_size": 16, "shuffle": shuffle, "num_workers": 2, "seed": 3}
    dataset = fl.open(pack)
    with fl.Loader(dataset, decode="none", output="numpy", **knobs) as plain:
        with fl.Loader(dataset, output=output, **VIEWS, **knobs) as views:
            for copied, batch in zip(plain, views, strict=True):
                image = batch["image"]
                assert isinstance(image, fl.Ragged)
                assert len(image) == len(copied["image"])
                for one, two in zip(image, copied["image"], strict=True):
                    assert np.array_equal(np.asarray(one), two)
                assert [np.asarray(image[i]).tobytes() for i in range(len(image))] == [
                    value.tobytes() for value in copied["image"]
                ]
                assert image.lengths() == copied["image"].lengths()
                assert np.asarray(image.offsets).tolist() == copied["image"].offsets.tolist()
                assert np.array_equal(np.asarray(image.data), copied["image"].data)
                for name in ("label", "index", "image_size"):
                    assert np.array_equal(np.asarray(batch[name]), copied[name])


def test_values_are_mapped_and_outlive_the_loader(pack: Path) -> None:
    parts = sorted(pack.glob("*.fl"))
    assert len(parts) > 1
    loader = fl.Loader(fl.open(pack), batch_size=150, shuffle=True, output="numpy", **VIEWS)
    image = next(iter(loader))["image"]
    bases = {id(value.base if value.base.base is None else value.base.base) for value in image}
    assert len(bases) <= len(parts), "one array for each file"
    first = image[0]
    loader.close()
    del loader
    gc.collect()
    stored = b"".join(part.read_bytes() for part in parts)
    assert all(value.tobytes() in stored for value in image)
    del image
    gc.collect()
    assert first.tobytes() in stored


def test_writing_into_a_view_does_not_change_the_file(pack: Path) -> None:
    before = [part.read_bytes() for part in sorted(pack.glob("*.fl"))]
    with fl.Loader(fl.open(pack), batch_size=4, output="torch", **VIEWS) as loader:
        image = next(iter(loader))["image"][0]
        assert isinstance(image, torch.Tensor)
        image[:4] = 0
    assert [part.read_bytes() for part in sorted(pack.glob("*.fl"))] == before


def test_parts_and_pickles(pack: Path) -> None:
    with fl.Loader(fl.open(pack), batch_size=8, output="numpy", **VIEWS) as loader:
        image = next(iter(loader))["image"]
    assert [v.tobytes() for v in image[2:7:2]] == [image[i].tobytes() for i in (2, 4, 6)]
    assert image[-1].tobytes() == image[7].tobytes()
    with pytest.raises(IndexError):
        image[8]
    copy = pickle.loads(pickle.dumps(image))
    assert [v.tobytes() for v in copy] == [v.tobytes() for v in image]
    assert "views" in repr(image)


def test_resume_ranks_and_wrapped_sets(pack: Path) -> None:
    dataset = fl.concat([fl.open(pack), fl.open(pack)]).select(range(20, 280))
    knobs = {"batch_size": 10, "shuffle": True, "output": "numpy"}
    with fl.Loader(dataset, **VIEWS, **knobs) as loader:
        whole = [[v.tobytes() for v in batch["image"]] for batch in loader]
        loader.set_epoch(0)
        running = iter(loader)
        for _ in range(3):
            next(running)
        state = loader.state_dict()
    with fl.Loader(dataset, decode="none", **knobs) as other:
        other.load_state_dict(state)
        assert [[v.tobytes() for v in batch["image"]] for batch in other] == whole[3:]
    halves = [fl.Loader(dataset, rank=rank, world_size=2, **VIEWS, **knobs | {"batch_size": 5}) for rank in (0, 1)]
    joined = [[v.tobytes() for v in [*a["image"], *b["image"]]] for a, b in zip(halves[0], halves[1], strict=True)]
    assert joined == whole


def test_a_list_of_views(pack: Path) -> None:
    with fl.Loader(fl.open(pack), batch_size=4, output="numpy", collate="list", **VIEWS) as loader:
        assert all(isinstance(value, np.ndarray) for value in next(iter(loader))["image"])


def test_refused_with_the_reason(pack: Path, many: Path, tmp_path: Path) -> None:
    dataset = fl.open(pack)
    wrong = [
        ({"views": True}, "decode='none'"),
        ({**VIEWS, "pin_memory": True}, "pin_memory copies"),
        ({**VIEWS, "collate": "pad"}, "collate copies"),
        ({**VIEWS, "collate": {"image": "stack"}}, "collate copies"),
        ({**VIEWS, "fields": ["label"]}, "no field is loaded"),
        ({"views": True, "transforms": [T.CenterCrop(8)]}, "decode='none'"),
    ]
    for knobs, reason in wrong:
        with pytest.raises(fl.OptionError, match=reason):
            fl.Loader(dataset, **knobs)
    with pytest.raises(fl.OptionError, match="only for packs on this machine: this is folder"):
        fl.Loader(fl.open(many), **VIEWS)
    compact = tmp_path / "compact"
    fl.pack(many, compact, image="compact", progress=False)
    with fl.Loader(fl.open(compact), **VIEWS) as loader, pytest.raises(fl.Error, match="compact"):
        list(loader)


def test_a_pack_that_was_truncated_before_is_an_error(pack: Path, tmp_path: Path) -> None:
    copy = tmp_path / "pack"
    copy.mkdir()
    for file in pack.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    dataset = fl.open(copy)
    dataset[0]
    part = sorted(copy.glob("*.fl"))[0]
    part.write_bytes(part.read_bytes()[:-10])
    with fl.Loader(dataset, **VIEWS) as loader, pytest.raises(fl.Error, match=part.name):
        list(loader)
