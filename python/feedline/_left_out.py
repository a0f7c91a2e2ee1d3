"""Warns about fields that seem to belong to an image's geometry but are not transformed with it."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from typing import Any

from . import transforms as T  # noqa: N812 - as users write it
from ._dataset import Dataset
from .transforms.policy import flat
from .transforms.views import Yoked

__all__ = ["warn_left_out"]

_NAMES = re.compile(r"(^|[._])(box|boxes|bbox|bboxes|keypoint|keypoints|mask|masks)$", re.IGNORECASE)

# Files of operations that leave every pixel at its place, and single operations that do.
_UNMOVING_FILES = {T.colour.__name__, T.damage.__name__, T.pixel.__name__, T.tints.__name__}
_UNMOVING = (
    T.CircularMask,
    T.Poison,
    T.PowerLawNoise,
    T.RGBToLGN,
    T.RGBToMagno,
    T.ReplaceLabel,
    T.ArrayWindow,
    T.TokenWindow,
    T.BackgroundNoise,
    T.AmplitudeToDB,
    T.AudioWindow,
    T.FrequencyMasking,
    T.MelSpectrogram,
    T.Mono,
    T.RandomGain,
    T.RandomNoise,
    T.Resample,
    T.TimeMasking,
    T.RandomBackgroundBlend,
    T.ThreeAugment,
    T.AugMix,
    T.Python,
)

_warned: set[tuple[str, ...]] = set()


def warn_left_out(knobs: Mapping[str, Any], dataset: Dataset, by_field: Mapping[str, Any]) -> None:
    """Warns, once for each set of names, if transforms move pixels while such fields are loaded without targets."""
    lists = [ops for value in by_field.values() for ops in (value.values() if isinstance(value, Mapping) else (value,))]
    if not any(_moves(op) for ops in lists if not isinstance(ops, Yoked) for op in flat(ops)):
        return
    wanted = dataset.schema if knobs["fields"] is None else knobs["fields"]
    targets = knobs["targets"] or {}
    known = {*targets, *by_field, *(label for target in targets.values() for label in getattr(target, "labels", ()))}
    left = tuple(sorted(name for name in wanted if _NAMES.search(name) and name not in known))
    if not left or left in _warned:
        return
    _warned.add(left)
    warnings.warn(
        f"the transforms move the image's pixels, but {', '.join(left)} stay{'s' if len(left) == 1 else ''} behind; "
        "name what moves with the image in targets={...} (T.Mask, T.Boxes, T.Keypoints), or leave it out with fields=",
        stacklevel=5,
    )


def _moves(op: Any) -> bool:
    inner = getattr(op, "transforms", None)
    if inner is not None:
        return any(_moves(each) for each in inner)
    unmoving = isinstance(op, _UNMOVING) or type(op).__module__ in _UNMOVING_FILES
    return isinstance(op, T.Transform) and not unmoving
