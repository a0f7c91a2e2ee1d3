"""MixUp, CutMix and soft labels of the device half: the engine draws, torch mixes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from . import _feedline
from .errors import OptionError
from .transforms.mix import batch_specs

__all__ = ["Mixer"]


class Mixer:
    """A list of batch transforms, applied to tensors."""

    def __init__(self, ops: Sequence[Any]) -> None:
        self._specs = batch_specs(ops)
        soft = [each for spec in self._specs for each in _flat(spec) if "num_classes" in each]
        self._classes = {each["num_classes"] for each in soft}
        self._smoothing = max((each.get("smoothing") or 0.0 for each in soft), default=0.0)
        for spec in self._specs:
            if any(each["op"] in ("Mosaic", "CopyPaste") for each in _flat(spec)):
                raise OptionError(f"Augment: {spec['op']} moves boxes and masks and is only available in the engine")
        if len(self._classes) > 1:
            raise OptionError(f"Augment: num_classes {sorted(self._classes)} differ")

    def __call__(
        self, views: dict[str, Any], labels: Any, place: tuple[int, int, int], global_batch: int
    ) -> tuple[dict[str, Any], Any]:
        """The mixed images of every view, and the labels as shares. `place` is seed, epoch and position."""
        seed, epoch, position = place
        count = len(labels)
        if position % 2:
            raise OptionError(f"position: {position} is odd, so the first sample's partner is not in this batch")
        positions = list(range(position, position + count))
        soft = self._soft(labels)
        for number, spec in enumerate(self._specs):
            text, shares = json.dumps(spec), None
            for view, images in views.items():
                size = (images.shape[2], images.shape[3])
                drawn = _feedline.draw_mixed(text, number, size, (seed, epoch), global_batch, positions)
                views[view] = _mixed(images, drawn)
                # Labels have the shares of the first view, as in the engine.
                shares = shares if shares is not None else [own for own, _ in drawn]
            soft = _blended(soft, shares or [])
        return views, soft

    def _soft(self, labels: Any) -> Any:
        import torch  # noqa: PLC0415 - optional, imported only where used

        (classes,) = self._classes
        hot = torch.nn.functional.one_hot(labels.long(), classes).float()
        return hot * (1 - self._smoothing) + self._smoothing / classes


def _flat(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [each for inner in spec["transforms"] for each in _flat(inner)] if "transforms" in spec else [spec]


def _partners(rows: Any) -> Any:
    """Every row's partner: its neighbour; the last of an odd number is its own."""
    import torch  # noqa: PLC0415 - optional, imported only where used

    number = torch.arange(len(rows), device=rows.device)
    other = number ^ 1
    return rows[torch.where(other < len(rows), other, number)]


def _blended(rows: Any, shares: Sequence[float]) -> Any:
    own = rows.new_tensor(shares).view(-1, *[1] * (rows.ndim - 1))
    return own * rows + (1 - own) * _partners(rows)


def _mixed(images: Any, drawn: Sequence[tuple[float, Sequence[int] | None]]) -> Any:
    """Images blended with their partners, or with a box of them."""
    import torch  # noqa: PLC0415 - optional, imported only where used

    blended = _blended(images, [own if cut is None else 1.0 for own, cut in drawn])
    if all(cut is None for _, cut in drawn):
        return blended
    left, top, width, height = images.new_tensor([cut or (0, 0, 0, 0) for _, cut in drawn]).long().unbind(1)
    rows = torch.arange(images.shape[2], device=images.device)
    columns = torch.arange(images.shape[3], device=images.device)
    down = (rows >= top[:, None]) & (rows < (top + height)[:, None])
    across = (columns >= left[:, None]) & (columns < (left + width)[:, None])
    return torch.where((down[:, :, None] & across[:, None, :])[:, None], _partners(images), blended)
