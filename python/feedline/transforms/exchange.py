"""Converts lists of transforms from and to JSON, and from torchvision's objects."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from feedline._checks import shown
from feedline.errors import OptionError

from . import bends, colour, damage, geometric, pixel, policy, scenes, sizes, tints
from .apply import specs
from .base import Transform
from .policy import flat

__all__ = ["from_json", "from_torchvision", "to_json"]


def _classes() -> dict[str, type[Transform]]:
    modules = (bends, colour, damage, geometric, pixel, policy, scenes, sizes, tints)
    named = ((name, getattr(module, name)) for module in modules for name in module.__all__)
    return {name: found for name, found in named if isinstance(found, type)}


def to_json(ops: Any) -> str:
    """A list of transforms as JSON.

    >>> from feedline import transforms as T
    >>> T.to_json([T.RandomHorizontalFlip()])
    '[{"op": "RandomHorizontalFlip", "p": 0.5}]'
    """
    return json.dumps(specs("to_json", ops))


def from_json(text: str | bytes) -> list[Transform]:
    """Parses the JSON of `to_json`, or of a file written by hand; defaults may be left out.

    >>> from feedline import transforms as T
    >>> T.from_json('[{"op": "CenterCrop", "size": 224}]')
    [CenterCrop(size=(224, 224))]
    """
    try:
        given = json.loads(text)
    except (TypeError, ValueError) as error:
        raise OptionError(f"from_json: not JSON: {error}") from None
    if not isinstance(given, list):
        raise OptionError("from_json: not a list of transforms")
    return [_from_spec(spec) for spec in given]


def _from_spec(spec: Any) -> Transform:
    classes = _classes()
    if not isinstance(spec, dict) or spec.get("op") not in classes:
        raise OptionError(f"from_json: {shown(spec)} is not one of {', '.join(sorted(classes))}")
    values = {name: value for name, value in spec.items() if name != "op"}
    name = str(spec["op"])
    if name == "Resize":
        shorter = values.pop("shorter", None)
        values["size"] = shorter if values.get("size") is None else values["size"]
    if name == "RandomErasing" and isinstance(values.get("value"), dict):
        values["value"] = values["value"].get("channels")
    if name == "Schedule":
        values["steps"] = {epoch: [_from_spec(inner) for inner in ops] for epoch, ops in values.get("steps", [])}
    if name == "Poison" and "size" in values:
        height, width = values.pop("size")
        values["mask"] = np.reshape(values["mask"], (height, width, 3))
        values["alpha"] = np.reshape(values["alpha"], (height, width))
    if "transforms" in values:
        values["transforms"] = [_from_spec(inner) for inner in values["transforms"]]
    try:
        return classes[name](**values)
    except TypeError as error:
        raise OptionError(f"from_json: {name}: {error}") from None


def _copy(found: type[Transform], *names: str) -> Callable[[Any], Transform]:
    """A maker for classes whose attributes have our names."""
    return lambda theirs: found(**{name: getattr(theirs, name) for name in names})


def _inner(theirs: Any) -> list[Transform]:
    return [_translated(inner) for inner in theirs.transforms]


def _resized_crop(theirs: Any) -> Transform:
    return geometric.RandomResizedCrop(
        theirs.size, theirs.scale, theirs.ratio, theirs.interpolation, antialias=theirs.antialias
    )


def _resize(theirs: Any) -> Transform:
    return geometric.Resize(theirs.size, theirs.interpolation, theirs.max_size, antialias=theirs.antialias)


def _random_crop(theirs: Any) -> Transform:
    padding = theirs.padding
    if padding is not None and len(padding) == 4 and _is_v2(theirs):  # noqa: PLR2004 - four sides
        left, right, top, bottom = padding  # the order in which v2 stores them
        padding = (left, top, right, bottom)
    return geometric.RandomCrop(theirs.size, padding, theirs.pad_if_needed, theirs.fill, theirs.padding_mode)


def _is_v2(theirs: Any) -> bool:
    return ".v2." in f"{type(theirs).__module__}."


def _affine(theirs: Any) -> Transform:
    names = ("degrees", "translate", "scale", "shear", "interpolation", "fill", "center")
    return geometric.RandomAffine(**{name: getattr(theirs, name) for name in names})


def _erasing(theirs: Any) -> Transform:
    value = "random" if theirs.value is None else theirs.value
    return pixel.RandomErasing(theirs.p, theirs.scale, theirs.ratio, value)


def _noise(theirs: Any) -> Transform:
    return damage.GaussianNoise(theirs.mean, theirs.sigma, theirs.clip)


def _iou_crop(theirs: Any) -> Transform:
    scale, ratio = (theirs.min_scale, theirs.max_scale), (theirs.min_aspect_ratio, theirs.max_aspect_ratio)
    return sizes.RandomIoUCrop(*scale, *ratio, theirs.options, theirs.trials)


def _nothing(_theirs: Any) -> Transform:
    return pixel.ToTensor()


def _to_dtype(theirs: Any) -> Transform:
    if not getattr(theirs, "scale", True):
        raise OptionError("from_torchvision: ToDtype(scale=False) has no equivalent here: floats are from 0 to 1")
    return pixel.ToTensor()


_WARP = ("interpolation", "fill")
_FROM_TORCHVISION: Mapping[str, Callable[[Any], Transform]] = {
    "AutoAugment": _copy(policy.AutoAugment, "policy", *_WARP),
    "CenterCrop": _copy(geometric.CenterCrop, "size"),
    "ColorJitter": _copy(colour.ColorJitter, "brightness", "contrast", "saturation", "hue"),
    "AugMix": _copy(policy.AugMix, "severity", "mixture_width", "chain_depth", "alpha", "all_ops", *_WARP),
    "Compose": lambda theirs: policy.Compose(_inner(theirs)),
    "ConvertImageDtype": _nothing,
    "ElasticTransform": _copy(bends.ElasticTransform, "alpha", "sigma", *_WARP),
    "FiveCrop": _copy(sizes.FiveCrop, "size"),
    "GaussianNoise": _noise,
    "GaussianBlur": _copy(pixel.GaussianBlur, "kernel_size", "sigma"),
    "Grayscale": _copy(colour.Grayscale, "num_output_channels"),
    "Identity": _nothing,
    "JPEG": _copy(damage.JPEG, "quality"),
    "Normalize": _copy(pixel.Normalize, "mean", "std"),
    "PILToTensor": _nothing,
    "Pad": _copy(geometric.Pad, "padding", "fill", "padding_mode"),
    "RandAugment": _copy(policy.RandAugment, "num_ops", "magnitude", "num_magnitude_bins", *_WARP),
    "RandomAdjustSharpness": _copy(colour.RandomAdjustSharpness, "sharpness_factor", "p"),
    "RandomAffine": _affine,
    "RandomApply": lambda theirs: policy.RandomApply(_inner(theirs), theirs.p),
    "RandomAutocontrast": _copy(colour.RandomAutocontrast, "p"),
    "RandomChannelPermutation": lambda _: colour.RandomChannelPermutation(),
    "RandomChoice": lambda theirs: policy.RandomChoice(_inner(theirs), getattr(theirs, "p", None)),
    "RandomCrop": _random_crop,
    "RandomEqualize": _copy(colour.RandomEqualize, "p"),
    "RandomErasing": _erasing,
    "RandomGrayscale": _copy(colour.RandomGrayscale, "p"),
    "RandomHorizontalFlip": _copy(geometric.RandomHorizontalFlip, "p"),
    "RandomInvert": _copy(colour.RandomInvert, "p"),
    "RandomIoUCrop": _iou_crop,
    "RandomOrder": lambda theirs: policy.RandomOrder(_inner(theirs)),
    "RandomPerspective": _copy(geometric.RandomPerspective, "distortion_scale", "p", *_WARP),
    "RandomPhotometricDistort": _copy(
        colour.RandomPhotometricDistort, "brightness", "contrast", "saturation", "hue", "p"
    ),
    "RandomPosterize": _copy(colour.RandomPosterize, "bits", "p"),
    "RandomResize": _copy(sizes.RandomResize, "min_size", "max_size", "interpolation", "antialias"),
    "RandomResizedCrop": _resized_crop,
    "RandomRotation": _copy(geometric.RandomRotation, "degrees", "interpolation", "expand", "center", "fill"),
    "RandomShortestSize": _copy(sizes.RandomShortestSize, "min_size", "max_size", "interpolation", "antialias"),
    "RandomSolarize": _copy(colour.RandomSolarize, "threshold", "p"),
    "RandomVerticalFlip": _copy(geometric.RandomVerticalFlip, "p"),
    "RandomZoomOut": _copy(sizes.RandomZoomOut, "fill", "side_range", "p"),
    "RGB": _nothing,
    "Resize": _resize,
    "ScaleJitter": _copy(sizes.ScaleJitter, "target_size", "scale_range", "interpolation", "antialias"),
    "TenCrop": _copy(sizes.TenCrop, "size", "vertical_flip"),
    "ToDtype": _to_dtype,
    "ToImage": _nothing,
    "ToPureTensor": _nothing,
    "ToTensor": _nothing,
    "TrivialAugmentWide": _copy(policy.TrivialAugmentWide, "num_magnitude_bins", *_WARP),
}


def _translated(theirs: Any) -> Transform:
    if isinstance(theirs, Transform):
        return theirs
    name = type(theirs).__name__
    translate = _FROM_TORCHVISION.get(name)
    if translate is None or "torchvision" not in type(theirs).__module__:
        known = ", ".join(sorted(_FROM_TORCHVISION))
        raise OptionError(f"from_torchvision: {shown(theirs)} has no equivalent here; there are {known}")
    return translate(theirs)


def from_torchvision(transforms: Any) -> list[Transform]:
    """Converts torchvision's `Compose`, v1 or v2; an error names transforms without an equivalent.

    Conversions to tensors are dropped: batches are tensors anyway.

    >>> from torchvision.transforms import v2
    >>> from feedline import transforms as T
    >>> T.from_torchvision(v2.Compose([v2.CenterCrop(8), v2.ToImage()]))
    [CenterCrop(size=(8, 8))]
    """
    given = transforms if isinstance(transforms, (list, tuple)) else [transforms]
    found = flat([_translated(theirs) for theirs in given])
    return [op for op in found if op.to_spec() is not None]
