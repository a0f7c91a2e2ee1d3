"""The device half against the engine, on CPU tensors."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import feedline as fl
import numpy as np
import pytest
import torch
from feedline import transforms as T
from feedline.torch import Augment
from PIL import Image

SMALL = np.random.default_rng(4).integers(0, 255, (10, 12, 3), dtype=np.uint8)
PHOTO = torch.from_numpy(np.asarray(Image.fromarray(SMALL).resize((96, 80), Image.BICUBIC)).copy()).permute(2, 0, 1)

# Mean difference in levels that is allowed; the engine rounds after each step, torch does not.
CASES: list[tuple[Any, float]] = [
    (T.RandomCrop(60), 0.01),
    (T.RandomCrop(90, padding=8), 0.01),
    (T.RandomHorizontalFlip(), 0.01),
    (T.RandomVerticalFlip(), 0.01),
    (T.CenterCrop(120), 0.01),
    (T.Pad((3, 4), padding_mode="reflect"), 0.01),
    (T.Pad((3, 4), padding_mode="symmetric"), 0.01),
    (T.Pad((3, 4), padding_mode="edge"), 0.01),
    (T.RandomPatchShuffle((16,), 1.0), 0.01),
    (T.RandomResizedCrop(48), 2.0),
    (T.RandomResizedCrop(48, interpolation="bicubic"), 2.0),
    (T.Resize((30, 40)), 2.0),
    (T.RandomRotation(30, "bilinear"), 2.0),
    (T.RandomAffine(20, (0.1, 0.1), (0.8, 1.2), 10, "bilinear"), 2.0),
    (T.RandomPerspective(0.4, 1.0), 2.0),
    (T.OpticalDistortion(0.3), 2.0),
    (T.ElasticTransform(), 2.0),
    (T.RandomRotate(1.0, 40), 2.0),
    (T.RandomZoom(1.0, (0.7, 1.3)), 2.0),
    (T.RandomBrightness(0.4, p=1.0), 1.0),
    (T.RandomContrast(0.4, p=1.0), 1.0),
    (T.Grayscale(), 1.0),
    (T.Grayscale(3), 1.0),
    (T.RandomApply([T.RandomHorizontalFlip(1.0)], p=0.5), 0.01),
    (T.Compose([T.RandomHorizontalFlip(), T.RandomVerticalFlip()]), 0.01),
    (T.ColorJitter(0.5), 1.0),
    (T.ColorJitter(contrast=0.5), 1.0),
    (T.ColorJitter(saturation=0.5), 1.0),
    (T.ColorJitter(hue=0.2), 3.0),
    (T.RandomGrayscale(1.0), 1.0),
    (T.RandomInvert(1.0), 0.01),
    (T.RandomPosterize(3, 1.0), 0.01),
    (T.RandomSolarize(100, 1.0), 0.01),
    (T.RandomEqualize(1.0), 0.01),
    (T.RandomAutocontrast(1.0), 1.0),
    (T.RandomAdjustSharpness(2.0, 1.0), 1.0),
    (T.RandomGamma((0.7, 1.5), p=1.0), 1.0),
    (T.GaussianBlur(9, (0.5, 2.0)), 1.0),
    (T.PILGaussianBlur((0.5, 2.0)), 2.0),
    (T.CoarseDropout(p=1.0), 0.01),
    (T.Cutout(20), 0.01),
    (T.RandomChannelPermutation(), 0.01),
    (T.RGBShift(p=1.0), 0.01),
    (T.ChannelDropout(p=1.0), 0.01),
    (T.RandomColorJitterHSV(1.0, 0.2, 0.4, 0.4, 0.4), 1.0),
    (T.RandomColorJitterYIQ(1.0, 20, 0.4, 0.4, 0.2, 0.3), 1.0),
    (T.RandomRotateObject(1.0), 2.0),
    (T.RandomEmbed((120, 140), (0.3, 0.7), (0.3, 0.7), "power_law", fade_radius=20), 1.0),
    (T.RandomEmbed((60, 50), (0.1, 0.9), (0.1, 0.9), "constant", fill=(10, 20, 30)), 1.0),
    (T.RandomBackgroundBlend("power_law", fade_mode="cosine"), 1.0),
    (T.CircularMask(), 1.0),
    (T.PowerLawNoise(p=1.0), 1.0),
    (T.GridMask(p=1.0), 0.01),
    (T.RandAugment.timm("rand-m9-mstd0.5-inc1"), 3.0),
]


@pytest.mark.parametrize(
    ("op", "most"), CASES, ids=lambda case: type(case).__name__ if not isinstance(case, float) else ""
)
def test_the_same_draws_give_the_same_images(op: Any, most: float) -> None:
    index = [3, 11, 12, 500]
    made = Augment([op])(PHOTO[None].expand(4, -1, -1, -1), index=index, epoch=2, seed=9)
    for row, number in enumerate(index):
        expected = T.apply([op], PHOTO, seed=9, epoch=2, index=number).float()
        assert made[row].shape == expected.shape
        difference = (made[row] * 255 - expected).abs()
        # A warp's rim fades where the engine cuts.
        assert difference.median() <= most
        assert difference.mean() <= most + 1.0


def test_the_output_equals_the_loaders() -> None:
    ops = [T.RandomResizedCrop(40), T.RandomHorizontalFlip(), T.Normalize.imagenet(), T.RandomErasing(1.0)]
    made = Augment(ops)(PHOTO[None].float() / 255, index=torch.tensor([7]), epoch=1, seed=2)[0]
    expected = T.apply(ops, PHOTO, seed=2, epoch=1, index=7)
    assert made.shape == expected.shape
    assert (made - expected).abs().mean() < 0.05
    assert ((made == 0) == (expected == 0)).float().mean() > 0.99


def test_opponent_channels_equal_the_engines() -> None:
    for op, channels in ((T.RGBToLGN(), 5), (T.RGBToMagno(), 2)):
        ops = [T.RandomResizedCrop(64), op]
        made = Augment(ops)(PHOTO[None], index=[3], seed=1)[0]
        expected = T.apply(ops, PHOTO, seed=1, index=3)
        assert made.shape == expected.shape == (channels, 64, 64)
        assert (made - expected).abs().max() < 0.01


def test_boxes_of_noise_equal_the_engines() -> None:
    ops = [T.CenterCrop(40), T.Normalize.imagenet(), T.RandomErasing(1.0, value="random")]
    made = Augment(ops)(PHOTO[None], index=[4], seed=6)[0]
    expected = T.apply(ops, PHOTO, seed=6, index=4)
    assert (made - expected).abs().max() < 1e-4


def test_augment_is_one_operator_when_compiled() -> None:
    """No break in the graph, one graph for all batches, seeds and epochs, and the same images."""
    augment = Augment([T.RandomCrop(32), T.RandomHorizontalFlip(), T.ColorJitter(0.4, 0.4), T.Normalize.imagenet()])
    images = PHOTO[None].expand(3, -1, -1, -1)
    graphs: list[Any] = []

    def counted(graph: Any, _: Any) -> Any:
        graphs.append(graph)
        return graph

    def step(images: Any, index: Any, epoch: int, seed: int) -> Any:
        scaled = images.float() / 255
        return augment(scaled, index=index, epoch=epoch, seed=seed).relu().mean((2, 3))

    compiled = torch.compile(step, backend=counted, fullgraph=True)
    for epoch in range(6):
        index = torch.arange(3) + 10 * epoch
        assert torch.equal(compiled(images, index, epoch, 4), step(images, index, epoch, 4))
    # Once with the first epoch, and once with the epoch as a variable.
    assert len(graphs) <= 2
    assert "feedline.augment" in graphs[-1].code
    large = 2**64 - 5
    assert torch.equal(compiled(images, index, 3, large), step(images, index, 3, large))


def test_compiled_shapes_equal_the_results() -> None:
    """What torch assumes of the result while it compiles: sizes, channels and types of every kind of list."""
    for ops, size in [
        ([T.Resize((30, 20))], 96),
        ([T.RandomHorizontalFlip()], 80),
        ([T.CenterCrop(20), T.RGBToLGN()], 64),
    ]:
        augment = Augment(ops)
        images = torch.rand(2, 3, size, size + 4)
        compiled = torch.compile(
            lambda given, run=augment: run(given, index=[1, 2]) + 1, backend="aot_eager", fullgraph=True
        )
        assert torch.equal(compiled(images), augment(images, index=[1, 2]) + 1)
    torch.library.opcheck(
        torch.ops.feedline.augment.default,
        (torch.rand(2, 3, 20, 24), torch.tensor([3, 4]), augment_text([T.RandomCrop(16)]), 0, 1, -7),
    )


def augment_text(ops: Any) -> str:
    return json.dumps([op.to_spec() for op in ops])


def test_views_equal_the_loaders(folder: Path) -> None:
    """A dict of lists is a dict of views, with the draws of a loader's views; the same for `T.MultiCrop`."""
    crops = [T.RandomCrop(20), T.ColorJitter(0.5)]
    for views in (
        {"b": crops, "a": [T.RandomCrop(16)], "c": T.Yoked("b", share=["RandomCrop"])},
        T.MultiCrop((24, 12), (2, 3), ops=[T.RandomHorizontalFlip()]),
    ):
        knobs: dict[str, Any] = {"output": "torch", "batch_size": 6, "seed": 5}
        first = [T.Resize((40, 40))]
        whole = next(iter(fl.Loader(fl.open(folder), transforms={"image": first}, dtype="uint8", **knobs)))
        made = Augment(views)(whole["image"], index=whole["index"], seed=5)
        assert set(made) == set(views)
        rows = [{"image": image.permute(1, 2, 0).numpy()} for image in whole["image"]]
        loader = fl.Loader(fl.open(rows, schema={"image": "image"}), transforms={"image": views}, **knobs)
        expected = next(iter(loader))["image"]
        for view, images in expected.items():
            assert (images - made[view]).abs().mean() < 2 / 255, view


