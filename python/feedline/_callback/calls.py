"""One of the user's functions: the form of its image, and its result."""

from __future__ import annotations

import importlib.util
import inspect
import random
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from feedline._checks import shown
from feedline.errors import OptionError

__all__ = ["FORMS", "Call", "call_of", "seed_everything"]

FORMS = ("numpy", "pil", "torch")
CHANNELS_LAST = (1, 2, 0)
CHANNELS_FIRST = (2, 0, 1)
IMAGE_DIMENSIONS = 3

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Call:
    """A function, and how it is called."""

    function: Callable[..., Any]
    form: str
    """Form of the images passed to it: one of `FORMS`."""
    named: bool = False
    """Whether it takes `image=...` and returns a dict, as albumentations does."""
    rng: bool = False
    """Whether it has a parameter `rng`."""
    pixels: bool = False
    """Whether it is made for 8-bit images, and gets them if there are any."""
    wrapped: bool = False
    """Whether it gets images as torchvision's `tv_tensors.Image`, so that no other tensor is treated as one."""
    foreign: bool = False
    """Whether it is torchvision's or like albumentations: it draws random numbers by itself."""

    def layout(self, loader: str) -> str:
        """Order of dimensions of its arrays, in a loader whose images are `loader`."""
        if self.form == "numpy":
            return "hwc" if self.named else loader
        return "hwc" if self.form == "pil" else "chw"

    def give(self, image: Any, layout: str | None, loader: str) -> Any:
        """An image in the form for this function."""
        if not isinstance(image, np.ndarray) or image.ndim != IMAGE_DIMENSIONS or layout is None:
            return image
        array = turned(image, layout, self.layout(loader))
        if self.form == "pil":
            return _pil(array)
        if self.form == "torch":
            return _tensor(array, wrapped=self.wrapped)
        return array

    def take(self, result: Any, loader: str) -> tuple[Any, str | None]:
        """Its result for an image, as an array if possible, and the order of its dimensions."""
        if is_pil(result):
            array = of_pil(result)
            return (array[:, :, None] if array.ndim == 2 else array), "hwc"  # noqa: PLR2004 - grey has no channels
        if is_tensor(result):
            return plain(result), "chw"
        return result, self.layout(loader) if isinstance(result, np.ndarray) else None

    def __call__(self, value: Any, generator: Any) -> Any:
        """Its result for one image; if it returns a dict, the entry for the image."""
        extra = {"rng": generator} if self.rng else {}
        if not self.named:
            return self.function(value, **extra)
        result = self.function(image=value, **extra)
        return result["image"] if isinstance(result, Mapping) else result

    def whole(self, sample: dict[str, Any], generator: Any) -> Any:
        """Its result for a whole sample."""
        extra = {"rng": generator} if self.rng else {}
        return self.function(**sample, **extra) if self.named else self.function(sample, **extra)


def call_of(where: str, function: Any, as_: str | None) -> Call:
    """Examines a function once. `where` is used in errors."""
    if not callable(function):
        raise OptionError(f"{where}: {shown(function)} cannot be called")
    if as_ is not None and (not isinstance(as_, str) or as_ not in FORMS):
        raise OptionError(f"{where}: as_={shown(as_)} is not one of {', '.join(map(repr, FORMS))}")
    parameters = _parameters(function)
    kind = _kind(function, parameters)
    if kind == "v2" and as_ == "numpy":
        reason = f"{where}: torchvision's v2 transforms pass NumPy arrays through unchanged"
        raise OptionError(f"{reason}\nhint: as_='torch' or as_='pil'")
    form = as_ or {"v2": "torch", "v1": "pil"}.get(kind, "numpy")
    package = {"pil": "PIL", "torch": "torch"}.get(form)
    if package is not None and importlib.util.find_spec(package) is None:
        raise OptionError(f"{where}: as_={form!r} needs the package {package}, which is not installed")
    return Call(
        function,
        form,
        named=kind == "named",
        rng="rng" in parameters,
        pixels=form == "pil" or kind in ("named", "v1", "v2"),
        wrapped=kind == "v2" and form == "torch",
        foreign=kind != "",
    )


def _parameters(function: Any) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}


def _kind(function: Any, parameters: Mapping[str, inspect.Parameter]) -> str:
    """Kind of function: torchvision's (`v1`, `v2`), like albumentations (`named`), or the user's own."""
    own = getattr(function, "__module__", None)
    modules = [own] if inspect.isroutine(function) else [base.__module__ for base in type(function).__mro__]
    names = [str(name) for name in modules]
    if any(name.startswith("torchvision.transforms.v2") for name in names):
        return "v2"
    if any(name.startswith("torchvision.transforms") for name in names):
        return "v1"
    image = parameters.get("image")
    only_named = image is not None and image.kind is inspect.Parameter.KEYWORD_ONLY
    takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    if only_named or any(name.startswith("albumentations") for name in names):
        return "named"
    return "named" if takes_any and "force_apply" in parameters else ""


def seed_everything(key: tuple[int, ...], functions: tuple[Any, ...]) -> None:
    """Seeds the global random numbers that functions may use, from the sample's key only."""
    words = np.random.SeedSequence(key).generate_state(8)
    random.seed(int.from_bytes(words.tobytes(), "little"))
    np.random.seed(words)  # noqa: NPY002 - the legacy generator is the one that such functions use
    number = int(words[:2].view(np.uint64)[0])
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.default_generator.manual_seed(number >> 1)
    for function in functions:
        # albumentations has its own generators.
        own = getattr(function, "set_random_seed", None)
        if callable(own):
            own(int(words[7]))


def turned(array: Array, layout: str, wanted: str) -> Array:
    """The same image with its dimensions in another order."""
    if layout != wanted and array.ndim == IMAGE_DIMENSIONS:
        array = array.transpose(CHANNELS_LAST if wanted == "hwc" else CHANNELS_FIRST)
    return np.ascontiguousarray(array)


def is_tensor(value: Any) -> bool:
    """Whether it is a torch tensor."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_pil(value: Any) -> bool:
    """Whether it is a PIL image."""
    return any(base.__module__ == "PIL.Image" and base.__name__ == "Image" for base in type(value).__mro__)


def of_pil(image: Any) -> Array:
    """A PIL image as an array; palettes and bits are converted to their colours."""
    return np.array(image.convert({"P": "RGB", "1": "L"}.get(image.mode, image.mode)))


def plain(tensor: Any) -> Array:
    """A torch tensor as an array."""
    torch = sys.modules["torch"]
    tensor = tensor.detach().cpu().as_subclass(torch.Tensor)
    if tensor.dtype == torch.bfloat16:
        raise TypeError(
            "the function returned a tensor of bfloat16, which NumPy does not have; convert it in batch_map="
        )
    array: Array = np.ascontiguousarray(tensor.numpy())
    return array


def _pil(array: Array) -> Any:
    from PIL import Image  # noqa: PLC0415 - optional, imported only where used

    if array.dtype != np.uint8:
        raise TypeError(f"PIL images have bytes, but the image is {array.dtype} here")
    return Image.fromarray(array[:, :, 0] if array.shape[2] == 1 else array)


def _tensor(array: Array, *, wrapped: bool) -> Any:
    import torch  # noqa: PLC0415 - optional, imported only where used

    tensor = torch.from_numpy(array if array.flags.writeable else array.copy())
    if not wrapped:
        return tensor
    from torchvision import tv_tensors  # noqa: PLC0415 - the function is torchvision's

    return tv_tensors.Image(tensor)
