"""Writing in parts, by any number of processes on any number of machines: plan, write, commit."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from . import _feedline
from ._checks import choice, whole
from ._dataset import Dataset, refuse_mix
from ._opening import open as open_dataset
from ._opening import open_source, storage_text
from ._pack import is_openable, settings_text
from ._paths import Uri, local_text
from .errors import OptionError

__all__ = ["ConvertPlan", "PackPlan", "commit_pack", "convert_plan", "merge", "pack_plan", "write_part"]

_PACK = {
    "image": "jpeg", "shorter_side": None, "longer_side": None, "quality": None, "baseline": False,
    "video": "keep", "part_bytes": None, "workers": 0, "on_error": "raise", "check": None,
    "resume": True, "overwrite": False,
}  # fmt: skip


class PackPlan:
    """Which samples go into which part of a pack, and its destination. Made by [`pack_plan`][feedline.pack_plan].

    Small and picklable: it describes the source, it does not contain it.
    """

    def __init__(self, spec: str, destination: str, storage: str, settings: str, plan: str) -> None:
        self._spec, self._destination, self._storage = spec, destination, storage
        self._settings, self._plan = settings, plan
        self.parts = len(json.loads(plan)["starts"]) - 1
        """Number of parts."""

    @property
    def destination(self) -> str:
        """Destination of the pack."""
        return self._destination

    def missing(self) -> list[int]:
        """Parts that are not written yet."""
        return _feedline.missing_parts(self._destination, self._storage, self._plan)

    def write(self, part: int) -> None:
        """See [`write_part`][feedline.write_part]."""
        part = whole("part", part)
        _feedline.write_part(_source(self._spec), self._destination, self._storage, self._settings, self._plan, part)

    def commit(self) -> Dataset:
        """See [`commit_pack`][feedline.commit_pack]."""
        _feedline.commit_pack(self._destination, self._storage, self._plan)
        options = json.loads(self._storage)["options"]
        return open_dataset(self._destination, format="pack", storage_options=options or None)

    def __reduce__(self) -> tuple[Any, ...]:
        return PackPlan, (self._spec, self._destination, self._storage, self._settings, self._plan)

    def __repr__(self) -> str:
        return f"PackPlan({self._destination!r}, parts={self.parts})"


@lru_cache(maxsize=4)
def _source(spec: str) -> _feedline.Dataset:
    """The source, opened once in each process, however many parts it writes."""
    return _feedline.Dataset.from_spec(spec)


def _refuse_unknown(knobs: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    unknown = next((name for name in knobs if name not in known), None)
    if unknown is not None:
        raise OptionError(f"{unknown}: no such knob for packing in parts; there are: {', '.join(known)}")


def pack_plan(
    source: Any,
    destination: Uri,
    *,
    storage_options: Mapping[str, object] | None = None,
    source_storage_options: Mapping[str, object] | None = None,
    **knobs: Any,
) -> PackPlan:
    """Plans the parts of a pack, and announces the pack at the destination.

    Takes the arguments of [`pack`][feedline.pack]. [`write_part`][feedline.write_part] then writes the parts, in any
    order, anywhere, any number of times, and [`commit_pack`][feedline.commit_pack] completes the pack: the same bytes
    as from `pack`. The destination must be a disk that all machines share, or a bucket.

    >>> import feedline as fl
    >>> plan = fl.pack_plan(example_folder, tmp_path / "animals", part_bytes=2000)
    >>> for part in reversed(range(plan.parts)):
    ...     fl.write_part(plan, part)
    >>> len(fl.commit_pack(plan))
    12
    """
    _refuse_unknown(knobs, _PACK)
    if not is_openable(source):
        raise OptionError(
            "source: samples from Python cannot be read again, part by part; give what open() accepts\n"
            "hint: pack() takes iterables; feedline.ray and feedline.spark take their own data frames"
        )
    dataset = open_source(source, source_storage_options)
    refuse_mix(dataset)
    settings = settings_text(**{**_PACK, **knobs})
    target, storage = local_text("destination", destination), storage_text(storage_options)
    core = dataset._core  # noqa: SLF001 - same package
    plan, _, _ = _feedline.plan_pack(core, target, storage, settings)
    return PackPlan(core.spec(), target, storage, settings, plan)


def write_part(plan: PackPlan | ConvertPlan, part: int) -> None:
    """Writes one part of a plan, unless it exists already.

    Safe to call again and from several processes at once: each writes under its own name, and the results are the
    same bytes.
    """
    plan.write(part)


def commit_pack(plan: PackPlan | ConvertPlan) -> Dataset:
    """Checks that every part is written, completes the pack (or conversion) and opens it. Repeating it does nothing."""
    return plan.commit()


class ConvertPlan:
    """A conversion by several tasks. Returned by [`convert_plan`][feedline.convert_plan]; picklable."""

    def __init__(self, spec: str, destination: str, storage: str, settings: str, tasks: int) -> None:
        self._spec, self._destination, self._storage, self._settings = spec, destination, storage, settings
        self.parts = tasks
        """Number of tasks."""

    def missing(self) -> list[int]:
        """All tasks: each finds its missing files by itself."""
        return list(range(self.parts))

    def write(self, part: int) -> None:
        """Writes the missing files of task `part`."""
        task = (whole("part", part), self.parts)
        _feedline.convert_task(_source(self._spec), self._destination, self._storage, self._settings, task)

    def commit(self) -> Dataset:
        """Checks that all files exist, writes the index and opens the result."""
        _feedline.convert_task(_source(self._spec), self._destination, self._storage, self._settings, None)
        options = json.loads(self._storage)["options"]
        to = json.loads(self._settings)["to"]
        return open_dataset(self._destination, format=to, storage_options=options or None)

    def __reduce__(self) -> tuple[Any, ...]:
        return ConvertPlan, (self._spec, self._destination, self._storage, self._settings, self.parts)

    def __repr__(self) -> str:
        return f"ConvertPlan({self._destination!r}, parts={self.parts})"


def convert_plan(
    source: Any,
    destination: Uri,
    *,
    to: str,
    tasks: int,
    shard_bytes: int | None = None,
    workers: int = 0,
    storage_options: Mapping[str, object] | None = None,
    source_storage_options: Mapping[str, object] | None = None,
) -> ConvertPlan | PackPlan:
    """A conversion shared by `tasks` processes, like [`pack_plan`][feedline.pack_plan] for packs.

    [`write_part`][feedline.write_part] writes the share of one task, in any order, anywhere, any number of times, and
    [`commit_pack`][feedline.commit_pack] completes the result, which is that of [`convert`][feedline.convert], to the
    byte.

    >>> import feedline as fl
    >>> plan = fl.convert_plan(example_folder, tmp_path / "tars", to="webdataset", tasks=2, shard_bytes=4000)
    >>> for task in reversed(range(plan.parts)):
    ...     fl.write_part(plan, task)
    >>> len(fl.commit_pack(plan))
    12
    """
    choice("to", to, ("pack", *_feedline.convert_targets()))
    dataset = open_source(source, source_storage_options)
    refuse_mix(dataset)
    if to == "pack":
        knobs: dict[str, Any] = {"image": "as-is", "part_bytes": shard_bytes, "workers": workers}
        return pack_plan(dataset, destination, storage_options=storage_options, **knobs)
    shard_bytes = None if shard_bytes is None else whole("shard_bytes", shard_bytes, low=1)
    settings = json.dumps({"to": to, "shard_bytes": shard_bytes, "workers": whole("workers", workers, high=4096)})
    target, storage = local_text("destination", destination), storage_text(storage_options)
    spec = dataset._core.spec()  # noqa: SLF001 - same package
    return ConvertPlan(spec, target, storage, settings, whole("tasks", tasks, low=1))


def merge(packs: Sequence[Uri], destination: Uri, *, overwrite: bool = False) -> Dataset:
    """Joins finished packs into a new one, without rewriting their samples.

    They must have the same fields and classes. On one file system the new pack shares their files; elsewhere these are
    copied.

    >>> import feedline as fl
    >>> ds = fl.open(example_folder)
    >>> for name, part in (("a", ds[:5]), ("b", ds[5:])):
    ...     _ = fl.pack(part, tmp_path / name, progress=False)
    >>> len(fl.merge([tmp_path / "a", tmp_path / "b"], tmp_path / "all"))
    12
    """
    folders = [local_text("packs", pack) for pack in packs]
    target = local_text("destination", destination)
    if any("://" in folder for folder in (*folders, target)):
        raise OptionError("packs: only packs on this machine's disks can be merged")
    _feedline.merge_packs(folders, target, overwrite)
    return open_dataset(target, format="pack")
