"""`map=`, `batch_map=` and `T.Python`: what the user's functions get, give, and what becomes of everything when they fail."""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import pickle
import random
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import feedline as fl
import numpy as np
import pytest
from feedline import transforms as T
from feedline._callback import start
from pictures import make_folder
from PIL import Image

ROOT = Path(__file__).parents[2]
BYTES = {"output": "numpy", "dtype": "uint8", "num_workers": 2}
CROP = T.CenterCrop(16)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """24 images of 32 x 24 pixels or a little more, in three classes."""
    return fl.open(make_folder(tmp_path_factory.mktemp("tiny") / "data", per_class=8, size=(32, 24)))


def everything(dataset, **knobs):
    with fl.Loader(dataset, **{**BYTES, "batch_size": 5, **knobs}) as loader:
        return list(loader)


def by_sample(batches, field="image"):
    return {int(i): np.asarray(v) for batch in batches for i, v in zip(batch["index"], batch[field], strict=True)}


def same(left, right):
    assert left.keys() == right.keys()
    return all(np.array_equal(left[key], right[key]) for key in left)


# Functions of images.


def identity(image):
    return image


def invert(image):
    return 255 - image


def jitter(image, rng):
    return np.clip(image.astype(np.int16) + rng.integers(-20, 20), 0, 255).astype(np.uint8)


def global_noise(sample):
    numbers = [random.random(), float(np.random.rand())]  # noqa: NPY002 - what such functions use
    torch = sys.modules.get("torch")
    if torch is not None:
        numbers.append(float(torch.rand(())))
    return {"drawn": np.array(numbers), "rng": int(sample["index"])}


class Noise:
    def __init__(self, strength, names=("b", "a")):
        self.strength = strength
        self.names = set(names)

    def __call__(self, image, rng):
        return image + (rng.random() * self.strength).__int__()


def fails_on_seven(sample):
    if sample["index"] % 7 == 3:
        raise KeyError("no such colour")
    return sample


def fails_on_dark(image):
    if image.mean() < DARK:
        raise ValueError("too dark")
    return image


DARK = 100


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


class Albumentation:
    """As albumentations' classes are called: by name, with channels last, and with random numbers of its own."""

    def __init__(self):
        self.own = random.Random()

    def set_random_seed(self, seed):
        self.own = random.Random(seed)

    def __call__(self, *args, force_apply=False, **data):  # noqa: ARG002 - as theirs
        if args:
            raise KeyError("pass data by name: transform(image=image)")
        image = data["image"]
        assert image.dtype == np.uint8
        assert image.shape[2] == 3
        return {**data, "image": np.flipud(image), "drawn": self.own.random()}


# What functions get and give.


def test_torchvision_v2_changes_the_image(tiny):
    v2 = pytest.importorskip("torchvision.transforms.v2")
    flipped = {k: v[:, :, ::-1] for k, v in by_sample(everything(tiny, transforms=[CROP])).items()}
    flip = v2.RandomHorizontalFlip(1.0)
    knobs = {"multiprocessing_context": "fork"}
    for op in (T.Python(flip), T.Python(flip, as_="torch"), T.Python(flip, as_="pil")):
        assert same(by_sample(everything(tiny, transforms=[CROP, op], **knobs)), flipped), op
    floats = everything(tiny, transforms=[CROP, T.Python(flip)], dtype="float32", **knobs)
    assert floats[0]["image"].dtype == np.float32
    assert np.array_equal((floats[0]["image"] * 255).round(), flipped_first(flipped))
    with pytest.raises(fl.OptionError, match=r"v2 transforms pass NumPy arrays through(?s:.*)as_='torch'"):
        T.Python(flip, as_="numpy")


def flipped_first(flipped):
    return np.stack([flipped[index] for index in range(5)])


def test_torchvision_v1_gets_pil_images(tiny):
    v1 = pytest.importorskip("torchvision.transforms")
    compose = v1.Compose([v1.RandomVerticalFlip(1.0), v1.ToTensor(), v1.Normalize([0.5] * 3, [0.5] * 3)])
    made = by_sample(everything(tiny, transforms=[CROP, T.Python(compose)], multiprocessing_context="fork"))
    plain = by_sample(everything(tiny, transforms=[CROP]))
    for index, image in made.items():
        assert image.dtype == np.float32
        assert np.allclose(image, plain[index][:, ::-1].astype(np.float32) / 127.5 - 1, atol=1e-6)


