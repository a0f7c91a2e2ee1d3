"""`map=` and `T.Python`: what the user's functions get and give, and how they mix with the engine's transforms."""

from __future__ import annotations

import json
import os
import pickle
import random
import re
import subprocess
import sys
import textwrap

import feedline as fl
import numpy as np
import pytest
from feedline import transforms as T
from map_functions import (
    BYTES,
    CROP,
    ROOT,
    Albumentation,
    Noise,
    by_sample,
    everything,
    fails_on_seven,
    identity,
    invert,
    jitter,
    same,
    tiny_images,
)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return tiny_images(tmp_path_factory.mktemp("tiny") / "data")


def global_noise(sample):
    numbers = [random.random(), float(np.random.rand())]  # noqa: NPY002 - what such functions use
    torch = sys.modules.get("torch")
    if torch is not None:
        numbers.append(float(torch.rand(())))
    return {"drawn": np.array(numbers), "rng": int(sample["index"])}


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
        assert re.fullmatch(r"map: \S*map_functions\.fails_on_seven #\w{12} as numpy", mapped.state_dict()["python"][0])
        assert re.fullmatch(r"batch_map: \S*map_functions\.identity #\w{12}", batched.state_dict()["python"][0])


def test_states_are_the_same_in_every_process():
    code = """
        import sys
        sys.path[:0] = [{tests!r}, {package!r}]
        from functools import partial
        import numpy as np
        from feedline._callback.identity import in_words
        import map_functions
        noise = map_functions.Noise(2.5, names=("x", "y", "z"))
        print(in_words(noise), in_words(map_functions.jitter), in_words(partial(map_functions.invert, image=np.arange(3))))
        print(in_words(map_functions.Albumentation()), in_words(lambda x: x in {{"a", "b", "c"}}))
    """
    code = textwrap.dedent(code).format(tests=str(ROOT / "python/tests"), package=str(ROOT / "python"))
    said = set()
    for seed in ("1", "2", "3"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        said.add(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, env=environment).stdout)
    assert len(said) == 1
    assert b"map_functions.Noise #" in said.pop()


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
