"""Converts the engine's batches to torch, NumPy, JAX or plain DLPack, without copying."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from . import _pinned
from ._checks import shown
from ._ragged import Ragged, Views
from .errors import OptionError
from .samplers import Buckets, Packed

__all__ = ["Converter", "torch_array", "tuple_fields"]


class Converter:
    """Turns the engine's columns into a batch, as the loader's knobs say."""

    def __init__(self, knobs: Mapping[str, Any]) -> None:
        if knobs["views"]:
            _check_views(knobs)
        self._output = _choose(knobs["output"])
        self._channels_last = knobs["memory_format"] == "channels_last"
        self._collate = knobs["collate"]
        if self._output == "dlpack" and self._collate not in (None, "ragged"):
            raise OptionError("collate: plain DLPack values cannot be rearranged; use another output")
        if self._collate is None and isinstance(knobs["sampler"], Buckets):
            # With buckets, every batch has one shape.
            self._collate = {"*": "stack"}
        # Now, not with the first batch: an import takes long, and one interrupted by Ctrl-C cannot be repeated.
        dtypes = knobs["dtype"].values() if isinstance(knobs["dtype"], Mapping) else [knobs["dtype"]]
        for dtype in dtypes or ["float32"]:
            _load(self._output, dtype)
        self._array: Callable[[Any], Any] = {
            "torch": torch_array,
            "numpy": _numpy_array,
            "jax": _jax_array,
            "dlpack": lambda buffer: buffer,
        }[self._output]
        self.pinned = _pins(self._output, knobs)
        if self.pinned:
            self._array = _pinned.pinned_array
        self._move = _mover(self._output, knobs)
        self._views = _views(knobs["transforms"])
        self._params = knobs["return_params"]
        self._tuple = knobs["as_tuple"]
        self._packed = isinstance(knobs["sampler"], Packed)
        self._files: dict[int, Any] = {}

    def batch(self, made: tuple[int, Sequence[tuple[Any, ...]]]) -> Any:
        """The batch as a dict, in which views of a field are a dict; or a tuple, if requested."""
        result = self._dict(made)
        if not self._tuple:
            return result
        names = [name for name in result if name != "index"] if self._tuple is True else self._tuple
        return tuple(result[name] for name in names)

    def _dict(self, made: tuple[int, Sequence[tuple[Any, ...]]]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        samples = _samples(made[1])
        columns = list(made[1])
        if self._packed:
            columns = [*(column for column in columns if not column[0].startswith("packed.")), *_rows_of(columns)]
        for name, meaning, elements, offsets, shapes in columns:
            value = self._value(name, meaning, elements, offsets, shapes, samples)
            if name in self._views:
                field, view = self._views[name]
                result.setdefault(field, {})[view] = value
            else:
                result[name] = value
        return result

    def _value(
        self, name: str, meaning: str, elements: Any, offsets: Any, shapes: Any, samples: list[int] | None
    ) -> Any:
        if meaning == "list":
            return elements
        if meaning == "views":
            views = Views(_numpy_array(elements), partial(self._file, offsets), name=name)
            return views.tolist() if self._choice(name, meaning, shaped=False) == "list" else views
        # An array made by a function is not an image, however many dimensions it has.
        image, meaning = meaning != "plain", "numbers" if meaning == "plain" else meaning
        # DLPack has no ragged arrays; flat values stay in NumPy, which supports DLPack too.
        flat = offsets is not None and self._output == "dlpack"
        array = self._move(_numpy_array(elements) if flat else self._array(elements))
        if offsets is None:
            return self._dense(array) if image else array
        bounds = _numpy_array(offsets)
        starts = self._move(bounds if flat else self._array(offsets))
        ragged = Ragged(array, starts, shapes, kind=meaning, bounds=bounds.tolist(), name=name, samples=samples)
        collate = self._choice(name, meaning, shaped=shapes is not None)
        if collate == "list":
            return ragged.tolist()
        if collate == "stack":
            return self._dense(_stack(name, ragged))
        return _pad(name, ragged) if collate == "pad" else ragged

    def _file(self, files: Any, number: int) -> Any:
        """A mapped file as one array; the same for all batches."""
        if number not in self._files:
            buffer = files.file(number)
            # JAX would copy, and DLPack has no ragged arrays; NumPy supports both.
            self._files[number] = torch_array(buffer) if self._output == "torch" else _numpy_array(buffer)
        return self._files[number]

    def _dense(self, array: Any) -> Any:
        image = self._channels_last and getattr(array, "ndim", 0) == 4  # noqa: PLR2004 - batches of images
        # torch's convention: dimensions stay batch, channel, row, column; only the memory is channels-last.
        return array.permute(0, 3, 1, 2) if image and self._output == "torch" else array

    def _choice(self, name: str, meaning: str, *, shaped: bool) -> str:
        """How a field of different sizes is returned.

        The default: ragged; text as a list; images of buckets stacked.
        """
        usual = "list" if meaning == "text" else "ragged"
        if self._params and meaning == "json" and ".params" in name:
            return "list"
        if not isinstance(self._collate, Mapping):
            return self._collate or usual
        field, _ = self._views.get(name, (name, ""))
        choice = self._collate.get(name) or self._collate.get(field)
        return choice or (self._collate.get("*") if shaped else None) or usual


def _check_views(knobs: Mapping[str, Any]) -> None:
    """Refuses what would copy."""
    if knobs["decode"] != "none":
        raise OptionError("views: only for the stored bytes: set decode='none' as well")
    chosen = knobs["collate"].values() if isinstance(knobs["collate"], Mapping) else [knobs["collate"]]
    copies = {
        "pin_memory": bool(knobs["pin_memory"]),
        "device": knobs["device"] is not None,
        "collate": any(choice in ("stack", "pad") for choice in chosen),
        "map": knobs["map"] is not None,
    }
    name = next((name for name, given in copies.items() if given), None)
    if name is not None:
        raise OptionError(f"views: {name} copies, which views are there to avoid; leave one of them out")


def _rows_of(columns: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Where packed samples lie: their beginnings, the places in them, and the rows' first samples."""
    lengths, rows = (
        next(_numpy_array(column[2]) for column in columns if column[0] == name)
        for name in ("packed.length", "packed.row")
    )
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    positions = np.arange(bounds[-1]) - np.repeat(bounds[:-1], lengths)
    firsts = np.flatnonzero(np.diff(rows, prepend=-1))
    made = {
        "cu_seqlens": bounds.astype(np.int32),
        "position_ids": positions.astype(np.int64),
        "rows": np.append(firsts, len(rows)).astype(np.int64),
    }
    return [(name, "plain", array, None, None) for name, array in made.items()]


