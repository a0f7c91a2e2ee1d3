"""Views, replay, and samples that meet: against plain NumPy, whatever the threads, ranks and resumes."""

from __future__ import annotations

import io
import json
from typing import Any

import feedline as fl
import numpy as np
import pytest
import torch
from feedline import transforms as T
from PIL import Image
from torchvision.transforms import v2

CLASSES = 5


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """42 images with labels, masks, boxes and instance masks."""
    rng = np.random.default_rng(3)
    rows = []
    for number in range(42):
        pixels = rng.integers(0, 255, (40, 48, 3), dtype=np.uint8)
        mask = np.kron(rng.integers(0, 4, (5, 6), dtype=np.uint8), np.ones((8, 8), np.uint8))
        count = 1 + number % 3
        boxes = np.array([[2 + 9 * k, 3 + 5 * k, 20 + 9 * k, 18 + 5 * k] for k in range(count)], np.float32)
        stack = np.zeros((count, 40, 48), np.uint8)
        for k, (x0, y0, x1, y1) in enumerate(boxes.astype(int)):
            stack[k, y0:y1, x0:x1] = 1
        image = io.BytesIO()
        Image.fromarray(pixels).save(image, "PNG")
        row = {"image": image.getvalue(), "label": number % CLASSES, "mask": mask, "boxes": boxes, "masks": stack}
        rows.append({**row, "ids": np.arange(count) + 100 * number})
    schema = {"image": "image", "label": "int", "mask": "array", "boxes": "array", "masks": "array", "ids": "array"}
    return fl.pack(rows, tmp_path_factory.mktemp("mix") / "pack", schema=schema, progress=False, image="as-is")


def knobs(**more: Any) -> dict[str, Any]:
    base = {"batch_size": 8, "shuffle": True, "seed": 5, "output": "numpy", "fields": ["image", "label"]}
    return {**base, "transforms": [T.RandomResizedCrop(32), T.Normalize.imagenet()], **more}


def batches(ds: Any, **more: Any) -> list[dict[str, Any]]:
    loader = fl.Loader(ds, **knobs(**more))
    loader.set_epoch(1)
    return list(loader)


def same(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, fl.Ragged):
        return same(one.data, other.data) and same(one.offsets, other.offsets)
    if isinstance(one, list):
        return one == other
    return one.shape == other.shape and bool((one == other).all())


def test_views_share_what_is_yoked(pack: Any) -> None:
    crops = [T.RandomResizedCrop(32), T.ColorJitter(0.9, 0.9)]
    views = {"a": crops, "b": T.Yoked("a", share=["RandomResizedCrop"]), "c": list(crops)}
    small = T.Yoked(crops, ["RandomResizedCrop"], ops=[T.RandomResizedCrop(16)])
    made = batches(pack, transforms={"image": {**views, "d": small}}, return_params=True, dtype="uint8")
    for batch in made:
        for row in range(len(batch["index"])):
            a, b, c, d = (batch[f"image.params.{view}"][row]["actions"] for view in "abcd")
            assert a[:2] == b[:2]
            assert a != b
            assert a[0] != c[0]
            assert a[0] == d[0]
        assert batch["image"]["d"].shape[2:] == (16, 16)
    with pytest.raises(fl.Error, match="not a plain view"):
        fl.Loader(pack, **knobs(transforms={"image": {"b": T.Yoked("a", share=["Pad"])}}))
    with pytest.raises(fl.Error, match="no draw to share"):
        fl.Loader(pack, **knobs(transforms={"image": {"a": crops, "b": T.Yoked("a", share=["Pad"])}}))


def test_params_replay_what_the_loader_did(pack: Any) -> None:
    ops = [T.RandomResizedCrop(32), T.RandAugment(), T.ColorJitter(0.4), T.Normalize.imagenet()]
    targets = {"mask": T.Mask(dtype="uint8"), "boxes": T.Boxes(labels="ids")}
    fields = ["image", "mask", "boxes", "ids"]
    made = batches(pack, transforms=ops, return_params=True, targets=targets, fields=fields)
    for batch in made:
        assert json.loads(json.dumps(batch["image.params"])) == batch["image.params"]
        for row, index in enumerate(batch["index"]):
            sample, params = pack[int(index)], batch["image.params"][row]
            assert params["version"] == 1
            image = torch.from_numpy(np.asarray(Image.open(io.BytesIO(sample["image"]))).copy()).permute(2, 0, 1)
            again, mask, boxes = T.replay(
                params, image, mask=sample["mask"], boxes=sample["boxes"], targets={"mask": T.Mask(dtype="uint8")}
            )
            assert (again.numpy() == batch["image"][row]).all()
            assert (mask == batch["mask"][row]).all()
            assert np.allclose(boxes, batch["boxes"][row], atol=1e-5)


