"""Masks, boxes and keypoints move with their image: against torchvision, and against the moved pixels themselves."""

from __future__ import annotations

import io
import json
import tarfile
import warnings
from pathlib import Path
from typing import Any

import feedline as fl
import numpy as np
import pytest
import torch
from feedline import transforms as T
from PIL import Image
from torchvision import tv_tensors
from torchvision.transforms import InterpolationMode, v2
from torchvision.transforms.v2 import functional as F

RNG = np.random.default_rng(7)


def smooth_mask(height: int, width: int, classes: int = 6) -> np.ndarray[Any, Any]:
    """Regions of classes, as masks have them."""
    small = RNG.integers(0, classes, (height // 8 + 1, width // 8 + 1), dtype=np.uint8)
    return np.kron(small, np.ones((8, 8), np.uint8))[:height, :width]


def png(array: np.ndarray[Any, Any], palette: list[int] | None = None) -> bytes:
    image = Image.fromarray(array)
    if palette is not None:
        image = Image.fromarray(array, "P") if array.dtype == np.uint8 else image
        image.putpalette(palette)
    stream = io.BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue()


def jpeg(height: int, width: int) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(RNG.integers(0, 255, (height, width, 3), dtype=np.uint8)).save(stream, "JPEG")
    return stream.getvalue()


IMAGE = RNG.integers(0, 255, (96, 128, 3), dtype=np.uint8)
MASK = smooth_mask(96, 128)
BOXES = np.array([[10, 12, 50, 40], [60, 20, 120, 90], [0, 0, 128, 96], [3.5, 70.25, 20.5, 90.75]], np.float32)


def tv_all(function: Any, *args: Any, **kwargs: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Torchvision's mask and boxes."""
    mask = tv_tensors.Mask(torch.from_numpy(MASK.copy())[None])
    boxes = tv_tensors.BoundingBoxes(torch.from_numpy(BOXES.copy()), format="XYXY", canvas_size=(96, 128))
    moved_mask = function(mask, *args, **kwargs)
    moved_boxes = function(boxes, *args, **{k: v for k, v in kwargs.items() if k != "interpolation"})
    return moved_mask[0].numpy(), F.clamp_bounding_boxes(moved_boxes).numpy()


def ours(params: dict[str, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    rules = {"boxes": T.Boxes(min_size=0), "mask": T.Mask(dtype="uint8")}
    _, mask, boxes = T.replay(params, IMAGE, mask=MASK, boxes=BOXES, targets=rules)
    return mask, boxes


def drawn(op: Any, seed: int = 3) -> dict[str, Any]:
    return T.apply([op], IMAGE, seed=seed, return_params=True)[1]


def check_boxes(mine: np.ndarray[Any, Any], theirs: np.ndarray[Any, Any], most: float = 0.5) -> None:
    alive = theirs[(theirs[:, 2] > theirs[:, 0]) & (theirs[:, 3] > theirs[:, 1])]
    assert mine.shape == alive.shape
    assert np.abs(mine - alive).max(initial=0) <= most


@pytest.mark.parametrize("seed", range(4))
def test_crops_and_resizes_equal_torchvisions(seed: int) -> None:
    params = drawn(T.RandomResizedCrop(64), seed)
    crop = params["actions"][0]
    at = (crop["top"], crop["left"], crop["height"], crop["width"])
    mask, boxes = ours(params)
    exact = InterpolationMode.NEAREST_EXACT
    _, their_boxes = tv_all(F.resized_crop, *at, size=[64, 64])
    # Its resized_crop takes the other NEAREST for masks, whatever its arguments are; its resize does not.
    part = F.crop(tv_tensors.Mask(torch.from_numpy(MASK.copy())[None]), *at)
    theirs = F.resize(part, [64, 64], interpolation=exact)[0].numpy()
    # Ties: the place in the middle between two pixels is rounded by Pillow's sum and by torch's product.
    assert (mask != theirs).mean() <= 0.02
    check_boxes(boxes, their_boxes)
    pil = Image.fromarray(MASK).crop((at[1], at[0], at[1] + at[3], at[0] + at[2])).resize((64, 64), Image.NEAREST)
    assert (mask == np.asarray(pil)).all()


def test_flips_and_pads_equal_torchvisions() -> None:
    for op, function, args in [
        (T.RandomHorizontalFlip(1.0), F.horizontal_flip, ()),
        (T.RandomVerticalFlip(1.0), F.vertical_flip, ()),
        (T.CenterCrop(60), F.center_crop, ([60, 60],)),
        (T.CenterCrop((120, 140)), F.center_crop, ([120, 140],)),
        (T.Pad((3, 5, 7, 9)), F.pad, ([3, 5, 7, 9],)),
    ]:
        mask, boxes = ours(drawn(op))
        theirs, their_boxes = tv_all(function, *args)
        assert (mask == theirs).all(), op
        check_boxes(boxes, their_boxes)
    for mode in ("edge", "reflect", "symmetric"):
        mask, _ = ours(drawn(T.Pad((3, 5, 7, 9), padding_mode=mode)))
        tensor = tv_tensors.Mask(torch.from_numpy(MASK.copy())[None])
        assert (mask == F.pad(tensor, [3, 5, 7, 9], padding_mode=mode)[0].numpy()).all(), mode


@pytest.mark.parametrize("seed", range(3))
def test_warps_equal_torchvisions(seed: int) -> None:
    angle_params = drawn(T.RandomRotation(60), seed)
    coefficients = [float(c) for c in angle_params["actions"][0]["coefficients"]]
    angle = -np.degrees(np.arctan2(coefficients[1], coefficients[0]))
    mask, boxes = ours(angle_params)
    for sign in (1, -1):
        theirs, their_boxes = tv_all(F.rotate, sign * angle)
        if (mask != theirs).mean() < 0.03:
            break
    assert (mask != theirs).mean() < 0.03
    check_boxes(boxes, their_boxes)


@pytest.mark.parametrize("seed", range(3))
def test_perspectives_equal_torchvisions(seed: int) -> None:
    params = drawn(T.RandomPerspective(0.4, 1.0), seed)
    coefficients = [float(c) for c in params["actions"][0]["coefficients"]]
    mask, boxes = ours(params)
    theirs, their_boxes = tv_all(F.perspective, None, None, coefficients=coefficients)
    assert (mask != theirs).mean() < 0.03
    check_boxes(boxes, their_boxes)


def test_crops_by_overlap_equal_torchvisions() -> None:
    """Shares, places and the boxes that stay, over many draws."""
    ours_, theirs = [], []
    op, other = T.RandomIoUCrop(trials=20), v2.RandomIoUCrop(trials=20)
    given = tv_tensors.BoundingBoxes(torch.from_numpy(BOXES.copy()), format="XYXY", canvas_size=(96, 128))
    image = torch.zeros(3, 96, 128)
    torch.manual_seed(3)
    for seed in range(3000):
        _, left, params = T.apply([op], IMAGE, seed=seed, boxes=BOXES, return_params=True)
        crop = next((a for a in params["actions"] if a["do"] == "Crop"), None)
        ours_.append((crop["width"], crop["height"], crop["left"], crop["top"], len(left)) if crop else None)
        made = other.make_params([image, given])
        kept = int(made["is_within_crop_area"].sum()) if made else 0
        theirs.append((made["width"], made["height"], made["left"], made["top"], kept) if made else None)
    share = [sum(one is None for one in many) / 3000 for many in (ours_, theirs)]
    assert abs(share[0] - share[1]) < 0.04
    mine, expected = (np.array([one for one in many if one is not None]) for many in (ours_, theirs))
    for column in range(5):
        a, b = np.sort(mine[:, column]), np.sort(expected[:, column])
        grid = np.union1d(a, b)
        gap = np.abs(
            np.searchsorted(a, grid, side="right") / len(a) - np.searchsorted(b, grid, side="right") / len(b)
        ).max()
        assert gap < 1.95 * np.sqrt(2 / min(len(a), len(b))), column  # Kolmogorov-Smirnov, 0.1 %


def test_crops_by_overlap_need_boxes(group: Path) -> None:
    with pytest.raises(fl.Error, match="RandomIoUCrop.*boxes"):
        T.apply(T.RandomIoUCrop(), IMAGE)
    ds = fl.open(group, fields=FIELDS)
    ops = [T.RandomIoUCrop(), T.Resize((48, 48))]
    with pytest.raises(fl.Error, match="RandomIoUCrop needs the sample's boxes"):
        fl.Loader(ds, transforms={"image": ops}, fields=["image"])
    with fl.Loader(
        ds, transforms={"image": ops}, targets=TARGETS, return_params=True, output="numpy", batch_size=12
    ) as loader:
        (batch,) = list(loader)
    for row, params in enumerate(batch["image.params"]):
        sample = ds[int(batch["index"][row])]
        given = np.asarray(sample["boxes"], np.float32).reshape(-1, 4)
        image = np.asarray(Image.open(io.BytesIO(sample["image"])))
        made, boxes = T.apply(ops, image, index=int(batch["index"][row]), boxes=given)
        assert (batch["boxes"][row] == boxes).all()
        assert len(batch["label"][row]) == len(boxes) == len(batch["stack"][row])
        again, same = T.replay(params, image, boxes=given)
        assert (again == made).all()
        assert (same == boxes).all()


RANDOM = [
    T.RandomResizedCrop(80),
    T.RandomCrop(70, padding=4),
    T.RandomHorizontalFlip(),
    T.RandomVerticalFlip(),
    T.Resize(110),
    T.Pad(6),
    T.RandomRotation(40),
    T.RandomAffine(20, (0.1, 0.1), (0.8, 1.2), 10),
    T.RandomPerspective(0.3, 1.0),
    T.RandomZoomOut(p=1.0, side_range=(1.0, 1.5)),
    T.RandomTranslate(8),
    T.ScaleJitter((100, 100), (0.8, 1.4)),
    T.Letterbox(120),
    T.RandomRotate(1.0, 30),
    T.RandomZoom(1.0, (0.8, 1.2)),
    T.OpticalDistortion(0.2),
    T.ElasticTransform(alpha=20.0, sigma=6.0),
    T.RandomPatchShuffle((32,), p=1.0),
    T.RandomEmbed((150, 160)),
    T.RandAugment(),
    T.TrivialAugmentWide(),
    T.AutoAugment(),
    T.ColorJitter(0.4, 0.4, 0.4, 0.1),
]


def test_points_move_with_their_pixels() -> None:
    """10,000 points through random programs: a dot is drawn, the mask is moved, the dot is found again."""
    rng = np.random.default_rng(1)
    height, width = 96, 128
    checked = 0
    worst = 0.0
    seed = 0
    while checked < 10_000:
        ops = [RANDOM[number] for number in rng.integers(0, len(RANDOM), rng.integers(1, 4))]
        seed += 1
        try:
            _, params = T.apply(ops, IMAGE, seed=seed, return_params=True)
        except fl.Error:
            continue  # a crop larger than what is left of the image
        # Dots of 3 x 3 pixels on a grid, each with a number of its own.
        xs, ys = np.meshgrid(np.arange(6, width - 6, 7), np.arange(6, height - 6, 7))
        points = rng.permutation(np.stack([xs.ravel(), ys.ravel()], 1))[:24] + rng.integers(-1, 2, (24, 2))
        mask = np.zeros((height, width), np.int32)
        for number, (x, y) in enumerate(points, 1):
            mask[y - 1 : y + 2, x - 1 : x + 2] = number
        given = np.concatenate([points, np.ones_like(points[:, :1])], 1).astype(np.float32)
        _, moved, found = T.replay(params, IMAGE, mask=mask, keypoints=given)
        # Pixels of a dot at an edge, or cut by a patch, are not all there; the middle is.
        rows, columns = np.nonzero(moved)
        numbers = moved[rows, columns]
        counts = np.bincount(numbers, minlength=len(points) + 1)
        sum_x = np.bincount(numbers, columns, minlength=len(points) + 1)
        sum_y = np.bincount(numbers, rows, minlength=len(points) + 1)
        inside = found[:, 2] > 0
        shuffled = any(action["do"] == "ShufflePatches" for action in params["actions"])
        for number, (x, y, _) in enumerate(found, 1):
            if counts[number] == 0 or not inside[number - 1]:
                continue
            if shuffled:
                near = np.abs(columns[numbers == number] - x) + np.abs(rows[numbers == number] - y)
                distance = max(0.0, near.min() - 0.5)
            else:
                # The nearest of the dot's pixels: a strong lens bends the dot itself.
                middle = np.hypot(sum_x[number] / counts[number] - x, sum_y[number] / counts[number] - y)
                near = np.hypot(columns[numbers == number] - x, rows[numbers == number] - y).min()
                distance = min(middle, near)
            worst = max(worst, float(distance))
            assert distance <= 1.0, (ops, seed, number, distance)
            checked += 1
    assert checked >= 10_000


ROUNDS = ("Resize", "Warp", "Sample")


def test_boxes_contain_their_pixels() -> None:
    """10,000 boxes through random programs: a filled box, moved as a mask, lies within the moved box and fills it."""
    rng = np.random.default_rng(5)
    tight = [op for op in RANDOM if not isinstance(op, (T.ElasticTransform, T.OpticalDistortion, T.RandomPatchShuffle))]
    checked, filled, seed = 0, 0, 0
    while checked < 10_000:
        ops = [tight[number] for number in rng.integers(0, len(tight), rng.integers(1, 3))]
        seed += 1
        corners = np.array([(x, y) for y in range(2, 70, 24) for x in range(2, 100, 25)]) + rng.integers(0, 4, (12, 2))
        boxes = np.concatenate([corners, corners + rng.integers(8, 20, (12, 2))], 1)
        mask = np.zeros((96, 128), np.int32)
        for number, (x0, y0, x1, y1) in enumerate(boxes, 1):
            mask[y0:y1, x0:x1] = number
        rules = {"boxes": T.Boxes(min_size=0)}
        given = {"mask": mask, "boxes": boxes, "labels": list(range(1, 13)), "targets": rules}
        try:
            _, moved, found, numbers, params = T.apply(ops, IMAGE, seed=seed, return_params=True, **given)
        except fl.Error:
            continue  # a crop larger than what is left of the image
        rounds = [action for action in params["actions"] if action["do"] in ROUNDS]
        turned = sum(action["do"] != "Resize" for action in rounds)
        uncut = {**given, "targets": {"boxes": T.Boxes(min_size=4, min_visibility=0.9999)}}
        whole = T.replay(params, IMAGE, **uncut)[3] if len(rounds) <= 1 else []
        for number, (x0, y0, x1, y1) in zip(numbers, found, strict=True):
            rows, columns = np.nonzero(moved == number)
            if len(rows) == 0:
                continue
            checked += 1
            around = [columns.min() - x0, rows.min() - y0, x1 - columns.max() - 1, y1 - rows.max() - 1]
            # Every pass rounds to whole pixels, and a later one enlarges that.
            assert min(around) >= (-0.51 if len(rounds) <= 1 else -1.5), (ops, seed, number, around)
            if number in whole:
                # The corner of a box that was turned may show no pixel of its own.
                assert max(around) <= 0.51 + turned, (ops, seed, number, around)
                filled += 1
    assert filled > 2000


def test_keypoints_flip_as_torchvisions_do() -> None:
    points = np.array([[0, 0], [127, 95], [20, 30]], np.float32)
    _, moved = T.apply([T.RandomHorizontalFlip(1.0)], IMAGE, keypoints=points)
    theirs = F.horizontal_flip(tv_tensors.KeyPoints(torch.from_numpy(points), canvas_size=(96, 128)))
    assert (moved == theirs.numpy()).all()
    visible = np.concatenate([points, np.full((3, 1), 2, np.float32)], 1)
    _, moved = T.apply([T.CenterCrop(40)], IMAGE, keypoints=visible)
    assert moved[:, 2].tolist() == [0, 0, 0]
    _, moved = T.apply([T.CenterCrop(90)], IMAGE, keypoints=visible)
    assert moved[:, 2].tolist() == [0, 0, 2]


def tar_of(path: Path, samples: list[dict[str, bytes]]) -> Path:
    with tarfile.open(path, "w") as tar:
        for number, sample in enumerate(samples):
            for ending, data in sample.items():
                info = tarfile.TarInfo(f"{number:05d}.{ending}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    return path


def npy(array: np.ndarray[Any, Any]) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A WebDataset of images with masks, boxes, labels and keypoints."""
    samples = []
    for number in range(12):
        height, width = 60 + number * 3, 90 - number * 2
        count = number % 4
        boxes = np.array([[5 + 9 * k, 4 + 6 * k, 30 + 9 * k, 28 + 6 * k] for k in range(count)], np.float32)
        stack = np.zeros((count, height, width), np.uint8)
        for k, (x0, y0, x1, y1) in enumerate(boxes.astype(int)):
            stack[k, y0:y1, x0:x1] = 1
        samples.append(
            {
                "jpg": jpeg(height, width),
                "mask.png": png(smooth_mask(height, width)),
                "boxes.npy": npy(boxes.reshape(-1, 4)),
                "label.json": json.dumps([10 * number + k for k in range(count)]).encode(),
                "points.npy": npy(np.array([[width / 2, height / 2, 2]], np.float32)),
                "stack.npy": npy(stack),
            }
        )
    return tar_of(tmp_path_factory.mktemp("group") / "group.tar", samples)


TARGETS = {
    "mask": T.Mask(fill=255),
    "boxes": T.Boxes(labels=["label", "stack"]),
    "points": T.Keypoints(),
    "stack": T.Mask(dtype="uint8"),
}
FIELDS = {
    "image": "jpg",
    "mask": "mask.png",
    "boxes": "boxes.npy",
    "label": "label.json",
    "points": "points.npy",
    "stack": "stack.npy",
}
OPS = [T.RandomResizedCrop(48, scale=(0.3, 1.0)), T.RandomHorizontalFlip(), T.RandomRotation(10), T.ColorJitter(0.2)]


def test_a_loader_moves_all_of_a_group(group: Path) -> None:
    ds = fl.open(group, fields=FIELDS)
    knobs: dict[str, Any] = {
        "batch_size": 5,
        "transforms": {"image": OPS},
        "output": "numpy",
        "dtype": "uint8",
        "seed": 4,
    }
    knobs["memory_format"] = "channels_last"
    batches = list(fl.Loader(ds, targets=TARGETS, num_workers=3, **knobs))
    raw = [ds[i] for i in range(12)]
    seen = 0
    for batch in batches:
        assert batch["mask"].shape[1:] == (48, 48)
        assert batch["mask"].dtype == np.int64
        for row, index in enumerate(batch["index"]):
            sample = raw[index]
            image = np.asarray(Image.open(io.BytesIO(sample["image"])).convert("RGB"))
            mask = np.asarray(Image.open(io.BytesIO(sample["mask"])))
            got = T.apply(
                OPS,
                image,
                seed=4,
                index=int(index),
                mask=mask,
                boxes=sample["boxes"],
                keypoints=sample["points"],
                labels=list(range(len(sample["boxes"]))),
                targets={"mask": T.Mask(fill=255)},
            )
            made, moved, boxes, points, kept = got
            assert np.abs(made.astype(int) - batch["image"][row].astype(int)).max() <= 3
            assert (moved == batch["mask"][row]).all()
            assert np.allclose(boxes, batch["boxes"][row], atol=1e-4)
            assert np.allclose(points, batch["points"][row], atol=1e-4)
            assert batch["label"][row].tolist() == [10 * int(index) + k for k in kept]
            assert batch["stack"][row].shape == (len(kept), 48, 48)
            seen += 1
    assert seen == 12
    again = list(fl.Loader(ds, targets=TARGETS, num_workers=1, **knobs))
    for one, other in zip(batches, again, strict=True):
        assert (one["mask"] == other["mask"]).all()
        assert (one["boxes"].data == other["boxes"].data).all()


def test_classes_are_returned_as_stored(tmp_path: Path) -> None:
    indices = np.array([[0, 1], [21, 255]], np.uint8)
    palette = [0] * 768
    palette[3:6] = palette[63:66] = [128, 0, 0]
    wide = np.array([[1, 2], [5, 65535]], np.uint16)
    for folder in ("images", "voc", "wide", "tiff"):
        (tmp_path / folder).mkdir()
    Image.new("RGB", (2, 2)).save(tmp_path / "images" / "a.png")
    (tmp_path / "voc" / "a.png").write_bytes(png(indices, palette))
    Image.fromarray(wide).save(tmp_path / "wide" / "a.png")
    Image.fromarray(wide).save(tmp_path / "tiff" / "a.tiff")
    parts = {"image": "images", "voc": "voc", "wide": "wide", "tiff": "tiff"}
    ds = fl.open({name: tmp_path / part for name, part in parts.items()})
    batch = next(iter(fl.Loader(ds, targets={"voc": T.Mask(), "wide": T.Mask(), "tiff": T.Mask()}, output="numpy")))
    assert batch["voc"][0].tolist() == indices.tolist()
    assert batch["wide"][0].tolist() == batch["tiff"][0].tolist() == wide.tolist()
    with pytest.raises(fl.Error, match="channels"):
        next(
            iter(
                fl.Loader(
                    ds,
                    transforms={"voc": []},
                    targets={"image": T.Mask(of="voc"), "wide": T.Mask(of="voc"), "tiff": T.Mask(of="voc")},
                )
            )
        )


def test_partners_are_found_by_name(tmp_path: Path) -> None:
    for folder in ("images", "masks"):
        (tmp_path / folder / "sub").mkdir(parents=True)
    for name in ("a", "b", "sub/c"):
        Image.new("RGB", (8, 8)).save(tmp_path / "images" / f"{name}.jpg")
    for name in ("a", "sub/c", "d"):
        Image.new("L", (8, 8)).save(tmp_path / "masks" / f"{name}.png")
    with pytest.warns(UserWarning, match="left out") as caught:
        ds = fl.open({"image": tmp_path / "images", "mask": tmp_path / "masks"})
    said = " ".join(str(warning.message) for warning in caught)
    assert "mask" in said
    assert ": b" in said
    assert ": d" in said
    assert list(ds["key"]) == ["a", "sub/c"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(fl.Error, match="no images"):
        fl.open({"image": tmp_path / "images", "mask": tmp_path / "empty"})
    with pytest.warns(UserWarning, match="left out"):
        city = fl.open({"image": tmp_path / "images" / "**.jpg", "mask": tmp_path / "masks" / "**.png"})
    assert len(city) == 2


def test_annotations_of_coco_voc_and_yolo(tmp_path: Path) -> None:
    images = tmp_path / "images"
    images.mkdir()
    for name in ("a", "b"):
        Image.new("RGB", (100, 50)).save(images / f"{name}.jpg")
    coco = {
        "images": [{"id": 7, "file_name": "a.jpg"}, {"id": 9, "file_name": "b.jpg"}],
        "categories": [{"id": 3, "name": "cat"}, {"id": 1, "name": "dog"}],
        "annotations": [{"image_id": 7, "category_id": 3, "bbox": [10, 5, 20, 10], "iscrowd": 1}],
    }
    (tmp_path / "instances.json").write_text(json.dumps(coco))
    ds = fl.open(images, annotations=tmp_path / "instances.json")
    assert ds.classes == ["dog", "cat"]
    assert ds[0]["boxes"].tolist() == [[10, 5, 30, 15]]
    assert ds[0]["label"].tolist() == [1]
    assert ds[1]["boxes"].shape == (0, 4)
    targets = {"boxes": T.Boxes(labels=["label", "iscrowd"])}
    batch = next(iter(fl.Loader(ds, targets=targets, transforms=[T.Resize((25, 50))], output="numpy")))
    assert batch["boxes"][0].tolist() == [[5, 2.5, 15, 7.5]]
    assert len(batch["boxes"][1]) == 0
    assert batch["label"][0].tolist() == [1]
    assert batch["iscrowd"][0].tolist() == [1]
    voc = tmp_path / "voc"
    voc.mkdir()
    box = "<bndbox><xmin>10</xmin><ymin>5</ymin><xmax>30</xmax><ymax>15</ymax></bndbox>"
    for name in ("a", "b"):
        (voc / f"{name}.xml").write_text(f"<annotation><object><name>cat</name>{box}</object></annotation>")
    assert fl.open(images, annotations=voc)[1]["boxes"].tolist() == [[10, 5, 30, 15]]
    yolo = tmp_path / "yolo"
    yolo.mkdir()
    (yolo / "a.txt").write_text("1 0.2 0.2 0.2 0.2\n")
    ds = fl.open(images, annotations=yolo)
    rules = T.Boxes("cxcywh", normalized=True, labels="label")
    batch = next(
        iter(fl.Loader(ds, targets={"boxes": rules}, transforms=[T.RandomHorizontalFlip(1.0)], output="numpy"))
    )
    assert np.allclose(batch["boxes"][0], [[0.8, 0.2, 0.2, 0.2]])
    assert len(batch["boxes"][1]) == 0
    (yolo / "b.txt").write_text("cat 1 2 3 4")
    with pytest.raises(fl.Error, match=r"b\.txt, line 1"):
        fl.open(images, annotations=yolo)


def test_erased_regions_keep_their_targets() -> None:
    """As the docs and these transforms say; each changes the image."""
    points = np.array([[20, 30, 2], [100, 80, 1]], np.float32)
    given = {"mask": MASK, "boxes": BOXES, "keypoints": points, "targets": {"mask": T.Mask(dtype="uint8")}}
    for op in (
        T.RandomErasing(1.0, scale=(0.3, 0.5)),
        T.CoarseDropout((3, 5), (0.2, 0.4), (0.2, 0.4), p=1.0),
        T.Cutout(40),
        T.GridMask(p=1.0),
        T.CircularMask(),
        T.RandomBackgroundBlend(fade_mode="circular"),
    ):
        image, mask, boxes, moved = T.apply([op], IMAGE, seed=1, **given)
        assert (np.asarray(image) != IMAGE).any(), op
        assert (mask == MASK).all(), op
        assert (boxes == BOXES).all(), op
        assert (moved == points).all(), op
    for op in (T.RandomErasing, T.CoarseDropout):
        assert "are not changed" in (op.__doc__ or "")


def test_targets_that_do_not_follow_are_named_once(group: Path) -> None:
    ds = fl.open(group, fields={"image": "jpg", "boxes": "boxes.npy", "mask": "mask.png"})
    with pytest.warns(UserWarning, match="boxes, mask stay behind"):
        fl.Loader(ds, transforms={"image": [T.RandomHorizontalFlip()]}, fields=["image", "boxes", "mask"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fl.Loader(ds, transforms={"image": [T.RandomHorizontalFlip()]})
        fl.Loader(ds, transforms={"image": [T.ColorJitter(0.2)]})
        fl.Loader(ds, transforms={"image": [T.RandomHorizontalFlip()]}, targets={"boxes": T.Boxes(), "mask": T.Mask()})


def test_targets_that_cannot_follow_are_refused(group: Path) -> None:
    ds = fl.open(group, fields=FIELDS)
    knobs: dict[str, Any] = {"transforms": {"image": [T.CenterCrop(20)]}}
    for targets, reason in [
        ({"nothing": T.Mask()}, "no field 'nothing'"),
        ({"boxes": T.Boxes(labels="nothing")}, "no field 'nothing'"),
        ({"boxes": T.Mask()}, "whole numbers"),
        ({"mask": T.Boxes()}, "neither an array"),
        ({"mask": T.Mask(of="nothing")}, "set of= to the image"),
    ]:
        with pytest.raises(fl.Error, match=reason):
            next(iter(fl.Loader(ds, targets=targets, fields=["image", *targets], **knobs)))
    pair = ["image", "mask"]
    with pytest.raises(fl.Error, match="AugMix"):
        fl.Loader(ds, targets={"mask": T.Mask()}, transforms={"image": [T.Compose([T.AugMix()])]}, fields=pair)
    with pytest.raises(fl.Error, match="FiveCrop"):
        fl.Loader(ds, targets={"mask": T.Mask()}, transforms={"image": [T.FiveCrop(9)]}, fields=pair)
    with pytest.raises(fl.Error, match="not decoded"):
        fl.Loader(ds, targets={"mask": T.Mask()}, decode="none")
    with pytest.raises(fl.Error, match="add parentheses"):
        fl.Loader(ds, targets={"mask": T.Mask})
    with pytest.raises(fl.Error, match="fill"):
        T.Mask(fill=256, dtype="uint8")
    other = fl.open(tar_of(group.parent / "sizes.tar", [{"jpg": jpeg(9, 9), "mask.png": png(smooth_mask(9, 8))}]))
    with pytest.raises(fl.Error, match="9x8.*9x9"):
        next(iter(fl.Loader(other, targets={"mask.png": T.Mask()})))
