"""The device half against the engine, on CPU tensors."""

from __future__ import annotations

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
    (T.RandomRotate(1.0, 40), 2.0),
    (T.RandomZoom(1.0, (0.7, 1.3)), 2.0),
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


def test_a_list_ends_as_the_loader_does() -> None:
    ops = [T.RandomResizedCrop(40), T.RandomHorizontalFlip(), T.Normalize.imagenet(), T.RandomErasing(1.0)]
    made = Augment(ops)(PHOTO[None].float() / 255, index=torch.tensor([7]), epoch=1, seed=2)[0]
    expected = T.apply(ops, PHOTO, seed=2, epoch=1, index=7)
    assert made.shape == expected.shape
    assert (made - expected).abs().mean() < 0.05
    assert ((made == 0) == (expected == 0)).float().mean() > 0.99


def test_opponent_channels_are_the_engines() -> None:
    for op, channels in ((T.RGBToLGN(), 5), (T.RGBToMagno(), 2)):
        ops = [T.RandomResizedCrop(64), op]
        made = Augment(ops)(PHOTO[None], index=[3], seed=1)[0]
        expected = T.apply(ops, PHOTO, seed=1, index=3)
        assert made.shape == expected.shape == (channels, 64, 64)
        assert (made - expected).abs().max() < 0.01


def test_boxes_of_noise_are_the_engines() -> None:
    ops = [T.CenterCrop(40), T.Normalize.imagenet(), T.RandomErasing(1.0, value="random")]
    made = Augment(ops)(PHOTO[None], index=[4], seed=6)[0]
    expected = T.apply(ops, PHOTO, seed=6, index=4)
    assert (made - expected).abs().max() < 1e-4


def test_it_stands_in_compiled_functions() -> None:
    """The call runs as it is; what is around it is compiled, once for all batches."""
    augment = Augment([T.RandomCrop(32), T.RandomHorizontalFlip(), T.ColorJitter(0.4, 0.4), T.Normalize.imagenet()])
    images = PHOTO[None].expand(3, -1, -1, -1)
    graphs = []

    def counted(graph: Any, _: Any) -> Any:
        graphs.append(graph)
        return graph

    def step(images: Any, index: Any, seed: int) -> Any:
        scaled = images.float() / 255
        return augment(scaled, index=index, seed=seed).relu().mean((2, 3))

    compiled = torch.compile(step, backend=counted)
    for seed in range(6):
        index = torch.arange(3) + 10 * seed
        assert torch.allclose(compiled(images, index, 4), step(images, index, 4), atol=1e-6)
    assert len(graphs) == 2


def test_what_torch_does_not_do_is_named() -> None:
    with pytest.raises(fl.Error, match="elastic"):
        Augment([T.ElasticTransform()])(PHOTO[None], index=[0])
    with pytest.raises(fl.Error, match="AddNoise"):
        Augment([T.GaussianNoise()])(PHOTO[None], index=[0])
    with pytest.raises(fl.Error, match=r"\[B, 3, H, W\]"):
        Augment([])(PHOTO, index=[0])
    with pytest.raises(fl.Error, match="2 numbers for 1 images"):
        Augment([])(PHOTO[None], index=[0, 1])
