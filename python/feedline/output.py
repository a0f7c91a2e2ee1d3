"""What the engine made → what the user wants: torch, NumPy, JAX or plain DLPack, without copying."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .errors import OptionError
from .ragged import Ragged
from .samplers import Buckets

__all__ = ["Converter"]

_OUTPUTS = ("auto", "torch", "numpy", "jax", "dlpack")
_COLLATES = ("ragged", "stack", "pad", "list")


class Converter:
    """Turns the engine's columns into a batch, as one loader's knobs demand."""

    def __init__(self, knobs: Mapping[str, Any]) -> None:
        self._output = _choose(knobs["output"])
        self._channels_last = knobs["memory_format"] == "channels_last"
        self._collate = knobs["collate"]
        _check_collate(self._collate)
        if self._output == "dlpack" and self._collate not in (None, "ragged"):
            raise OptionError("collate: plain DLPack values cannot be rearranged; use another output")
        if self._collate is None and isinstance(knobs["sampler"], Buckets):
            # What buckets are for: every batch has one shape.
            self._collate = {"*": "stack"}
        self._array: Callable[[Any], Any] = {
            "torch": _torch_array,
            "numpy": _numpy_array,
            "jax": _jax_array,
            "dlpack": lambda buffer: buffer,
        }[self._output]
        self._move = _mover(self._output, knobs)
        self._views = _views(knobs["transforms"])

    def batch(self, made: tuple[int, Sequence[tuple[Any, ...]]]) -> dict[str, Any]:
        """The batch as a dict; views of a field as a dict of their own."""
        result: dict[str, Any] = {}
        for name, meaning, elements, offsets, shapes in made[1]:
            value = self._value(name, meaning, elements, offsets, shapes)
            if name in self._views:
                field, view = self._views[name]
                result.setdefault(field, {})[view] = value
            else:
                result[name] = value
        return result

    def _value(self, name: str, meaning: str, elements: Any, offsets: Any, shapes: Any) -> Any:
        # DLPack has no ragged arrays; what is flat stays with NumPy, which speaks DLPack too.
        flat = offsets is not None and self._output == "dlpack"
        array = self._move(_numpy_array(elements) if flat else self._array(elements))
        if offsets is None:
            return self._dense(array)
        bounds = _numpy_array(offsets)
        starts = self._move(bounds if flat else self._array(offsets))
        ragged = Ragged(array, starts, shapes, kind=meaning, bounds=bounds.tolist())
        collate = self._choice(name, shaped=shapes is not None)
        if collate == "list":
            return ragged.tolist()
        if collate == "stack":
            return self._dense(_stack(name, ragged))
        return _pad(name, ragged) if collate == "pad" else ragged

    def _dense(self, array: Any) -> Any:
        image = self._channels_last and getattr(array, "ndim", 0) == 4  # noqa: PLR2004 - batches of images
        # torch's convention: dimensions stay batch, channel, row, column; only the memory is channels-last.
        return array.permute(0, 3, 1, 2) if image and self._output == "torch" else array

    def _choice(self, name: str, *, shaped: bool) -> str:
        """How a field of different sizes arrives. Without a word of the user: ragged, and images of buckets stacked."""
        if not isinstance(self._collate, Mapping):
            return self._collate or "ragged"
        field, _ = self._views.get(name, (name, ""))
        return self._collate.get(name) or self._collate.get(field) or (self._collate.get("*", "") if shaped else "")


def _views(transforms: Any) -> dict[str, tuple[str, str]]:
    """Columns that are views, by name: a field's own name may have a dot as well, so the name alone does not tell."""
    by_field = transforms.items() if isinstance(transforms, Mapping) else ()
    return {f"{field}.{view}": (field, view) for field, ops in by_field if isinstance(ops, Mapping) for view in ops}


def _choose(output: object) -> str:
    if output not in _OUTPUTS:
        raise OptionError(f"output: {output!r} is none of {', '.join(_OUTPUTS)}")
    if output == "auto":
        return "torch" if importlib.util.find_spec("torch") is not None else "numpy"
    if output in ("torch", "jax") and importlib.util.find_spec(str(output)) is None:
        raise OptionError(f"output: {output!r} needs the package {output}, which is not installed")
    return str(output)


def _check_collate(collate: object) -> None:
    choices = list(collate.values()) if isinstance(collate, Mapping) else [collate]
    for choice in choices:
        if choice not in (None, *_COLLATES):
            raise OptionError(f"collate: {choice!r} is none of {', '.join(_COLLATES)}")


