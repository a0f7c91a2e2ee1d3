"""Masks, boxes and keypoints of a single image: transformed as in a loader."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from feedline import _feedline
from feedline._checks import refuse, shown
from feedline.errors import OptionError

from .policy import AugMix, flat
from .targets import Boxes, Keypoints, Mask, Target

__all__ = ["Followers"]

_KINDS: dict[str, type[Target]] = {"mask": Mask, "boxes": Boxes, "keypoints": Keypoints}
_INTEGERS = ("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "int64", "uint64")


class Followers:
    """The targets that were given with an image."""

    def __init__(
        self, mask: Any, boxes: Any, keypoints: Any, labels: Any, targets: Mapping[str, Target] | None
    ) -> None:
        self._values = {"mask": mask, "boxes": boxes, "keypoints": keypoints}
        self._labels = labels
        self._rules: dict[str, Any] = {name: kind() for name, kind in _KINDS.items()}
        for name, target in dict(targets or {}).items():
            kind = _KINDS.get(name)
            if kind is None or not isinstance(target, kind):
                raise OptionError(f"targets: {name!r}: {shown(target)}; there are mask, boxes and keypoints here")
            self._rules[name] = target
        if labels is not None and boxes is None:
            raise OptionError("labels: one per box, but there are no boxes")
        self.given = any(value is not None for value in self._values.values())

    def check(self, ops: Any) -> None:
        """Raises an error for lists that targets cannot follow."""
        if any(_holds_augmix(op) for op in flat(ops)):
            raise OptionError("targets: AugMix blends several warped copies of the image; nothing can follow them")

    def moved(self, params: str, size: tuple[int, int]) -> list[Any]:
        """The given targets, transformed by `params`, and the labels of the remaining boxes."""
        results: list[Any] = []
        kept: list[int] = []
        if self._values["mask"] is not None:
            results.append(self._mask(params, size))
        if self._values["boxes"] is not None:
            made, kept = self._boxes(params, size)
            results.append(made)
        if self._values["keypoints"] is not None:
            results.append(self._keypoints(params, size))
        if self._labels is not None:
            results.append(self._left(kept))
        return results

    def _mask(self, params: str, size: tuple[int, int]) -> Any:
        array, back = _array("mask", self._values["mask"])
        planes = array if array.ndim == 3 else array[None]  # noqa: PLR2004 - a stack
        if planes.shape[1:] != size or array.dtype.name not in _INTEGERS:
            refuse("mask", self._values["mask"], f"whole numbers of shape {size}, as the image, or a stack of such")
        rules = self._rules["mask"]
        moved = []
        for plane in planes:
            data = np.ascontiguousarray(plane).astype(plane.dtype.newbyteorder("<")).tobytes()
            made, shape = _feedline.move_mask(params, data, size, (array.dtype.name, rules.dtype), rules.fill)
            moved.append(np.frombuffer(bytearray(made), rules.dtype).reshape(shape))
        return back(np.stack(moved) if array.ndim == 3 else moved[0])  # noqa: PLR2004 - a stack

    def boxes(self) -> tuple[list[tuple[float, float, float, float]], str] | None:
        """The boxes as they were given, and the rules by which they are read."""
        if self._values["boxes"] is None:
            return None
        array, _ = _array("boxes", self._values["boxes"])
        if array.size and (array.ndim != 2 or array.shape[1] != 4):  # noqa: PLR2004 - n boxes of four numbers
            refuse("boxes", self._values["boxes"], "an array of shape [n, 4]")
        given: Any = [tuple(map(float, box)) for box in array.reshape(-1, 4).tolist()]
        return given, json.dumps(self._rules["boxes"].rules())

    def _boxes(self, params: str, size: tuple[int, int]) -> tuple[Any, list[int]]:
        given, rules = self.boxes() or ([], "{}")
        _, back = _array("boxes", self._values["boxes"])
        made, kept = _feedline.move_boxes(params, given, size, rules)
        return back(np.array(made, np.float32).reshape(-1, 4)), kept

    def _keypoints(self, params: str, size: tuple[int, int]) -> Any:
        array, back = _array("keypoints", self._values["keypoints"])
        if array.size and (array.ndim < 2 or array.shape[-1] not in (2, 3)):  # noqa: PLR2004 - with visibility or not
            refuse("keypoints", self._values["keypoints"], "an array of shape [n, 2] or [n, 3]")
        if not array.size:
            return back(np.zeros(array.shape, np.float32))
        flat_values = array.astype(np.float64).reshape(-1).tolist()
        made = _feedline.move_keypoints(params, flat_values, array.shape[-1], size)
        return back(np.array(made, np.float32).reshape(array.shape))

    def _left(self, kept: list[int]) -> Any:
        boxes = len(self._values["boxes"])
        if len(self._labels) != boxes:
            raise OptionError(f"labels: {len(self._labels)} for {boxes} boxes")
        if isinstance(self._labels, (list, tuple)):
            return [self._labels[number] for number in kept]
        return self._labels[kept]


def _array(name: str, value: Any) -> tuple[np.ndarray[Any, Any], Any]:
    """The value as an array, and a function that converts a result to the value's type."""
    if hasattr(value, "detach") and hasattr(value, "cpu"):
        import torch  # noqa: PLC0415 - only for those who gave a tensor

        return value.detach().cpu().numpy(), torch.from_numpy
    if hasattr(value, "mode") and hasattr(value, "convert"):
        from PIL import Image  # noqa: PLC0415 - only for those who gave a PIL image

        # Pillow has no image of 64-bit numbers; classes fit 32.
        return np.asarray(value), lambda made: Image.fromarray(
            made.astype(np.int32 if made.dtype != np.uint8 else np.uint8)
        )
    try:
        return np.asarray(value), lambda made: made
    except (TypeError, ValueError):
        refuse(name, value, "an array")


def _holds_augmix(op: Any) -> bool:
    return isinstance(op, AugMix) or any(_holds_augmix(each) for each in getattr(op, "transforms", ()) or ())
