"""Pixels against Pillow and torchvision, which we did not write."""

from __future__ import annotations

import io

import feedline as fl
import numpy as np
import pytest
import torch
from feedline import transforms as T
from made_images import encode, make_image
from PIL import Image, ImageOps
from torchvision.transforms import v2


def load(tmp_path, files, transforms, **knobs):
    """The files' images through a loader, from the folder and from a pack: both must agree."""
    folder = tmp_path / "in"
    folder.mkdir(exist_ok=True)
    for number, (kind, data) in enumerate(files):
        (folder / f"{number:04}.{kind}").write_bytes(data)
    packed = fl.pack(folder, tmp_path / "pack", progress=False, overwrite=True)
    results = []
    for dataset in (fl.open(folder), packed):
        with fl.Loader(dataset, batch_size=7, transforms=transforms, output="numpy", **knobs) as loader:
            results.append([image for batch in loader for image in batch["image"]])
    for a, b in zip(*results, strict=True):
        assert np.array_equal(a, b)
    return results[0]


def jpegs(count=12):
    sizes = [(1, 1), (17, 9), (64, 64), (131, 97), (250, 333), (500, 375)]
    made = []
    for number in range(count):
        width, height = sizes[number % len(sizes)]
        options = {"quality": 30 + 5 * number, "subsampling": number % 3, "progressive": number % 5 == 4}
        made.append(("jpg", encode(make_image(number, width, height), "JPEG", **options)))
    return made


def reference(data):
    return ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")


def test_whole_images_equal_pillow(tmp_path):
    files = jpegs()
    files += [("png", encode(make_image(1, 40, 30), "PNG")), ("webp", encode(make_image(2, 41, 31), "WEBP"))]
    files += [("jpg", encode(make_image(3, 33, 21)[..., 0], "JPEG"))]
    for image, (_, data) in zip(
        load(tmp_path, files, None, dtype="uint8", memory_format="channels_last"), files, strict=True
    ):
        assert np.array_equal(image, np.asarray(reference(data)))


def progressive(number):
    options = {"quality": 5 + 19 * number % 95, "subsampling": number % 3, "progressive": True}
    if number % 7 == 3:
        options["restart_marker_blocks"] = 1 + number % 5
    pixels = make_image(number, 1 + number, 70 - number)
    return encode(pixels[..., 0] if number % 9 == 4 else pixels, "JPEG", **options)


def test_progressive_jpegs_equal_pillow(tmp_path):
    files = [("jpg", progressive(number)) for number in range(70)]
    for image, (_, data) in zip(
        load(tmp_path, files, None, dtype="uint8", memory_format="channels_last"), files, strict=True
    ):
        assert np.array_equal(image, np.asarray(reference(data)))
    crops = load(tmp_path, files, [T.CenterCrop((20, 33))], dtype="uint8")
    ours_is_theirs(crops, files, v2.CenterCrop((20, 33)), levels=0)


def test_truncated_progressive_jpegs_equal_pillow(tmp_path, monkeypatch):
    whole = encode(make_image(3, 120, 90), "JPEG", quality=80, progressive=True)
    scans = [at for at in range(len(whole)) if whole[at : at + 2] == b"\xff\xda"]
    # Inside the data of a scan: 14 bytes after its marker at the latest.
    files = [("jpg", whole[: at + past]) for at in scans for past in (15, 40)]
    monkeypatch.setattr("PIL.ImageFile.LOAD_TRUNCATED_IMAGES", True)
    options = {"dtype": "uint8", "memory_format": "channels_last", "allow_truncated": True}
    for image, (_, data) in zip(load(tmp_path, files, None, **options), files, strict=True):
        assert np.array_equal(image, np.asarray(reference(data)))


