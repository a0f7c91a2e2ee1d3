"""Functions for `map=`, `batch_map=` and `T.Python`, in a module that worker processes can import."""

from __future__ import annotations

import random
from pathlib import Path

import feedline as fl
import numpy as np
from feedline import transforms as T
from made_images import make_folder


def tiny_images(folder):
    """24 images of 32 x 24 pixels or a little more, in three classes."""
    return fl.open(make_folder(folder, per_class=8, size=(32, 24)))


ROOT = Path(__file__).parents[2]

BYTES = {"output": "numpy", "dtype": "uint8", "num_workers": 2}

CROP = T.CenterCrop(16)


def everything(dataset, **knobs):
    with fl.Loader(dataset, **{**BYTES, "batch_size": 5, **knobs}) as loader:
        return list(loader)


def by_sample(batches, field="image"):
    return {int(i): np.asarray(v) for batch in batches for i, v in zip(batch["index"], batch[field], strict=True)}


def same(left, right):
    assert left.keys() == right.keys()
    return all(np.array_equal(left[key], right[key]) for key in left)


def identity(image):
    return image


def invert(image):
    return 255 - image


def jitter(image, rng):
    return np.clip(image.astype(np.int16) + rng.integers(-20, 20), 0, 255).astype(np.uint8)


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


def fails_on_none(sample):
    return sample
