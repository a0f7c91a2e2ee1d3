"""The user's own functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from feedline.errors import OptionError

from .base import Transform

__all__ = ["Python"]


@dataclass(frozen=True)
class Python(Transform):
    """Your own function for one image, in worker processes: before, between or after the engine's transforms.

    `as_` is the form of its image: `"numpy"` (an array in the loader's `memory_format`), `"pil"`, `"torch"` (channels
    first); by default, transforms of torchvision's v2 get tensors, those of v1 PIL images, albumentations arrays with
    the channels last, all others arrays. Before further transforms, and for PIL, torchvision and albumentations, images
    are 8-bit; otherwise they are as the transforms before leave them. It may return any of these.

    If it has a parameter `rng`, it gets a `numpy.random.Generator` drawn from (seed, epoch, sample, view). The random
    numbers of Python, NumPy and torch that it may use instead are seeded the same way in worker processes, so that
    results do not depend on workers, ranks or restarts. Much slower than the engine's own transforms.

    >>> import feedline as fl
    >>> import numpy as np
    >>> from feedline import transforms as T
    >>> recipe = [T.Python(np.invert), T.RandomResizedCrop(32), T.Normalize.imagenet()]
    >>> with fl.Loader(example_folder, batch_size=4, transforms=recipe, output="numpy") as loader:
    ...     next(iter(loader))["image"].shape
    (4, 3, 32, 32)
    """

    function: Callable[..., Any]
    as_: str | None = None

    def __post_init__(self) -> None:
        from feedline._callback.calls import call_of  # noqa: PLC0415 - that package reads lists of these

        call_of("T.Python", self.function, self.as_)

    def to_spec(self) -> dict[str, Any]:
        """Refused: the engine cannot run it."""
        raise OptionError("transforms: T.Python is for image fields of a loader")
