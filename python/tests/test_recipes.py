"""Recipes against plain torchvision: the same pixels where draws are fixed, the same distribution where they are not."""

from __future__ import annotations

import io
import random
from typing import Any

import feedline as fl
import numpy as np
import pytest
import torch
from feedline import recipes
from feedline import transforms as T
from PIL import Image
from torchvision.transforms import InterpolationMode, v2

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
RNG = np.random.default_rng(2)
SMALL = RNG.integers(0, 255, (12, 16, 3), dtype=np.uint8)
PHOTO = np.asarray(Image.fromarray(SMALL).resize((160, 120), Image.BICUBIC))


def finish() -> list[Any]:
    return [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]


def ours(ops: Any, count: int) -> torch.Tensor:
    image = torch.from_numpy(PHOTO.copy()).permute(2, 0, 1)
    return torch.stack([T.apply(ops, image, index=index) for index in range(count)])


def theirs(ops: list[Any], count: int) -> torch.Tensor:
    torch.manual_seed(0)
    compose, image = v2.Compose([*ops, *finish()]), Image.fromarray(PHOTO)
    return torch.stack([compose(image) for _ in range(count)])


def check_alike(mine: torch.Tensor, other: torch.Tensor) -> None:
    """The mean over draws, and how draws spread around it, per channel and over the image."""
    for dims in ((0, 2, 3), (0, 1)):
        spread = other.std(0).mean()
        assert (mine.mean(dims) - other.mean(dims)).abs().max() < 0.35 * spread + 0.02
    per_image = (mine.mean((2, 3)), other.mean((2, 3)))
    assert torch.allclose(per_image[0].std(0), per_image[1].std(0), rtol=0.25, atol=0.05)
    inside = (mine.std((1, 2, 3)).mean(), other.std((1, 2, 3)).mean())
    assert torch.allclose(*inside, rtol=0.1, atol=0.03)


def test_validation_equals_torchvision() -> None:
    mine = T.apply(recipes.imagenet_val(64, 72), torch.from_numpy(PHOTO.copy()).permute(2, 0, 1))
    other = v2.Compose([v2.Resize(72), v2.CenterCrop(64), *finish()])(Image.fromarray(PHOTO))
    assert (mine - other).abs().max() <= 2.1 / 255 / min(STD)


def blur(p: float, radius: tuple[float, float] = (0.1, 2.0)) -> Any:
    from PIL import ImageFilter

    def run(image: Any) -> Any:
        if torch.rand(1).item() >= p:
            return image
        return image.filter(ImageFilter.GaussianBlur(radius[0] + (radius[1] - radius[0]) * torch.rand(1).item()))

    return v2.Lambda(run)


def jitter(*values: float) -> list[Any]:
    return [v2.RandomApply([v2.ColorJitter(*values)], 0.8), v2.RandomGrayscale(0.2)]


CUBIC = InterpolationMode.BICUBIC
PLAIN: dict[str, tuple[Any, list[Any]]] = {
    "imagenet_train": (recipes.imagenet_train(48), [v2.RandomResizedCrop(48), v2.RandomHorizontalFlip()]),
    "mae": (
        recipes.mae(48),
        [v2.RandomResizedCrop(48, (0.2, 1.0), interpolation=CUBIC), v2.RandomHorizontalFlip()],
    ),
    "ijepa": (recipes.ijepa(48), [v2.RandomResizedCrop(48, (0.3, 1.0))]),
    "simclr": (
        recipes.simclr(48)["a"],
        [
            v2.RandomResizedCrop(48),
            v2.RandomHorizontalFlip(),
            *jitter(0.8, 0.8, 0.8, 0.2),
            v2.RandomApply([v2.GaussianBlur(5, (0.1, 2.0))], 0.5),
        ],
    ),
    "moco": (
        recipes.moco(48)["b"],
        [v2.RandomResizedCrop(48, (0.2, 1.0)), *jitter(0.4, 0.4, 0.4, 0.1), blur(0.5), v2.RandomHorizontalFlip()],
    ),
    "byol": (
        recipes.byol(48)["b"],
        [
            v2.RandomResizedCrop(48, interpolation=CUBIC),
            v2.RandomHorizontalFlip(),
            *jitter(0.4, 0.4, 0.2, 0.1),
            v2.RandomApply([v2.GaussianBlur(5, (0.1, 2.0))], 0.1),
            v2.RandomSolarize(128, 0.2),
        ],
    ),
    "dino": (
        recipes.dino(48, 24)["local0"],
        [
            v2.RandomResizedCrop(24, (0.05, 0.4), interpolation=CUBIC),
            v2.RandomHorizontalFlip(),
            *jitter(0.4, 0.4, 0.2, 0.1),
            blur(0.5),
        ],
    ),
    "fixmatch": (
        recipes.fixmatch(48)["weak"],
        [v2.RandomHorizontalFlip(), v2.RandomCrop(48, padding=6, padding_mode="reflect")],
    ),
    "segmentation": (
        recipes.segmentation(48, (0.5, 2.0)),
        [v2.RandomResize(24, 96), v2.RandomCrop(48, pad_if_needed=True), v2.RandomHorizontalFlip()],
    ),
    "detection": (
        recipes.detection(48),
        [
            v2.ScaleJitter((48, 48), (0.1, 2.0)),
            v2.RandomCrop(48, pad_if_needed=True, fill=(123, 117, 104)),
            v2.RandomHorizontalFlip(),
        ],
    ),
}