def test_torchvisions_own_randomness_is_reproducible(tiny):
    """Also in fresh processes, which import torch themselves."""
    v2 = pytest.importorskip("torchvision.transforms.v2")
    recipe = [T.Python(v2.Compose([v2.RandomResizedCrop(16), v2.ColorJitter(0.4, 0.4)])), T.RandomHorizontalFlip()]
    one = by_sample(everything(tiny, transforms=recipe, num_workers=1, multiprocessing_context="fork"))
    two = by_sample(everything(tiny, transforms=recipe, num_workers=2, batch_size=7, shuffle=True))
    assert same(one, two)
    assert len({image.tobytes() for image in one.values()}) == len(one)


def test_albumentations_are_called_by_name(tiny):
    plain = by_sample(everything(tiny, transforms=[CROP]))
    made = by_sample(everything(tiny, transforms=[CROP, T.Python(Albumentation())], dtype="float32"))
    assert all(np.array_equal((made[k] * 255).round(), plain[k][:, ::-1]) for k in plain)
    one = everything(tiny, transforms=[CROP], map=Albumentation(), num_workers=1)
    two = everything(tiny, transforms=[CROP], map=Albumentation(), num_workers=2, batch_size=9)
    assert same(by_sample(one), {k: v[:, ::-1] for k, v in plain.items()})
    assert same(by_sample(one, "drawn"), by_sample(two, "drawn"))


def describe(sample):
    image = sample["image"]
    kind = type(image).__module__.split(".")[0]
    shape = image.size if kind == "PIL" else tuple(image.shape)
    return {"kind": f"{kind} {shape} {getattr(image, 'dtype', '')}", "label": sample["label"]}


def test_map_gets_images_as_asked(tiny):
    seen = {}
    for as_, memory, dtype in (
        (None, "channels_first", "float32"),
        ("numpy", "channels_last", "uint8"),
        ("pil", "channels_first", "float32"),
        ("torch", "channels_last", "float32"),
    ):
        knobs = {"memory_format": memory, "dtype": dtype, "multiprocessing_context": "fork"}
        batch = everything(tiny, map=describe, as_=as_, transforms=[T.CenterCrop((8, 6))], **knobs)[0]
        seen[as_] = set(batch["kind"])
        assert sorted(batch) == ["index", "kind", "label"], "image is gone, kind is new"
        assert batch["label"].dtype == np.int64
    assert seen == {
        None: {"numpy (3, 8, 6) float32"},
        "numpy": {"numpy (8, 6, 3) uint8"},
        "pil": {"PIL (6, 8) "},
        "torch": {"torch (3, 8, 6) torch.float32"},
    }
    for bad, said in (
        ({"map": describe, "as_": "jpeg"}, "as_='jpeg' is not one of"),
        ({"map": 3}, "map: 3 cannot be called"),
        ({"as_": "pil"}, "as_: .*there is no map="),
        ({"map": describe, "map_workers": "cats"}, "map_workers: 'cats'"),
        ({"map_workers": "threads"}, "map_workers: only for map="),
        ({"map": describe, "map_workers": "threads", "multiprocessing_context": "spawn"}, "functions run in threads"),
        ({"map": describe, "as_": "pil", "transforms": [T.Normalize(0.5, 0.5)]}, "PIL images have bytes"),
        ({"map": describe, "dtype": "bfloat16"}, "NumPy has no bfloat16"),
    ):
        with pytest.raises(fl.OptionError, match=said):
            fl.Loader(tiny, **bad)


def all_kinds(sample):
    index = sample["index"]
    return {
        **sample,
        "int": index,
        "float": index / 2,
        "mixed": index if index % 2 else 0.5,
        "bool": index > 3,
        "text": f"no. {index}",
        "nothing": None,
        "some": None if index % 2 else "x",
        "object": {"number": index},
        "huge": 2**70,
        "array": np.full((2, 2, 2), index, dtype=np.float16),
        "ragged": np.arange(index),
        "bytes": b"x" * index,
        "scalar": np.float32(index),
        "swapped": np.array([index], dtype=">i4"),
    }


