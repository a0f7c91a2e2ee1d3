"""Wrong calls of everything public besides the loader's knobs: each is a `feedline.Error` that names what was wrong."""

from __future__ import annotations

import inspect
import itertools
from pathlib import Path

import feedline as fl
import feedline.torch
import numpy as np
import pytest
from feedline import samplers
from feedline import transforms as T
from test_arguments import SAMPLERS, TRANSFORMS, WRONG, label, tried

MORE = [
    *WRONG, Path("/dev/null/such"), "/dev/null/no/such", "s3://", "nosuch://x", "~nobody/x", "\ud800", "a\0b", slice("a", None),
    slice(None, None, 0), np.array([True, False]), np.array([1.5]), -13, 12, 1e300, {"image": None}, {"image": ["a"]},
    {"a": object()}, [{"a": 1}, {"b": 2}], [{"a": object()}], [{}], [1, 2, "a"], [[1]],
]  # fmt: skip


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """A new place for whatever a call writes; calls that take a relative path write below it, too."""
    monkeypatch.chdir(tmp_path)
    numbers = itertools.count()
    return lambda: tmp_path / f"made-{next(numbers)}"


@pytest.fixture(scope="module")
def animals(folder):
    return fl.open(folder)


def every_argument(call, needed, names=None):
    """One argument after the other is everything it cannot be."""
    for name, value in itertools.product(names or inspect.signature(call).parameters, MORE):
        what = f"{call.__name__}({name}={label(value)})"
        said = tried(what, lambda name=name, value=value: call(**{**needed(), name: value}))
        if isinstance(said, str) and name not in ("uri", "source", "destination"):
            # What is wrong with a place the storage says, in its own words.
            assert said.startswith((f"{name}: ", f"{name} ")), what


def test_open(folder):
    every_argument(fl.open, lambda: {"uri": folder})


def test_pack(folder, fresh):
    every_argument(fl.pack, lambda: {"source": folder, "destination": fresh(), "progress": False})


def test_pack_of_rows(fresh):
    needed = {"source": [{"a": 1, "label": 0}], "progress": False}
    every_argument(
        fl.pack, lambda: {**needed, "destination": fresh()}, ["schema", "field_names", "classes", "part_bytes"]
    )


def test_convert(folder, fresh):
    every_argument(fl.convert, lambda: {"source": folder, "destination": fresh(), "progress": False, "to": "mds"})


def test_data_sets(animals, fresh):
    every_argument(animals.select, dict)
    every_argument(animals.cached, lambda: {"cache_dir": fresh()}, ["cache_dir", "image", "pack"])
    for value in MORE:
        shown = label(value)
        tried(f"[{shown}]", lambda value=value: animals[value])
        tried(f"split({shown})", lambda value=value: animals.split(value))
        tried(f"split(0.5, {shown})", lambda value=value: animals.split(0.5, value))
        tried(f"split(seed={shown})", lambda value=value: animals.split(0.5, seed=value))
        tried(f"several({shown})", lambda value=value: animals.__getitems__(value))
        tried(f"Loader({shown})", lambda value=value: fl.Loader(value).close())


@pytest.mark.parametrize("output", ["numpy", "torch"])
def test_ragged_values(animals, output):
    with fl.Loader(animals, batch_size=4, decode="none", output=output) as loader:
        values = next(iter(loader))["image"]
    for value in MORE:
        tried(f"ragged[{label(value)}]", lambda value=value: values[value])
        tried(f"Ragged({label(value)})", lambda value=value: fl.Ragged(value, np.array([0, 1]))[0])
        tried(f"Ragged(offsets={label(value)})", lambda value=value: fl.Ragged(np.arange(3), value)[0])
        if output == "torch":
            tried(f"to({label(value)})", lambda value=value: values.to(value))
    assert len(values[np.int64(-1)]) == len(values[3])


def test_transforms_on_one_image():
    image = np.zeros((16, 16, 3), np.uint8)
    flip = [T.RandomHorizontalFlip()]
    _, params = T.apply(flip, image, return_params=True)
    every_argument(T.apply, lambda: {"ops": flip, "image": image}, ["seed", "epoch", "index", "dtype", "return_params"])
    for value in MORE:
        tried(f"apply(ops={label(value)})", lambda value=value: T.apply(value, image))
        tried(f"apply(image={label(value)})", lambda value=value: T.apply(flip, value))
        tried(f"replay({label(value)})", lambda value=value: T.replay(value, image))
        for name in params:
            changed = {**params, name: value}
            tried(f"replay({name}={label(value)})", lambda changed=changed: T.replay(changed, image))
        tried(f"from_json({label(value)})", lambda value=value: T.from_json(value))
        tried(f"to_json({label(value)})", lambda value=value: T.to_json(value))
        tried(f"from_torchvision({label(value)})", lambda value=value: T.from_torchvision(value))
        tried(f"Python({label(value)})", lambda value=value: T.Python(value))
        tried(f"Python(as_={label(value)})", lambda value=value: T.Python(len, as_=value))


def test_torchs_iterable(animals):
    for value in MORE:
        tried(f"as_iterable({label(value)})", lambda value=value: feedline.torch.as_iterable(value))
    with fl.Loader(animals) as loader:
        batches = feedline.torch.as_iterable(loader)
        for value in MORE:
            tried(f"set_epoch({label(value)})", lambda value=value: batches.set_epoch(value))
            tried(f"load_state_dict({label(value)})", lambda value=value: batches.load_state_dict(value))


def test_missing_samples(animals):
    for wrong in (12, -13, 2**62):
        with pytest.raises(IndexError, match=f"index: {wrong} is not a sample of 12") as raised:
            animals[wrong]
        assert isinstance(raised.value, fl.Error)
    with pytest.raises(fl.Error, match="indices: 12 is not a sample of 12"):
        animals.select([0, 12])


NEEDED = dict([*SAMPLERS, *TRANSFORMS])


@pytest.mark.parametrize("kind", NEEDED, ids=lambda kind: kind.__name__)
def test_unknown_arguments_of_classes(kind):
    with pytest.raises(fl.OptionError, match=f"{kind.__name__}: .*no_such") as raised:
        kind(**NEEDED[kind], no_such=1)
    assert isinstance(raised.value, TypeError)
    if NEEDED[kind]:
        with pytest.raises(fl.OptionError, match=f"{kind.__name__}: .*missing.*'{next(iter(NEEDED[kind]))}'"):
            kind()


def test_unknown_arguments(animals, folder, tmp_path):
    for call, said in {
        lambda: fl.open(folder, formt="pack"): "open: .*formt.*there are uri, format, fields",
        fl.open: "open: .*missing.*uri",
        lambda: fl.pack(folder, tmp_path / "p", qualty=3): "pack: .*qualty.*there are source, destination",
        lambda: fl.convert(folder, tmp_path / "c"): "convert: .*missing.*'to'",
        lambda: fl.mix([(animals, 1)], samples=3): "mix: .*samples.*there are parts, epoch_samples",
        fl.concat: "concat: .*missing.*datasets",
        fl.Loader: "Loader: .*missing.*dataset",
        lambda: fl.Loader(animals, 32): "Loader: .*too many positional",
        lambda: fl.Loader(animals, batchsize=32): "batchsize: no such knob; there are batch_size",
        lambda: fl.LoaderOptions(batchsize=32): "batchsize: no such knob; there are batch_size",
        animals.select: "select: .*missing.*indices",
        lambda: samplers.Random(1, 2, 3): "Random: .*too many positional",
    }.items():
        with pytest.raises(fl.OptionError, match=said):
            call()