def test_every_view_has_its_targets(pack: Any) -> None:
    views = {"big": [T.RandomResizedCrop(32)], "small": [T.RandomResizedCrop(16)]}
    targets = {"mask": T.Mask(), "boxes": T.Boxes(labels="ids")}
    batch = batches(pack, transforms={"image": views}, targets=targets, fields=["image", "mask", "boxes", "ids"])[0]
    assert batch["mask.big"].shape == (8, 32, 32)
    assert batch["mask.small"].shape == (8, 16, 16)
    assert {"boxes.big", "boxes.small", "ids.big", "ids.small"} <= batch.keys()


@pytest.mark.parametrize("image", ["jpeg", "dct", "compact", "yuv420", "rgb"])
def test_views_of_every_kind_of_pack_are_cut_from_one_decoding(tmp_path: Any, image: Any) -> None:
    """Small crops, far from each other or not, turned by EXIF or not: each view is what it is alone."""
    rng = np.random.default_rng(8)
    rows = []
    for number in range(6):
        photo = Image.fromarray(rng.integers(0, 255, (20, 26, 3), dtype=np.uint8)).resize((208, 160))
        turned, stream = Image.Exif(), io.BytesIO()
        turned[0x112] = (1, 6, 3, 8, 5, 2)[number]
        photo.save(stream, "JPEG", quality=90, exif=turned)
        rows.append({"image": stream.getvalue()})
    ds = fl.pack(rows, tmp_path / "pack", schema={"image": "image"}, image=image, progress=False)
    views = {
        "a": [T.RandomResizedCrop(32, (0.02, 0.1))],
        "b": [T.RandomResizedCrop(24, (0.02, 0.1)), T.RandomHorizontalFlip()],
        "c": [T.RandomCrop(40), T.ColorJitter(0.4)],
        "d": [T.CenterCrop((300, 20))],
    }
    more = {"fields": ["image"], "dtype": "uint8", "batch_size": 6, "return_params": True}
    (batch,) = batches(ds, transforms={"image": views}, **more)
    (whole,) = batches(ds, transforms={"image": {**views, "e": []}}, **more, collate="list")
    for row in range(6):
        full = torch.from_numpy(np.asarray(whole["image"]["e"][row]))
        for view in views:
            again = T.replay(batch[f"image.params.{view}"][row], full)
            assert (again.numpy() == batch["image"][view][row]).all(), (row, view)


def test_values_of_boxes_follow_the_boxes_of_their_view(pack: Any) -> None:
    """Views drop different boxes: labels and masks of each go with its own."""
    views = {"a": [T.CenterCrop(40)], "b": [T.CenterCrop((16, 16))], "c": [T.Pad(4)]}
    (batch, *_) = batches(pack, transforms={"image": views}, targets=TARGETS, fields=FIELDS, shuffle=False)
    counts = []
    for row, index in enumerate(batch["index"]):
        whole = pack[int(index)]
        for view in views:
            boxes, ids, masks = (batch[f"{name}.{view}"][row] for name in ("boxes", "ids", "masks"))
            assert len(boxes) == len(ids) == len(masks)
            for number, plane in zip(ids, masks, strict=True):
                # The mask is that of its own object, moved alone.
                own = whole["masks"][int(number) - 100 * int(index)]
                image = np.zeros((40, 48, 3), np.uint8)
                alone = T.apply(views[view], image, mask=own, targets={"mask": T.Mask(dtype="uint8")})[1]
                assert (plane == alone).all(), (index, view, number)
            counts.append(len(boxes))
    assert len(set(counts)) > 1