def test_results_become_columns_of_their_type(tiny):
    """Numbers and arrays stack or are ragged, text and everything else is a list."""
    for output in ("numpy", "torch"):
        batch = everything(tiny, map=all_kinds, fields=["label"], output=output, memory_format="channels_last")[0]
        kinds = {name: str(getattr(value, "dtype", type(value).__name__)) for name, value in batch.items()}
        kinds = {name: kind.removeprefix("torch.") for name, kind in kinds.items()}
        assert kinds == {
            "index": "int64", "label": "int64", "int": "int64", "float": "float64", "mixed": "float64", "bool": "bool",
            "text": "list", "nothing": "list", "some": "list", "object": "list", "huge": "list", "array": "float16",
            "ragged": "Ragged", "bytes": "Ragged", "scalar": "float32", "swapped": "int32",
        }  # fmt: skip
        assert batch["text"] == [f"no. {index}" for index in range(5)]
        assert batch["nothing"] == [None] * 5
        assert batch["some"] == ["x", None, "x", None, "x"]
        assert batch["object"][3] == {"number": 3}
        assert tuple(batch["array"].shape) == (5, 2, 2, 2)
        assert [len(value) for value in batch["ragged"]] == [0, 1, 2, 3, 4]
        assert bytes(batch["bytes"][3].tolist()) == b"xxx"


def test_a_sample_has_text_json_bytes_and_arrays(tmp_path):
    rows = [
        {"t": f"text {i}", "j": {"a": i}, "b": bytes([i] * i), "x": np.arange(i, dtype=np.float32)} for i in range(6)
    ]
    schema = {"t": "text", "j": "json", "b": "bytes", "x": "array"}
    packed = fl.pack(rows, tmp_path / "rows", schema=schema, progress=False)
    with fl.Loader(packed, batch_size=6, map=repr_fields, output="numpy", num_workers=1) as loader:
        batch = next(iter(loader))
    assert batch["t"] == [f"text {i}" for i in range(6)]
    assert batch["said"][3] == "str dict bytes ndarray 3"
    assert batch["j"][2] == {"a": 2}


def repr_fields(sample):
    kinds = " ".join(type(sample[name]).__name__ for name in "tjbx")
    return {**sample, "said": f"{kinds} {len(sample['b'])}"}


def wrong_types(sample):
    return {"x": np.zeros(2, np.float32 if sample["index"] else np.float64)}


def wrong_fields(sample):
    return {"x": 1} if sample["index"] else {"y": 1}


def forgets(sample):
    sample["x"] = 1


def not_stored_back(_):
    return {"x": (i for i in range(3))}


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (wrong_types, r"field 'x': .*different types \(float32, float64\), as in samples 0 and 1"),
        (wrong_fields, r"field 'y': .*for sample 0, but not for 1"),
        (forgets, r"must return a dict of fields, but returned a NoneType; did it forget"),
        (not_stored_back, r"sample 0(?s:.*)the result cannot be sent back"),
    ],
)
def test_wrong_results_are_named_and_counted(tiny, function, said):
    with fl.Loader(tiny, map=function, batch_size=5, fields=["label"], **BYTES) as loader:
        running = iter(loader)
        with pytest.raises(fl.DataError, match=said):
            next(running)
        assert loader.state_dict()["samples"] == 5, "the next one is the batch after it"


# Before, between and after the engine's transforms.


def test_functions_come_before_and_between_transforms(tiny):
    plain = by_sample(everything(tiny, transforms=[T.Resize((20, 20)), CROP], dtype="float32"))
    inverted = by_sample(everything(tiny, transforms=[T.Resize((20, 20)), CROP], dtype="uint8"))
    for recipe, changed in (
        ([T.Python(identity), T.Resize((20, 20)), CROP], False),
        ([T.Resize((20, 20)), T.Python(identity), CROP], False),
        ([T.Python(invert), T.Resize((20, 20)), T.Python(invert, as_="pil" if False else None), CROP], None),
        ([T.Resize((20, 20)), T.Python(invert), CROP], True),
    ):
        made = by_sample(everything(tiny, transforms=recipe, dtype="float32"))
        assert next(iter(made.values())).shape == (3, 16, 16)
        for index, image in made.items():
            wanted = (255 - inverted[index]) / 255 if changed else plain[index]
            tolerance = 1.01 / 255 if changed is None else 1e-6
            assert np.abs(image - wanted).max() <= tolerance, recipe