def tuple_fields(knobs: Mapping[str, Any], schema: Mapping[str, str]) -> list[str] | None:
    """The fields to load: those of `fields`, or of a tuple with its own names; `None` for the default."""
    wanted, names = knobs["fields"], knobs["as_tuple"]
    fields = None if wanted is None else list(wanted)
    if names is None or isinstance(names, bool):
        return fields
    if isinstance(names, str) or not names:
        raise OptionError(f"as_tuple: {names!r} is neither True nor a list of fields, such as ('image', 'label')")
    there = [*(schema if fields is None else fields), "index"]
    sizes = [f"{name}_size" for name in there] if knobs["decode"] == "none" else []
    unknown = next((name for name in names if name not in (*there, *sizes)), None)
    if unknown is not None:
        raise OptionError(f"as_tuple: there is no field {unknown!r}; a batch has: {', '.join(there)}")
    if fields is not None:
        return fields
    asked = [name for name in schema if name in names or (f"{name}_size" in names and sizes)]
    return asked or None


def _views(transforms: Any) -> dict[str, tuple[str, str]]:
    """Columns that are views, by name: a field's own name may contain a dot, so the name alone is not enough."""
    by_field = transforms.items() if isinstance(transforms, Mapping) else ()
    return {f"{field}.{view}": (field, view) for field, ops in by_field if isinstance(ops, Mapping) for view in ops}


def _choose(output: str) -> str:
    if output == "auto":
        return "torch" if importlib.util.find_spec("torch") is not None else "numpy"
    if output in ("torch", "jax") and importlib.util.find_spec(output) is None:
        raise OptionError(f"output: {output!r} needs the package {output}, which is not installed")
    return output


def _load(output: str, dtype: str) -> None:
    """Imports the packages that batches will need."""
    if output in ("torch", "jax"):
        importlib.import_module(output)
    if output == "numpy" and dtype == "bfloat16":
        if importlib.util.find_spec("ml_dtypes") is None:
            raise OptionError("dtype: NumPy has no bfloat16; install ml_dtypes, or use output='torch'")
        importlib.import_module("ml_dtypes")


