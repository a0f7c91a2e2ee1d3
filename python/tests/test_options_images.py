"""Every knob does something that can be seen: images and their transforms."""

from __future__ import annotations

import io

import feedline as fl
import numpy as np
import pytest
from feedline import transforms as T
from made_images import make_folder
from option_data import first, knob, tiny_images
from PIL import Image


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return tiny_images(tmp_path_factory.mktemp("tiny"))


@knob("transforms")
def test_transforms(tiny):
    """a list for the image, a dict by field, or several views of one image"""
    assert first(tiny)["image"].shape == (4, 3, 8, 8)
    views = {"image": {"small": [T.CenterCrop(4)], "large": [T.CenterCrop(12)]}}
    batch = first(tiny, transforms=views)["image"]
    assert (batch["small"].shape, batch["large"].shape) == ((4, 3, 4, 4), (4, 3, 12, 12))
    with pytest.raises(fl.OptionError, match="add parentheses"):
        fl.Loader(tiny, transforms=[T.Resize])
    with pytest.raises(fl.OptionError, match=r"not one of feedline.transforms"):
        fl.Loader(tiny, transforms=[lambda image: image])


@knob("dtype")
def test_dtype(tiny):
    """element type of images"""
    import torch

    for name in ("float32", "float16", "bfloat16", "uint8"):
        assert first(tiny, output="torch", dtype=name)["image"].dtype == getattr(torch, name)
    assert first(tiny, output="torch", dtype=torch.float16)["image"].dtype == torch.float16
    assert first(tiny, dtype=np.uint8)["image"].dtype == np.uint8
    with pytest.raises(fl.OptionError, match="dtype"):
        fl.Loader(tiny, dtype="int4")


@pytest.fixture
def glass(tmp_path):
    """One image that is half transparent, and that asks to be turned."""
    pixels = np.zeros((4, 6, 4), np.uint8)
    pixels[..., 0], pixels[..., 3] = 200, 51
    exif = Image.Exif()
    exif[0x112] = 6
    Image.fromarray(pixels).save(tmp_path / "glass.png", exif=exif)
    return fl.open(tmp_path)


@knob("mode")
def test_mode(glass):
    """kind of values of an image; also by field"""
    loader = {"dtype": "uint8", "transforms": [T.CenterCrop(2)]}
    assert first(glass, mode="L", **loader)["image"].shape == (1, 1, 2, 2)
    assert first(glass, mode={"image": "RGBA"}, **loader)["image"][0, :, 0, 0].tolist() == [200, 0, 0, 51]
    with pytest.raises(fl.OptionError, match="mode"):
        fl.Loader(glass, mode="rgb")
    with pytest.raises(fl.OptionError, match="there is no field 'mask'"):
        fl.Loader(glass, mode={"mask": "index"})
    with pytest.raises(fl.OptionError, match="not decoded"):
        fl.Loader(glass, mode="L", decode="none")


@knob("background")
def test_background(glass):
    """colour behind transparent pixels; without one, opacity is dropped"""
    loader = {"dtype": "uint8", "transforms": [T.CenterCrop(2)]}
    assert first(glass, **loader)["image"][0, :, 0, 0].tolist() == [200, 0, 0]
    assert first(glass, background=(0, 100, 255), **loader)["image"][0, :, 0, 0].tolist() == [40, 80, 204]
    with pytest.raises(fl.OptionError, match="background"):
        fl.Loader(glass, background=(1, 2))