def test_normalize_and_draws_after_a_function(tiny):
    recipe = [T.Python(jitter), T.RandomResizedCrop(16), T.RandomHorizontalFlip(), T.Normalize.imagenet()]
    knobs = {"transforms": recipe, "dtype": "float32", "shuffle": True}
    one = by_sample(everything(tiny, num_workers=1, **knobs))
    assert same(one, by_sample(everything(tiny, num_workers=3, batch_size=7, **knobs)))
    assert min(image.min() for image in one.values()) < 0
    assert next(iter(one.values())).dtype == np.float32
    half = by_sample(everything(tiny, rank=1, world_size=2, **knobs))
    assert same(half, {index: one[index] for index in half})
    with fl.Loader(tiny, **{**BYTES, **knobs, "batch_size": 5}) as loader:
        running = iter(loader)
        next(running)
        state = json.loads(json.dumps(loader.state_dict()))
    with fl.Loader(tiny, **{**BYTES, **knobs, "batch_size": 5}) as loader:
        loader.load_state_dict(state)
        rest = by_sample(list(loader))
    assert len(rest) == 19
    assert same(rest, {index: one[index] for index in rest})
    for bad, said in (
        ([T.Normalize.imagenet(), T.Python(identity), CROP], "Normalize must come last"),
        ([T.Normalize.imagenet(), T.Python(identity, as_="pil")], "PIL images have bytes"),
        ([T.Python(identity), "crop"], "'crop' is not one of"),
        ([T.Python(identity), T.CenterCrop(0)], "CenterCrop"),
    ):
        with pytest.raises(fl.OptionError, match=said):
            fl.Loader(tiny, transforms=bad)


def halved(image):
    return image / 2


def test_a_result_that_transforms_cannot_take_is_a_bad_sample(tiny):
    with pytest.raises(fl.SampleError, match="take 8-bit images, not float64") as caught:
        everything(tiny, transforms=[T.Python(halved), CROP])
    assert (caught.value.stage, caught.value.sample, caught.value.field) == ("transform", 0, "image")


def both_views(sample):
    views = sample["image"]
    return {"image": {"a": views["b"], "b": views["a"]}, "label": sample["label"]}


def palette(image):
    return image.convert("P")


def grey(image):
    return image.convert("L")


def test_pil_images_of_other_modes(tiny):
    knobs = {"multiprocessing_context": "fork", "dtype": "float32"}
    plain = everything(tiny, transforms=[CROP], dtype="float32")[0]["image"]
    coloured = everything(tiny, transforms=[T.Python(palette, as_="pil"), CROP], **knobs)[0]["image"]
    assert coloured.shape == plain.shape
    assert np.abs(coloured - plain).mean() < 0.2, "the colours, not their numbers"
    last = everything(tiny, transforms=[CROP, T.Python(grey, as_="pil")], **knobs)[0]["image"]
    assert (last.shape, last.dtype) == ((5, 1, 16, 16), np.float32)
    assert 0 < last.max() <= 1
    between = everything(tiny, transforms=[T.Python(grey, as_="pil"), CROP], **knobs)[0]["image"]
    assert np.array_equal(between, np.repeat(last, 3, axis=1))


def prints(sample):
    print("said by", sample["index"])
    return sample


@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
def test_output_of_functions_is_printed_once(tiny, context, capfd):
    print("before")
    # One worker: the file that stands for the terminal here is not made for several writers.
    everything(tiny, map=prints, fields=["label"], multiprocessing_context=context, num_workers=1)
    out = capfd.readouterr().out
    assert out.count("before") == 1
    assert sorted(re.findall(r"said by (\d+)", out), key=int) == [str(index) for index in range(24)]


def test_map_of_views(tiny):
    views = {"image": {"a": [T.CenterCrop(8)], "b": [T.CenterCrop(8), T.Python(invert)]}}
    plain = everything(tiny, transforms=views)[0]["image"]
    swapped = everything(tiny, transforms=views, map=both_views)[0]["image"]
    assert np.array_equal(plain["a"], swapped["b"])
    assert np.array_equal(plain["b"], 255 - plain["a"])
    assert np.array_equal(plain["b"], swapped["a"])


# Randomness and states.


