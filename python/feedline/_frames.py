"""Packs data frames of cluster engines: each partition becomes a pack, and these are merged.

Partitions cannot be distinguished from those of another run, so an interrupted call is not resumed; a partition that
fails within a call is written again.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ._dataset import Dataset
from ._pack import pack
from ._parts import merge
from ._paths import Uri, local_text
from ._rows import Samples
from .errors import OptionError

__all__ = ["pack_frame", "write_rows"]

# Arguments that apply to the rows of a partition; the other arguments of pack() have no meaning for them.
_KNOBS = ("image", "shorter_side", "longer_side", "quality", "baseline", "video", "part_bytes", "on_error")


def write_rows(rows: Iterable[Mapping[str, Any]], place: str, knobs: Mapping[str, Any]) -> str | None:
    """Packs one partition into its own folder below `place`; returns its path, or `None` for a partition without rows.

    The name is new each time: engines run a partition twice if they think the first is lost.
    """
    iterator = iter(rows)
    first = next(iterator, None)
    if first is None:
        return None
    folder = Path(place) / uuid.uuid4().hex

    def all_rows() -> Iterable[Mapping[str, Any]]:
        yield first
        yield from iterator

    pack(all_rows(), folder, progress=False, **knobs)
    return str(folder)


def pack_frame(
    first: Sequence[Mapping[str, Any]],
    destination: Uri,
    knobs: Mapping[str, Any],
    run: Callable[[str, Mapping[str, Any]], Iterable[str | None]],
) -> Dataset:
    """Writes every partition with `run(place, knobs)`, which returns their folders in order, and merges them.

    `first` are rows that determine the fields' kinds, the same for all partitions.
    """
    target = local_text("destination", destination)
    if "://" in target:
        raise OptionError("destination: a data frame is packed to a disk that all machines see, not to a bucket")
    unknown = next((name for name in knobs if name not in (*_KNOBS, "overwrite", "schema", "classes")), None)
    if unknown is not None:
        raise OptionError(f"{unknown}: not for data frames; there are: {', '.join(_KNOBS)}, schema, classes, overwrite")
    own = {name: value for name, value in knobs.items() if name != "overwrite"}
    schema = Samples(list(first), schema=own.get("schema"), classes=own.get("classes")).schema
    place = f"{target.rstrip('/')}.parts-{uuid.uuid4().hex[:8]}"
    Path(place).mkdir(parents=True)
    try:
        folders = [folder for folder in run(place, {**own, "schema": schema}) if folder is not None]
        return merge(folders, target, overwrite=bool(knobs.get("overwrite", False)))
    finally:
        shutil.rmtree(place, ignore_errors=True)
