"""What images are: class indices, greys of 16 bits, floats, opacity and bands, exactly as Pillow and NumPy have them."""

from __future__ import annotations

import io
import warnings

import feedline as fl
import numpy as np
import pytest
from feedline import transforms as T
from made_images import make_image
from PIL import Image
from test_codecs import tiff
from torchvision.transforms.v2 import functional as F

RNG = np.random.default_rng(7)


def saved(image, kind="PNG", **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def classes():
    image = Image.fromarray(RNG.integers(0, 21, (37, 53), dtype=np.uint8))
    image.putpalette([value for at in range(256) for value in (at * 7 % 256, at * 3 % 256, 255 - at)])
    return image


DEPTH = RNG.integers(0, 65536, (40, 60)).astype(np.uint16)


def loaded(data, folder, **knobs):
    dataset = fl.pack([{"image": data}], folder / "pack", image="as-is", progress=False, schema={"image": "image"})
    with fl.Loader(dataset, output="numpy", **knobs) as loader:
        return next(iter(loader))["image"][0]


@pytest.mark.parametrize("kind", ["PNG", "GIF", "BMP", "TIFF"])
def test_palette_indices_are_kept(tmp_path, kind):
    image = classes()
    found = loaded(saved(image, kind), tmp_path, mode="index")
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, np.asarray(image))


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_few_bits(tmp_path, bits):
    """As Pillow has them: a palette's indices, or greys of the whole range; black and white are 0 and 1."""
    image = Image.fromarray(RNG.integers(0, 1 << bits, (9, 13), dtype=np.uint8))
    image.putpalette([value for at in range(1 << bits) for value in (at, 9, 200)])
    data = saved(image, bits=bits)
    np.testing.assert_array_equal(loaded(data, tmp_path / "a", mode="index"), np.asarray(Image.open(io.BytesIO(data))))
    white = saved(image.convert("L").point(lambda value: 255 * (value > 3)).convert("1"))
    found = loaded(white, tmp_path / "b", mode="index")
    np.testing.assert_array_equal(found, np.asarray(Image.open(io.BytesIO(white))).astype(int))


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "PPM"])
def test_sixteen_bits(tmp_path, kind):
    data = saved(Image.fromarray(DEPTH), kind)
    np.testing.assert_array_equal(loaded(data, tmp_path / "a", mode="I;16", dtype={"image": "uint16"})[0], DEPTH)
    np.testing.assert_array_equal(loaded(data, tmp_path / "b", mode="I;16")[0], DEPTH.astype(np.float32))
    np.testing.assert_array_equal(loaded(data, tmp_path / "c", mode="index"), DEPTH)


def test_floats(tmp_path):
    values = RNG.normal(size=(21, 17)).astype(np.float32) * 1000
    found = loaded(saved(Image.fromarray(values), "TIFF"), tmp_path, mode="F")
    np.testing.assert_array_equal(found[0], values)


@pytest.mark.parametrize("mode", ["L", "LA", "RGBA", "F", "RGB"])
@pytest.mark.parametrize("stored", ["1", "L", "LA", "P", "RGB", "RGBA"])
def test_modes_equal_pillows_conversions(tmp_path, stored, mode):
    image = Image.fromarray(make_image(3, 23, 31)).convert("RGBA")
    image.putalpha(Image.fromarray(RNG.integers(0, 256, (31, 23), dtype=np.uint8)))
    data = saved(image.convert(stored))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = np.asarray(Image.open(io.BytesIO(data)).convert(mode))
    expected = expected[..., None] if expected.ndim == 2 else expected
    dtype = "float32" if mode == "F" else "uint8"
    found = loaded(data, tmp_path, mode=mode, dtype=dtype, memory_format="channels_last")
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("filter_", ["bilinear", "bicubic"])
def test_sixteen_bits_are_resized_as_pillow_does(tmp_path, filter_):
    data = saved(Image.fromarray(DEPTH))
    recipe = [T.Resize((17, 23), interpolation=filter_), T.RandomHorizontalFlip(1.0)]
    found = loaded(data, tmp_path, mode="I;16", transforms=recipe)
    expected = Image.fromarray(DEPTH).resize((23, 17), getattr(Image, filter_.upper()))
    assert np.abs(found[0] - np.asarray(expected)[:, ::-1].astype(float)).max() <= 1


def test_classes_are_never_blended(tmp_path):
    recipe = [T.Resize((50, 70)), T.CenterCrop(32)]
    found = loaded(saved(classes()), tmp_path, mode="index", transforms=recipe)
    small = classes().resize((70, 50), Image.NEAREST)
    assert found.shape == (32, 32)
    assert set(np.unique(found)) <= set(range(21))
    assert small.size == (70, 50)


def test_opacity_weights_colours(tmp_path):
    image = Image.fromarray(RNG.integers(0, 256, (30, 40, 4), dtype=np.uint8))
    found = loaded(saved(image), tmp_path, mode="RGBA", dtype="uint8", transforms=[T.Resize((15, 20))])
    expected = np.moveaxis(np.asarray(F.resize(image, [15, 20])), 2, 0).astype(int)
    assert np.abs(found[3] - expected[3]).max() <= 1
    solid = expected[3] > 60
    assert np.abs(found[:3].astype(int) - expected[:3])[:, solid].max() <= 6


@pytest.mark.parametrize("channels", [1, 2, 5, 12])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
def test_bands(tmp_path, channels, dtype):
    """Multispectral TIFF: all bands, moved by the same geometry."""
    values = (RNG.random((18, 22, channels)) * 250).astype(dtype)
    data = tiff(values, photometric=1, extra=[0] * (channels - 1))
    knobs = {"mode": "unchanged", "dtype": {"image": np.dtype(dtype).name}}
    whole = loaded(data, tmp_path / "a", **knobs)
    np.testing.assert_array_equal(whole, np.moveaxis(values, 2, 0))
    crop = loaded(data, tmp_path / "b", transforms=[T.CenterCrop((8, 10)), T.RandomVerticalFlip(1.0)], **knobs)
    np.testing.assert_array_equal(crop, np.moveaxis(values[5:13, 6:16], 2, 0)[:, ::-1])


def test_impossible_settings_are_refused(tmp_path):
    colours = saved(Image.fromarray(make_image(1, 8, 8)))
    with pytest.raises(fl.SampleError, match="3 channels are not class indices"):
        loaded(colours, tmp_path / "a", mode="index")
    with pytest.raises(fl.OptionError, match="dtype"):
        loaded(colours, tmp_path / "b", mode="I;16", dtype="uint8")
    with pytest.raises(fl.OptionError, match="Normalize"):
        loaded(colours, tmp_path / "c", mode="index", transforms=[T.Normalize.imagenet()])
    with pytest.raises(fl.SampleError, match="does not fit uint8"):
        loaded(saved(Image.fromarray(DEPTH)), tmp_path / "d", mode="unchanged", dtype={"image": "uint8"})