def test_two_kinds_of_boxes_have_values_of_their_own() -> None:
    image = np.zeros((20, 20, 3), np.uint8)
    row = {"image": image, "near": np.array([[0, 0, 7, 7], [13, 13, 19, 19]]), "far": np.array([[13, 0, 19, 7]])}
    row |= {"name": np.array([1, 2]), "code": np.array([7]), "masks": np.zeros((2, 20, 20), np.uint8)}
    row["masks"][1] = 5
    ds = fl.open([row], schema={"image": "image"})
    targets = {"near": T.Boxes(labels=["name", "masks"]), "far": T.Boxes(labels="code"), "masks": T.Mask(dtype="uint8")}
    crop = [T.Pad((0, 0, 8, 8)), T.RandomCrop(28), T.CenterCrop((28, 28))]
    plain = {"transforms": crop, "output": "numpy"}
    batch = next(iter(fl.Loader(ds, targets=targets, **plain)))
    assert batch["name"][0].tolist() == [1, 2]
    assert batch["code"][0].tolist() == [7]
    cut = next(iter(fl.Loader(ds, targets=targets, output="numpy", transforms=[T.CenterCrop((4, 4)), T.Resize(8)])))
    assert [len(cut[name][0]) for name in ("near", "name", "masks", "far", "code")] == [0, 0, 0, 0, 0]
    right = next(
        iter(fl.Loader(ds, targets=targets, output="numpy", transforms=[T.RandomHorizontalFlip(1.0), T.Pad(2)]))
    )
    assert right["masks"][0][:, 5, 5].tolist() == [0, 5]
    both = {**targets, "far": T.Boxes(labels=["code", "name"])}
    with pytest.raises(fl.Error, match="both far and near name it"):
        fl.Loader(ds, targets=both, **plain)


def test_multicrop_makes_views(pack: Any) -> None:
    crops = T.MultiCrop((32, 16), (2, 3), ops=[T.RandomHorizontalFlip()])
    batch = batches(pack, transforms=crops)[0]
    assert sorted(batch["image"]) == ["global0", "global1", "local0", "local1", "local2"]
    assert not same(batch["image"]["global0"], batch["image"]["global1"])


def plain(pack: Any, **more: Any) -> dict[int, tuple[np.ndarray[Any, Any], int]]:
    """Each sample's image and label, unmixed."""
    return {
        int(index): (batch["image"][row], int(batch["label"][row]))
        for batch in batches(pack, **more)
        for row, index in enumerate(batch["index"])
    }


@pytest.mark.parametrize("per", ["batch", "pair", "sample"])
def test_mixup_blends_neighbours(pack: Any, per: Any) -> None:
    alone = plain(pack)
    shares = []
    for batch in batches(pack, batch_transforms=[T.MixUp(0.4, CLASSES, per=per)]):
        index = batch["index"].tolist()
        assert batch["label"].shape == (len(index), CLASSES)
        for row in range(len(index)):
            partner = row ^ 1
            (image, label), (other, other_label) = alone[index[row]], alone[index[partner]]
            made = batch["label"][row]
            own = made[label] if label != other_label else None
            assert np.isclose(made.sum(), 1)
            if own is not None:
                assert np.allclose(batch["image"][row], own * image + (1 - own) * other, atol=1e-5)
                shares.append(float(own))
    counts = {"batch": 6, "pair": 21, "sample": 42}
    assert len({round(share, 6) for share in shares}) <= counts[per]
    assert len({round(share, 6) for share in shares}) >= {"batch": 3, "pair": 12, "sample": 25}[per]


def test_cutmix_shows_boxes_of_neighbours(pack: Any) -> None:
    alone = plain(pack)
    for like in ("torchvision", "timm"):
        mix = T.CutMix(1.0, CLASSES, per="pair", like=like, smoothing=0.0)  # type: ignore[arg-type]
        for batch in batches(pack, batch_transforms=[mix]):
            index = batch["index"].tolist()
            for row in range(len(index)):
                (image, label), (other, other_label) = alone[index[row]], alone[index[row ^ 1]]
                changed = (batch["image"][row] != image).any(0)
                assert (batch["image"][row][:, changed] == other[:, changed]).all()
                rows, columns = np.nonzero(changed)
                if len(rows) == 0 or label == other_label:
                    continue
                area = (np.ptp(rows) + 1) * (np.ptp(columns) + 1)
                assert np.isclose(batch["label"][row][label], 1 - area / 1024, atol=0.02)


