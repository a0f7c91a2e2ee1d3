"""Batches in page-locked memory, with a stand-in for torch's allocator: no GPU is here."""

from __future__ import annotations

import gc
import sys
import threading
from pathlib import Path
from typing import Any

import feedline as fl
import numpy as np
import pytest
import torch
from feedline import _pinned
from feedline import transforms as T


class Allocator:
    """Plain memory in the place of page-locked memory: who asked for what, and what was copied."""

    def __init__(self) -> None:
        self.given: dict[int, torch.Tensor] = {}
        self.threads: set[int] = set()
        self.devices: set[int] = set()
        self.copied: list[torch.Tensor] = []
        self.fails = False

    def empty(self, length: int, device: int) -> torch.Tensor:
        if self.fails:
            raise RuntimeError("no more pages can be locked")
        tensor = torch.full((length,), 0xA5, dtype=torch.uint8)
        self.given[tensor.data_ptr()] = tensor
        self.threads.add(threading.get_ident())
        self.devices.add(device)
        return tensor

    def locked(self, tensor: torch.Tensor) -> torch.Tensor:
        self.copied.append(tensor)
        return tensor.clone()


@pytest.fixture
def allocator(monkeypatch: pytest.MonkeyPatch) -> Allocator:
    made = Allocator()
    monkeypatch.setattr(_pinned, "available", lambda: True)
    monkeypatch.setattr(_pinned, "current_device", lambda: 3)
    monkeypatch.setattr(_pinned, "empty", made.empty)
    monkeypatch.setattr(_pinned, "locked", made.locked)
    return made


def knobs(**more: Any) -> dict[str, Any]:
    crop = [T.RandomResizedCrop(16), T.Normalize.imagenet()]
    return {"batch_size": 5, "shuffle": True, "transforms": crop, "output": "torch", **more}


def test_batches_are_made_in_page_locked_memory(folder: Path, allocator: Allocator) -> None:
    """Every dense column is a view of memory from the allocator, filled by the engine's threads and never copied."""
    ds = fl.open(folder)
    plain = list(fl.Loader(ds, **knobs()))
    pinned = list(fl.Loader(ds, **knobs(pin_memory=True)))
    for one, other in zip(plain, pinned, strict=True):
        assert one.keys() == other.keys()
        for name in ("image", "label", "index"):
            assert (one[name] == other[name]).all(), name
            assert (one[name].dtype, one[name].shape) == (other[name].dtype, other[name].shape)
            given = allocator.given[other[name].untyped_storage().data_ptr()]
            assert given.untyped_storage().data_ptr() == other[name].untyped_storage().data_ptr()
            assert other[name].untyped_storage()._cdata == given.untyped_storage()._cdata
    assert allocator.copied == []
    assert allocator.devices == {3}
    assert threading.get_ident() not in allocator.threads


def test_memory_of_ragged_columns_and_every_type(allocator: Allocator) -> None:
    rows = [
        {"boxes": np.arange(4 * n, dtype=np.float32).reshape(n, 4), "flag": n % 2 == 0, "wide": np.uint16([n, 60000])}
        for n in range(7)
    ]
    ds = fl.open(rows, schema={"boxes": "array", "flag": "int", "wide": "array"})
    plain, pinned = (list(fl.Loader(ds, batch_size=3, output="torch", pin_memory=pin)) for pin in (False, True))
    for one, other in zip(plain, pinned, strict=True):
        assert (one["boxes"].data == other["boxes"].data).all()
        assert (one["boxes"].offsets == other["boxes"].offsets).all()
        assert other["boxes"].data.untyped_storage().data_ptr() in allocator.given
        assert one["wide"].data.dtype == other["wide"].data.dtype == torch.uint16
        assert one["wide"].data.tolist() == other["wide"].data.tolist()
        assert (one["flag"] == other["flag"]).all()
    # Offsets are made in Python; they are small and are copied.
    assert all(tensor.dtype == torch.int64 and tensor.ndim == 1 for tensor in allocator.copied)


def test_memory_is_returned_when_the_last_tensor_is_dropped(folder: Path, allocator: Allocator) -> None:
    """Nothing is reused behind the allocator's back, and nothing is kept."""
    loader = fl.Loader(fl.open(folder), **knobs(pin_memory=True))
    kept = next(iter(loader))["image"]
    before = kept.clone()
    for _ in range(3):
        list(loader)
    assert (kept == before).all()
    addresses = [tensor.data_ptr() for tensor in allocator.given.values()]
    assert len(addresses) == len(set(addresses))
    asked = len(allocator.given)
    loader.close()
    del loader, kept
    gc.collect()
    # Batches x columns (image, label, index) x passes; of the first pass, as much as was prepared.
    assert asked >= 3 * 3 * 3
    assert all(sys.getrefcount(tensor) <= 3 for tensor in allocator.given.values())


def test_resume_and_functions(folder: Path, allocator: Allocator) -> None:
    ds = fl.open(folder)
    loader = fl.Loader(ds, **knobs(pin_memory=True))
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()
    rest = list(iterator)
    again = fl.Loader(ds, **knobs(pin_memory=True))
    again.load_state_dict(state)
    assert all((one["image"] == other["image"]).all() for one, other in zip(rest, again, strict=True))
    asked = len(allocator.given)
    mapped = fl.Loader(ds, **knobs(pin_memory=True, map=lambda sample: sample, map_workers="threads"))
    assert len(list(mapped)) == 3
    assert len(allocator.given) == asked
    assert len(allocator.copied) > 0


def test_a_failed_allocation_is_an_error_with_its_reason(folder: Path, allocator: Allocator) -> None:
    allocator.fails = True
    with pytest.raises(MemoryError, match="no more pages can be locked"):
        next(iter(fl.Loader(fl.open(folder), **knobs(pin_memory=True))))
