"""Ray: packing and converting on a cluster, and Ray Data as a source.

`feedline.ray.pack(ray.data.read_parquet(...), "/shared/packed")`.
Ray Train needs nothing: a [`Loader`][feedline.Loader] made in a worker detects its rank and world size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import ray

from ._dataset import Dataset
from ._frames import pack_frame, write_rows
from ._parts import convert_plan, pack_plan
from ._paths import Uri
from ._progress import counted

__all__ = ["convert", "pack"]


def pack(
    source: Any, destination: Uri, *, num_cpus: float = 1, retries: int = 3, progress: bool = True, **knobs: Any
) -> Dataset:
    """[`feedline.pack`][feedline.pack] with Ray tasks, one for each part: the same bytes.

    Takes the arguments of `pack`, or a `ray.data.Dataset`. The destination is a disk that all nodes share, or a bucket.
    If a node dies, its part is written elsewhere, up to `retries` times; after an interruption, the same call resumes.
    """
    if hasattr(source, "to_arrow_refs"):
        return pack_frame(source.take(100), destination, knobs, _blocks(source, num_cpus, retries))
    plan = pack_plan(source, destination, workers=max(1, int(num_cpus)), **knobs)
    return _run(plan, num_cpus, retries, progress)


def convert(
    source: Any, destination: Uri, *, to: str, tasks: int, num_cpus: float = 1, retries: int = 3, progress: bool = True,
    **knobs: Any,
) -> Dataset:  # fmt: skip
    """[`feedline.convert`][feedline.convert] with this many Ray tasks: the same bytes."""
    plan = convert_plan(source, destination, to=to, tasks=tasks, workers=max(1, int(num_cpus)), **knobs)
    return _run(plan, num_cpus, retries, progress)


def _run(plan: Any, num_cpus: float, retries: int, progress: bool) -> Dataset:
    shared = ray.put(plan)
    write = _remote(lambda plan, part: plan.write(part), num_cpus, retries)
    missing = plan.missing()
    for _ in counted(_done(write, [(shared, part) for part in missing]), len(missing), show=progress, what="parts"):
        pass
    return plan.commit()  # type: ignore[no-any-return]


def _remote(work: Callable[..., Any], num_cpus: float, retries: int) -> Any:
    # A bad sample is bad everywhere; only storage errors are retried.
    return ray.remote(num_cpus=num_cpus, max_retries=retries, retry_exceptions=[OSError])(work)


def _done(write: Any, items: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
    """Yields results as they are ready. Few tasks run at a time, so that the driver's memory does not grow."""
    most = 2 * max(1, int(ray.cluster_resources().get("CPU", 1)))
    waiting: list[Any] = []
    rest = iter(items)
    while True:
        waiting += [write.remote(*item) for item in islice(rest, most - len(waiting))]
        if not waiting:
            return
        ready, waiting = ray.wait(waiting)
        yield from ray.get(ready)


def _blocks(source: Any, num_cpus: float, retries: int) -> Callable[..., Iterator[str | None]]:
    def run(place: str, knobs: Any) -> Iterator[str | None]:
        write = _remote(lambda table: write_rows(table.to_pylist(), place, knobs), num_cpus, retries)
        yield from ray.get([write.remote(block) for block in source.to_arrow_refs()])

    return run