def test_params_can_be_replayed_on_other_images() -> None:
    augment = Augment({"a": [T.RandomCrop(60), T.RandomRotation(30)], "b": [T.RandomCrop(20)]})
    images = PHOTO[None].expand(2, -1, -1, -1)
    params = augment.params((80, 96), [4, 9], epoch=1, seed=2, view="a")
    made = augment(images, index=[4, 9], epoch=1, seed=2)["a"]
    assert torch.equal(augment.replay(params, images), made)
    mask = (torch.arange(80 * 96).view(1, 1, 80, 96) % 7 == 0).float().expand(2, 3, -1, -1)
    moved = T.replay(params[1], PHOTO, mask=mask[1, 0].byte())[1]
    assert (augment.replay(params, mask)[1, 0] == moved).float().mean() > 0.97
    with pytest.raises(fl.Error, match="'c' is not a view; a, b"):
        augment.params((80, 96), [1], view="c")


MIXES = [
    [T.MixUp(0.4, 5)],
    [T.MixUp(0.4, 5, per="sample", like="timm")],
    [T.CutMix(1.0, 5, per="pair")],
    [T.CutMix(1.0, 5, like="timm", minmax=(0.2, 0.7))],
    [T.RandomChoice([T.MixUp(0.4, 5, per="pair"), T.CutMix(1.0, 5, per="pair")]), T.LabelSmoothing(0.1, 5)],
    [T.OneHot(5)],
]


