"""Device-side augmentation: the engine draws the parameters, torch applies them to tensors on any device."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import _augment_more as more
from . import _feedline
from ._augment_mix import Mixer
from ._checks import shown, whole
from .errors import OptionError
from .transforms.apply import specs
from .transforms.views import unyoked

__all__ = ["Augment"]


class Augment:
    """Applies the engine's draws with torch to a batch of images on any device.

    `ops` is a list of `feedline.transforms`, or a dict of such lists: then the result is a dict of views, each with
    draws of its own, as in a loader. `images` is `[B, 3, H, W]`, bytes or floats from 0 to 1; the result is float32.
    The draws for each image depend on (seed, epoch, index), as in a loader. Images are processed one by one, in floats:
    values are not rounded to 8 bits after each step, so results are within a few levels of the engine's
    (`docs/targets.md` lists the tolerance of each). There is no state to save.

    `batch_transforms` (`T.MixUp`, `T.CutMix`, `T.RandomChoice` of them, `T.LabelSmoothing`, `T.OneHot`) mix
    neighbours of the batch; the result is then the images and the labels as `[B, num_classes]`. Their draws
    depend on the samples' positions in the epoch: `position` is the first one's, `global_batch` the samples of a batch
    over all ranks (this batch's, if not given).

    In a function compiled with `torch.compile`, the call is one operator (`feedline::augment`), also with
    `fullgraph=True`; torch then computes no gradient through it. Mixing breaks the graph. It has not been run on a
    GPU yet.

    >>> import torch
    >>> from feedline import transforms as T
    >>> from feedline.torch import Augment
    >>> augment = Augment([T.RandomHorizontalFlip(), T.ColorJitter(0.4)])
    >>> augment(torch.rand(2, 3, 8, 8), index=[5, 6], epoch=1, seed=0).shape
    torch.Size([2, 3, 8, 8])
    >>> mix = Augment([T.RandomHorizontalFlip()], batch_transforms=[T.MixUp(0.4, num_classes=10)])
    >>> images, labels = mix(torch.rand(2, 3, 8, 8), index=[5, 6], labels=torch.tensor([1, 7]), position=0)
    >>> labels.shape
    torch.Size([2, 10])
    """

    def __init__(self, ops: Any, *, batch_transforms: Sequence[Any] | None = None) -> None:
        self._alone = not isinstance(ops, Mapping)
        named = {"": ops} if self._alone else unyoked("Augment", ops)
        # Views are numbered in the order of their names, as in the engine.
        self._views = [(view, json.dumps(specs("Augment", named[view]))) for view in sorted(named)]
        self._mixer = Mixer(batch_transforms) if batch_transforms else None

    def params(
        self, size: tuple[int, int], index: Any, *, epoch: int = 0, seed: int = 0, view: str = ""
    ) -> list[dict[str, Any]]:
        """The parameters drawn for images of this height and width; for one of several views, give its name."""
        found = next((number for number, (name, _) in enumerate(self._views) if name == view), None)
        if found is None:
            known = ", ".join(name for name, _ in self._views if name) or "there is only one"
            raise OptionError(f"view: {shown(view)} is not a view; {known}")
        return drawn(self._views[found][1], size, index, found, epoch, seed)

    def replay(self, params: Sequence[Mapping[str, Any]], images: Any) -> Any:
        """Repeats what was drawn, one list of parameters per image, on other images of the same size."""
        if len(params) != len(images):
            raise OptionError(f"params: {len(params)} for {len(images)} images")
        return stacked([done(image, each) for image, each in zip(floats(images), params, strict=True)])

    def __call__(
        self,
        images: Any,
        index: Any,
        *,
        epoch: int = 0,
        seed: int = 0,
        labels: Any = None,
        position: int | None = None,
        global_batch: int | None = None,
    ) -> Any:
        """The augmented images; with `batch_transforms`, these and the labels."""
        made = {view: self._view(number, images, index, epoch, seed) for number, (view, _) in enumerate(self._views)}
        if self._mixer is None:
            if labels is not None or position is not None:
                raise OptionError("labels: only batch_transforms use labels and position")
            return made[""] if self._alone else made
        if labels is None or position is None:
            raise OptionError("labels: batch_transforms need labels= and position=, the first sample's in the epoch")
        made, soft = self._mixer(made, labels, (seed, epoch, position), global_batch or len(images))
        return (made[""] if self._alone else made), soft

    def _view(self, number: int, images: Any, index: Any, epoch: int, seed: int) -> Any:
        import torch  # noqa: PLC0415 - optional, imported only where used

        text = self._views[number][1]
        if not torch.compiler.is_compiling():
            return augmented(images, index, text, number, epoch, seed)
        signed = seed - 2**64 if seed >= 2**63 else seed
        return torch.ops.feedline.augment(images, torch.as_tensor(index), text, number, epoch, signed)


def drawn(text: str, size: tuple[int, int], index: Any, view: int, epoch: int, seed: int) -> list[dict[str, Any]]:
    """The parameters of every image."""
    most = 2**64 - 1
    samples = [int(number) for number in (index.tolist() if hasattr(index, "tolist") else index)]
    origin = (whole("seed", seed, 0, most), whole("epoch", epoch, 0, most))
    return [json.loads(each) for each in _feedline.draw_params(text, size, origin, samples, view)]


def augmented(images: Any, index: Any, text: str, view: int, epoch: int, seed: int) -> Any:
    """The images with the transforms `text` (JSON)."""
    if getattr(images, "ndim", 0) != 4 or images.shape[1] != 3:  # noqa: PLR2004 - a batch of colour images
        raise OptionError(f"images: {shown(getattr(images, 'shape', images))} is not [B, 3, H, W]")
    if len(index) != len(images):
        raise OptionError(f"index: {len(index)} numbers for {len(images)} images")
    params = drawn(text, (images.shape[2], images.shape[3]), index, view, epoch, seed)
    return stacked([done(image, each) for image, each in zip(floats(images), params, strict=True)])


def floats(images: Any) -> Any:
    """Images as floats from 0 to 1."""
    import torch  # noqa: PLC0415 - optional, imported only where used

    return images.float() / 255 if images.dtype == torch.uint8 else images.float()


def stacked(images: Sequence[Any]) -> Any:
    """One tensor, if all images have one size."""
    import torch  # noqa: PLC0415 - optional, imported only where used

    different = next((image.shape for image in images if image.shape != images[0].shape), None)
    if different is not None:
        raise OptionError(
            f"Augment: images of {tuple(images[0].shape)} and {tuple(different)} cannot form a batch; crop them"
        )
    return torch.stack(list(images))


def done(image: Any, params: Mapping[str, Any]) -> Any:
    """Applies `params` to one image `[3, H, W]` of floats from 0 to 1."""
    import torch  # noqa: PLC0415 - optional, imported only where used

    after = [action for action in params["actions"] if action["do"] == "Erase" and action.get("floats")]
    for action in params["actions"]:
        if any(action is late for late in after):
            continue
        name = action["do"]
        if name not in _ACTIONS:
            raise OptionError(f"Augment: {name} is only available in the engine; available here: {', '.join(_ACTIONS)}")
        image = _ACTIONS[name](torch, image, action)
    if params.get("opposed") is not None:
        return more.opponent(torch, image, params["opposed"])
    if params["channels"] == 1:
        image = image[:1]
    if params["normalize"] is not None:
        mean, std = (image.new_tensor(params["normalize"][name]).view(3, 1, 1) for name in ("mean", "std"))
        image = (image - mean) / std
    for action in after:
        noisy = action.get("noise") is not None
        image = more.erase_with_noise(torch, image, action, params["normalize"]) if noisy else _erase(image, action)
    return image


def _crop(_: Any, image: Any, action: Mapping[str, Any]) -> Any:
    left, top, width, height = (action[name] for name in ("left", "top", "width", "height"))
    _, rows, columns = image.shape
    fill = image.new_tensor(action["fill"]).view(3, 1, 1) / 255
    out = fill.expand(3, height, width).clone()
    x0, y0, x1, y1 = max(left, 0), max(top, 0), min(left + width, columns), min(top + height, rows)
    if x1 > x0 and y1 > y0:
        out[:, y0 - top : y1 - top, x0 - left : x1 - left] = image[:, y0:y1, x0:x1]
    return out


def _resize(torch: Any, image: Any, action: Mapping[str, Any]) -> Any:
    mode, size = action["interpolation"], (action["height"], action["width"])
    if mode == "nearest":
        return torch.nn.functional.interpolate(image[None], size, mode="nearest-exact")[0]
    if mode not in ("bilinear", "bicubic"):
        raise OptionError(f"Augment: {mode} resizing is only available in the engine")
    found = torch.nn.functional.interpolate(image[None], size, mode=mode, antialias=True, align_corners=False)[0]
    return found.clamp(0, 1)


def _grid(torch: Any, image: Any, places: Any, action: Mapping[str, Any], outside: str = "zeros") -> Any:
    """Samples pixels at `places`, `[H, W, 2]` in pixels from the upper left corner."""
    _, height, width = image.shape
    scale = places.new_tensor([2 / width, 2 / height])
    grid = (places * scale - 1)[None]
    mode = "nearest" if action["interpolation"] == "nearest" else "bilinear"
    found = torch.nn.functional.grid_sample(image[None], grid, mode=mode, padding_mode=outside, align_corners=False)[0]
    fill = action.get("fill", [0, 0, 0])
    if outside != "zeros" or not any(fill):
        return found
    ones = torch.ones_like(image[:1])
    share = torch.nn.functional.grid_sample(ones[None], grid, mode=mode, padding_mode=outside, align_corners=False)[0]
    return found + (1 - share) * image.new_tensor(fill).view(3, 1, 1) / 255


def _pixel_centres(torch: Any, image: Any, height: int, width: int) -> tuple[Any, Any]:
    y, x = torch.meshgrid(
        torch.arange(height, device=image.device, dtype=torch.float32) + 0.5,
        torch.arange(width, device=image.device, dtype=torch.float32) + 0.5,
        indexing="ij",
    )
    return x, y


def _mapped(torch: Any, image: Any, coefficients: Sequence[Any], action: Mapping[str, Any], outside: str) -> Any:
    a, b, c, d, e, f, *rest = (float(number) for number in coefficients)
    g, h = rest or (0.0, 0.0)
    x, y = _pixel_centres(torch, image, action["height"], action["width"])
    divisor = g * x + h * y + 1
    places = torch.stack([(a * x + b * y + c) / divisor, (d * x + e * y + f) / divisor], -1)
    return _grid(torch, image, places, action, outside)


def _warp(torch: Any, image: Any, action: Mapping[str, Any]) -> Any:
    return _mapped(torch, image, action["coefficients"], action, "zeros")


def _sample(torch: Any, image: Any, action: Mapping[str, Any]) -> Any:
    whence, outside = action["whence"], action["outside"]
    if whence["kind"] == "Map":
        return _mapped(torch, image, whence["coefficients"], action, outside)
    height, width = action["height"], action["width"]
    if whence["kind"] == "Elastic":
        return _grid(torch, image, more.elastic_places(torch, image, (height, width), whence), action, outside)
    (sx, sy), k = whence["shift"], whence["distortion"]
    x, y = _pixel_centres(torch, image, height, width)
    middle_x, middle_y = width / 2 + sx, height / 2 + sy
    u, v = (x - middle_x) / width, (y - middle_y) / height
    squared = u * u + v * v
    stretch = 1 + k * squared + k * squared * squared
    places = torch.stack([u * stretch * width + middle_x, v * stretch * height + middle_y], -1)
    return _grid(torch, image, places, action, outside)


def _pad(torch: Any, image: Any, action: Mapping[str, Any]) -> Any:
    left, top, right, bottom = action["padding"]
    if action["border"] == "symmetric":
        rows = _mirrored(torch, image.shape[1], top, bottom, image.device)
        return image[:, rows][:, :, _mirrored(torch, image.shape[2], left, right, image.device)]
    mode = {"edge": "replicate", "reflect": "reflect"}[action["border"]]
    return torch.nn.functional.pad(image[None], (left, right, top, bottom), mode=mode)[0]


def _mirrored(torch: Any, length: int, before: int, after: int, device: Any) -> Any:
    at = torch.arange(-before, length + after, device=device) % (2 * length)
    return torch.minimum(at, 2 * length - 1 - at)


def _grey(image: Any) -> Any:
    weights = image.new_tensor([19595, 38470, 7471]).view(3, 1, 1) / 65536
    return (image * weights).sum(0, keepdim=True)


def _blend(image: Any, other: Any, factor: float) -> Any:
    return (factor * image + (1 - factor) * other).clamp(0, 1)


def _hue(torch: Any, image: Any, action: Mapping[str, Any]) -> Any:
    hue, saturation, value = _to_hsv(torch, image)
    return _from_hsv(torch, (hue + float(action["turn"])) % 1.0, saturation, value)


def _to_hsv(torch: Any, image: Any) -> tuple[Any, Any, Any]:
    red, green, blue = image
    top, low = image.amax(0), image.amin(0)
    span = top - low
    safe = torch.where(span > 0, span, torch.ones_like(span))
    at_red, at_green = ((green - blue) / safe) % 6, (blue - red) / safe + 2
    hue = torch.where(top == red, at_red, torch.where(top == green, at_green, (red - green) / safe + 4))
    zero = torch.zeros_like(span)
    hue = torch.where(span > 0, hue / 6, zero)
    return hue, torch.where(top > 0, span / torch.where(top > 0, top, torch.ones_like(top)), zero), top


def _from_hsv(torch: Any, hue: Any, saturation: Any, value: Any) -> Any:
    def channel(shift: float) -> Any:
        at = (shift + hue * 6) % 6
        return value - value * saturation * torch.minimum(at, 4 - at).clamp(0, 1)

    return torch.stack([channel(5.0), channel(3.0), channel(1.0)])


def _levels(image: Any) -> Any:
    return (image * 255).round().clamp(0, 255)


def _table(function: Callable[[Any, Any, Mapping[str, Any]], Any]) -> Callable[..., Any]:
    """An operation on levels from 0 to 255."""
    return lambda torch, image, action: function(torch, _levels(image), action) / 255


def _equalize(torch: Any, image: Any, _: Mapping[str, Any]) -> Any:
    levels = _levels(image).long()
    made = []
    for channel in levels:
        counts = torch.bincount(channel.flatten(), minlength=256)
        last = int(counts.nonzero()[-1])
        step = int(counts.sum() - counts[last]) // 255
        if step == 0:
            made.append(channel)
            continue
        table = (torch.cat([counts.new_zeros(1), counts.cumsum(0)[:-1]]) + step // 2) // step
        made.append(table.clamp(0, 255)[channel])
    return torch.stack(made).float() / 255


def _autocontrast(torch: Any, image: Any, _: Mapping[str, Any]) -> Any:
    low, high = image.amin((1, 2), keepdim=True), image.amax((1, 2), keepdim=True)
    span = torch.where(high > low, high - low, torch.ones_like(high))
    return torch.where(high > low, (image - low) / span, image).clamp(0, 1)


def _sharpness(torch: Any, image: Any, action: Mapping[str, Any]) -> Any:
    if min(image.shape[1:]) <= 2:  # noqa: PLR2004 - no middle
        return image
    kernel = image.new_ones(3, 1, 3, 3)
    kernel[:, :, 1, 1] = 5
    smooth = image.clone()
    smooth[:, 1:-1, 1:-1] = torch.nn.functional.conv2d(image[None], kernel / 13, groups=3)[0]
    return _blend(image, smooth, action["factor"])


def _blur(torch: Any, image: Any, action: Mapping[str, Any]) -> Any:
    wide, high = action["kernel_size"]
    for length, axis in ((wide, 2), (high, 1)):
        offsets = torch.arange(length, device=image.device, dtype=torch.float32) - (length - 1) / 2
        weights = torch.softmax(-(offsets**2) / (2 * float(action["sigma"]) ** 2), 0)
        pad = (length // 2, length // 2, 0, 0) if axis == 2 else (0, 0, length // 2, length // 2)  # noqa: PLR2004
        shape = (1, 1, 1, length) if axis == 2 else (1, 1, length, 1)  # noqa: PLR2004 - along rows
        wide_image = torch.nn.functional.pad(image[None], pad, mode="reflect")
        image = torch.nn.functional.conv2d(wide_image, weights.view(shape).repeat(3, 1, 1, 1), groups=3)[0]
    return image


def _box_blur(torch: Any, image: Any, action: Mapping[str, Any]) -> Any:
    """Pillow's Gaussian blur: three boxes of fractional width, edges repeated."""
    sigma = float(action["radius"])
    length = math.sqrt(12 * sigma * sigma / 3 + 1)
    low = math.floor((length - 1) / 2)
    width = 2 * low + 1
    share = width * (low * (low + 1) - 3 * sigma * sigma / 3) / (6 * (sigma * sigma / 3 - (low + 1) ** 2))
    radius = low + share
    whole_part, rest = int(radius), radius - int(radius)
    weights = [rest, *[1.0] * (2 * whole_part + 1), rest]
    line = image.new_tensor(weights) / sum(weights)
    size = len(weights) // 2
    for _ in range(3):
        for shape, pad in (((1, 1, 1, -1), (size, size, 0, 0)), ((1, 1, -1, 1), (0, 0, size, size))):
            wide_image = torch.nn.functional.pad(image[None], pad, mode="replicate")
            image = torch.nn.functional.conv2d(wide_image, line.view(shape).repeat(3, 1, 1, 1), groups=3)[0]
    return image


def _erase(image: Any, action: Mapping[str, Any]) -> Any:
    top, left, height, width = (action[name] for name in ("top", "left", "height", "width"))
    value = image.new_tensor(action["value"][: image.shape[0]]).view(-1, 1, 1)
    image = image.clone()
    image[:, top : top + height, left : left + width] = value if action.get("floats") else value / 255
    return image


def _holes(_: Any, image: Any, action: Mapping[str, Any]) -> Any:
    image, fill = image.clone(), image.new_tensor(action["fill"]).view(3, 1, 1) / 255
    for left, top, width, height in action["boxes"]:
        image[:, top : top + height, left : left + width] = fill
    return image


def _shuffle(_: Any, image: Any, action: Mapping[str, Any]) -> Any:
    side, made = action["side"], image.clone()
    across = image.shape[2] // side
    for at, piece in enumerate(action["order"]):
        (y, x), (sy, sx) = divmod(at, across), divmod(piece, across)
        part = image[:, sy * side : (sy + 1) * side, sx * side : (sx + 1) * side]
        made[:, y * side : (y + 1) * side, x * side : (x + 1) * side] = part
    return made


_ACTIONS: dict[str, Callable[[Any, Any, Mapping[str, Any]], Any]] = {
    "Crop": _crop,
    "Resize": _resize,
    "HorizontalFlip": lambda _, image, __: image.flip(2),
    "VerticalFlip": lambda _, image, __: image.flip(1),
    "Pad": _pad,
    "Warp": _warp,
    "Sample": _sample,
    "Brightness": lambda _, image, action: (image * action["factor"]).clamp(0, 1),
    "Contrast": lambda _, image, action: _blend(image, _grey(image).mean(), action["factor"]),
    "Saturation": lambda _, image, action: _blend(image, _grey(image), action["factor"]),
    "Hue": _hue,
    "Gray": lambda _, image, __: _grey(image).expand(3, -1, -1),
    "Invert": lambda _, image, __: 1 - image,
    "Posterize": _table(lambda _, levels, action: levels - levels % 2 ** (8 - action["bits"])),
    "Solarize": _table(
        lambda torch, levels, action: torch.where(levels < float(action["threshold"]), levels, 255 - levels)
    ),
    "Gamma": lambda _, image, action: (float(action["gain"]) * image ** float(action["gamma"])).clamp(0, 1),
    "Equalize": _equalize,
    "Autocontrast": _autocontrast,
    "Sharpness": _sharpness,
    "GaussianBlur": _blur,
    "BoxBlur": _box_blur,
    "Erase": lambda torch, image, action: (
        more.laid_over(torch, image, action) if action.get("noise") is not None else _erase(image, action)
    ),
    "Holes": _holes,
    "ShufflePatches": _shuffle,
    "PermuteChannels": lambda _, image, action: image[list(action["order"])],
    "ShiftChannels": _table(more.shift_channels),
    "SolarizeAdd": _table(more.solarize_add),
    "TwistHsv": more.twist_hsv,
    "TwistYiq": more.twist_yiq,
    "Scene": more.laid_over,
    "Blend": more.laid_over,
    "Grid": more.laid_over,
}