@pytest.mark.parametrize("on_error", ["skip", "replace"])
def test_whole_images_beside_bad_ones(tmp_path, on_error):
    files = [encode(make_image(n, 30 + 7 * n, 50 - 3 * n), "JPEG") for n in range(8)]
    broken = [data[:-60] if n in (2, 5) else data for n, data in enumerate(files)]
    packed = fl.pack(
        [{"image": data} for data in broken],
        tmp_path / "pack",
        schema={"image": "image"},
        check="none",
        progress=False,
    )
    options = {"dtype": "uint8", "memory_format": "channels_last", "output": "numpy", "on_error": on_error}
    with fl.Loader(packed, batch_size=8, shuffle=False, **options) as loader:
        (batch,) = list(loader)
    assert len(batch["index"]) == (8 if on_error == "replace" else 6)
    for index, image in zip(batch["index"], batch["image"], strict=True):
        assert index in (2, 5) or np.array_equal(image, np.asarray(reference(files[index])))
    sizes = {(data.shape[0], data.shape[1]) for data in batch["image"]}
    assert sizes == {(50 - 3 * n, 30 + 7 * n) for n in range(8) if n not in (2, 5)}


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "TIFF"])
def test_views_of_other_files_equal_pillow(tmp_path, kind):
    options = {"lossless": True} if kind == "WEBP" else {}
    files = [encode(make_image(n, 90 + 9 * n, 70 + 5 * n), kind, **options) for n in range(4)]
    for number, data in enumerate(files):
        (tmp_path / f"{number}.{kind.lower()}").write_bytes(data)
    views = {"image": {"wide": [T.CenterCrop((12, 40))], "high": [T.CenterCrop((36, 20)), T.Resize((18, 10))]}}
    theirs = {
        "wide": v2.CenterCrop((12, 40)),
        "high": v2.Compose([v2.CenterCrop((36, 20)), v2.Resize((18, 10), antialias=True)]),
    }
    with fl.Loader(tmp_path, batch_size=4, shuffle=False, transforms=views, dtype="uint8", output="numpy") as loader:
        (batch,) = list(loader)
    for view, transform in theirs.items():
        ours_is_theirs(batch["image"][view], [(kind, data) for data in files], transform)


def test_cmyk_equals_pillow(tmp_path):
    buffer = io.BytesIO()
    Image.fromarray(make_image(1, 50, 40)).convert("CMYK").save(buffer, "JPEG", quality=90)
    (image,) = load(tmp_path, [("jpg", buffer.getvalue())], None, dtype="uint8", memory_format="channels_last")
    assert np.array_equal(image, np.asarray(reference(buffer.getvalue())))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_equals_pillow(tmp_path, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    files = [
        ("jpg", encode(make_image(5, 90, 60), "JPEG", exif=exif)),
        ("png", encode(make_image(6, 50, 70), "PNG", exif=exif)),
    ]
    whole = load(tmp_path, files, None, dtype="uint8", memory_format="channels_last")
    for image, (_, data) in zip(whole, files, strict=True):
        assert np.array_equal(image, np.asarray(reference(data)))
    cropped = load(tmp_path, files, [T.Resize(40), T.CenterCrop(32)], dtype="uint8")
    ours_is_theirs(cropped, files, v2.Compose([v2.Resize(40), v2.CenterCrop(32)]))


def ours_is_theirs(images, files, transform, *, levels=1):
    for image, (_, data) in zip(images, files, strict=True):
        theirs = np.asarray(v2.functional.pil_to_tensor(transform(reference(data))))
        assert image.shape == theirs.shape
        assert np.abs(image.astype(int) - theirs.astype(int)).max() <= levels


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ([T.Resize(256), T.CenterCrop(224)], [v2.Resize(256), v2.CenterCrop(224)]),
        ([T.Resize((50, 80))], [v2.Resize((50, 80))]),
        ([T.CenterCrop(100)], [v2.CenterCrop(100)]),
        ([T.CenterCrop((33, 77)), T.Resize((20, 30))], [v2.CenterCrop((33, 77)), v2.Resize((20, 30))]),
        ([T.Pad((1, 2, 3, 4), fill=9), T.Resize((64, 64))], [v2.Pad((1, 2, 3, 4), fill=9), v2.Resize((64, 64))]),
        ([T.RandomHorizontalFlip(1.0), T.CenterCrop(64)], [v2.RandomHorizontalFlip(1.0), v2.CenterCrop(64)]),
        ([T.RandomVerticalFlip(1.0), T.Resize((64, 64))], [v2.RandomVerticalFlip(1.0), v2.Resize((64, 64))]),
        (
            [T.Resize((60, 60), interpolation="nearest")],
            [v2.Resize((60, 60), interpolation=v2.InterpolationMode.NEAREST)],
        ),
    ],
)
def test_geometry_equals_torchvision(tmp_path, ours, theirs):
    files = jpegs()
    ours_is_theirs(load(tmp_path, files, ours, dtype="uint8"), files, v2.Compose(theirs))


