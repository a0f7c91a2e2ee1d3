"""More of the device half: colour matrices, layers over and under images, opponent channels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from . import _feedline

__all__ = [
    "elastic_places",
    "erase_with_noise",
    "laid_over",
    "opponent",
    "shift_channels",
    "solarize_add",
    "twist_hsv",
    "twist_yiq",
]

_YIQ = [[0.299, 0.587, 0.114], [0.596, -0.274, -0.321], [0.211, -0.523, 0.311]]
_CONES = [[0.31399, 0.63951, 0.0465], [0.15537, 0.75789, 0.08674], [0.01775, 0.10944, 0.87281]]


def twist_hsv(torch: Any, image: Any, action: Mapping[str, Any]) -> Any:
    """Hue, saturation and value in floats, then contrast about middle grey."""
    from ._augment import _from_hsv, _to_hsv  # noqa: PLC0415 - the two know each other

    hue, saturation, value = _to_hsv(torch, image)
    saturation, value = (saturation * action["saturation"]).clamp(0, 1), (value * action["value"]).clamp(0, 1)
    image = _from_hsv(torch, (hue + action["hue"]) % 1.0, saturation, value)
    contrast = action["contrast"]
    return (image * contrast + (0.5 - 0.5 * contrast)).clamp(0, 1)


def twist_yiq(torch: Any, image: Any, action: Mapping[str, Any]) -> Any:
    """One matrix through YIQ."""
    angle, value, contrast = math.radians(action["hue"]), action["value"], action["contrast"]
    u, w = (value * action["saturation"] * part for part in (math.cos(angle), math.sin(angle)))
    yiq = torch.tensor(_YIQ, dtype=torch.float64)
    turned = torch.tensor([[value, 0, 0], [0, u, -w], [0, w, u]], dtype=torch.float64)
    matrix = (torch.linalg.inv(yiq) @ turned @ yiq * (action["brightness"] * contrast)).to(image)
    add = (0.5 - 0.5 * contrast) * action["brightness"]
    return ((matrix @ image.flatten(1)).view_as(image) + add).clamp(0, 1)


def elastic_places(torch: Any, image: Any, size: tuple[int, int], whence: Mapping[str, Any]) -> Any:
    """Where every pixel of an elastic transform comes from: the engine's own field."""
    import numpy as np  # noqa: PLC0415 - a part of the engine's interface

    alpha, sigma = (tuple(whence[name]) for name in ("alpha", "sigma"))
    offsets = np.frombuffer(bytearray(_feedline.elastic_field(size, alpha, sigma, whence["seed"])), "<f4")
    y, x = (torch.arange(side, device=image.device, dtype=torch.float32) + 0.5 for side in size)
    dx, dy = torch.from_numpy(offsets).to(image.device).view(2, *size)
    return torch.stack([x[None, :] + dx, y[:, None] + dy], -1)


def solarize_add(torch: Any, levels: Any, action: Mapping[str, Any]) -> Any:
    """Dark values become lighter."""
    return torch.where(levels < action["threshold"], (levels + action["add"]).clamp(max=255), levels)


def shift_channels(_: Any, levels: Any, action: Mapping[str, Any]) -> Any:
    """Each channel times a gain, plus a shift."""
    gain, shift = (levels.new_tensor(action[name]).view(3, 1, 1) for name in ("gain", "shift"))
    return (levels * gain + shift).floor().clamp(0, 255)


def laid_over(torch: Any, image: Any, action: Mapping[str, Any]) -> Any:
    """A weighted sum of the image and something else: the engine's results for black and for white show both."""
    height, width = action.get("size", image.shape[1:])
    left, top = action.get("corner", (0, 0))
    black, white = (_made(torch, image, level, action) for level in (0, 255))
    placed = torch.zeros_like(black)
    _, rows, columns = image.shape
    x0, y0, x1, y1 = max(left, 0), max(top, 0), min(left + columns, width), min(top + rows, height)
    if x1 > x0 and y1 > y0:
        placed[:, y0:y1, x0:x1] = image[:, y0 - top : y1 - top, x0 - left : x1 - left]
    return (black + (white - black) * placed).clamp(0, 1)


def _made(torch: Any, image: Any, level: int, action: Mapping[str, Any]) -> Any:
    import numpy as np  # noqa: PLC0415 - a part of the engine's interface

    plain = np.full((*image.shape[1:], 3), level, np.uint8)
    return torch.from_numpy(_replayed([action], plain, None)).permute(2, 0, 1).to(image) / 255


def _replayed(actions: list[Any], image: Any, normalize: Any) -> Any:
    from .transforms.apply import replay  # noqa: PLC0415 - imports this package's parts

    params = {"version": 1, "image": image.shape[:2], "actions": actions, "normalize": normalize, "channels": 3}
    return replay(params, image)


def erase_with_noise(torch: Any, image: Any, action: Mapping[str, Any], normalize: Any) -> Any:
    """A box of the engine's own noise, in units of the finished tensor."""
    import numpy as np  # noqa: PLC0415 - a part of the engine's interface

    made = _replayed([action], np.zeros((*image.shape[1:], 3), np.uint8), normalize)
    top, left, height, width = (action[name] for name in ("top", "left", "height", "width"))
    rows, columns = slice(top, top + height), slice(left, left + width)
    image = image.clone()
    image[:, rows, columns] = torch.from_numpy(made[rows, columns].copy()).permute(2, 0, 1).to(image)
    return image


def opponent(torch: Any, image: Any, by: Mapping[str, Any]) -> Any:
    """Colour-opponent channels: narrow Gaussians minus wide ones."""
    linear = torch.where(image <= 0.04045, image / 12.92, ((image + 0.055) / 1.055) ** 2.4)  # noqa: PLR2004 - sRGB
    cones = image.new_tensor(_CONES) @ linear.flatten(1)
    long, middle, short = cones.view(3, *image.shape[1:])
    light = 0.5 * (long + middle)
    pairs = []
    if by.get("parvo") is not None:
        pairs += [(long, middle, by["parvo"]), (middle, long, by["parvo"])]
    pairs += [(light, light, by["magno"]), (-light, -light, by["magno"])]
    if by.get("konio") is not None:
        pairs.append((short, light, by["konio"]))
    made = torch.stack([_smooth(torch, one, s[0]) - _smooth(torch, other, s[1]) for one, other, s in pairs])
    made = made.clamp(min=0) if by["rectify"] else made
    mean, std = (image.new_tensor(by[name][: len(made)]).view(-1, 1, 1) for name in ("mean", "std"))
    return (made - mean) / std


def _smooth(torch: Any, plane: Any, sigma: float) -> Any:
    radius = math.ceil(3 * sigma)
    offsets = torch.arange(-radius, radius + 1, device=plane.device, dtype=torch.float32)
    weights = torch.exp(-0.5 * (offsets / max(sigma, 1e-3)) ** 2)
    weights = weights / weights.sum()
    rows, columns = (_places(torch, length, radius, plane.device) for length in plane.shape)
    tall = plane[rows][None, None]
    plane = torch.nn.functional.conv2d(tall, weights.view(1, 1, -1, 1))
    return torch.nn.functional.conv2d(plane[..., columns], weights.view(1, 1, 1, -1))[0, 0]


def _places(torch: Any, length: int, margin: int, device: Any) -> Any:
    """Rows or columns with a margin, mirrored as often as it takes without repeating the outermost."""
    period = max(2 * (length - 1), 1)
    at = torch.arange(-margin, length + margin, device=device) % period
    return torch.minimum(at, period - at).clamp(max=length - 1)
