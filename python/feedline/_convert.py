"""Writing other systems' files: [`convert`][feedline.convert]."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from . import _feedline
from ._checks import choice, flag, whole
from ._dataset import Dataset, refuse_mix
from ._opening import open as open_dataset
from ._opening import open_source, storage_text
from ._pack import pack
from ._paths import Uri, local_text
from ._progress import watched
from ._signatures import called

__all__ = ["convert"]


@called
def convert(
    source: Dataset | Uri | Sequence[Uri],
    destination: Uri,
    *,
    to: str,
    shard_bytes: int | None = None,
    workers: int = 0,
    progress: bool = True,
    storage_options: Mapping[str, object] | None = None,
    source_storage_options: Mapping[str, object] | None = None,
) -> Dataset:
    """Writes `source` as another system's files and opens them.

    `to` is `"webdataset"`, `"mds"`, `"litdata"`, `"beton"`, `"parquet"` or `"pack"`; the destination is a new or empty
    folder (for `beton` a file), or a prefix such as `s3://bucket/train`. Stored bytes and values are not changed.
    Converting is parallel and crash-safe: after an interruption, the same call writes the files that are missing,
    and the result is the same to the byte. A finished result is not written again: a file
    `.feedline-done.json` in the folder, or beside a single file, records its source.
    `storage_options` are the destination's, `source_storage_options` the source's.

    >>> import feedline as fl
    >>> shards = fl.convert(example_folder, tmp_path / "shards", to="webdataset", progress=False)
    >>> shards.format, len(shards)
    ('webdataset', 12)
    """
    workers, progress = whole("workers", workers, high=4096), flag("progress", progress)
    shard_bytes = None if shard_bytes is None else whole("shard_bytes", shard_bytes, low=1)
    choice("to", to, ("pack", *_feedline.convert_targets()))
    destination = local_text("destination", destination)
    storage = storage_text(storage_options)
    dataset = open_source(source, source_storage_options)
    refuse_mix(dataset)
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
    settings = json.dumps({"to": to, "shard_bytes": shard_bytes, "workers": workers})
    watched(
        len(dataset),
        lambda counts: _feedline.convert(dataset._core, destination, storage, settings, counts),  # noqa: SLF001 - same package
        show=progress,
    )
    return open_dataset(destination, format=to, storage_options=storage_options)
