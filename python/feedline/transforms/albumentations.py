"""Lists of transforms from albumentations 2.0.8, the last version under a permissive licence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from feedline._checks import shown
from feedline.errors import OptionError

from . import bends, colour, damage, geometric, pixel, policy, tints
from .base import Transform
from .policy import flat

__all__ = ["from_albumentations"]

# OpenCV's constants.
_FILTERS = {0: "nearest", 1: "bilinear", 2: "bicubic", 3: "box", 4: "lanczos"}
_BORDERS = {0: "constant", 1: "edge", 2: "symmetric", 4: "reflect"}


def _none(theirs: Any, why: str) -> OptionError:
    return OptionError(f"from_albumentations: {shown(theirs)} has no equivalent here: {why}")


def _filter(theirs: Any) -> Any:
    if theirs.interpolation not in _FILTERS:
        raise _none(theirs, f"interpolation {theirs.interpolation}")
    return _FILTERS[theirs.interpolation]


def _border(theirs: Any) -> Any:
    if theirs.border_mode not in _BORDERS:
        raise _none(theirs, f"border_mode {theirs.border_mode}")
    return _BORDERS[theirs.border_mode]


def _only_constant(theirs: Any) -> None:
    if theirs.border_mode != 0:
        raise _none(theirs, "only a constant border")


def _fill(theirs: Any) -> Any:
    if isinstance(theirs.fill, str):
        raise _none(theirs, f"fill '{theirs.fill}'")
    return theirs.fill


def _one(theirs: Any, name: str) -> float:
    """A range that contains one number."""
    value = getattr(theirs, name)
    low, high = value if isinstance(value, (tuple, list)) else (value, value)
    if low != high:
        raise _none(theirs, f"a range for {name}")
    return float(low)


def _crop(theirs: Any) -> Transform:
    if theirs.pad_if_needed:
        raise _none(theirs, "pad_if_needed (albumentations pads both sides evenly)")
    return geometric.RandomCrop((theirs.height, theirs.width))


def _center(theirs: Any) -> Transform:
    if theirs.pad_if_needed:
        raise _none(theirs, "pad_if_needed")
    return geometric.CenterCrop((theirs.height, theirs.width))


def _resized_crop(theirs: Any) -> Transform:
    return geometric.RandomResizedCrop(theirs.size, theirs.scale, theirs.ratio, _filter(theirs))


def _pad(theirs: Any) -> Transform:
    return geometric.Pad(theirs.padding, _fill(theirs), _border(theirs))


def _side(theirs: Any) -> int:
    if not isinstance(theirs.max_size, int):
        raise _none(theirs, "max_size must be one number")
    return theirs.max_size


def _smallest(theirs: Any) -> Transform:
    return geometric.Resize(_side(theirs), _filter(theirs))


def _longest(theirs: Any) -> Transform:
    return geometric.Resize(None, _filter(theirs), _side(theirs))


def _normalize(theirs: Any) -> Transform:
    if theirs.normalization != "standard" or theirs.max_pixel_value != 255:  # noqa: PLR2004 - white
        raise _none(theirs, "only normalization='standard' with max_pixel_value=255")
    return pixel.Normalize(theirs.mean, theirs.std)


def _gray(theirs: Any) -> Transform:
    if theirs.method != "weighted_average":
        raise _none(theirs, f"method '{theirs.method}'")
    return colour.Grayscale(theirs.num_output_channels)


def _jitter(theirs: Any) -> Transform:
    return colour.ColorJitter(theirs.brightness, theirs.contrast, theirs.saturation, theirs.hue)


def _shift(theirs: Any) -> Transform:
    return tints.RGBShift(theirs.r_shift_limit, theirs.g_shift_limit, theirs.b_shift_limit, p=1.0)


def _posterize(theirs: Any) -> Transform:
    bits = theirs.num_bits
    if not isinstance(bits, int):
        bits = _one(theirs, "num_bits")
    return colour.RandomPosterize(int(bits), p=1.0)


def _equalize(theirs: Any) -> Transform:
    if theirs.mode != "pil" or not theirs.by_channels or theirs.mask is not None:
        raise _none(theirs, "only mode='pil' by channels; OpenCV's gives other pixels")
    return colour.RandomEqualize(1.0)


def _autocontrast(theirs: Any) -> Transform:
    if theirs.method != "pil" or theirs.cutoff or theirs.ignore is not None:
        raise _none(theirs, "only method='pil' without cutoff and ignore")
    return colour.RandomAutocontrast(1.0)


def _gamma(theirs: Any) -> Transform:
    low, high = theirs.gamma_limit
    return tints.RandomGamma((low / 100, high / 100), p=1.0)


def _blur(theirs: Any) -> Transform:
    low, high = theirs.blur_limit if isinstance(theirs.blur_limit, (tuple, list)) else (theirs.blur_limit,) * 2
    if low != high:
        raise _none(theirs, "a range for blur_limit")
    # Without a size, theirs is wide enough for the current sigma; a wider one would add nothing.
    size = int(high) if high else int(theirs.sigma_limit[1] * 3.5) * 2 + 1
    return pixel.GaussianBlur(size, theirs.sigma_limit)


def _motion(theirs: Any) -> Transform:
    return damage.MotionBlur(theirs.blur_limit, theirs.angle_range, theirs.direction_range, p=1.0)


def _noise(theirs: Any) -> Transform:
    if not theirs.per_channel or theirs.noise_scale_factor != 1:
        raise _none(theirs, "only per_channel=True with noise_scale_factor=1")
    return damage.GaussianNoise(_one(theirs, "mean_range"), theirs.std_range)


def _compression(theirs: Any) -> Transform:
    if theirs.compression_type != "jpeg":
        raise _none(theirs, f"compression_type '{theirs.compression_type}'")
    return damage.JPEG(theirs.quality_range)


def _dropout(theirs: Any) -> Transform:
    ranges = (theirs.num_holes_range, theirs.hole_height_range, theirs.hole_width_range)
    return damage.CoarseDropout(*ranges, _fill(theirs), p=1.0)


def _erasing(theirs: Any) -> Transform:
    return pixel.RandomErasing(1.0, theirs.scale, theirs.ratio, _fill(theirs))


def _rotate(theirs: Any) -> Transform:
    _only_constant(theirs)
    if theirs.crop_border:
        raise _none(theirs, "crop_border")
    return geometric.RandomRotation(theirs.limit, _filter(theirs), fill=_fill(theirs))


def _affine(theirs: Any) -> Transform:
    _only_constant(theirs)
    scale, percent, shear = theirs.scale, theirs.translate_percent, theirs.shear
    if theirs.fit_output or theirs.translate_px is not None or theirs.balanced_scale:
        raise _none(theirs, "fit_output, translate_px or balanced_scale")
    if not theirs.keep_ratio and scale["x"] != (1.0, 1.0):
        raise _none(theirs, "a scale of its own for each axis (keep_ratio=False)")
    moves = None
    if percent is not None and any(percent[axis] != (0, 0) for axis in "xy"):
        if any(percent[axis][0] != -percent[axis][1] for axis in "xy"):
            raise _none(theirs, "translate_percent that is not even to both sides")
        moves = (percent["x"][1], percent["y"][1])
    shears = (*shear["x"], *shear["y"])
    # Theirs rotates clockwise for positive angles, as affine does here.
    return geometric.RandomAffine(
        theirs.rotate,
        moves,
        None if scale["x"] == (1.0, 1.0) else scale["x"],
        None if shears == (0.0,) * 4 else shears,
        _filter(theirs),
        _fill(theirs),
    )


def _lens(theirs: Any) -> Transform:
    _only_constant(theirs)
    if theirs.mode != "camera" or _filter(theirs) != "bilinear" or _fill(theirs) != 0:
        raise _none(theirs, "only mode='camera', linear interpolation and fill=0")
    # The same lens; OpenCV's image is half a pixel further to the left and above.
    return bends.OpticalDistortion(theirs.distort_limit, p=1.0)


def _choice(theirs: Any) -> Transform:
    odds = [inner.p for inner in theirs.transforms]
    return policy.RandomChoice([_always(inner) for inner in theirs.transforms], odds)


def _some(theirs: Any) -> Transform:
    inner = [_translated(one) for one in theirs.transforms]
    return policy.SomeOf(inner, theirs.n, replace=theirs.replace, ordered=True)


def _shuffled(theirs: Any) -> Transform:
    inner = [_translated(one) for one in theirs.transforms]
    return policy.SomeOf(inner, theirs.n, replace=theirs.replace)


def _list(theirs: Any) -> Transform:
    return policy.Compose([_translated(inner) for inner in theirs.transforms])


def _either(theirs: Any) -> Transform:
    first, second = (_always(inner) for inner in theirs.transforms)
    return policy.RandomChoice([first, second], [theirs.p, 1 - theirs.p])


def _nothing(_theirs: Any) -> Transform:
    return pixel.ToTensor()


_MAKERS: Mapping[str, Callable[[Any], Transform]] = {
    "Affine": _affine,
    "AutoContrast": _autocontrast,
    "CLAHE": lambda theirs: tints.CLAHE(theirs.clip_limit, theirs.tile_grid_size, p=1.0),
    "CenterCrop": _center,
    "ChannelDropout": lambda theirs: tints.ChannelDropout(theirs.channel_drop_range, int(_fill(theirs)), p=1.0),
    "ChannelShuffle": lambda _: colour.RandomChannelPermutation(),
    "CoarseDropout": _dropout,
    "ColorJitter": _jitter,
    "Compose": _list,
    "Defocus": lambda theirs: damage.Defocus(theirs.radius, theirs.alias_blur, p=1.0),
    "Equalize": _equalize,
    "Erasing": _erasing,
    "GaussNoise": _noise,
    "GaussianBlur": _blur,
    "HorizontalFlip": lambda _: geometric.RandomHorizontalFlip(1.0),
    "ImageCompression": _compression,
    "InvertImg": lambda _: colour.RandomInvert(1.0),
    "LongestMaxSize": _longest,
    "MotionBlur": _motion,
    "NoOp": _nothing,
    "Normalize": _normalize,
    "OneOf": _choice,
    "OneOrOther": _either,
    "OpticalDistortion": _lens,
    "Pad": _pad,
    "Posterize": _posterize,
    "RGBShift": _shift,
    "RandomCrop": _crop,
    "RandomGamma": _gamma,
    "RandomOrder": _shuffled,
    "RandomResizedCrop": _resized_crop,
    "Resize": lambda theirs: geometric.Resize((theirs.height, theirs.width), _filter(theirs)),
    "Rotate": _rotate,
    "SaltAndPepper": lambda theirs: damage.SaltAndPepper(theirs.amount, theirs.salt_vs_pepper, p=1.0),
    "Sequential": _list,
    "SmallestMaxSize": _smallest,
    "Solarize": lambda theirs: colour.RandomSolarize(_one(theirs, "threshold_range") * 255, p=1.0),
    "SomeOf": _some,
    "ToGray": _gray,
    "ToTensorV2": _nothing,
    "VerticalFlip": lambda _: geometric.RandomVerticalFlip(1.0),
}


def _always(theirs: Any) -> Transform:
    """The transform, always applied."""
    if isinstance(theirs, Transform):
        return theirs
    name = type(theirs).__name__
    make = _MAKERS.get(name)
    if make is None or "albumentations" not in type(theirs).__module__:
        raise OptionError(
            f"from_albumentations: {shown(theirs)} has no equivalent here; there are {', '.join(sorted(_MAKERS))}"
        )
    return make(theirs)


def _translated(theirs: Any) -> Transform:
    """The transform, with its probability."""
    made = _always(theirs)
    chance = float(getattr(theirs, "p", 1.0))
    if chance >= 1.0 or made.to_spec() is None or type(theirs).__name__ == "OneOrOther":
        return made
    if isinstance(made, pixel.Normalize):
        raise _none(theirs, "Normalize with p below 1: an image is normalised or not")
    # A transform with its own probability keeps it, which reads better.
    known = getattr(made, "p", None)
    if known == 1.0 and not isinstance(made, policy.RandomChoice):
        object.__setattr__(made, "p", chance)
        return made
    return policy.RandomApply([made], chance)


def from_albumentations(transforms: Any) -> list[Transform]:
    """Converts an albumentations `Compose`; an error names transforms without an equivalent, and why.

    Resizes are filtered when they shrink (albumentations' are not by default); pixels are Pillow's, not OpenCV's.
    Boxes, masks and keypoints are for the loader's `targets`.
    """
    given = transforms if isinstance(transforms, (list, tuple)) else [transforms]
    found = flat([_translated(theirs) for theirs in given])
    return [op for op in found if op.to_spec() is not None]
