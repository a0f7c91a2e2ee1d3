"""Wrong arguments raise a `feedline.Error` that names them; NumPy's and torch's numbers are numbers."""

from __future__ import annotations

import inspect
import itertools
import warnings

import feedline as fl
import numpy as np
import pytest
import torch
from feedline import samplers
from feedline import transforms as T
from feedline._engine import draws
from feedline._knobs import DEFAULTS, KNOBS


class Odd:
    """An object that fails whatever is asked of it."""

    def __repr__(self):
        raise RuntimeError("no name")

    def __bool__(self):
        raise ValueError("ambiguous")


WRONG = [
    None, True, 0, -1, 1, 3, 2**31, 2**63, 2**64, -(2**70), 0.0, 1.9, -0.5, float("nan"), float("inf"), 10**400, 1j,
    "", "4", "no such", b"bytes", b"\xff", [], [1], [1.5], [-1], ["a"], [None], [[1, 2], [3]], (1, 2, 3, 4, 5), {}, {"a": 1},
    {1: 2}, {"image": 5}, {"image": {"view": 5}}, set(), object(), Odd(), [Odd()], int, len, lambda: 1, range(3), iter([1.5]),
    np.array([1, 2]), np.zeros((2, 2)), np.array("text"), np.float64("nan"), np.int64(-3), np.array([], dtype=object),
    torch.tensor([1.5, 2.5]), torch.zeros(2, 2), torch.tensor(-2), torch.device("cpu"), np.dtype("int8"), Ellipsis,
]  # fmt: skip


@pytest.fixture(scope="module")
def tiny(folder):
    return fl.open(folder)


