"""Targets that move with an image: masks, boxes, keypoints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from feedline._checks import choice, flag, maybe, real, text, texts, whole
from feedline._signatures import Called

__all__ = ["Boxes", "Keypoints", "Mask", "Target"]

BoxFormat = Literal["xyxy", "xywh", "cxcywh"]
MaskDtype = Literal["int64", "int32", "uint8"]


class Target(metaclass=Called):
    """Base of the targets for `Loader(targets=...)`."""

    def to_spec(self) -> dict[str, Any]:
        """As plain data."""
        raise NotImplementedError


@dataclass(frozen=True)
class Mask(Target):
    """A number per pixel: classes, or numbers of instances. Moved with the image, never blended.

    A palette PNG gives its indices, grey PNG and TIFF their 8 or 16 bits; arrays of integers are used unchanged.
    An array of three dimensions is a stack: one mask per instance; a JSON list of COCO's polygons or run lengths is
    drawn as one. `fill` is used where there is no image.
    The batch has `[B, H, W]` of `dtype`; a stack is ragged. If the data set has several images, `of` names the one
    that it moves with.

    >>> from feedline import transforms as T
    >>> T.Mask(fill=255)
    Mask(fill=255, dtype='int64', of=None)
    """

    fill: int = 0
    dtype: MaskDtype = "int64"
    of: str | None = None

    def __post_init__(self) -> None:
        dtype = choice("dtype", self.dtype, tuple(_MASKS))
        low, high = _MASKS[dtype]
        object.__setattr__(self, "dtype", dtype)
        object.__setattr__(self, "fill", whole("fill", self.fill, low, high))
        maybe(text)("of", self.of)

    def to_spec(self) -> dict[str, Any]:
        """As plain data."""
        return {"of": self.of, "role": {"role": "mask", "fill": self.fill, "dtype": self.dtype}}


_MASKS: dict[str, tuple[int, int]] = {
    "int64": (-(2**31), 2**31 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint8": (0, 255),
}


@dataclass(frozen=True)
class Boxes(Target):
    """Boxes of objects, `[n, 4]` per sample: an array or a JSON list.

    `format` gives the meaning of the four numbers: corners (`"xyxy"`), corner and size (`"xywh"`) or centre and size
    (`"cxcywh"`); with `normalized`, shares of width and height. They are returned in the same form, float32, ragged. A
    rotated box becomes the box around it. `clip` cuts boxes at the image's edges. Boxes shorter than `min_size` pixels
    on a side, or of which less than `min_visibility` is left, are dropped, and so are their values in the fields
    named in `labels` (a name or several).

    >>> from feedline import transforms as T
    >>> T.Boxes("xywh", labels="label").labels
    ('label',)
    """

    format: BoxFormat = "xyxy"
    normalized: bool = False
    labels: str | Sequence[str] | None = None
    clip: bool = True
    min_size: float = 1
    min_visibility: float = 0.0
    of: str | None = None

    def __post_init__(self) -> None:
        named = [self.labels] if isinstance(self.labels, str) else () if self.labels is None else self.labels
        values = {
            "format": choice("format", self.format, _FORMATS),
            "normalized": flag("normalized", self.normalized),
            "labels": tuple(texts("labels", named)),
            "clip": flag("clip", self.clip),
            "min_size": real("min_size", self.min_size, 0.0),
            "min_visibility": real("min_visibility", self.min_visibility, 0.0, 1.0),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        maybe(text)("of", self.of)

    def rules(self) -> dict[str, Any]:
        """Format of the boxes and the rules for dropping them, as plain data."""
        names = ("format", "normalized", "clip", "min_size", "min_visibility")
        return {"labels": list(self.labels or ()), **{name: getattr(self, name) for name in names}}

    def to_spec(self) -> dict[str, Any]:
        """As plain data."""
        return {"of": self.of, "role": {"role": "boxes", **self.rules()}}


_FORMATS = ("xyxy", "xywh", "cxcywh")


@dataclass(frozen=True)
class Keypoints(Target):
    """Points, `[n, 2]` (column, row) or `[n, 3]` with visibility per sample; more dimensions before these are kept.

    Integers are the centres of pixels, as in torchvision. A point outside the result keeps its
    place; its visibility becomes 0.

    >>> from feedline import transforms as T
    >>> T.Keypoints()
    Keypoints(of=None)
    """

    of: str | None = None

    def __post_init__(self) -> None:
        maybe(text)("of", self.of)

    def to_spec(self) -> dict[str, Any]:
        """As plain data."""
        return {"of": self.of, "role": {"role": "keypoints"}}
