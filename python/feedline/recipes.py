"""Augmentations used by papers and libraries, as lists (or views) of `feedline.transforms`.

Each names the source of its numbers. They are plain data: print one, change it, pass it to a loader.

>>> from feedline import recipes
>>> [type(op).__name__ for op in recipes.imagenet_train(224)]
['RandomResizedCrop', 'RandomHorizontalFlip', 'Normalize']
>>> sorted(recipes.dino())[:3]
['global0', 'global1', 'local0']
"""

from __future__ import annotations

from typing import Any

from . import transforms as T  # noqa: N812 - as users write it

__all__ = [
    "byol",
    "detection",
    "dino",
    "fixmatch",
    "ijepa",
    "imagenet_a3",
    "imagenet_a3_batch",
    "imagenet_train",
    "imagenet_val",
    "lejepa",
    "mae",
    "moco",
    "segmentation",
    "simclr",
]

Ops = list[Any]


def imagenet_train(size: int = 224) -> Ops:
    """The classic: torchvision's reference training (references/classification/presets.py) without extras."""
    return [T.RandomResizedCrop(size), T.RandomHorizontalFlip(), T.Normalize.imagenet()]


def imagenet_val(size: int = 224, resize: int | None = None) -> Ops:
    """The classic evaluation: resizes the shorter side to `resize` (256 for 224) and crops the centre."""
    return [T.Resize(resize or size * 256 // 224), T.CenterCrop(size), T.Normalize.imagenet()]


def imagenet_a3(size: int = 160) -> Ops:
    """Timm's A3 procedure (ResNet strikes back, Wightman et al. 2021, table 2): RandAugment m6, mstd 0.5, inc1.

    Its MixUp and CutMix are `imagenet_a3_batch`; its repeated augmentation (A1, A2) is `Loader(repeats=3)`.
    """
    return [
        T.RandomResizedCrop(size, interpolation="bicubic"),
        T.RandomHorizontalFlip(),
        T.RandAugment.timm("rand-m6-mstd0.5-inc1"),
        T.Normalize.imagenet(),
    ]


def imagenet_a3_batch(num_classes: int = 1000) -> Ops:
    """A3's batch transforms: MixUp 0.1 or CutMix 1.0, each half of the time, without label smoothing."""
    mixup = T.MixUp(0.1, num_classes, like="timm", smoothing=0.0)
    return [T.RandomChoice([mixup, T.CutMix(1.0, num_classes, like="timm", smoothing=0.0)])]  # type: ignore[list-item]


def _jitter(strength: float, p: float = 0.8, hue: float = 0.2) -> Any:
    values = (0.8 * strength, 0.8 * strength, 0.8 * strength, hue * strength)
    return T.RandomApply([T.ColorJitter(*values)], p)


def simclr(size: int = 224, strength: float = 1.0) -> dict[str, Ops]:
    """Two views of SimCLR (Chen et al. 2020, appendix A): crop, flip, jitter p 0.8, grey p 0.2, blur p 0.5."""
    kernel = size // 10 | 1
    view = [
        T.RandomResizedCrop(size),
        T.RandomHorizontalFlip(),
        _jitter(strength),
        T.RandomGrayscale(0.2),
        T.RandomApply([T.GaussianBlur(kernel, (0.1, 2.0))], 0.5),
        T.Normalize.imagenet(),
    ]
    return {"a": view, "b": list(view)}


def moco(size: int = 224) -> dict[str, Ops]:
    """Two views of MoCo v2 (facebookresearch/moco, main_moco.py with --aug-plus); its blur is Pillow's."""
    view = [
        T.RandomResizedCrop(size, (0.2, 1.0)),
        T.RandomApply([T.ColorJitter(0.4, 0.4, 0.4, 0.1)], 0.8),
        T.RandomGrayscale(0.2),
        T.PILGaussianBlur((0.1, 2.0), 0.5),
        T.RandomHorizontalFlip(),
        T.Normalize.imagenet(),
    ]
    return {"a": view, "b": list(view)}


def byol(size: int = 224) -> dict[str, Ops]:
    """Two views of BYOL (Grill et al. 2020, table 6): always blurred, never solarised; blurred 0.1, solarised 0.2."""

    def view(blur: float, solarize: float) -> Ops:
        return [
            T.RandomResizedCrop(size, interpolation="bicubic"),
            T.RandomHorizontalFlip(),
            T.RandomApply([T.ColorJitter(0.4, 0.4, 0.2, 0.1)], 0.8),
            T.RandomGrayscale(0.2),
            T.RandomApply([T.GaussianBlur(size // 10 | 1, (0.1, 2.0))], blur),
            T.RandomSolarize(128, solarize),
            T.Normalize.imagenet(),
        ]

    return {"a": view(1.0, 0.0), "b": view(0.1, 0.2)}


def dino(
    size: int = 224,
    local_size: int = 96,
    local_crops: int = 6,
    global_scale: tuple[float, float] = (0.4, 1.0),
    local_scale: tuple[float, float] = (0.05, 0.4),
) -> Any:
    """Views of DINO (facebookresearch/dino, main_dino.py): two global crops, some local ones, Pillow's blur."""

    def after(blur: float, solarize: float) -> Ops:
        return [
            T.RandomHorizontalFlip(),
            T.RandomApply([T.ColorJitter(0.4, 0.4, 0.2, 0.1)], 0.8),
            T.RandomGrayscale(0.2),
            T.PILGaussianBlur((0.1, 2.0), blur),
            *([T.RandomSolarize(128, solarize)] if solarize else []),
            T.Normalize.imagenet(),
        ]

    lists = [after(1.0, 0.0), after(0.1, 0.2), *(after(0.5, 0.0) for _ in range(local_crops))]
    counts, scales = (2, local_crops), (global_scale, local_scale)
    return T.MultiCrop((size, local_size), counts, scales, ops=lists, interpolation="bicubic")


def mae(size: int = 224) -> Ops:
    """MAE's pre-training (facebookresearch/mae, main_pretrain.py): a bicubic crop of at least 0.2, flip."""
    crop = T.RandomResizedCrop(size, (0.2, 1.0), interpolation="bicubic")
    return [crop, T.RandomHorizontalFlip(), T.Normalize.imagenet()]


def ijepa(size: int = 224) -> Ops:
    """I-JEPA (facebookresearch/ijepa, src/transforms.py, ViT-H settings): one crop of at least 0.3, no colours."""
    return [T.RandomResizedCrop(size, (0.3, 1.0)), T.Normalize.imagenet()]


def lejepa(size: int = 224, local_size: int = 98, local_crops: int = 4) -> Any:
    """LeJEPA's views (2 of 224 of 0.3 to 1, 4 of 98 of 0.05 to 0.3, square crops), as slipstream's preset has them."""
    after = [
        T.RandomHorizontalFlip(),
        T.RandomApply([T.ColorJitter(0.4, 0.4, 0.2, 0.1)], 0.8),
        T.RandomGrayscale(0.2),
        T.RandomApply([T.GaussianBlur(7, (0.1, 2.0))], 0.2),
        T.RandomSolarize(128, 0.2),
        T.Normalize.imagenet(),
    ]
    scales = ((0.3, 1.0), (0.05, 0.3))
    return T.MultiCrop((size, local_size), (2, local_crops), scales, ops=after, ratio=(1.0, 1.0))


def segmentation(size: int = 512, scale: tuple[float, float] = (0.5, 2.0)) -> Ops:
    """Semantic segmentation as torchvision's references train it (references/segmentation/presets.py).

    A random scale, a crop that is padded if the image is too small, a flip. For masks set `targets={"mask":
    T.Mask(fill=255)}`.
    """
    low, high = int(size * scale[0]), int(size * scale[1])
    return [
        T.RandomResize(low, high),
        T.RandomCrop(size, pad_if_needed=True),
        T.RandomHorizontalFlip(),
        T.Normalize.imagenet(),
    ]


def detection(size: int = 640) -> Ops:
    """Large-scale jitter (Ghiasi et al. 2021; torchvision's `lsj` preset): scaled by 0.1 to 2, a square of it."""
    return [
        T.ScaleJitter((size, size), (0.1, 2.0)),
        T.RandomCrop(size, pad_if_needed=True, fill=(123, 117, 104)),
        T.RandomHorizontalFlip(),
        T.Normalize.imagenet(),
    ]


def fixmatch(size: int = 32, padding: int | None = None) -> dict[str, Ops]:
    """FixMatch (Sohn et al. 2020): a weak view (flip, shift by an eighth) and a strong one (RandAugment, Cutout)."""
    moved = T.RandomCrop(size, padding=size // 8 if padding is None else padding, padding_mode="reflect")
    weak = [T.RandomHorizontalFlip(), moved]
    strong = [*weak, T.RandAugment(2, 10), T.Cutout(size // 2, fill=127)]
    return {"strong": [*strong, T.Normalize.imagenet()], "weak": [*weak, T.Normalize.imagenet()]}