@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
def test_global_random_numbers_are_seeded_per_sample(tiny, context):
    knobs = {"map": global_noise, "fields": ["label"], "multiprocessing_context": context}
    one = by_sample(everything(tiny, num_workers=1, **knobs), "drawn")
    two = by_sample(everything(tiny, num_workers=2, batch_size=7, shuffle=True, **knobs), "drawn")
    assert same({k: v[:2] for k, v in one.items()}, {k: v[:2] for k, v in two.items()})
    assert len({v.tobytes() for v in one.values()}) == 24


def test_states_with_different_parameters_differ(tiny):
    def state(function):
        with fl.Loader(tiny, transforms=[CROP, T.Python(function)], multiprocessing_context="fork") as loader:
            return loader.state_dict()

    assert state(Noise(1.0)) == state(Noise(1.0))
    assert state(Noise(1.0)) != state(Noise(9.0))
    assert state(lambda image: image + 1) != state(lambda image: image + 2)
    with fl.Loader(tiny, transforms=[CROP, T.Python(Noise(9.0))]) as other:
        with pytest.raises(fl.StateError, match="T.Python was"):
            other.load_state_dict(state(Noise(1.0)))
        other.load_state_dict(state(Noise(1.0)), strict=False)
    with fl.Loader(tiny, map=fails_on_seven) as mapped, fl.Loader(tiny, batch_map=identity) as batched:
        assert re.fullmatch(r"map: \S*test_map\.fails_on_seven #\w{12} as numpy", mapped.state_dict()["python"][0])
        assert re.fullmatch(r"batch_map: \S*test_map\.identity #\w{12}", batched.state_dict()["python"][0])


def test_states_are_the_same_in_every_process():
    code = """
        import sys
        sys.path[:0] = [{tests!r}, {package!r}]
        from functools import partial
        import numpy as np
        from feedline._callback.identity import in_words
        import test_map
        noise = test_map.Noise(2.5, names=("x", "y", "z"))
        print(in_words(noise), in_words(test_map.jitter), in_words(partial(test_map.invert, image=np.arange(3))))
        print(in_words(test_map.Albumentation()), in_words(lambda x: x in {{"a", "b", "c"}}))
    """
    code = textwrap.dedent(code).format(tests=str(ROOT / "python/tests"), package=str(ROOT / "python"))
    said = set()
    for seed in ("1", "2", "3"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        said.add(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, env=environment).stdout)
    assert len(said) == 1
    assert b"test_map.Noise #" in said.pop()


def test_states_of_torchvision_objects():
    v2 = pytest.importorskip("torchvision.transforms.v2")
    from feedline._callback.identity import in_words

    assert in_words(v2.ColorJitter(0.4)) == in_words(v2.ColorJitter(0.4)) != in_words(v2.ColorJitter(0.5))
    one = v2.Compose([v2.RandomCrop(8), v2.Normalize([0.5], [0.5])])
    other = v2.Compose([v2.RandomCrop(8), v2.Normalize([0.5], [0.4])])
    assert in_words(one) != in_words(other)


def test_resume_in_the_middle_of_a_map(tiny):
    knobs = {**BYTES, "map": global_noise, "fields": ["label"], "batch_size": 4, "shuffle": True}
    with fl.Loader(tiny, **knobs) as loader:
        running = iter(loader)
        next(running), next(running)
        state = loader.state_dict()
        assert state["samples"] == 8, "what was received counts, not what is under way"
        rest = [batch["drawn"] for batch in running]
    copy = pickle.loads(pickle.dumps(fl.Loader(tiny, **knobs)))
    copy.load_state_dict(state)
    with copy:
        assert all(np.array_equal(a["drawn"], b) for a, b in zip(copy, rest, strict=True))


# Failures.


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
    """The end of a worker is noticed, although another one was started while it was."""
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


def fails_on_none(sample):
    return sample


def test_a_sample_that_kills_its_workers_repeatedly_is_named(tiny):
    knobs = {"map": kills_at_six, "fields": ["label"], "batch_size": 8}
    with pytest.raises(fl.SampleError, match=r"sample 6.*ended its worker process 3 times \(SIGKILL") as caught:
        everything(tiny, **knobs)
    assert caught.value.sample == 6
    skipped = everything(tiny, on_error="skip", **knobs)
    assert skipped[0]["index"].tolist() == [0, 1, 2, 3, 4, 5, 7]


# Notebooks and scripts.

