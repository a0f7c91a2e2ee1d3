"""Transforms that mix the samples of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from feedline._checks import choice, listed, real, refuse, shown, text, whole
from feedline.errors import OptionError

from .base import BatchTransform, low_high, probability
from .policy import RandomChoice

__all__ = ["BatchTransform", "CopyPaste", "CutMix", "LabelSmoothing", "MixUp", "Mosaic", "OneHot", "batch_specs"]

Per = Literal["batch", "pair", "sample"]
MixLike = Literal["torchvision", "timm"]
_MOST_CLASSES = 2**20


def _set(op: BatchTransform, **values: object) -> None:
    for name, value in values.items():
        object.__setattr__(op, name, value)


def _classes(value: Any) -> int:
    return whole("num_classes", value, 1, _MOST_CLASSES)


@dataclass(frozen=True)
class MixUp(BatchTransform):
    """Blends two samples and their labels, by a share drawn from Beta(`alpha`, `alpha`).

    `label` becomes `[B, num_classes]` of float32. The share applies to the whole batch, as in torchvision, to a pair
    (`per="pair"`) or to each sample (`per="sample"`, timm's `elem`). `like="timm"` smooths labels by 0.1,
    as timm's Mixup does by default.

    >>> from feedline import transforms as T
    >>> T.MixUp(0.2, num_classes=1000).per
    'batch'
    """

    alpha: float = 1.0
    num_classes: int = 0
    label: str = "label"
    p: float = 1.0
    per: Per = "batch"
    like: MixLike = "torchvision"
    smoothing: float | None = None

    def __post_init__(self) -> None:
        _check_pair(self)

    def to_spec(self) -> dict[str, Any]:
        """As plain data."""
        return {name: value for name, value in super().to_spec().items() if name != "like"}


@dataclass(frozen=True)
class CutMix(BatchTransform):
    """Copies a box of one sample into the other, and mixes labels by area, which is drawn from Beta(`alpha`, `alpha`).

    `like` selects the rules for the box: torchvision's or timm's (which also smooths labels by 0.1). `minmax` draws the
    box's sides between these shares of the image's instead (timm's). Masks that are targets get the box as well.

    >>> from feedline import transforms as T
    >>> T.CutMix(num_classes=10).alpha
    1.0
    """

    alpha: float = 1.0
    num_classes: int = 0
    label: str = "label"
    p: float = 1.0
    per: Per = "batch"
    like: MixLike = "torchvision"
    smoothing: float | None = None
    minmax: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        _check_pair(self)
        if self.minmax is not None:
            low, high = low_high("minmax", self.minmax, 0.0)
            _set(self, minmax=(low, real("minmax", high, 0.0, 1.0)))


def _check_pair(op: Any) -> None:
    like = choice("like", op.like, ("torchvision", "timm"))
    smoothing = op.smoothing if op.smoothing is not None else 0.1 if like == "timm" else 0.0
    alpha = real("alpha", op.alpha, 0.0, 1e3)
    if alpha == 0:
        refuse("alpha", op.alpha, "a number above 0")
    _set(
        op,
        alpha=alpha,
        num_classes=_classes(op.num_classes),
        label=text("label", op.label),
        p=probability(op.p),
        per=choice("per", op.per, ("batch", "pair", "sample")),
        like=like,
        smoothing=real("smoothing", smoothing, 0.0, 1.0),
    )


@dataclass(frozen=True)
class Mosaic(BatchTransform):
    """Joins four samples at a random point, with their masks, boxes, labels of boxes and keypoints.

    The point is between the shares `center` of height and width. Each sample contributes the part next to the
    point.

    >>> from feedline import transforms as T
    >>> T.Mosaic(p=0.5).center
    (0.25, 0.75)
    """

    p: float = 1.0
    center: tuple[float, float] = (0.25, 0.75)

    def __post_init__(self) -> None:
        low, high = low_high("center", self.center, 0.0)
        _set(self, p=probability(self.p), center=(low, real("center", high, 0.0, 1.0)))


@dataclass(frozen=True)
class CopyPaste(BatchTransform):
    """Pastes objects of one sample into the other by their masks, with boxes and all fields that belong to boxes.

    `masks` names a target `T.Mask` that is a stack, one per box, and is among the `labels` of `T.Boxes`. Each of the
    other's objects is taken with probability `share`. Covered parts are removed from the masks beneath, and boxes
    shrink with them.

    >>> from feedline import transforms as T
    >>> T.CopyPaste("masks").share
    0.5
    """

    masks: str = "masks"
    p: float = 1.0
    share: float = 0.5

    def __post_init__(self) -> None:
        _set(self, masks=text("masks", self.masks), p=probability(self.p), share=real("share", self.share, 0.0, 1.0))


@dataclass(frozen=True)
class LabelSmoothing(BatchTransform):
    """Labels as `[B, num_classes]` of float32: 1 - `smoothing` for the class, and `smoothing` shared by all.

    >>> from feedline import transforms as T
    >>> T.LabelSmoothing(0.1, num_classes=10)
    LabelSmoothing(smoothing=0.1, num_classes=10, label='label')
    """

    smoothing: float = 0.1
    num_classes: int = 0
    label: str = "label"

    def __post_init__(self) -> None:
        smoothing = real("smoothing", self.smoothing, 0.0, 1.0)
        _set(self, smoothing=smoothing, num_classes=_classes(self.num_classes), label=text("label", self.label))


@dataclass(frozen=True)
class OneHot(BatchTransform):
    """Labels as `[B, num_classes]` of float32: 1 for the class, 0 for all others.

    >>> from feedline import transforms as T
    >>> T.OneHot(10).num_classes
    10
    """

    num_classes: int = 0
    label: str = "label"

    def __post_init__(self) -> None:
        _set(self, num_classes=_classes(self.num_classes), label=text("label", self.label))


def batch_specs(ops: Sequence[Any]) -> list[dict[str, Any]]:
    """A list of batch transforms as plain data; `RandomChoice` may contain them."""
    found = []
    for op in listed("batch_transforms", ops, "a list of T.MixUp, T.CutMix and the like"):
        if isinstance(op, RandomChoice):
            weights = None if op.p is None else list(op.p)
            found.append({"op": "RandomChoice", "transforms": batch_specs(list(op.transforms)), "p": weights})
        elif isinstance(op, BatchTransform):
            found.append(op.to_spec())
        else:
            hint = " (call it: add parentheses)" if isinstance(op, type) else ""
            raise OptionError(f"batch_transforms: {shown(op)} is not one of T.MixUp, T.CutMix and the like{hint}")
    return found