def tried(what, call):
    """What the call gives, or what its error says: one of ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return call()
        except fl.Error as error:
            said = str(error)
        except Exception as error:  # noqa: BLE001 - just that is the test
            pytest.fail(f"{what}: {type(error).__name__}: {error}")
    assert said.strip(), what
    assert " at line " not in said, what
    return said


def label(value):
    return (
        "Odd"
        if isinstance(value, Odd) or (isinstance(value, list) and value and isinstance(value[0], Odd))
        else repr(value)
    )


@pytest.mark.parametrize("name", sorted(DEFAULTS))
def test_every_knob_refuses_wrong_values(tiny, name):
    for value in WRONG:
        knobs = {"output": "numpy", "num_workers": 1, name: value}
        if name in ("rank", "world_size"):
            knobs = {"rank": 0, "world_size": 1, **knobs}
        loader = tried(f"Loader({name}={label(value)})", lambda knobs=knobs: fl.Loader(tiny, **knobs))
        if isinstance(loader, fl.Loader):
            loader.close()
        tried(f"LoaderOptions({name}={label(value)})", lambda value=value: fl.LoaderOptions(**{name: value}))


def test_an_error_names_knob_value_and_what_is_allowed(tiny):
    for knobs, said in (
        ({"rank": 1.9, "world_size": 4}, "rank: 1.9 is not a whole number"),
        ({"rank": 0, "world_size": "4"}, "world_size: '4' is not a whole number between 1 and"),
        ({"batch_size": 2.0}, r"batch_size: 2\.0 is not a whole number between 1 and 16777216"),
        ({"batch_size": True}, "batch_size: True is not a whole number"),
        ({"seed": -1}, "seed: -1 is not a whole number between 0 and 18446744073709551615"),
        ({"drop_last": "no"}, "drop_last: 'no' is not True or False"),
        ({"fields": "image"}, "fields: 'image' is not a list of strings"),
        ({"on_error": "ignore"}, "on_error: 'ignore' is not one of 'raise', 'skip', 'replace'"),
        ({"timeout": "3"}, "timeout: '3' is not a number"),
        ({"options": {"batch_size": 3}}, "options: {'batch_size': 3} is not a feedline.LoaderOptions"),
    ):
        with pytest.raises(fl.OptionError, match=said):
            fl.Loader(tiny, **knobs)


def test_numbers_of_numpy_and_torch_are_numbers(tiny):
    knobs = {"decode": "none", "output": "numpy"}
    for number in (np.int64, np.uint8, np.int32, torch.tensor, np.array):
        given = {
            name: number(value) for name, value in {"batch_size": 4, "seed": 7, "rank": 1, "world_size": 2}.items()
        }
        more = {"num_workers": number(1), "prefetch": number(2), "max_pixels": number(100)}
        with fl.Loader(tiny, **given, **more, **knobs, drop_last=np.bool_(True), shuffle=torch.tensor(True)) as loader:
            loader.seek(number(1), number(1))
            assert (loader.epoch, loader.options["seed"], loader.options["shuffle"]) == (1, 7, True)
            assert isinstance(loader.options["batch_size"], int)
    with fl.Loader(tiny, timeout=np.float32(30), **knobs) as loader:
        assert loader.options["timeout"] == 30.0
    assert samplers.Random(num_samples=np.int64(3)) == samplers.Random(num_samples=3)
    assert T.RandomHorizontalFlip(np.float32(0.5)) == T.RandomHorizontalFlip(0.5)
    assert T.CenterCrop(torch.tensor(8)) == T.CenterCrop(np.array([8, 8])) == T.CenterCrop(8)
    assert T.Normalize(np.full(3, 0.5), torch.full((3,), 0.5)) == T.Normalize(0.5, 0.5)


SAMPLERS = [
    (samplers.Random, {}), (samplers.Block, {}), (samplers.Balanced, {}), (samplers.Weighted, {"weights": [1.0] * 12}),
    (samplers.Indices, {"indices": [0]}), (samplers.Buckets, {}), (samplers.SubsetRandom, {"indices": [0, 1]}),
    (samplers.TorchRandom, {}), (samplers.TorchDistributed, {}), (samplers.FfcvRandom, {}), (samplers.Slipstream, {}),
    (samplers.FfcvQuasiRandom, {"pages": [[0, 1]]}), (samplers.LitData, {"chunks": [12]}), (samplers.Mosaic, {"shards": [12]}),
    (samplers.Packed, {"max_tokens": 8, "lengths": [1] * 12}),
]  # fmt: skip
TRANSFORMS = [
    (T.RandomResizedCrop, {"size": 8}), (T.Resize, {"size": 8}), (T.CenterCrop, {"size": 8}), (T.RandomCrop, {"size": 8}),
    (T.ResizedCenterCrop, {"size": 8}), (T.BucketResize, {"sizes": [(8, 8)]}), (T.Pad, {"padding": 1}),
    (T.RandomHorizontalFlip, {}), (T.RandomVerticalFlip, {}), (T.Normalize, {"mean": 0.5, "std": 0.5}),
    (T.RandomRotation, {"degrees": 8}), (T.RandomAffine, {"degrees": 8}), (T.RandomPerspective, {}), (T.ColorJitter, {}),
    (T.Grayscale, {}), (T.RandomGrayscale, {}), (T.RandomChannelPermutation, {}), (T.RandomPhotometricDistort, {}),
    (T.RandomInvert, {}), (T.RandomPosterize, {"bits": 4}), (T.RandomSolarize, {"threshold": 9}), (T.RandomEqualize, {}),
    (T.RandomAutocontrast, {}), (T.RandomAdjustSharpness, {"sharpness_factor": 2}), (T.GaussianBlur, {"kernel_size": 3}),
    (T.RandomErasing, {}), (T.Compose, {"transforms": []}), (T.RandomApply, {"transforms": [T.RandomInvert()]}),
    (T.RandomChoice, {"transforms": [T.RandomInvert()]}), (T.RandomOrder, {"transforms": []}), (T.AutoAugment, {}),
    (T.RandAugment, {}), (T.TrivialAugmentWide, {}), (T.ToTensor, {}), (T.ElasticTransform, {}), (T.OpticalDistortion, {}),
    (T.RandomRotate, {}), (T.RandomZoom, {}), (T.RandomRotateObject, {}), (T.RandomZoomOut, {}), (T.AugMix, {}),
    (T.RandomTranslate, {"padding": 2}), (T.ScaleJitter, {"target_size": 8}), (T.RandomShortestSize, {"min_size": 8}),
    (T.RandomResize, {"min_size": 8, "max_size": 9}), (T.Letterbox, {"size": 8}), (T.RandomPatchShuffle, {"sizes": 4}),
    (T.RandomIoUCrop, {}), (T.FiveCrop, {"size": 4}), (T.TenCrop, {"size": 4}), (T.RandomBrightness, {}), (T.RandomContrast, {}),
    (T.RandomSaturation, {}), (T.RandomHue, {}), (T.RandomGamma, {}), (T.RandomColorJitterHSV, {}), (T.ThreeAugment, {}),
    (T.RandomColorJitterYIQ, {}), (T.RGBShift, {}), (T.ChannelDropout, {}), (T.CLAHE, {}), (T.RGBToLGN, {}),
    (T.RGBToMagno, {}), (T.PILGaussianBlur, {}), (T.MotionBlur, {}), (T.Defocus, {}), (T.GaussianNoise, {}),
    (T.SaltAndPepper, {}), (T.PowerLawNoise, {}), (T.JPEG, {"quality": 50}), (T.Cutout, {"crop_size": 3}),
    (T.CoarseDropout, {}), (T.GridMask, {}), (T.CircularMask, {}), (T.RandomEmbed, {"canvas_size": 9}),
    (T.RandomBackgroundBlend, {}), (T.Poison, {"mask": np.zeros((2, 2, 3)), "alpha": np.zeros((2, 2)), "indices": [1]}),
    (T.ReplaceLabel, {"indices": [1], "new_label": 2}), (T.SomeOf, {"transforms": [T.RandomInvert()]}),
    (T.Schedule, {"steps": {0: T.CenterCrop(8)}}),
]  # fmt: skip


BESIDE = [
    (T.Mask, {}), (T.Boxes, {}), (T.Keypoints, {}), (T.Yoked, {"view": "a", "share": ["Resize"]}), (T.MultiCrop, {}),
    (T.MixUp, {"num_classes": 3}), (T.CutMix, {"num_classes": 3}), (T.Mosaic, {}), (T.CopyPaste, {}),
    (T.LabelSmoothing, {"num_classes": 3}), (T.OneHot, {"num_classes": 3}), (T.TokenWindow, {"size": 8}),
    (T.AudioWindow, {"seconds": 1.0}), (T.Resample, {"hz": 8000}), (T.Mono, {}), (T.RandomGain, {}), (T.RandomNoise, {}),
    (T.MelSpectrogram, {}), (T.AmplitudeToDB, {}), (T.FrequencyMasking, {"freq_mask_param": 3}),
    (T.TimeMasking, {"time_mask_param": 3}), (T.Clip, {"frames": 4}), (T.ArrayWindow, {"size": 4}),
    (T.BackgroundNoise, {"noise": "noise"}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "needed"), SAMPLERS, ids=lambda x: getattr(x, "__name__", ""))
def test_every_sampler_refuses_wrong_values(tiny, kind, needed):
    for name, value in itertools.product(inspect.signature(kind).parameters, WRONG):
        made = tried(
            f"{kind.__name__}({name}={label(value)})", lambda name=name, value=value: kind(**{**needed, name: value})
        )
        count = getattr(made, "num_samples", None)
        if not isinstance(made, str) and (count is None or count < 2**31):
            # What can be made may still not fit the data; that is said in the same way.
            knobs = {"sampler": made, "decode": "none", "output": "numpy", "num_workers": 1}
            loader = tried(
                f"{kind.__name__}({name}={label(value)}) in a loader", lambda knobs=knobs: fl.Loader(tiny, **knobs)
            )
            if isinstance(loader, fl.Loader):
                loader.close()


@pytest.mark.parametrize(("kind", "needed"), TRANSFORMS, ids=lambda x: getattr(x, "__name__", ""))
def test_every_transform_refuses_wrong_values(tiny, kind, needed):
    for name, value in itertools.product(inspect.signature(kind).parameters, WRONG):
        made = tried(
            f"{kind.__name__}({name}={label(value)})", lambda name=name, value=value: kind(**{**needed, name: value})
        )
        size = getattr(made, "size", None) or (0, 0)
        if not isinstance(made, str) and max(size) <= 2**16:
            knobs = {"transforms": [made], "output": "numpy", "num_workers": 1}
            loader = tried(
                f"{kind.__name__}({name}={label(value)}) in a loader", lambda knobs=knobs: fl.Loader(tiny, **knobs)
            )
            if isinstance(loader, fl.Loader):
                loader.close()


NEVER = {"p": (2, -0.1), "p_fade": (2,), "p_background": (2,)}
NEVER |= dict.fromkeys(("size", "sizes", "crop_size", "canvas_size", "kernel_size", "target_size", "padding"), (-3,))
NEVER |= dict.fromkeys(("min_size", "max_size", "tile_grid_size", "num_ops", "mixture_width", "count"), (-3,))


@pytest.mark.parametrize(("kind", "needed"), TRANSFORMS, ids=lambda x: getattr(x, "__name__", ""))
def test_no_transform_accepts_nonsense(tiny, kind, needed):
    """Not a number for anything, probabilities above 1, negative sizes: the error names transform and parameter."""
    for name in inspect.signature(kind).parameters:
        for value in (float("nan"), *NEVER.get(name, ())):
            with pytest.raises(fl.errors.OptionError) as caught:
                fl.Loader(tiny, transforms=[T.CenterCrop(8), kind(**{**needed, name: value})]).close()
            assert kind.__name__ in str(caught.value), (name, value)
            named = name in str(caught.value) or "transforms" in str(caught.value) or "finite" in str(caught.value)
            assert named, (name, value, caught.value)


@pytest.mark.parametrize(("kind", "needed"), BESIDE, ids=lambda x: getattr(x, "__name__", ""))
def test_targets_views_and_mixtures_refuse_wrong_values(kind, needed):
    for name, value in itertools.product(inspect.signature(kind).parameters, WRONG):
        tried(f"{kind.__name__}({name}={label(value)})", lambda name=name, value=value: kind(**{**needed, name: value}))


def test_every_transform_is_tested():
    every = {getattr(T, name) for name in T.__all__ if inspect.isclass(getattr(T, name))}
    assert every == {kind for kind, _ in [*TRANSFORMS, *BESIDE]} | {T.Transform, T.BatchTransform, T.Python}


def test_transforms_know_whether_they_draw(tiny):
    drawing = (
        "Random",
        "RandAugment",
        "AutoAugment",
        "TrivialAugment",
        "ColorJitter",
        "GaussianBlur",
        "ElasticTransform",
    )
    drawing += (
        "OpticalDistortion",
        "ScaleJitter",
        "RGBShift",
        "ChannelDropout",
        "CLAHE",
        "PILGaussianBlur",
        "MotionBlur",
    )
    drawing += (
        "Defocus",
        "GaussianNoise",
        "SaltAndPepper",
        "PowerLawNoise",
        "JPEG",
        "Cutout",
        "CoarseDropout",
        "GridMask",
    )
    drawing += ("SomeOf", "Schedule", "AugMix", "ThreeAugment")
    for kind, _ in TRANSFORMS:
        assert kind.random == kind.__name__.startswith(drawing), kind
    inside = [T.Compose([T.CenterCrop(8), T.RandomInvert()])]
    for transforms, drawn in ((inside, True), ([T.Compose([T.CenterCrop(8)])], False)):
        knobs = {"sampler": None, "shuffle": False, "transforms": transforms}
        assert draws(knobs, tiny) == drawn


def test_every_step_of_the_builder_refuses_wrong_values():
    steps = [
        name for name, step in inspect.getmembers(fl.LoaderOptions, inspect.isfunction) if not name.startswith("_")
    ]
    for name in steps:
        step = getattr(fl.LoaderOptions(), name)
        for parameter, value in itertools.product(inspect.signature(step).parameters.values(), WRONG):
            needed = {p.name: 1 for p in inspect.signature(step).parameters.values() if p.default is p.empty}
            given = {**needed, parameter.name: value}
            tried(f"{name}({parameter.name}={label(value)})", lambda step=step, given=given: step(**given))
    with pytest.raises(fl.OptionError, match="colour: no such knob"):
        fl.LoaderOptions()["colour"]


def test_methods_refuse_wrong_values(tiny):
    with fl.Loader(tiny, decode="none", num_workers=1) as loader:
        state = loader.state_dict()
        for value in WRONG:
            for name in ("seek", "skip", "set_epoch", "set_weights", "load_state_dict"):
                tried(f"{name}({label(value)})", lambda name=name, value=value: getattr(loader, name)(value))
            for name in state:
                changed = {**state, name: value}
                tried(f"state {name}={label(value)}", lambda changed=changed: loader.load_state_dict(changed))
        loader.load_state_dict({**state, "epoch": np.int64(3), "samples": torch.tensor(0)})
        assert loader.epoch == 3
        with pytest.raises(fl.StateError, match="not a state of a loader: missing field `samples`$"):
            loader.load_state_dict({"version": 1, "epoch": 0})


def test_data_sets_are_mixed_and_joined_from_data_sets_only(tiny):
    for value in WRONG:
        tried(f"mix({label(value)})", lambda value=value: fl.mix(value))
        tried(f"mix weight {label(value)}", lambda value=value: fl.mix([(tiny, value)]))
        tried(f"mix epoch_samples {label(value)}", lambda value=value: fl.mix([(tiny, 1)], value))
        tried(f"concat({label(value)})", lambda value=value: fl.concat(value))
        tried(f"concat([{label(value)}])", lambda value=value: fl.concat([value]))


def test_help_and_signature_show_the_knobs():
    shown = inspect.signature(fl.Loader).parameters
    assert {name: shown[name].default for name in DEFAULTS} == DEFAULTS
    assert set(shown) == {"dataset", "options", *DEFAULTS}
    for knob in KNOBS.values():
        assert f"`{knob.name}` [{knob.default!r}]: {knob.doc}" in fl.Loader.__doc__


def test_sample_numbers_must_be_integers(tiny):
    for wrong in (1.5, None, True, [1], object(), np.float64(1)):
        with pytest.raises(fl.OptionError, match="index: "):
            tiny[wrong]
    assert tiny[np.int64(-1)] == tiny[torch.tensor(11)] == tiny[11]
    with pytest.raises(IndexError):
        tiny[12]
