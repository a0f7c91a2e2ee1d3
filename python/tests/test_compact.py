"""`image="compact"`: a pack of about the JPEGs' size that decodes to the same pixels and gives the files back."""

from __future__ import annotations

import tarfile

import feedline as fl
import numpy as np
import pytest
from feedline import transforms as T
from PIL import Image


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """JPEGs of several kinds, smooth enough that they compress, and one that cannot be stored as planes."""
    folder = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    kinds = [
        {"quality": 75},
        {"quality": 92, "subsampling": 0},
        {"quality": 30, "optimize": True},
        {"progressive": True},
    ]
    for number, kind in enumerate(kinds * 3):
        rough = rng.integers(0, 256, (9, 12, 3), np.uint8)
        image = Image.fromarray(rough).resize((200 + number, 150), Image.Resampling.BICUBIC)
        image = Image.fromarray(np.asarray(image) ^ rng.integers(0, 16, (150, 200 + number, 1), np.uint8))
        image = image.convert("L") if number == 5 else image
        exif = Image.Exif()
        exif[0x0112] = 6 if number == 2 else 1
        (folder / f"class{number % 2}").mkdir(exist_ok=True)
        image.save(folder / f"class{number % 2}" / f"{number:02}.jpg", exif=exif, comment=b"kept", **kind)
    return folder


@pytest.fixture(scope="module")
def compact(photos, tmp_path_factory):
    return fl.pack(photos, tmp_path_factory.mktemp("packs") / "compact", image="compact", progress=False)


def batches(data, **knobs):
    steps = [T.RandomResizedCrop(64), T.RandomHorizontalFlip(), T.Normalize.imagenet()]
    with fl.Loader(data, batch_size=4, shuffle=True, seed=3, transforms=steps, output="numpy", **knobs) as loader:
        return [batch["image"].copy() for batch in loader]


def test_pixels_equal_those_of_the_files(photos, compact):
    for ours, theirs in zip(batches(compact), batches(photos), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    whole = fl.open(photos).decoded()
    for number in range(len(whole)):
        np.testing.assert_array_equal(compact.decoded()[number]["image"], whole[number]["image"])


def test_fast_decoding_works(compact):
    for ours, exact in zip(batches(compact, decode="fast"), batches(compact), strict=True):
        assert ours.shape == exact.shape
        assert np.abs(ours - exact).mean() < 0.5


def test_files_are_restored_byte_for_byte(photos, compact, tmp_path):
    files = [sample["image"] for sample in fl.open(photos)]
    assert [sample["image"] for sample in compact] == files
    fl.convert(compact, tmp_path / "tars", to="webdataset", progress=False)
    back = []
    for shard in sorted((tmp_path / "tars").glob("*.tar")):
        with tarfile.open(shard) as tar:
            back += [tar.extractfile(member).read() for member in tar if member.name.endswith(("jpg", "jpeg"))]
    assert back == files


def test_other_packs_are_made_from_it(photos, compact, tmp_path):
    again = fl.pack(compact, tmp_path / "jpeg", image="jpeg", progress=False)
    assert [sample["image"] for sample in again] == [sample["image"] for sample in fl.open(photos)]
    raw = fl.pack(compact, tmp_path / "rgb", image="rgb", shorter_side=100, progress=False)
    direct = fl.pack(photos, tmp_path / "direct", image="rgb", shorter_side=100, progress=False)
    assert raw[0] == direct[0]
    copied = fl.pack(compact, tmp_path / "copied", image="compact", progress=False)
    assert copied.fingerprint == compact.fingerprint