SLIPSTREAM = [
    "Compose",
    "RandomApply",
    "MultiSample",
    "ToTorchImage",
    "ToNumpy",
    "ToChannelsFirst",
    "ToChannelsLast",
    "ToDevice",
    "ToFloat",
    "ToFloatDiv",
    "Normalize",
    "NormalizeLGN",
    "ToGrayscale",
    "ToGrayscaleTorch",
    "RandomGrayscale",
    "RandomBrightness",
    "RandomContrast",
    "ColorJitter",
    "RandomColorJitter",
    "RandomColorJitterHSV",
    "RandomColorJitterYIQ",
    "RandomHorizontalFlip",
    "RandomRotate",
    "RandomZoom",
    "RandomRotateObject",
    "RandomEmbed",
    "RandomBackgroundBlend",
    "RandomGaussianBlur",
    "RandomSolarization",
    "RandomPatchShuffle",
    "CircularMask",
    "FixedOpticalDistortion",
    "RandomErasing",
    "Mixup",
    "SRGBToLMS",
    "LMSToParvo",
    "LMSToMagno",
    "LMSToKonio",
    "RGBToLGN",
    "RGBToMagno",
    "power_law_noise",
]  # slipstream's fastaugs, as of 2026-11


def test_slipstreams_transforms_exist_or_are_named() -> None:
    """Every name has a row in the docs; what a row says to be in `Augment` is compared with the engine in this file."""
    page = (Path(__file__).parents[2] / "docs" / "targets.md").read_text()
    table = page.split("<!-- slipstream", 1)[1].split("<!-- end -->", 1)[0].splitlines()[3:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table if line.startswith("|")]
    assert sorted(name for theirs, _, _ in rows for name in re.findall(r"`(\w+)`", theirs)) == sorted(SLIPSTREAM)
    compared = {type(op).__name__ for op, _ in CASES}
    # These have tests of their own above and below.
    compared |= {"Normalize", "RGBToLGN", "RGBToMagno", "RandomErasing", "MixUp", "CutMix"}
    for theirs, ours, there in rows:
        assert there.startswith(("yes", "no: ")), theirs
        if there.startswith("yes"):
            assert set(re.findall(r"T\.(\w+)", ours)) <= compared, theirs


