"""Writing other systems' files: [`convert`][feedline.convert]."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence

from . import _feedline
from .dataset import Dataset, Uri, storage_text
from .dataset import open as open_dataset
from .errors import OptionError
from .pack import pack
from .progress import watched

__all__ = ["convert"]


def convert(
    source: Dataset | Uri | Sequence[Uri],
    destination: Uri,
    *,
    to: str,
    shard_bytes: int | None = None,
    workers: int = 0,
    progress: bool = True,
    storage_options: Mapping[str, object] | None = None,
) -> Dataset:
    """Writes `source` as another system's files and opens them.

    `to` is `"webdataset"`, `"mds"`, `"litdata"`, `"beton"`, `"parquet"` or `"pack"`; the destination is a new or empty
    folder (for `beton` a file), or a prefix such as `s3://bucket/train`. Stored bytes and values are kept as they are.
    Converting is parallel and crash-safe: killed at any moment, the same call goes on with the files that are missing,
    and the result is the same to the byte.

    >>> import feedline as fl
    >>> shards = fl.convert(example_folder, tmp_path / "shards", to="webdataset", progress=False)
    >>> shards.format, len(shards)
    ('webdataset', 12)
    """
    dataset = source if isinstance(source, Dataset) else open_dataset(source)
    if to == "pack":
        return pack(
            dataset,
            destination,
            image="as-is",
            part_bytes=shard_bytes,
            workers=workers,
            progress=progress,
            storage_options=storage_options,
        )
    if to not in _feedline.convert_targets():
        raise OptionError(f"to: {to!r} is none of pack, {', '.join(_feedline.convert_targets())}")
    target = os.fspath(destination)
    storage = storage_text(storage_options)
    settings = json.dumps({"to": to, "shard_bytes": shard_bytes, "workers": workers})
    watched(
        len(dataset),
        lambda counts: _feedline.convert(dataset._core, target, storage, settings, counts),  # noqa: SLF001 - same package
        show=progress,
    )
    return open_dataset(target, format=to, storage_options=storage_options)