def _numpy_array(buffer: Any) -> np.ndarray[Any, Any]:
    array = np.asarray(buffer)
    if isinstance(buffer, np.ndarray) or buffer.dtype != "bfloat16":
        return array
    try:
        import ml_dtypes  # noqa: PLC0415 - only for a type that NumPy lacks
    except ImportError as error:
        reason = "dtype: NumPy has no bfloat16; install ml_dtypes, or use output='torch'"
        raise OptionError(reason) from error
    return array.view(ml_dtypes.bfloat16)


def _torch_array(buffer: Any) -> Any:
    import torch  # noqa: PLC0415 - optional, imported only where used

    if not isinstance(buffer, np.ndarray) and buffer.dtype in ("uint16", "uint32", "uint64", "bfloat16"):
        return torch.utils.dlpack.from_dlpack(buffer)
    return torch.from_numpy(np.asarray(buffer))


def _jax_array(buffer: Any) -> Any:
    import jax  # noqa: PLC0415 - optional, imported only where used

    return jax.dlpack.from_dlpack(buffer)


def _mover(output: str, knobs: Mapping[str, Any]) -> Callable[[Any], Any]:
    """Page-locks and moves torch tensors; does nothing where nothing was asked."""
    device, pin = knobs["device"], knobs["pin_memory"]
    if device is None and not pin:
        return lambda array: array
    if output != "torch":
        knob = "device" if device is not None else "pin_memory"
        raise OptionError(f"{knob}: only for torch tensors, but the output is {output}")
    import torch  # noqa: PLC0415 - optional, imported only where used

    if pin and not torch.cuda.is_available():
        warnings.warn("pin_memory: torch sees no CUDA device, so nothing is page-locked", stacklevel=4)
        pin = False
    target = None if device is None else torch.device(device)
    copy = None if target is None else _copier(torch, target, non_blocking=bool(knobs["non_blocking"]))

    def move(tensor: Any) -> Any:
        if pin:
            tensor = tensor.pin_memory()
        return tensor if copy is None else copy(tensor)

    return move


def _copier(torch: Any, target: Any, *, non_blocking: bool) -> Callable[[Any], Any]:
    """Copies a tensor to `target`; to a CUDA device on a stream of its own unless that is not wanted.

    A copy on the user's own stream would wait for the training step that is queued there. On another stream it runs
    beside it; the user's stream waits for the copy alone, and the memory is kept until that stream is done with it.
    """
    if target.type != "cuda" or not non_blocking:
        return lambda tensor: tensor.to(target, non_blocking=non_blocking)
    streams: list[Any] = []

    def copy(tensor: Any) -> Any:
        if not streams:
            # Made with the first batch: a loader that is only built, or pickled, touches no device.
            streams.append(torch.cuda.Stream(target))
        with torch.cuda.stream(streams[0]):
            moved = tensor.to(target, non_blocking=True)
        current = torch.cuda.current_stream(target)
        current.wait_stream(streams[0])
        moved.record_stream(current)
        return moved

    return copy


def _stack(name: str, ragged: Ragged) -> Any:
    """One dense array of values that have the same shape: no copy."""
    shapes = ragged.shapes or [(length,) for length in ragged.lengths()]
    different = next((shape for shape in shapes if shape != shapes[0]), None)
    if different is not None or ragged.kind in ("text", "json"):
        shown = f"{shapes[0]} and {different}" if different is not None else ragged.kind
        raise OptionError(f"collate: {name}: {shown} cannot be stacked; use 'pad', 'list' or samplers.Buckets")
    return ragged.data.reshape((len(ragged), *shapes[0]))


def _pad(name: str, ragged: Ragged) -> Any:
    """One dense array, each value in the corner, zeros behind."""
    if ragged.kind != "numbers" and ragged.shapes is None and ragged.kind != "bytes":
        raise OptionError(f"collate: {name} is {ragged.kind}, which cannot be padded; use 'list'")
    values = [ragged[index] for index in range(len(ragged))]
    dimensions = max(value.ndim for value in values)
    largest = [max((v.shape[d] if d < v.ndim else 1) for v in values) for d in range(dimensions)]
    shape = (len(values), *largest)
    if hasattr(ragged.data, "new_zeros"):
        result = ragged.data.new_zeros(shape)
    else:
        result = np.zeros(shape, dtype=ragged.data.dtype)
    for row, value in enumerate(values):
        corner = tuple(slice(0, n) for n in value.shape)
        result[row][corner] = value
    return result
