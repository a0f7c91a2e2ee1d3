"""The device half as an operator of torch: one node of compiled functions, without a break in their graph."""

from __future__ import annotations

import torch

from . import _feedline

__all__ = ["operator"]

_WRAP = 2**64


@torch.library.custom_op("feedline::augment", mutates_args=())
def operator(images: torch.Tensor, index: torch.Tensor, ops: str, view: int, epoch: int, seed: int) -> torch.Tensor:
    """`Augment` of `ops` (JSON). `seed` is signed here, as torch's integers are."""
    from ._augment import augmented  # noqa: PLC0415 - the two know each other

    made: torch.Tensor = augmented(images, index, ops, view, epoch, seed % _WRAP)
    return made


@operator.register_fake  # type: ignore[untyped-decorator,unused-ignore]
def _shape(images: torch.Tensor, index: torch.Tensor, ops: str, view: int, epoch: int, seed: int) -> torch.Tensor:  # noqa: ARG001 - the operator's
    height, width = (int(side) for side in images.shape[2:])
    return images.new_empty((images.shape[0], *_feedline.drawn_shape(ops, (height, width))), dtype=torch.float32)
