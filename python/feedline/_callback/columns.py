"""Splits batches into rows for functions, and joins their results into columns again."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from feedline.errors import DataError

__all__ = ["Made", "joined", "picked", "rows_of"]

Made = tuple[int, Sequence[tuple[Any, ...]]]
"""A batch of the engine: rows, and (name, meaning, elements, offsets, shapes) of each column."""

NUMBERS = "biufc"
"""Kinds of NumPy types that can be stacked into a tensor."""


def rows_of(made: Made, wanted: Sequence[str] | None) -> list[dict[str, Any]]:
    """One dict per sample: the requested columns and `index`."""
    keep = None if wanted is None else {*wanted, "index"}
    columns = {column[0]: _values(*column[1:]) for column in made[1] if keep is None or column[0] in keep}
    return [{name: values[row] for name, values in columns.items()} for row in range(made[0])]


def _values(meaning: str, elements: Any, offsets: Any, shapes: Any) -> Sequence[Any]:
    array = np.asarray(elements)
    if offsets is None:
        # Numbers as Python numbers, arrays as views of the batch.
        return array.tolist() if array.ndim == 1 else list(array)
    bounds = np.asarray(offsets).tolist()
    pieces = [array[low:high] for low, high in pairwise(bounds)]
    if shapes is not None:
        return [piece.reshape(shape) for piece, shape in zip(pieces, shapes, strict=True)]
    read: dict[str, Callable[[Any], Any]] = {
        "text": lambda piece: piece.tobytes().decode("utf-8", "replace"),
        "json": lambda piece: json.loads(piece.tobytes()) if piece.size else None,
        "bytes": lambda piece: piece.tobytes(),
    }
    return [read[meaning](piece) for piece in pieces] if meaning in read else pieces


def picked(made: Made, places: Sequence[tuple[Made, int]]) -> Made:
    """A batch of these rows, each from `made` or from another batch with the same columns."""
    return len(places), [_picked(at, column, places) for at, column in enumerate(made[1])]


def _picked(at: int, column: tuple[Any, ...], places: Sequence[tuple[Made, int]]) -> tuple[Any, ...]:
    name, meaning, _, offsets, shapes = column
    sources = [(batch[1][at], row) for batch, row in places]
    if offsets is None:
        return name, meaning, np.stack([np.asarray(source[2])[row] for source, row in sources]), None, None
    pieces = []
    for source, row in sources:
        low, high = np.asarray(source[3])[row : row + 2]
        pieces.append(np.asarray(source[2])[low:high])
    bounds = np.cumsum([0, *map(len, pieces)], dtype=np.int64)
    new = None if shapes is None else [source[4][row] for source, row in sources]
    return name, meaning, np.concatenate(pieces), bounds, new


def joined(made: Made, rows: Sequence[Mapping[str, Any]], *, whole: bool, images: Sequence[str]) -> Made:
    """The batch of these rows. `whole`: they are all columns; otherwise they replace columns of the batch.

    Columns of `images` are in the loader's form; all others are as the functions returned them.
    """
    if not whole:
        new = {name: _column(name, rows, image=True) for name in rows[0] if name != "index"}
        return len(rows), [new.get(column[0], column) for column in made[1]]
    index = ("index", "numbers", np.array([row["index"] for row in rows], dtype=np.int64), None, None)
    names = [name for name in rows[0] if name != "index"]
    return len(rows), [index, *(_column(name, rows, image=name in images) for name in names)]


def _column(name: str, rows: Sequence[Mapping[str, Any]], *, image: bool) -> tuple[Any, ...]:
    odd = next((row for row in rows if name not in row), None)
    if odd is not None:
        raise DataError(
            f"field '{name}': returned for sample {rows[0].get('index')}, but not for {odd.get('index')}\n"
            "hint: return the same fields for every sample, None for a missing value"
        )
    values = [row[name] for row in rows]
    meaning = "numbers" if image else "plain"
    if all(isinstance(value, (bytes, bytearray)) for value in values):
        offsets = np.cumsum([0, *map(len, values)], dtype=np.int64)
        return name, "bytes", np.frombuffer(bytearray(b"".join(values)), dtype=np.uint8), offsets, None
    if not all(isinstance(value, (np.ndarray, np.generic, bool, int, float, complex)) for value in values):
        return name, "list", values, None, None
    try:
        arrays = _arrays(values)
    except OverflowError:
        return name, "list", values, None, None  # an integer that fits no machine type
    if any(array.dtype.kind not in NUMBERS for array in arrays):
        return name, "list", values, None, None
    return name, meaning, *_elements(name, rows, arrays)


def _arrays(values: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    if any(isinstance(value, (np.ndarray, np.generic)) for value in values):
        return [np.asarray(value) for value in values]
    # Python's own numbers: a column of integers and floats becomes floats.
    together = np.array(values)
    if together.dtype.kind == "O" or together.dtype == np.uint64:
        raise OverflowError
    return [np.asarray(value, dtype=together.dtype) for value in values]


def _elements(name: str, rows: Sequence[Mapping[str, Any]], arrays: Sequence[np.ndarray[Any, Any]]) -> tuple[Any, ...]:
    """Elements, offsets and shapes of one column: dense if all rows have the same shape."""
    odd = next((row for row, array in zip(rows, arrays, strict=True) if array.dtype != arrays[0].dtype), None)
    if odd is not None:
        kinds = ", ".join(sorted({str(array.dtype) for array in arrays}))
        first, other = rows[0].get("index"), odd.get("index")
        raise DataError(
            f"field '{name}': the function returned arrays of different types ({kinds}), as in samples {first} and "
            f"{other}\n"
            "hint: return the same type for every sample, as with array.astype(np.float32)"
        )
    if len({array.shape for array in arrays}) == 1:
        return np.stack(arrays), None, None
    offsets = np.cumsum([0, *(array.size for array in arrays)], dtype=np.int64)
    return np.concatenate([array.ravel() for array in arrays]), offsets, [array.shape for array in arrays]
