"""Makes data sets of the engine from tables in Python."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import _feedline
from ._rows import Samples, check_schema, frame_rows, is_frame
from .errors import OptionError

__all__ = ["hugging_face", "in_memory", "is_hugging_face", "refuse_unused"]


def refuse_unused(**knobs: Any) -> None:
    """Raises an error for the first setting that was given: it would have no effect on a table in memory."""
    for name, value in knobs.items():
        if value is not None and value is not False and value != "auto":
            raise OptionError(f"{name}: only for data that are opened by a path or a uri")


def in_memory(
    source: Any,
    fields: list[tuple[str, str]] | None,
    reading: dict[str, Any],
    schema: Mapping[str, str] | None,
    storage: str,
    classes: Sequence[str] | None = None,
) -> _feedline.Dataset:
    """Rows as a data set. If the schema says image, text is a path, which the engine reads."""
    given = check_schema(schema)
    first: Mapping[str, Any] = next(iter(frame_rows(source) if is_frame(source) else source), {})
    written = {name for name in given if isinstance(first.get(name), (str, os.PathLike))}
    # Paths of images and names of classes are text here; the engine converts them as the schema says.
    stored = {name: "text" if name in written and kind in ("image", "int") else kind for name, kind in given.items()}
    samples = Samples(source, schema=stored, classes=classes)
    rows = _feedline.Rows(list(samples.schema.items()), samples.classes)
    samples.push_all(rows.push)
    reading["schema"] = {name: kind for name, kind in given.items() if name in written}
    return _feedline.Dataset.open_rows(rows, fields, json.dumps(reading), storage)


def is_hugging_face(source: object) -> bool:
    """Whether it is a `datasets.Dataset`."""
    return all(hasattr(source, name) for name in ("features", "column_names", "cache_files", "with_format"))


def hugging_face(source: Any, fields: list[tuple[str, str]] | None, storage: str) -> _feedline.Dataset:
    """A `datasets.Dataset`: its Arrow files if they contain all of it, else its rows, with undecoded images."""
    files = [str(file["filename"]) for file in source.cache_files]
    reading: dict[str, Any] = {"root": None}
    undecoded = source.with_format("arrow")
    named = _only_named(undecoded[:1].to_pylist())
    whole_files = files and all(Path(file).is_file() for file in files) and _same_features(source, files[0])
    if whole_files and not named:
        whole = _feedline.Dataset.open(files, "arrow", fields, json.dumps({}), storage)
        chosen = getattr(source, "_indices", None)
        # A slice of the files is not the whole, and has no indices to show it.
        if source.data.num_rows == len(whole):
            return whole if chosen is None else whole.select(chosen.column(0).to_numpy().astype("<i8").tobytes())
    rows = [row for start in range(0, len(source), 1000) for row in undecoded[start : start + 1000].to_pylist()]
    if not rows:
        raise OptionError("uri: the data set has no rows")
    labels = {name: kind.names for name, kind in source.features.items() if hasattr(kind, "names")}
    classes = next(iter(labels.values())) if len(labels) == 1 else None
    for row in rows if named else ():
        row.update({name: row[name] and row[name]["path"] for name in named})
    return in_memory(rows, fields, reading, dict.fromkeys(named, "image") or None, storage, classes)


def _only_named(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Columns whose images are files that the rows name, as from `load_dataset("imagefolder")`.

    The data set is the user's own object, so its paths may be anywhere.
    """
    first = rows[0] if rows else {}
    images = {
        name: value for name, value in first.items() if isinstance(value, Mapping) and {*value} == {"bytes", "path"}
    }
    return [name for name, value in images.items() if value["bytes"] is None and value["path"]]


def _same_features(source: Any, file: str) -> bool:
    """Whether the data set's columns are those of its file: none renamed, cast or removed."""
    pa: Any = importlib.import_module("pyarrow")  # installed, since the user has such a data set

    with pa.memory_map(file) as stream:
        stored = type(source.features).from_arrow_schema(pa.ipc.open_stream(stream).schema)
    return bool(stored == source.features)