def test_distributions_equal_torchvisions() -> None:
    """The mean and spread of the shares that torchvision's MixUp and CutMix draw."""
    torch.manual_seed(0)
    images, labels = torch.rand(2, 3, 32, 32), torch.tensor([0, 1])
    for ours, theirs in [
        (T.MixUp(0.5, 2, per="pair"), v2.MixUp(alpha=0.5, num_classes=2)),
        (T.CutMix(1.0, 2, per="pair"), v2.CutMix(alpha=1.0, num_classes=2)),
    ]:
        expected = np.array([theirs(images, labels)[1][0, 0].item() for _ in range(4000)])
        rows = [{"image": np.zeros((32, 32, 3), np.uint8), "label": number % 2} for number in range(2)]
        ds = fl.open(rows, schema={"image": "image", "label": "int"})
        size = [T.Resize((32, 32))]
        loader = fl.Loader(ds, batch_size=2, batch_transforms=[ours], transforms=size, output="numpy", num_workers=1)
        found = np.array([next(iter(loader))["label"][0, 0] for _ in range(1500)])
        assert abs(found.mean() - expected.mean()) < 0.03
        assert abs(found.std() - expected.std()) < 0.03


def test_labels_become_probabilities(pack: Any) -> None:
    hot = np.concatenate([batch["label"] for batch in batches(pack, batch_transforms=[T.OneHot(CLASSES)])])
    assert (np.sort(hot, 1)[:, -1] == 1).all()
    assert (hot.sum(1) == 1).all()
    soft = np.concatenate([b["label"] for b in batches(pack, batch_transforms=[T.LabelSmoothing(0.1, CLASSES)])])
    assert np.allclose(soft, hot * 0.9 + 0.1 / CLASSES)
    with pytest.raises(fl.Error, match="not one of 3 classes"):
        batches(pack, batch_transforms=[T.OneHot(3)])


TARGETS = {"mask": T.Mask(), "boxes": T.Boxes(labels=["ids", "masks"]), "masks": T.Mask(dtype="uint8")}
FIELDS = ["image", "mask", "boxes", "ids", "masks"]


def check_objects(batch: dict[str, Any]) -> None:
    """Boxes, ids and masks of instances belong together."""
    for row in range(len(batch["index"])):
        boxes, stack = batch["boxes"][row], batch["masks"][row]
        assert len(boxes) == len(stack) == len(batch["ids"][row])
        for (x0, y0, x1, y1), plane in zip(boxes, stack, strict=True):
            rows, columns = np.nonzero(plane)
            if len(rows):
                around = (columns.min() - x0, rows.min() - y0, x1 - columns.max() - 1, y1 - rows.max() - 1)
                assert min(around) >= -1.5