def test_two_resizes_round_to_bytes_between_as_pil_does(tmp_path):
    files = jpegs()[2:]
    ours = [T.Resize((90, 120)), T.CenterCrop(80), T.Resize((40, 40))]
    theirs = v2.Compose([v2.Resize((90, 120)), v2.CenterCrop(80), v2.Resize((40, 40))])
    # Each of the two roundings may differ by one level.
    ours_is_theirs(load(tmp_path, files, ours, dtype="uint8"), files, theirs, levels=2)


def test_random_resized_crop_is_a_crop_and_a_resize(tmp_path):
    """The box is drawn by us; given the box, the pixels must be torchvision's."""
    data = encode(make_image(3, 300, 200), "JPEG", quality=95)
    scale, ratio = (0.5, 0.5), (1.0, 1.0)
    (image,) = load(tmp_path, [("jpg", data)], [T.RandomResizedCrop(64, scale, ratio)], dtype="uint8", seed=3)
    side = round((300 * 200 * 0.5) ** 0.5)
    pil = reference(data)
    candidates = [
        (top, left, v2.functional.resized_crop(pil, top, left, side, side, [64, 64]))
        for top in range(200 - side + 1)
        for left in range(300 - side + 1)
    ]
    best = min(
        np.abs(np.asarray(v2.functional.pil_to_tensor(c)).astype(int) - image.astype(int)).max()
        for _, _, c in candidates
    )
    assert best <= 1


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_normalise_equals_torchvision(tmp_path, dtype):
    files = jpegs()[3:5]
    ours = [T.CenterCrop(64), T.ToTensor(), T.Normalize.imagenet()]
    theirs = v2.Compose(
        [
            v2.CenterCrop(64),
            v2.PILToTensor(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ]
    )
    for image, (_, data) in zip(load(tmp_path, files, ours, dtype=dtype), files, strict=True):
        expected = theirs(reference(data)).to(getattr(torch, dtype)).float().numpy()
        tolerance = {"float32": 1e-6, "float16": 2e-3, "bfloat16": 1.6e-2}[dtype]
        assert np.abs(image.astype(np.float32) - expected).max() <= tolerance


def test_floats_without_normalise_run_from_zero_to_one(tmp_path):
    (image,) = load(tmp_path, [jpegs()[3]], None)
    expected = np.asarray(reference(jpegs()[3][1])).transpose(2, 0, 1) / 255
    assert image.dtype == np.float32
    assert np.abs(image - expected).max() < 1e-6


def test_fast_decoding_stays_close(tmp_path):
    """DCT scaling moves pixels a little; on smooth images by a few levels."""
    y, x = np.mgrid[0:1600, 0:1200]
    smooth = np.stack([x * 255 / 1200, y * 255 / 1600, (x + y) * 255 / 2800], axis=-1).astype(np.uint8)
    files = [("jpg", encode(smooth, "JPEG", quality=95))]
    recipe = [T.Resize((100, 75))]
    exact = load(tmp_path, files, recipe, dtype="uint8")
    fast = load(tmp_path, files, recipe, dtype="uint8", decode="fast")
    difference = np.abs(exact[0].astype(int) - fast[0].astype(int))
    assert 0 < difference.max() <= 4


def test_views_of_one_image(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for number, (_, data) in enumerate(jpegs()[2:6]):
        (folder / f"{number}.jpg").write_bytes(data)
    crop = T.RandomResizedCrop(32)
    views = {"image": {"a": [crop], "b": [crop], "whole": [T.Resize((32, 32))]}}
    single = {"image": [T.Resize((32, 32))]}
    knobs = {"batch_size": 4, "output": "numpy", "dtype": "uint8"}
    with fl.Loader(folder, transforms=views, **knobs) as many, fl.Loader(folder, transforms=single, **knobs) as one:
        (batch,), (plain,) = list(many), list(one)
    assert set(batch["image"]) == {"a", "b", "whole"}
    assert not np.array_equal(batch["image"]["a"], batch["image"]["b"])
    assert np.array_equal(batch["image"]["whole"], plain["image"])