@knob("allow_truncated")
@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
@pytest.mark.parametrize("more", [{}, {"progressive": True}])
def test_allow_truncated(tmp_path, monkeypatch, kind, more):
    """JPEGs and PNGs that end early are decoded as with `LOAD_TRUNCATED_IMAGES`; otherwise they are bad samples"""
    buffer = io.BytesIO()
    Image.fromarray(np.random.default_rng(1).integers(0, 256, (64, 48, 3), dtype=np.uint8)).save(buffer, kind, **more)
    data = buffer.getvalue()[: len(buffer.getvalue()) * 2 // 3]
    (tmp_path / "cut.png").write_bytes(data)
    monkeypatch.setattr("PIL.ImageFile.LOAD_TRUNCATED_IMAGES", True)
    expected = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    knobs = {"dtype": "uint8", "memory_format": "channels_last", "transforms": None}
    found = first(fl.open(tmp_path), allow_truncated=True, **knobs)["image"][0]
    np.testing.assert_array_equal(found, expected)
    with pytest.raises(fl.SampleError, match="truncated"):
        first(fl.open(tmp_path), **knobs)


@knob("page")
def test_page(tmp_path):
    """another page of a TIFF; a file without it is a bad sample that says so"""
    pages = [Image.fromarray(np.full((5 + page, 7, 3), 40 * page, np.uint8)) for page in range(3)]
    folder = tmp_path / "files"
    folder.mkdir()
    pages[0].save(folder / "a.tif", save_all=True, append_images=pages[1:])
    pages[0].save(folder / "b.png")
    knobs = {"dtype": "uint8", "memory_format": "channels_last", "transforms": None}
    for source in (fl.open(folder), fl.pack(folder, tmp_path / "pack", image="as-is", progress=False)):
        for page, expected in enumerate(pages):
            batch = first(source.select([0]), page=page, **knobs)
            np.testing.assert_array_equal(batch["image"][0], np.asarray(expected))
        with pytest.raises(fl.SampleError, match="page 3 of a file with 3 pages"):
            first(source.select([0]), page=3, **knobs)
        with pytest.raises(fl.SampleError, match="page 1: such a file has one page"):
            first(source.select([1]), page=1, **knobs)


def test_pages_of_masks_follow_those_of_images(tmp_path):
    ramp = np.arange(5 * 7, dtype=np.uint8).reshape(5, 7)
    files = {}
    for name in ("image", "mask"):
        pages = [Image.fromarray(ramp + page) for page in range(2)]
        pages[0].save(tmp_path / name, "TIFF", save_all=True, append_images=pages[1:])
        files[name] = (tmp_path / name).read_bytes()
    schema = {"image": "image", "mask": "image"}
    ds = fl.pack([files], tmp_path / "pack", schema=schema, image="as-is", progress=False)
    batch = first(ds, page=1, transforms=None, dtype="uint8", targets={"mask": T.Mask()})
    np.testing.assert_array_equal(batch["mask"][0], ramp + 1)
    np.testing.assert_array_equal(batch["image"][0][0], ramp + 1)


@knob("exif_transpose")
def test_exif_transpose(glass):
    """images are rotated as their EXIF says, or left as stored"""
    assert first(glass, transforms=None)["image"][0].shape == (3, 6, 4)
    assert first(glass, transforms=None, exif_transpose=False)["image"][0].shape == (3, 4, 6)


@knob("memory_format")
def test_memory_format(tiny):
    """channels last in memory; torch keeps its order of dimensions"""
    import torch

    image = first(tiny, output="torch", memory_format=torch.channels_last)["image"]
    assert image.shape == (4, 3, 8, 8)
    assert image.is_contiguous(memory_format=torch.channels_last)
    assert first(tiny, memory_format="channels_last")["image"].shape == (4, 8, 8, 3)
    assert torch.equal(image, first(tiny, output="torch")["image"])


@knob("decode")
def test_decode(tiny):
    """`"exact"` pixels, `"fast"` pixels, or the stored bytes with `image_size`"""
    batch = first(tiny, decode="none", transforms=None)
    assert bytes(batch["image"][0]) == tiny[0]["image"]
    assert batch["image_size"][0].tolist() == [24, 16]
    assert first(tiny, decode="fast")["image"].shape == first(tiny)["image"].shape
    with pytest.raises(fl.OptionError):
        fl.Loader(tiny, decode="maybe")


@knob("views")
def test_views(tiny, tmp_path):
    """undecoded values are views into a pack's mapped files; nothing is copied"""
    path = tmp_path / "pack"
    fl.pack(tiny, path, progress=False)
    dataset = fl.open(path)
    knobs = {"batch_size": 6, "decode": "none", "output": "numpy", "shuffle": True}
    with fl.Loader(dataset, **knobs) as copies, fl.Loader(dataset, views=True, **knobs) as views:
        for plain, view in zip(copies, views, strict=True):
            assert isinstance(view["image"], fl.Ragged)
            assert [v.tobytes() for v in view["image"]] == [v.tobytes() for v in plain["image"]]
            assert np.array_equal(view["image_size"], plain["image_size"])
            assert np.array_equal(view["label"], plain["label"])
    with pytest.raises(fl.OptionError, match="views: only for packs on this machine: this is folder"):
        fl.Loader(tiny, views=True, decode="none")
    with pytest.raises(fl.OptionError, match="views"):
        fl.Loader(dataset, views=True)


@knob("index")
def test_index(tmp_path, monkeypatch):
    """seek indexes of JPEGs stored without are used and collected, built whole, or neither; batches stay the same"""
    monkeypatch.setenv("FEEDLINE_CACHE_DIR", str(tmp_path / "cache"))
    photos = fl.open(make_folder(tmp_path / "photos", per_class=8, size=(640, 480)))

    def stored() -> int:
        return sum(file.stat().st_size for file in tmp_path.glob("cache/index/checkpoints-*/*.seeks"))

    knobs = {"decode": "exact", "batch_size": 24, "transforms": [T.CenterCrop((64, 64))]}
    plain = first(photos, index="off", **knobs)["image"]
    assert stored() == 0
    for mode in ("auto", "build", "auto"):
        assert (first(photos, index=mode, **knobs)["image"] == plain).all()
    assert stored() > 0
    with pytest.raises(fl.OptionError, match="index: 'always' is not one of"):
        fl.Loader(photos, index="always")


@knob("max_pixels")
def test_max_pixels(tiny):
    """larger images are bad samples"""
    with pytest.raises(fl.SampleError):
        first(tiny, max_pixels=100)
    first(tiny, max_pixels=24 * 16)


@knob("targets")
def test_targets():
    """masks, boxes and keypoints move with their image"""
    rows = [{"image": np.zeros((8, 8, 3), np.uint8), "mask": np.eye(8, dtype=np.uint8)}]
    flip = {"transforms": {"image": [T.RandomHorizontalFlip(1.0)]}, "output": "numpy"}
    kinds = {"image": "image", "mask": "array"}
    batch = next(iter(fl.Loader(fl.open(rows, schema=kinds), targets={"mask": T.Mask()}, **flip)))
    assert (batch["mask"][0] == np.eye(8)[:, ::-1]).all()


@knob("batch_transforms")
def test_batch_transforms(tiny):
    """samples are mixed with their neighbours in the order, and labels become shares"""
    knobs = {"batch_size": 4, "transforms": [T.Resize((8, 8))], "output": "numpy"}
    mixed = next(iter(fl.Loader(tiny, batch_transforms=[T.MixUp(1.0, 2)], **knobs)))
    plain = next(iter(fl.Loader(tiny, **knobs)))
    assert mixed["label"].shape == (4, 2)
    assert not (mixed["image"] == plain["image"]).all()


@knob("repeats")
def test_repeats(tiny):
    """each sample is repeated this many times in a row, each time with its own draws; an epoch has fewer samples"""
    knobs = {"batch_size": 4, "transforms": [T.RandomResizedCrop(8)], "output": "numpy", "shuffle": True}
    batches = list(fl.Loader(tiny, repeats=2, **knobs))
    index = np.concatenate([batch["index"] for batch in batches])
    assert (index[::2] == index[1::2]).all()
    assert not (batches[0]["image"][0] == batches[0]["image"][1]).all()


@knob("return_params")
def test_return_params(tiny):
    """`batch["image.params"]` contains what was drawn for each image; `T.replay` repeats it"""
    batch = next(iter(fl.Loader(tiny, transforms=[T.RandomResizedCrop(8)], return_params=True, output="numpy")))
    assert [params["actions"][0]["do"] for params in batch["image.params"]] == ["Crop"] * 20