SCRIPT = """
    import sys
    sys.path.insert(0, {package!r})
    import feedline as fl
    from feedline import transforms as T
    print("script runs", flush=True)
    STRENGTH = 3

    class Brighter:
        def __init__(self, by):
            self.by = by
        def __call__(self, image):
            return image // 2 + self.by * STRENGTH

    def add(sample):
        return {{**sample, "twice": 2 * sample["index"], "mean": float(sample["image"].mean())}}

    recipe = [T.CenterCrop(8), T.Python(Brighter(2)), T.Python(lambda image: image + 1)]
    with fl.Loader({folder!r}, transforms=recipe, map=add, output="numpy", dtype="uint8", batch_size=12, {knobs}) as loader:
        for batch in loader:
            print(batch["twice"].tolist()[:3], batch["image"].min() >= 7)
"""


@pytest.mark.parametrize("how", ["script", "notebook"])
@pytest.mark.parametrize("context", ["forkserver", "spawn"])
def test_functions_of_scripts_and_notebook_cells(tiny, tmp_path, how, context):
    """Without a main guard, and without a file; the script runs once."""
    pytest.importorskip("cloudpickle")
    knobs = f"num_workers=2, multiprocessing_context={context!r}"
    text = textwrap.dedent(SCRIPT).format(package=str(ROOT / "python"), folder=str(tiny.uri), knobs=knobs)
    script = tmp_path / "train.py"
    script.write_text(text)
    call = [sys.executable, str(script)] if how == "script" else [sys.executable, "-"]
    done = subprocess.run(
        call, input=None if how == "script" else text, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "script runs\n[0, 2, 4] True\n[24, 26, 28] True\n"
    assert done.stderr == ""


def test_without_cloudpickle_there_is_a_hint(tiny, monkeypatch):
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(fl.OptionError, match=r"cannot be sent to worker processes(?s:.*)install cloudpickle"):
        fl.Loader(tiny, map=lambda sample: sample)
    monkeypatch.setattr(fails_on_none, "__module__", "__main__")
    with pytest.raises(fl.OptionError, match=r"fails_on_none is part of the script(?s:.*)install cloudpickle"):
        fl.Loader(tiny, map=fails_on_none)
    for knobs in ({"map_workers": "threads"}, {"multiprocessing_context": "fork"}):
        made = everything(tiny, map=lambda sample: sample, fields=["label"], **knobs)
        assert len(made) == 5


def test_a_function_that_workers_cannot_load(tiny, tmp_path, monkeypatch):
    (tmp_path / "gone.py").write_text("def function(sample):\n    return sample\n")
    monkeypatch.syspath_prepend(tmp_path)
    import gone

    with fl.Loader(tiny, map=gone.function, fields=["label"], **BYTES) as loader:
        (tmp_path / "gone.py").unlink()
        for _ in range(2):
            with pytest.raises(
                fl.OptionError, match=r"cannot be loaded in a worker process(?s:.*)No module named 'gone'"
            ):
                next(iter(loader))
        assert loader.state_dict()["samples"] == 0


def test_a_context_object_names_its_method(tiny):
    assert len(everything(tiny, map=fails_on_none, multiprocessing_context=multiprocessing.get_context("spawn"))) == 5


# Threads.


def test_threads_instead_of_processes(tiny):
    recipe = {"transforms": [T.Python(jitter), CROP], "map": lambda sample: {**sample, "pid": os.getpid()}}
    made = everything(tiny, map_workers="threads", **recipe)
    assert set(made[0]["pid"].tolist()) == {os.getpid()}
    plain = everything(tiny, transforms=recipe["transforms"])
    assert same(by_sample(made), by_sample(plain))
    with pytest.warns(
        UserWarning, match=r"map_workers: Albumentation draws from random numbers that all threads share"
    ):
        fl.Loader(tiny, map=Albumentation(), map_workers="threads")


# Whole batches.


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


# Ends.


def children(pid):
    """Processes below this one, dead or alive."""
    below, found = [pid], []
    while below:
        parent = below.pop()
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            try:
                new = [int(child) for child in task.read_text().split()]
            except OSError:
                continue
            found += new
            below += new
    return found


def stuck(_):
    time.sleep(1000)


@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
def test_close_ends_all_workers_promptly(tiny, context):
    before, files = set(children(os.getpid())), len(os.listdir("/proc/self/fd"))
    memory = set(os.listdir("/dev/shm"))
    for function, received in ((stuck, 0), (fails_on_none, 2)):
        loader = fl.Loader(tiny, **BYTES, batch_size=4, map=function, multiprocessing_context=context, timeout=20)
        running = iter(loader)
        for _ in range(received):
            next(running)
        begun = time.monotonic()
        while not set(children(os.getpid())) - before and time.monotonic() - begun < 60:
            time.sleep(0.01)
        begun = time.monotonic()
        loader.close()
        assert time.monotonic() - begun < 15
        assert set(children(os.getpid())) <= before, "no process is left, not even a zombie"
        if not received:
            with pytest.raises(fl.ClosedError):
                next(running)
        del running, loader
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= files
    assert set(os.listdir("/dev/shm")) <= memory


def test_dropping_the_loader_ends_all_workers(tiny):
    before, threads = set(children(os.getpid())), threading.active_count()
    loader = fl.Loader(tiny, **BYTES, batch_size=4, map=fails_on_none, batch_map=identity)
    for _ in loader:
        break
    running = iter(loader)
    next(running)
    del running, loader
    gc.collect()
    deadline = time.monotonic() + 30
    while (set(children(os.getpid())) - before or threading.active_count() > threads) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert set(children(os.getpid())) <= before
    assert threading.active_count() <= threads


def test_workers_stay_between_epochs_or_not(tiny):
    before = set(children(os.getpid()))
    with fl.Loader(tiny, **BYTES, batch_size=8, map=fails_on_none, persistent_workers=False) as loader:
        nested = [(a["index"][0], b["index"][0]) for a in loader for b in loader]
        assert len(nested) == 9
        assert set(children(os.getpid())) <= before
    with fl.Loader(tiny, **BYTES, batch_size=8, map=fails_on_none) as loader:
        list(loader)
        kept = set(children(os.getpid())) - before
        assert kept
        list(loader)
        assert set(children(os.getpid())) - before == kept


INTERRUPTED = """
    import sys, time
    sys.path.insert(0, {package!r})
    import feedline as fl
    def slow(sample):
        time.sleep(1000)
    loader = fl.Loader({folder!r}, map=slow, output="numpy", num_workers=2, {knobs})
    print("ready", flush=True)
    try:
        next(iter(loader))
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("context", ["fork", "forkserver"])
def test_ctrl_c_and_kill_end_all_workers(tiny, tmp_path, killed, context):
    if context == "forkserver":
        pytest.importorskip("cloudpickle")
    knobs = f"multiprocessing_context={context!r}"
    script = tmp_path / "train.py"
    script.write_text(
        textwrap.dedent(INTERRUPTED).format(package=str(ROOT / "python"), folder=str(tiny.uri), knobs=knobs)
    )
    process = subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout.readline() == "ready\n"
    deadline = time.monotonic() + 60
    wanted = 2 if context == "fork" else 3
    while len(workers := children(process.pid)) < wanted and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.5)
    if killed:
        process.kill()
    else:
        os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    if not killed:
        assert (out, process.returncode) == ("interrupted\n", 0), err
    assert err == ""
    while any(running(worker) for worker in workers) and time.monotonic() < deadline + 30:
        time.sleep(0.05)
    assert not any(running(worker) for worker in workers)


def running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_a_loader_with_functions_after_a_fork(tiny):
    """The child has workers of its own; the parent's go on."""
    with fl.Loader(tiny, **BYTES, batch_size=8, map=fails_on_none, fields=["label"]) as loader:
        running = iter(loader)
        next(running)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                code = 0 if len(list(loader)) == 3 else 2
                loader.close()
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert len(list(running)) == 2


def test_large_images_go_through_shared_memory(tmp_path):
    rng = np.random.default_rng(0)
    for number in range(4):
        Image.fromarray(rng.integers(0, 256, (300, 200 + number, 3), dtype=np.uint8)).save(tmp_path / f"{number}.png")
    dataset = fl.open(tmp_path)
    plain = everything(dataset, batch_size=2)
    made = everything(dataset, batch_size=2, map=invert_sample)
    for before, after in zip(plain, made, strict=True):
        for row in range(2):
            assert np.array_equal(255 - before["image"][row], after["image"][row])
            assert after["image"][row].flags.writeable


def invert_sample(sample):
    sample["image"] = 255 - sample["image"]
    return sample