def _numpy_array(buffer: Any) -> np.ndarray[Any, Any]:
    array = np.asarray(buffer)
    if isinstance(buffer, np.ndarray) or buffer.dtype != "bfloat16":
        return array
    import ml_dtypes  # noqa: PLC0415 - only for a type that NumPy lacks

    return array.view(ml_dtypes.bfloat16)


def torch_array(buffer: Any) -> Any:
    """A column as a tensor, without a copy."""
    import torch  # noqa: PLC0415 - optional, imported only where used

    if not isinstance(buffer, np.ndarray) and buffer.dtype in ("uint16", "uint32", "uint64", "bfloat16"):
        return torch.utils.dlpack.from_dlpack(buffer)
    return torch.from_numpy(np.asarray(buffer))


def _jax_array(buffer: Any) -> Any:
    import jax  # noqa: PLC0415 - optional, imported only where used

    return jax.dlpack.from_dlpack(buffer)


def _mover(output: str, knobs: Mapping[str, Any]) -> Callable[[Any], Any]:
    """Moves torch tensors to the device; does nothing if there is none."""
    device = knobs["device"]
    if device is None:
        return lambda array: array
    if output != "torch":
        raise OptionError(f"device: only for torch tensors, but the output is {output}")
    import torch  # noqa: PLC0415 - optional, imported only where used

    return _copier(torch, _target(torch, device), non_blocking=bool(knobs["non_blocking"]))


def _pins(output: str, knobs: Mapping[str, Any]) -> bool:
    """Whether batches are in page-locked memory."""
    if not knobs["pin_memory"]:
        return False
    if output != "torch":
        raise OptionError(f"pin_memory: only for torch tensors, but the output is {output}")
    if not _pinned.available():
        warnings.warn("pin_memory: torch sees no CUDA device, so nothing is page-locked", stacklevel=5)
        return False
    return True


def _target(torch: Any, device: Any) -> Any:
    """The device, if it exists. CUDA devices are only counted: creating or pickling a loader touches none."""
    try:
        target = torch.device(device)
    except (RuntimeError, TypeError, ValueError) as error:
        raise OptionError(f"device: {shown(device)} is not a device of torch: {error}") from error
    if target.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if (target.index or 0) >= count:
            raise OptionError(f"device: {shown(device)}, but torch sees {count} CUDA devices")
    elif target.type != "cpu":
        try:
            torch.empty(0, device=target)
        except (RuntimeError, NotImplementedError, AssertionError) as error:
            raise OptionError(f"device: {shown(device)} cannot be used here: {error}") from error
    return target


def _copier(torch: Any, target: Any, *, non_blocking: bool) -> Callable[[Any], Any]:
    """Copies a tensor to `target`; to a CUDA device on its own stream, unless `non_blocking` is off.

    A copy on the user's own stream would wait for the training step that is queued there. On another stream it runs
    in parallel; the user's stream waits only for the copy, and the memory is kept until that stream is done with it.
    """
    if target.type != "cuda" or not non_blocking:
        return lambda tensor: tensor.to(target, non_blocking=non_blocking)
    streams: list[Any] = []

    def copy(tensor: Any) -> Any:
        if not streams:
            # Created with the first batch: a loader that is only created or pickled touches no device.
            streams.append(torch.cuda.Stream(target))
        with torch.cuda.stream(streams[0]):
            moved = tensor.to(target, non_blocking=True)
        current = torch.cuda.current_stream(target)
        current.wait_stream(streams[0])
        moved.record_stream(current)
        return moved

    return copy


def _samples(columns: Sequence[tuple[Any, ...]]) -> list[int] | None:
    """The sample numbers of a batch, if it has values that may be unreadable when they are used."""
    if all(meaning != "json" for _, meaning, *_ in columns):
        return None
    index = next((elements for name, _, elements, *_ in columns if name == "index"), None)
    return None if index is None else [int(number) for number in _numpy_array(index)]


def _stack(name: str, ragged: Ragged) -> Any:
    """One dense array of values of the same shape: no copy."""
    shapes = ragged.shapes or [(length,) for length in ragged.lengths()]
    different = next((shape for shape in shapes if shape != shapes[0]), None)
    if different is not None or ragged.kind in ("text", "json"):
        shown = f"{shapes[0]} and {different}" if different is not None else ragged.kind
        raise OptionError(f"collate: {name}: {shown} cannot be stacked; use 'pad', 'list' or samplers.Buckets")
    return ragged.data.reshape((len(ragged), *shapes[0]))


def _pad(name: str, ragged: Ragged) -> Any:
    """One dense array, each value in the corner, followed by zeros."""
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
