"""One row per transform: how each library is asked for it."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from feedline import _feedline
from feedline import transforms as T
from feedline.transforms.apply import specs

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass
class Row:
    """The same work in several libraries' words. A missing library has no such transform."""

    name: str
    feedline: list[Any] | None
    torchvision: Callable[[Any], Any] | None = None
    """Made of `torchvision.transforms.v2`; serves PIL images and tensors."""
    only_tensor: bool = False
    only_pil: bool = False
    opencv: Callable[[Any, Any], Any] | None = None
    albumentations: Callable[[Any], Any] | None = None
    kornia_rs: Callable[[Any, Any], Any] | None = None
    other_work: set[str] = field(default_factory=set)
    why: str = ""
    dtype: str = "uint8"
    memory_format: str = "channels_last"


class Feedline:
    """Bytes in, bytes out, through the engine's own loop for one image. Results go to memory that is kept, as in a loader."""

    def form(self, image: Any) -> tuple[bytes, tuple[int, int]]:
        array = np.asarray(image)
        return array.tobytes(), array.shape[:2]

    def call(self, row: Row) -> Callable[[Any], Any] | None:
        if row.feedline is None:
            return None
        text = json.dumps(specs("bench", row.feedline))
        ops = _feedline.ImageOps("bench", text, 0, 0, row.dtype, row.memory_format)
        sample = iter(range(1 << 62))
        kept = None

        def run(image: Any) -> Any:
            nonlocal kept
            _, kept = ops.apply(image[0], image[1], (0, 0, next(sample)), kept)
            return kept

        return run


class Torchvision:
    """On PIL images, or on tensors of bytes."""

    def __init__(self, *, tensor: bool) -> None:
        self.tensor = tensor

    def form(self, image: Any) -> Any:
        from torchvision.transforms.v2 import functional

        return functional.pil_to_tensor(image) if self.tensor else image

    def call(self, row: Row) -> Callable[[Any], Any] | None:
        from torchvision.transforms import v2

        if row.torchvision is None or (row.only_pil if self.tensor else row.only_tensor):
            return None
        return row.torchvision(v2)


class OpenCV:
    """Functions on arrays. Those that are one call write to memory that is kept, as feedline does."""

    def form(self, image: Any) -> Any:
        return np.asarray(image).copy()

    def call(self, row: Row) -> Callable[[Any], Any] | None:
        import cv2

        return row.opencv(cv2, Kept()) if row.opencv else None


class Kept:
    """The result of the last call, for the next to write to."""

    def __init__(self) -> None:
        self.result: Any = None

    def __call__(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        self.result = function(*arguments, dst=self.result, **options)
        return self.result


class Albumentations:
    """Its transforms, called as users call them."""

    def form(self, image: Any) -> Any:
        return np.asarray(image).copy()

    def call(self, row: Row) -> Callable[[Any], Any] | None:
        import albumentations

        if row.albumentations is None:
            return None
        op = row.albumentations(albumentations)
        return lambda image: op(image=image)["image"]


class KorniaRs:
    """Functions on arrays."""

    def form(self, image: Any) -> Any:
        return np.asarray(image).copy()

    def call(self, row: Row) -> Callable[[Any], Any] | None:
        import kornia_rs

        return row.kornia_rs(kornia_rs, None) if row.kornia_rs else None


PACKAGES = {
    "torchvision (PIL)": "torchvision",
    "torchvision (tensor)": "torchvision",
    "OpenCV": "opencv-python-headless",
    "albumentations": "albumentations",
    "kornia-rs": "kornia-rs",
}


def libraries() -> dict[str, Any]:
    """Those that are installed."""
    everyone: dict[str, Any] = {
        "torchvision (PIL)": Torchvision(tensor=False),
        "torchvision (tensor)": Torchvision(tensor=True),
        "OpenCV": OpenCV(),
        "albumentations": Albumentations(),
        "kornia-rs": KorniaRs(),
    }
    return {"feedline": Feedline(), **{name: each for name, each in everyone.items() if version(PACKAGES[name])}}


def version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def versions() -> dict[str, str]:
    """Of all that were measured."""
    wanted = ["torch", "pillow", *dict.fromkeys(PACKAGES.values())]
    return {package: found for package in wanted if (found := version(package))}


def one_thread() -> None:
    """Nobody may use a second core."""
    import torch

    torch.set_num_threads(1)
    if version("opencv-python-headless"):
        import cv2

        cv2.setNumThreads(1)


def plan(name: str, *arguments: Any, **options: Any) -> list[Any] | None:
    """A list of one of feedline's transforms, if there is one of that name."""
    op = getattr(T, name, None)
    return None if op is None else [op(*arguments, **options)]


def table(size: int) -> list[Row]:
    """All rows for images of this size."""
    from .colour import colour
    from .geometry import geometry
    from .pixel import pixel

    return [row for row in (*geometry(size), *colour(), *pixel()) if row.feedline is not None]