@pytest.mark.parametrize("mix", MIXES, ids=str)
def test_samples_are_mixed_as_in_the_loader(mix: list[Any]) -> None:
    """The same partners, shares, boxes and labels, batch by batch, whatever part of the global batch this is."""
    rng = np.random.default_rng(3)
    rows = [{"image": rng.integers(0, 255, (24, 20, 3), dtype=np.uint8), "label": n % 5} for n in range(22)]
    ds = fl.open(rows, schema={"image": "image", "label": "int"})
    knobs: dict[str, Any] = {"batch_size": 8, "shuffle": True, "seed": 7, "output": "torch", "num_workers": 1}
    size = {"transforms": [T.Resize((24, 20))]}
    plain, mixed = (fl.Loader(ds, **knobs, **size, **more) for more in ({}, {"batch_transforms": mix}))
    augment = Augment([], batch_transforms=mix)
    for loader in (plain, mixed):
        loader.set_epoch(2)
    for number, (one, other) in enumerate(zip(plain, mixed, strict=True)):
        images, labels = augment(
            one["image"], one["index"], epoch=2, seed=7, labels=one["label"], position=8 * number, global_batch=8
        )
        assert torch.allclose(images, other["image"], atol=2e-3)
        assert torch.allclose(labels, other["label"], atol=1e-5)
        half = slice(4, 8)
        part, _ = augment(
            one["image"][half], one["index"][half], epoch=2, seed=7, labels=one["label"][half], position=8 * number + 4,
            global_batch=8,
        )  # fmt: skip
        assert torch.equal(part, images[half])


def test_mixing_needs_its_position() -> None:
    images, labels = PHOTO[None].expand(2, -1, -1, -1), torch.tensor([0, 1])
    mix = Augment([], batch_transforms=[T.MixUp(0.4, 2)])
    for call, reason in [
        (lambda: mix(images, [1, 2]), "need labels= and position="),
        (lambda: mix(images, [1, 2], labels=labels, position=3), "3 is odd"),
        (lambda: Augment([])(images, [1, 2], labels=labels), "only batch_transforms"),
        (lambda: Augment([], batch_transforms=[T.Mosaic()]), "only available in the engine"),
        (lambda: Augment([], batch_transforms=[T.OneHot(3), T.MixUp(1.0, 4)]), "num_classes"),
    ]:
        with pytest.raises(fl.Error, match=reason):
            call()


def test_unsupported_transforms_are_named() -> None:
    with pytest.raises(fl.Error, match="AddNoise"):
        Augment([T.GaussianNoise()])(PHOTO[None], index=[0])
    with pytest.raises(fl.Error, match=r"\[B, 3, H, W\]"):
        Augment([])(PHOTO, index=[0])
    with pytest.raises(fl.Error, match="2 numbers for 1 images"):
        Augment([])(PHOTO[None], index=[0, 1])
