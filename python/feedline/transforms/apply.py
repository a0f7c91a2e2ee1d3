"""Transforms on one image, without a loader: the same draws and the same pixels."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from feedline import _feedline
from feedline._checks import choice, flag, refuse, shown, whole
from feedline.errors import OptionError

from .base import Transform
from .followers import Followers
from .function import Python
from .pixel import Normalize
from .policy import flat
from .scenes import RGBToLGN, RGBToMagno
from .targets import Target

__all__ = ["apply", "replay", "specs"]


def specs(where: str, ops: Any) -> list[dict[str, Any]]:
    """A list of transforms as plain data."""
    found = []
    for op in flat(ops):
        if not isinstance(op, Transform):
            hint = " (call it: add parentheses)" if isinstance(op, type) and issubclass(op, Transform) else ""
            raise OptionError(f"transforms: {where}: {shown(op)} is not one of feedline.transforms{hint}")
        spec = op.to_spec()
        if spec is not None:
            found.append(spec)
            _check_finite(f"transforms: {where}, number {len(found)} ({spec['op']})", spec)
    return found


def _check_finite(where: str, value: Any) -> None:
    """Refuses values that JSON does not have, so that the error can name them."""
    if isinstance(value, float) and not math.isfinite(value):
        raise OptionError(f"{where}: {value} is not a finite number")
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    for each in inner:
        _check_finite(where, each)


def apply(
    ops: Any,
    image: Any,
    *,
    seed: int = 0,
    epoch: int = 0,
    index: int = 0,
    dtype: str | None = None,
    mask: Any = None,
    boxes: Any = None,
    keypoints: Any = None,
    labels: Any = None,
    targets: Mapping[str, Target] | None = None,
    return_params: bool = False,
) -> Any:
    """Applies `ops` to one image, exactly as a loader with this seed does in this epoch to the sample of this index.

    `image` is a NumPy array (height, width, channels), a PIL image or a torch tensor (channels, height, width), of
    bytes; the result is of the same kind. `dtype` is that of the result: `"uint8"` unless the list normalises, then
    `"float32"`. With `return_params=True` the result is returned with what was drawn, as plain data for `replay`.

    `mask` (rows, columns), `boxes` `[n, 4]` and `keypoints` `[n, 2]` or `[n, 3]` move with the image; the result is
    then a tuple of the image and the given targets, in this order, and `labels`, one per box, of the remaining
    boxes. `targets` gives their options: `{"mask": T.Mask(fill=255), "boxes": T.Boxes("xywh")}`.

    >>> import numpy as np
    >>> from feedline import transforms as T
    >>> T.apply([T.CenterCrop(2), T.RandomInvert(1.0)], np.zeros((4, 4, 3), np.uint8))[0, 0]
    array([255, 255, 255], dtype=uint8)
    """
    with_params = flag("return_params", return_params)
    normalises = any(isinstance(op, (Normalize, RGBToLGN, RGBToMagno)) for op in flat(ops))
    chosen = _dtype(dtype, normalises=normalises)
    pixels, kind = _pixels(image, chosen)
    if any(isinstance(op, Python) for op in flat(ops)):
        raise OptionError(
            "transforms: T.Python runs only in a loader; call the function yourself on the result of T.apply"
        )
    text = json.dumps(specs("apply", ops))
    size, most = (pixels.shape[0], pixels.shape[1]), 2**64 - 1
    origin = (whole("seed", seed, 0, most), whole("epoch", epoch, 0, most), whole("index", index, 0, most))
    followers = Followers(mask, boxes, keypoints, labels, targets)
    made, params = _feedline.apply(text, pixels.tobytes(), size, origin, chosen, _format(kind), followers.boxes())
    if with_params and len(made[1]) > len("hwc"):
        raise OptionError("return_params: several crops of one image have no single list of parameters")
    if followers.given and len(made[1]) > len("hwc"):
        raise OptionError("targets: FiveCrop and TenCrop make several images of one; targets have no place in them")
    if followers.given:
        followers.check(ops)
    moved = followers.moved(params, size)
    results = (_result(made, kind, chosen), *moved, *([json.loads(params)] if with_params else []))
    return results if len(results) > 1 else results[0]


def replay(
    params: Any,
    image: Any,
    *,
    dtype: str | None = None,
    mask: Any = None,
    boxes: Any = None,
    keypoints: Any = None,
    labels: Any = None,
    targets: Mapping[str, Target] | None = None,
) -> Any:
    """Repeats what `apply(..., return_params=True)` drew on an image of the same size. Nothing is random.

    Masks, boxes and keypoints move with it as in `apply`. The parameters that a loader with `return_params=True`
    returns for a sample can be replayed in the same way.

    >>> import numpy as np
    >>> from feedline import transforms as T
    >>> image = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    >>> once, params = T.apply([T.RandomResizedCrop(2), T.ColorJitter(0.5)], image, seed=7, return_params=True)
    >>> bool((T.replay(params, image) == once).all())
    True
    """
    if not isinstance(params, Mapping):
        refuse("params", params, "what T.apply(..., return_params=True) gave")
    floats = any(params.get(name) is not None for name in ("normalize", "opposed"))
    chosen = _dtype(dtype, normalises=floats)
    pixels, kind = _pixels(image, chosen)
    size = (pixels.shape[0], pixels.shape[1])
    try:
        text = json.dumps(dict(params))
    except (TypeError, ValueError) as error:
        raise OptionError(f"params: not what T.apply(..., return_params=True) gave: {error}") from error
    made = _feedline.replay(text, pixels.tobytes(), size, chosen, _format(kind))
    moved = Followers(mask, boxes, keypoints, labels, targets).moved(text, size)
    return (_result(made, kind, chosen), *moved) if moved else _result(made, kind, chosen)


def _dtype(given: str | None, *, normalises: bool) -> str:
    if given is None:
        return "float32" if normalises else "uint8"
    return choice("dtype", given, ("float32", "float16", "bfloat16", "uint8"))


def _format(kind: str) -> str:
    return "channels_first" if kind == "torch" else "channels_last"


def _pixels(image: Any, dtype: str) -> tuple[np.ndarray[Any, Any], str]:
    """Red, green, blue bytes, row by row, and the type of the input."""
    kind, array = "numpy", image
    if hasattr(image, "mode") and hasattr(image, "convert"):
        if dtype != "uint8":
            raise OptionError("apply: a PIL image cannot contain floats; to normalise, give a NumPy array or a tensor")
        kind, array = "pil", np.asarray(image.convert("RGB"))
    elif hasattr(image, "detach") and hasattr(image, "cpu"):
        flat = image.detach().cpu().numpy()
        kind, array = "torch", flat.transpose(1, 2, 0) if flat.ndim == 3 else flat  # noqa: PLR2004 - as below
    try:
        array = np.asarray(array)
    except (TypeError, ValueError, RuntimeError):
        refuse("image", image, "an image: a NumPy array, a torch tensor or a PIL image")
    if array.ndim == 2:  # noqa: PLR2004 - rows and columns
        array = array[..., None]
    if array.ndim != 3 or array.shape[2] not in (1, 3) or array.dtype != np.uint8:  # noqa: PLR2004 - height, width, channels
        raise OptionError(
            f"apply: an array of {array.dtype} and shape {array.shape} is not an image of bytes with 1 or 3 channels"
        )
    return np.repeat(array, 3, axis=2) if array.shape[2] == 1 else array, kind


def _result(made: tuple[bytes, list[int]], kind: str, dtype: str) -> Any:
    data, shape = made
    if len(shape) > len("hwc"):
        length = len(data) // shape[0]
        crops = (data[start : start + length] for start in range(0, len(data), length))
        return tuple(_result((crop, shape[1:]), kind, dtype) for crop in crops)
    plain: Any = np.frombuffer(bytearray(data), "uint16" if dtype == "bfloat16" else dtype).reshape(shape)
    if kind == "torch":
        import torch  # noqa: PLC0415 - only for those who gave a tensor

        tensor = torch.from_numpy(plain.view("int16") if dtype == "bfloat16" else plain)
        return tensor.view(torch.bfloat16) if dtype == "bfloat16" else tensor
    if kind == "pil":
        from PIL import Image  # noqa: PLC0415 - only for those who gave a PIL image

        return Image.fromarray(plain[..., 0] if plain.shape[2] == 1 else plain)
    return plain
