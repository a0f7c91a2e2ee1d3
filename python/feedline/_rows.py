"""Samples in Python: lists of dicts, data frames, data sets of torch and Hugging Face."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from . import _feedline
from . import _images as images
from ._checks import mapping, shown, texts
from .errors import DataError, Error, OptionError

__all__ = ["KINDS", "Samples", "check_schema", "frame_rows", "is_frame", "is_rows"]

KINDS = ("image", "int", "float", "text", "json", "bytes", "array", "audio", "video")
"""The kinds of fields."""

_LABELS = ("label", "labels", "cls", "class", "class_name", "target", "category")
_EXAMINED_ROWS = 100


def is_frame(source: object) -> bool:
    """Whether it is a data frame: pandas', polars' or another with columns by name."""
    return hasattr(source, "columns") and hasattr(source, "dtypes") and hasattr(source, "__getitem__")


def is_rows(source: object) -> bool:
    """Whether it is a list of dicts."""
    return isinstance(source, Sequence) and bool(source) and all(isinstance(row, Mapping) for row in source)


def frame_rows(frame: Any) -> Iterator[dict[str, Any]]:
    """The rows of a data frame; missing values are `None`."""
    names = [str(name) for name in frame.columns]
    columns = []
    for name in frame.columns:
        values = frame[name]
        listed = values.to_list()
        missing = values.isna().to_list() if hasattr(values, "isna") else [value is None for value in listed]
        columns.append([None if gone else value for value, gone in zip(listed, missing, strict=True)])
    return (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))


def check_schema(schema: Mapping[str, str] | None) -> dict[str, str]:
    """The schema as given; an error for unknown kinds."""
    given = mapping("schema", schema, "a dict of kinds by field, such as {'image': 'image'}")
    for name, kind in given.items():
        if not isinstance(kind, str) or kind not in KINDS:
            raise OptionError(f"schema: {name!r} is {shown(kind)}, which is not one of {', '.join(KINDS)}")
    return given


class Samples:
    """Iterates over samples, each a dict of values for the engine; the kinds of the fields are detected first."""

    def __init__(
        self,
        source: Any,
        *,
        schema: Mapping[str, str] | None = None,
        field_names: Sequence[str] | None = None,
        classes: Sequence[str] | None = None,
    ) -> None:
        given = check_schema(schema)
        self.classes = _own_names(source) if classes is None else _class_names(classes)
        rows = _dicts(source, field_names)
        first, self.schema = self._first_rows(rows, given)
        self._rows: Iterator[Mapping[str, Any]] = itertools.chain(first, rows)
        if classes is None and not any(name in _LABELS for name in self.schema):
            self.classes = None
        numbers = {name: number for number, name in enumerate(self.classes or ())}
        self._convert = {name: _converter(kind, numbers) for name, kind in self.schema.items()}

    def _first_rows(
        self, rows: Iterator[Mapping[str, Any]], given: dict[str, str]
    ) -> tuple[list[Mapping[str, Any]], dict[str, str]]:
        """The first samples, as many as needed to know every field's kind; and the kinds, in the samples' order."""
        first: list[Mapping[str, Any]] = []
        kinds: dict[str, str | None] = {}
        for row in itertools.islice(rows, _EXAMINED_ROWS):
            first.append(row)
            for name, value in row.items():
                if kinds.get(name) is None:
                    kinds[name] = given.get(name) or (None if value is None else self._kind(name, value))
            if None not in kinds.values():
                break
        known = {**{name: given.get(name) for name in kinds}, **given, **kinds}
        unknown = next((name for name, kind in known.items() if kind is None), None)
        if unknown is not None:
            raise OptionError(
                f"schema: field '{unknown}' is missing in all of the first {len(first)} samples; give its kind"
            )
        if not known:
            raise OptionError("source: nothing to read; give schema= for an empty data set")
        return first, {name: str(kind) for name, kind in known.items()}

    def _kind(self, name: str, value: Any) -> str:
        kind = _kind(name, value)
        return "int" if kind == "text" and self.classes and name in _LABELS else kind

    def push_all(self, push: Callable[[dict[str, Any]], None]) -> None:
        """Passes every sample to `push`; an error names the row and the field."""
        for number, row in enumerate(self._rows):
            values = {}
            for name, value in row.items():
                convert = self._convert.get(name)
                if convert is None:
                    raise OptionError(f"schema: row {number} has a field '{name}'; there are {', '.join(self.schema)}")
                try:
                    values[name] = None if value is None else convert(value)
                except (TypeError, ValueError, OSError) as error:
                    raise DataError(f"row {number}, field '{name}': {error}") from error
            try:
                push(values)
            except Error:
                raise
            except (TypeError, ValueError, OverflowError) as error:
                raise DataError(f"row {number}, {error}") from error


def _own_names(source: Any) -> list[str] | None:
    """The names of a data set's classes, as in torchvision's data sets."""
    names = getattr(source, "classes", None)
    return None if isinstance(names, str) or not isinstance(names, Iterable) else _class_names(names)


def _class_names(names: Any) -> list[str]:
    found = texts("classes", names)
    if len(set(found)) != len(found):
        twice = next(name for name in found if found.count(name) > 1)
        raise OptionError(f"classes: {twice!r} is there twice")
    return found


def _each(source: Any) -> Iterator[Any]:
    if is_frame(source):
        return frame_rows(source)
    if not hasattr(type(source), "__iter__") and hasattr(source, "__len__") and hasattr(source, "__getitem__"):
        # A map-style data set of torch: iterating it would continue until an IndexError that many never raise.
        return (source[index] for index in range(len(source)))
    try:
        return iter(source)
    except TypeError:
        raise OptionError(f"source: a {type(source).__name__} has neither rows to iterate nor a length") from None


def _dicts(source: Any, field_names: Sequence[str] | None) -> Iterator[Mapping[str, Any]]:
    if field_names is not None:
        field_names = texts("field_names", field_names)
        if len(set(field_names)) != len(field_names):
            raise OptionError(f"field_names: {field_names!r} is not a list of different names")
    for number, row in enumerate(_each(source)):
        if isinstance(row, Mapping):
            yield row
            continue
        names = field_names if field_names is not None else getattr(row, "_fields", None)
        values = row if isinstance(row, (tuple, list)) else (row,)
        if names is None:
            what = (
                f"a {type(row).__name__} of {len(values)}"
                if isinstance(row, (tuple, list))
                else f"a {type(row).__name__}"
            )
            raise OptionError(f"field_names: row {number} is {what}, not a dict; use field_names=('image', 'label')")
        if len(names) != len(values):
            raise OptionError(f"field_names: {len(names)} names, but row {number} has {len(values)} values")
        yield dict(zip(names, values, strict=True))


def _kind(name: str, value: Any) -> str:
    if images.is_image(value):
        return "image"
    if isinstance(value, os.PathLike):
        return "text"
    if isinstance(value, np.generic) or (hasattr(value, "__array__") and getattr(value, "ndim", None) == 0):
        value = value.item()
    elif hasattr(value, "detach"):
        return "array"
    kind = _feedline.kind_of(value)
    if kind is None:
        raise OptionError(f"schema: what field '{name}' holds ({type(value).__name__}) cannot be stored; see schema=")
    return kind


def _converter(kind: str, numbers: Mapping[str, int]) -> Callable[[Any], Any]:
    def whole(value: Any) -> Any:
        if isinstance(value, str):
            if value not in numbers:
                known = ", ".join(numbers) or "there are no classes"
                raise ValueError(f"{value!r} is not one of the classes ({known})")
            return numbers[value]
        return value.item() if hasattr(value, "item") else value

    def array(value: Any) -> Any:
        return value.detach().cpu().numpy() if hasattr(value, "detach") else value

    return {
        "image": images.encoded,
        "int": whole,
        "float": lambda value: value.item() if hasattr(value, "item") else value,
        "text": lambda value: os.fspath(value) if isinstance(value, os.PathLike) else value,
        "array": array,
        "bytes": lambda value: bytes(value) if isinstance(value, (bytearray, memoryview)) else value,
    }.get(kind, lambda value: value)