@pytest.mark.parametrize("name", PLAIN)
def test_distributions_equal_torchvisions(name: str) -> None:
    mine, other = PLAIN[name]
    check_alike(ours(mine, 400), theirs(other, 400))


def test_every_recipe_loads() -> None:
    stream = io.BytesIO()
    Image.fromarray(PHOTO).save(stream, "JPEG")
    ds = fl.open(
        [{"image": stream.getvalue(), "label": n} for n in range(4)], schema={"image": "image", "label": "int"}
    )
    made = {name: getattr(recipes, name)() for name in recipes.__all__ if not name.endswith("_batch")}
    for name, transforms in made.items():
        batch = next(iter(fl.Loader(ds, batch_size=4, transforms={"image": transforms})))
        views = batch["image"].values() if isinstance(batch["image"], dict) else [batch["image"]]
        assert all(torch.isfinite(view).all() for view in views), name
    mixed = fl.Loader(
        ds, batch_size=4, transforms=recipes.imagenet_a3(), batch_transforms=recipes.imagenet_a3_batch(10)
    )
    assert next(iter(mixed))["label"].shape == (4, 10)
    assert len(made["dino"]) == 8
    assert len(made["lejepa"]) == 6


def test_a3_equals_timm() -> None:
    """Against timm's own transform with the same arguments."""
    from timm.data import transforms_factory as factory

    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 - timm's own
    torch.manual_seed(0)
    arguments = {"interpolation": "bicubic", "auto_augment": "rand-m6-mstd0.5-inc1", "re_prob": 0.0}
    compose = factory.transforms_imagenet_train(48, mean=MEAN, std=STD, **arguments)
    image = Image.fromarray(PHOTO)
    check_alike(ours(recipes.imagenet_a3(48), 500), torch.stack([compose(image) for _ in range(500)]))


def test_a3s_mixing_equals_timm() -> None:
    """How often it cuts, and how the shares of the labels spread, against timm's own."""
    from timm.data import mixup

    np.random.seed(0)  # noqa: NPY002 - timm's own
    make = mixup.Mixup(0.1, 1.0, label_smoothing=0.0, num_classes=2, mode="pair", prob=1.0, switch_prob=0.5)
    labels = torch.arange(4000) % 2
    images = labels.float().view(-1, 1, 1, 1).expand(-1, 3, 30, 41).contiguous()
    # timm's partner is the other end of the batch, ours the neighbour: both have the other label.
    mixed, soft = make(images.clone(), labels)
    sides = [solid(30, 41, level) for level in (0, 255)]
    pack = [{"image": sides[n % 2], "label": n % 2} for n in range(4000)]
    ds = fl.open(pack, schema={"image": "image", "label": "int"})
    mix = [
        T.MixUp(0.1, 2, per="pair", like="timm", smoothing=0.0),
        T.CutMix(1.0, 2, per="pair", like="timm", smoothing=0.0),
    ]
    with fl.Loader(
        ds, batch_size=4000, batch_transforms=[T.RandomChoice(mix)], transforms=[T.Resize((30, 41))]
    ) as loader:
        (batch,) = list(loader)
    for one, other in (
        (shares(batch["image"], batch["label"], labels), shares(mixed, soft, labels)),
        (shares(mixed, soft, labels), shares(batch["image"], batch["label"], labels)),
    ):
        assert abs(one["cut"] - other["cut"]) < 0.12
        for name in ("cut shares", "mixed shares"):
            assert abs(one[name].mean() - other[name].mean()) < 0.06, name
            assert abs(one[name].std() - other[name].std()) < 0.06, name


def solid(height: int, width: int, level: int) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (width, height), (level,) * 3).save(stream, "PNG")
    return stream.getvalue()


def shares(images: torch.Tensor, soft: torch.Tensor, labels: torch.Tensor) -> dict[str, Any]:
    """Of black and white images: which were cut, and each one's own share, which its label must tell."""
    levels = images[:, 0].flatten(1)
    own = soft[torch.arange(len(labels)), labels]
    is_cut = ((levels < 0.001) | (levels > 0.999)).all(1)
    shown = torch.where(labels.bool(), levels.mean(1), 1 - levels.mean(1))
    assert torch.allclose(shown, own, atol=0.006)
    return {"cut": float(is_cut.float().mean()), "cut shares": own[is_cut], "mixed shares": own[~is_cut]}
