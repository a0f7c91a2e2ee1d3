"""timm: [`create_loader`][feedline.timm.create_loader] with timm's arguments, on feedline's engine.

Batches are pairs of tensors, as timm's training script expects them: images normalised, labels int64. Arguments keep
timm's names, order and defaults; those that this engine does not support are refused by name.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from . import transforms as T  # noqa: N812 - as users write it
from ._loader import Loader
from .errors import OptionError

__all__ = ["create_loader"]

_MEAN = (0.485, 0.456, 0.406)
_STD = (0.229, 0.224, 0.225)

# Settings that timm handles elsewhere, with the value that means "off".
_OFF: dict[str, Any] = {
    "grayscale_aug": (None, 0.0), "gaussian_blur_prob": (None, 0.0), "auto_augment": (None, ""),
    "num_aug_repeats": (0,), "num_aug_splits": (0,), "train_crop_mode": (None, "rrc"), "crop_border_pixels": (None, 0),
    "tf_preprocessing": (False,), "collate_fn": (None,), "use_multi_epochs_loader": (False, True),
    "worker_seeding": ("all", "part"), "naflex": (False,), "use_prefetcher": (True, False), "re_split": (False,),
}  # fmt: skip


def create_loader(
    dataset: Any,
    input_size: int | tuple[int, int] | tuple[int, int, int],
    batch_size: int,
    is_training: bool = False,
    *,
    no_aug: bool = False,
    re_prob: float = 0.0,
    re_mode: str = "const",
    re_count: int = 1,
    scale: tuple[float, float] | None = None,
    ratio: tuple[float, float] | None = None,
    hflip: float = 0.5,
    vflip: float = 0.0,
    color_jitter: float | Sequence[float] | None = 0.4,
    interpolation: Any = "bilinear",
    mean: Sequence[float] = _MEAN,
    std: Sequence[float] = _STD,
    num_workers: int = 0,
    distributed: bool = False,
    crop_pct: float | None = None,
    crop_mode: str | None = None,
    pin_memory: bool = False,
    fp16: bool = False,
    img_dtype: Any = None,
    device: Any = None,
    persistent_workers: bool = True,
    seed: int = 42,
    **others: Any,
) -> Loader:
    """A loader with timm's recipe: `create_loader(dataset, input_size=224, batch_size=256, is_training=True)`.

    `dataset` is what [`open`][feedline.open] accepts. `num_workers` are threads, 0 for all cores. With
    `distributed=True` the ranks must be known (torch.distributed, or the environment).
    """
    _refuse(others, crop_mode, distributed=distributed)
    size = _size(input_size)
    if is_training and not no_aug:
        ops = _train_ops(size, scale, ratio, hflip, vflip, color_jitter, interpolation)
        erasing = _erasing(re_prob, re_mode, re_count)
    else:
        ops, erasing = _eval_ops(size, 1.0 if is_training else crop_pct, interpolation), []
    return Loader(
        dataset,
        batch_size=batch_size,
        shuffle=is_training,
        drop_last=is_training,
        seed=seed,
        transforms=[*ops, T.Normalize(list(mean), list(std)), *erasing],
        num_workers=num_workers,
        pin_memory=pin_memory,
        persistent_workers=persistent_workers,
        as_tuple=("image", "label"),
        **_placement(device, "float16" if fp16 else img_dtype, distributed=distributed),
    )


def _refuse(others: dict[str, Any], crop_mode: str | None, *, distributed: bool) -> None:
    for name, value in others.items():
        if name not in _OFF:
            raise OptionError(f"{name}: not an argument of timm's create_loader that is known here")
        if value not in _OFF[name]:
            raise OptionError(
                f"{name}: {value!r} is not supported here; leave it off, or add transforms to a Loader yourself"
            )
    if crop_mode not in (None, "center"):
        raise OptionError(f"crop_mode: {crop_mode!r} is not supported here; only 'center'")
    if distributed:
        from ._ranks import discover  # noqa: PLC0415 - only where asked

        if discover(None, None)[1] == 1:
            raise OptionError("distributed: no other rank is known; start torch.distributed first")


def _placement(device: Any, dtype: Any, *, distributed: bool) -> dict[str, Any]:
    """The knobs for where batches are, their element type, and the rank; left out where the default is meant."""
    knobs: dict[str, Any] = {"device": device} if device is not None and str(device) != "cpu" else {}
    if dtype is not None:
        knobs["dtype"] = dtype
    if not distributed:
        knobs.update(rank=0, world_size=1)
    return knobs


def _size(given: int | tuple[int, ...]) -> tuple[int, int]:
    if isinstance(given, int):
        return given, given
    if len(given) == 3 and given[0] != 3:  # noqa: PLR2004 - channels, height, width
        raise OptionError(f"input_size: {given[0]} channels; images have 3")
    return int(given[-2]), int(given[-1])


def _train_ops(
    size: tuple[int, int],
    scale: tuple[float, float] | None,
    ratio: tuple[float, float] | None,
    hflip: float,
    vflip: float,
    color_jitter: float | Sequence[float] | None,
    interpolation: Any,
) -> list[Any]:
    crop = T.RandomResizedCrop(
        size,
        scale or (0.08, 1.0),
        ratio or (3 / 4, 4 / 3),
        interpolation="bilinear" if interpolation == "random" else interpolation,
    )
    ops: list[Any] = [crop]
    if hflip > 0:
        ops.append(T.RandomHorizontalFlip(hflip))
    if vflip > 0:
        ops.append(T.RandomVerticalFlip(vflip))
    if color_jitter:
        strength = (color_jitter,) * 3 if isinstance(color_jitter, (int, float)) else tuple(color_jitter)
        ops.append(T.ColorJitter(*strength))
    return ops


def _erasing(probability: float, mode: str, count: int) -> list[Any]:
    if probability <= 0:
        return []
    if mode != "const" or count != 1:
        raise OptionError(f"re_mode: {mode!r} with {count}; only one constant rectangle (const, 1)")
    return [T.RandomErasing(probability, scale=(0.02, 1 / 3), ratio=(0.3, 1 / 0.3))]


def _eval_ops(size: tuple[int, int], crop_pct: float | None, interpolation: Any) -> list[Any]:
    share = crop_pct or 0.875
    if size[0] != size[1]:
        return [
            T.Resize(tuple(math.floor(side / share) for side in size), interpolation=interpolation),
            T.CenterCrop(size),
        ]
    return [T.Resize(math.floor(size[0] / share), interpolation=interpolation), T.CenterCrop(size)]
