"""Writing packs: [`pack`][feedline.pack]."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from . import _feedline
from .dataset import Dataset, Uri, storage_text
from .dataset import open as open_dataset
from .errors import OptionError
from .progress import watched

__all__ = ["pack"]

_IMAGES = ("jpeg", "dct", "yuv420", "rgb", "as-is")


def pack(
    source: Dataset | Uri | Sequence[Uri] | Iterable[Mapping[str, Any]],
    destination: Uri,
    *,
    image: str = "jpeg",
    shorter_side: int | None = None,
    longer_side: int | None = None,
    quality: int | None = None,
    baseline: bool = False,
    part_bytes: int | None = None,
    workers: int = 0,
    progress: bool = True,
    resume: bool = True,
    overwrite: bool = False,
    on_error: str = "raise",
    schema: Mapping[str, str] | None = None,
    storage_options: Mapping[str, object] | None = None,
) -> Dataset:
    """Writes `source` as a pack and opens it.

    `source` is anything [`open`][feedline.open] takes, a data set, or an iterable of dicts (then `schema` may say what
    each field holds; otherwise the first dict tells). Packing is parallel and crash-safe: killed at any moment,
    the same call goes on where it stopped, and the result is the same to the byte. An iterable cannot be asked
    again and starts anew.

    With `image="jpeg"` the original bytes are kept bit for bit; `baseline=True` rewrites progressive files without loss
    (only sequential ones can be decoded in part). `shorter_side`, `longer_side` and `quality` write images anew.

    The destination is a folder, or a prefix such as `s3://bucket/train` (reached with `storage_options`): each part is
    then written here, sent and removed, the manifest last; an interrupted upload is gone on with.

    >>> import feedline as fl
    >>> packed = fl.pack(example_folder, tmp_path / "animals", progress=False)
    >>> packed.format, len(packed), packed.classes
    ('pack', 12, ['cat', 'dog', 'owl'])
    >>> rows = [{"text": "one", "number": 1}, {"text": "two", "number": 2}]
    >>> fl.pack(rows, tmp_path / "rows", progress=False)[1]
    {'text': 'two', 'number': 2}
    """
    if image not in _IMAGES:
        raise OptionError(f"image: {image!r} is none of {', '.join(_IMAGES)}")
    settings = json.dumps(
        {
            "image": image,
            "shorter_side": shorter_side,
            "longer_side": longer_side,
            "quality": quality,
            "baseline": baseline,
            "part_bytes": part_bytes,
            "workers": workers,
            "on_error": on_error,
            "resume": resume,
            "overwrite": overwrite,
        }
    )
    target = os.fspath(destination)
    storage = storage_text(storage_options)
    if isinstance(source, (Dataset, str, os.PathLike)) or _is_uris(source):
        dataset = source if isinstance(source, Dataset) else open_dataset(source)  # type: ignore[arg-type]
        if schema is not None:
            raise OptionError("schema: only for an iterable of dicts; a data set has its own")
        watched(
            len(dataset),
            lambda counts: _feedline.pack(dataset._core, target, storage, settings, counts),  # noqa: SLF001 - same package
            show=progress,
        )
    else:
        if "://" in target:
            raise OptionError("destination: an iterable is packed into a local folder; pack or convert that to send it")
        _pack_rows(source, target, settings, schema)  # type: ignore[arg-type]
    return open_dataset(target, format="pack", storage_options=storage_options)


def _is_uris(source: object) -> bool:
    return isinstance(source, Sequence) and bool(source) and all(isinstance(s, (str, os.PathLike)) for s in source)


def _pack_rows(rows: Iterable[Mapping[str, Any]], target: str, settings: str, schema: Mapping[str, str] | None) -> None:
    iterator = iter(rows)
    if schema is None:
        first = next(iterator, None)
        if first is None:
            raise OptionError("source: nothing to pack; give schema= to write an empty pack")
        schema = {name: _kind(name, value) for name, value in first.items()}
        iterator = itertools.chain([first], iterator)
    writer = _feedline.PackWriter(target, list(schema.items()), settings)
    for row in iterator:
        unknown = next((name for name in row if name not in schema), None)
        if unknown is not None:
            raise OptionError(f"schema: there is no field '{unknown}'; the first sample had {list(schema)}")
        writer.push(dict(row))
    writer.finish()


def _kind(name: str, value: object) -> str:
    kind = _feedline.kind_of(value)
    if kind is None:
        raise OptionError(f"schema: what field '{name}' holds ({type(value).__name__}) cannot be stored; see schema=")
    return kind
