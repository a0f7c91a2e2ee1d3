"""Masks of COCO's annotations (polygons, run lengths), pixel by pixel against COCO's own tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import feedline as fl
import numpy as np
import pytest
from feedline import transforms as T
from PIL import Image
from pycocotools import mask as coco_mask

HEIGHT, WIDTH = 61, 83
# pycocotools 2.0.11 is older than NumPy's copy keyword.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


def theirs(segmentation: Any) -> np.ndarray[Any, Any]:
    """What `COCO.annToMask` gives."""
    if isinstance(segmentation, list):
        if not segmentation:
            return np.zeros((HEIGHT, WIDTH), np.uint8)
        runs = coco_mask.merge(coco_mask.frPyObjects(segmentation, HEIGHT, WIDTH))
    elif isinstance(segmentation["counts"], list):
        runs = coco_mask.frPyObjects(segmentation, HEIGHT, WIDTH)
    else:
        runs = segmentation
    return np.asarray(coco_mask.decode(runs))


def shapes(rng: np.random.Generator) -> list[Any]:
    """Polygons of every kind, and run lengths as numbers and as text."""
    found: list[Any] = []
    for corners in (3, 4, 5, 9, 40):
        # Random stars, with corners on whole, half and any numbers, partly outside.
        scale = rng.choice([1.0, 2.0, 100.0])
        points = rng.uniform([-8, -8], [WIDTH + 8, HEIGHT + 8], (corners, 2))
        found.append([(np.round(points * scale) / scale).ravel().tolist()])
    several = [rng.uniform(0, [WIDTH, HEIGHT], (6, 2)).ravel().tolist() for _ in range(3)]
    line = [5.0, 5.0, 30.0, 5.0, 60.0, 5.0]
    twice = [10.0, 10.0, 10.0, 10.0, 40.0, 12.0, 40.0, 50.0, 10.0, 50.0]
    found += [several, [line], [twice], []]
    plain = np.asfortranarray(rng.integers(0, 2, (HEIGHT, WIDTH), dtype=np.uint8))
    packed = coco_mask.encode(plain)
    found.append({"size": [HEIGHT, WIDTH], "counts": packed["counts"].decode()})
    flat = plain.ravel(order="F")
    edges = np.flatnonzero(np.diff(flat)) + 1
    counts = np.diff([0, *edges, len(flat)]).tolist()
    found.append({"size": [HEIGHT, WIDTH], "counts": [0, *counts] if flat[0] else counts})
    return found


def data_set(root: Path, per_image: list[list[Any]]) -> fl.Dataset:
    (root / "images").mkdir()
    coco: dict[str, Any] = {"images": [], "annotations": [], "categories": [{"id": 1, "name": "thing"}]}
    for number, segmentations in enumerate(per_image):
        Image.new("RGB", (WIDTH, HEIGHT)).save(root / "images" / f"{number}.png")
        coco["images"].append({"id": number, "file_name": f"{number}.png"})
        for segmentation in segmentations:
            annotation = {"image_id": number, "category_id": 1, "bbox": [0, 0, WIDTH, HEIGHT]}
            coco["annotations"].append({**annotation, "segmentation": segmentation})
    (root / "instances.json").write_text(json.dumps(coco))
    return fl.open(root / "images", annotations=root / "instances.json")


def test_outlines_are_drawn_as_coco_draws_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(11)
    given = [shapes(rng) for _ in range(30)]
    ds = data_set(tmp_path, [*given, []])
    assert ds[0]["masks"] == given[0]
    targets = {"boxes": T.Boxes(labels=["label", "iscrowd", "masks"]), "masks": T.Mask(dtype="uint8")}
    (batch,) = list(fl.Loader(ds, batch_size=40, targets=targets, output="numpy"))
    assert batch["masks"][30].shape == (0, HEIGHT, WIDTH)
    pixels = 0
    for row, segmentations in enumerate(given):
        stack = batch["masks"][row]
        assert len(stack) == len(batch["boxes"][row]) == len(segmentations)
        for number, segmentation in enumerate(segmentations):
            expected = theirs(segmentation)
            assert (stack[number] == expected).all(), (row, number, segmentation)
            pixels += int(expected.sum())
    assert pixels > 100_000


def test_masks_of_objects_move_with_their_boxes(tmp_path: Path) -> None:
    """Each object's box is drawn as a polygon: the moved mask fills the moved box; dropped boxes drop their masks."""
    rng = np.random.default_rng(2)
    corners = [[(int(x), int(y)) for x, y in rng.integers(0, [WIDTH - 20, HEIGHT - 20], (4, 2))] for _ in range(6)]
    rectangles = [[[[x, y, x + 15, y, x + 15, y + 12, x, y + 12]] for x, y in many] for many in corners]
    ds = data_set(tmp_path, rectangles)
    rows = [{**ds[i], "boxes": np.array([[x, y, x + 15, y + 12] for x, y in corners[i]])} for i in range(6)]
    ds = fl.open(rows, schema={"image": "image", "masks": "json"})
    targets = {"boxes": T.Boxes(labels=["label", "masks"], min_size=3), "masks": T.Mask(dtype="uint8")}
    ops = [T.RandomCrop(40), T.RandomHorizontalFlip(), T.Resize((80, 80))]
    fields = ["image", "boxes", "label", "masks"]
    dropped = 0
    for batch in fl.Loader(ds, batch_size=3, transforms=ops, targets=targets, fields=fields, output="numpy", seed=3):
        for row, index in enumerate(batch["index"]):
            stack, boxes = batch["masks"][row], batch["boxes"][row]
            assert len(stack) == len(boxes) == len(batch["label"][row])
            dropped += 4 - len(boxes)
            for plane, (x0, y0, x1, y1) in zip(stack, boxes, strict=True):
                ys, xs = np.nonzero(plane)
                assert np.abs(np.array([xs.min(), ys.min(), xs.max() + 1, ys.max() + 1]) - [x0, y0, x1, y1]).max() <= 1
                assert plane.sum() == (x1 - x0) * (y1 - y0), index
    assert dropped > 0
    mixed = fl.Loader(
        ds, batch_size=6, transforms=ops, targets=targets, fields=fields, batch_transforms=[T.CopyPaste()]
    )
    assert sum(len(boxes) for boxes in next(iter(mixed))["boxes"]) > 0


@pytest.mark.parametrize(
    ("segmentation", "reason"),
    [
        ([[1.0, 2.0, 3.0, 4.0, 5.0]], "5 numbers"),
        ([[1e9, 0.0, 5.0, 5.0, 0.0, 5.0]], "far outside"),
        ({"size": [HEIGHT, WIDTH - 1], "counts": [HEIGHT * (WIDTH - 1)]}, "61x82 for an image of 61x83"),
        ({"size": [HEIGHT, WIDTH], "counts": [5]}, "run lengths of 5 pixels"),
        ({"size": [HEIGHT, WIDTH], "counts": "\u00e9"}, "COCO's text"),
        ([["a"]], "polygons or run lengths"),
    ],
)
def test_wrong_outlines_name_their_sample(tmp_path: Path, segmentation: Any, reason: str) -> None:
    ds = data_set(tmp_path, [[[[1, 1, 5, 1, 5, 5]]], [segmentation]])
    knobs: dict[str, Any] = {"targets": {"masks": T.Mask()}, "fields": ["image", "masks"], "output": "numpy"}
    with pytest.raises(fl.SampleError, match=reason) as caught:
        list(fl.Loader(ds, **knobs))
    assert caught.value.sample == 1
    (batch,) = list(fl.Loader(ds, on_error="skip", **knobs))
    assert batch["index"].tolist() == [0]