def test_mosaic_moves_boxes_and_masks(pack: Any) -> None:
    ops = [T.Resize((32, 32))]
    more = {"targets": TARGETS, "fields": FIELDS, "transforms": ops, "dtype": "uint8"}
    alone = {
        int(b["index"][row]): (b["image"][row], b["mask"][row])
        for b in batches(pack, **more)
        for row in range(len(b["index"]))
    }
    seen = 0
    for batch in batches(pack, batch_transforms=[T.Mosaic()], **more):
        check_objects(batch)
        index = batch["index"].tolist()
        for row in range(len(index) // 4 * 4):
            four = [index[row // 4 * 4 + (row + k) % 4] for k in range(4)]
            # The corner of each quarter that lies at the image's corner of the same side.
            made, mask = batch["image"][row], batch["mask"][row]
            assert not (made == alone[index[row]][0]).all()
            owners = {int(number) // 100 for number in batch["ids"][row]}
            assert owners <= set(four)
            values = {int(v) for v in np.unique(mask)}
            assert values <= {int(v) for member in four for v in np.unique(alone[member][1])}
            seen += 1
    assert seen == 40


def test_copy_paste_pastes_objects(pack: Any) -> None:
    more = {"targets": TARGETS, "fields": FIELDS, "transforms": [T.Resize((32, 32))], "dtype": "uint8"}
    alone = {int(b["index"][row]): b["image"][row] for b in batches(pack, **more) for row in range(len(b["index"]))}
    pasted = 0
    for batch in batches(pack, batch_transforms=[T.CopyPaste()], **more):
        check_objects(batch)
        index = batch["index"].tolist()
        for row in range(len(index)):
            other = alone[index[row ^ 1]]
            for number, plane in zip(batch["ids"][row], batch["masks"][row], strict=True):
                if number // 100 == index[row ^ 1]:
                    pasted += 1
                    assert (batch["image"][row][:, plane > 0] == other[:, plane > 0]).all()
    assert pasted > 20
    with pytest.raises(fl.Error, match="stack of masks"):
        fl.Loader(pack, **knobs(batch_transforms=[T.CopyPaste()]))


def test_what_cannot_be_mixed_is_refused(pack: Any) -> None:
    for more, reason in [
        ({"batch_size": 7, "batch_transforms": [T.MixUp(1.0, 5)]}, "not a multiple of 2"),
        ({"batch_size": 6, "batch_transforms": [T.Mosaic()]}, "not a multiple of 4"),
        ({"batch_transforms": [T.MixUp(1.0, 5)], "transforms": []}, "one size"),
        ({"batch_transforms": [T.MixUp(1.0, 5, label="nobody")]}, "no integer field 'nobody'"),
        ({"batch_transforms": [T.MixUp(1.0, 5), T.CutMix(1.0, 6)]}, "num_classes"),
        (
            {
                "batch_transforms": [T.MixUp(1.0, 5)],
                "targets": {"mask": T.Mask()},
                "fields": ["image", "label", "mask"],
            },
            "blended",
        ),
        ({"batch_transforms": [T.MixUp(1.0, 5)], "dtype": "float16"}, "float16"),
        ({"batch_transforms": [T.MixUp(1.0, 5)], "map": len}, "batch_map"),
        ({"repeats": 2, "shuffle": False}, "repeats"),
        ({"batch_transforms": [T.CenterCrop(3)]}, "not one of T.MixUp"),
    ]:
        with pytest.raises(fl.Error, match=reason):
            fl.Loader(pack, **knobs(**more))
    with pytest.raises(fl.Error, match="num_classes"):
        T.MixUp(1.0)


def test_repeats_have_their_own_draws(pack: Any) -> None:
    made = batches(pack, repeats=3, batch_size=6)
    index = np.concatenate([batch["index"] for batch in made])
    images = np.concatenate([batch["image"] for batch in made])
    assert len(index) == 42
    for start in range(0, 42, 3):
        assert len(set(index[start : start + 3])) == 1
        assert not (images[start] == images[start + 1]).all()
    assert len(set(index)) == 14


EVERYTHING: dict[str, Any] = {
    "transforms": {"image": {"a": [T.RandomResizedCrop(32)], "b": [T.RandomResizedCrop(16), T.RandomHorizontalFlip()]}},
    "targets": {"mask": T.Mask()},
    "fields": ["image", "label", "mask"],
    "return_params": True,
    "batch_transforms": [T.RandomChoice([T.CutMix(1.0, CLASSES), T.CutMix(0.3, CLASSES, per="pair")], p=[1, 2])],
    "repeats": 2,
}
PLAIN_MIX: dict[str, Any] = {"batch_transforms": [T.RandomChoice([T.MixUp(0.4, CLASSES), T.CutMix(1.0, CLASSES)])]}
MOSAIC: dict[str, Any] = {
    "batch_transforms": [T.Mosaic(p=0.7)],
    "targets": TARGETS,
    "fields": FIELDS,
    "transforms": {"image": {"a": [T.RandomResizedCrop(32)], "b": [T.RandomResizedCrop(24), T.RandomRotation(20)]}},
    "return_params": True,
}
PASTE: dict[str, Any] = {**MOSAIC, "batch_transforms": [T.CopyPaste(p=0.7)], "transforms": [T.RandomResizedCrop(32)]}


def joined(ranks: list[dict[str, Any]], name: str) -> Any:
    """A column of all ranks' batches together, as plain data."""
    values = [rank[name] for rank in ranks]
    if isinstance(values[0], dict):
        return {view: np.concatenate([value[view] for value in values]) for view in values[0]}
    if isinstance(values[0], fl.Ragged):
        return [one.tolist() for value in values for one in value.tolist()]
    return np.concatenate(values) if isinstance(values[0], np.ndarray) else [one for value in values for one in value]


def same_over_ranks(whole: dict[str, Any], ranks: list[dict[str, Any]]) -> bool:
    return whole.keys() == ranks[0].keys() and all(same(joined([whole], name), joined(ranks, name)) for name in whole)


@pytest.mark.parametrize("more", [EVERYTHING, MOSAIC, PASTE], ids=["everything", "mosaic", "paste"])
def test_any_batch_resumes_on_any_number_of_ranks(pack: Any, more: dict[str, Any]) -> None:
    """A state of one rank, loaded by four, and one of four loaded by two: masks, boxes, views, parameters, mixed."""
    whole = batches(pack, **{**more, "batch_size": 16})

    def ranks(world: int, state: Any) -> list[list[dict[str, Any]]]:
        parts = []
        for rank in range(world):
            loader = fl.Loader(pack, **knobs(**{**more, "batch_size": 16 // world}, rank=rank, world_size=world))
            loader.load_state_dict(state)
            parts.append(list(loader))
        return [list(batch) for batch in zip(*parts, strict=True)]

    for first, second in ((1, 4), (4, 2)):
        loader = fl.Loader(pack, **knobs(**{**more, "batch_size": 16 // first}, rank=first - 1, world_size=first))
        loader.set_epoch(1)
        iterator = iter(loader)
        for number in range(1, len(whole)):
            next(iterator)
            rest = ranks(second, json.loads(json.dumps(loader.state_dict())))
            assert len(rest) == len(whole) - number
            assert all(same_over_ranks(one, other) for one, other in zip(whole[number:], rest, strict=True))


@pytest.mark.parametrize("more", [EVERYTHING, PLAIN_MIX, MOSAIC], ids=["everything", "mix", "mosaic"])
def test_batches_do_not_depend_on_threads_ranks_or_resumes(pack: Any, more: dict[str, Any]) -> None:
    more = {**more, "batch_size": 16}
    whole = batches(pack, num_workers=1, **more)
    assert all(same(one, other) for one, other in zip(whole, batches(pack, num_workers=4, **more), strict=True))
    loader = fl.Loader(pack, **knobs(**more))
    loader.set_epoch(1)
    for number in range(len(whole)):
        iterator = iter(loader)
        for _ in range(number):
            next(iterator)
        state = json.loads(json.dumps(loader.state_dict()))
        resumed = fl.Loader(pack, **knobs(**more))
        resumed.load_state_dict(state)
        rest = list(resumed)
        if state["epoch"] == 1:
            assert all(same(one, other) for one, other in zip(whole[number:], rest, strict=True))
        loader.set_epoch(1)
    for world in (2, 4):
        parts = [
            batches(pack, **{**more, "batch_size": 16 // world}, rank=rank, world_size=world) for rank in range(world)
        ]
        for number, batch in enumerate(whole):
            ranks = [part[number] for part in parts]
            assert (np.concatenate([r["index"] for r in ranks]) == batch["index"]).all()
            for name, value in batch.items():
                if isinstance(value, np.ndarray):
                    assert (np.concatenate([r[name] for r in ranks]) == value).all(), (world, number, name)
                elif isinstance(value, dict):
                    assert all((np.concatenate([r[name][v] for r in ranks]) == value[v]).all() for v in value)
                elif isinstance(value, fl.Ragged):
                    assert (np.concatenate([r[name].data for r in ranks]) == value.data).all(), name


def test_bad_samples_leave_their_partners_unmixed() -> None:
    good = io.BytesIO()
    Image.new("RGB", (8, 8), (50, 60, 70)).save(good, "PNG")
    rows = [
        {"image": b"\x89PNG\r\n\x1a\nbad" if number == 2 else good.getvalue(), "label": number} for number in range(6)
    ]
    ds = fl.open(rows, schema={"image": "image", "label": "int"})
    loader = fl.Loader(
        ds,
        batch_size=6,
        batch_transforms=[T.MixUp(1.0, 6)],
        transforms=[T.Resize((8, 8))],
        on_error="skip",
        output="numpy",
    )
    batch = next(iter(loader))
    assert batch["index"].tolist() == [0, 1, 3, 4, 5]
    assert batch["label"][2].tolist() == [0, 0, 0, 1, 0, 0]
