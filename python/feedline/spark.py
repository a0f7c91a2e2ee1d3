"""Spark: packing and converting on a cluster, and data frames as sources.

`feedline.spark.pack(spark.read.parquet(...), "/shared/packed", schema={"image": "image"})`
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pyspark.sql import SparkSession

from ._dataset import Dataset
from ._frames import pack_frame, write_rows
from ._parts import convert_plan, pack_plan
from ._paths import Uri
from ._progress import counted
from .errors import OptionError

__all__ = ["convert", "pack"]


def pack(
    source: Any, destination: Uri, *, session: Any = None, retries: int = 3, progress: bool = True, **knobs: Any
) -> Dataset:
    """[`feedline.pack`][feedline.pack] with Spark tasks, one for each part: the same bytes.

    Takes the arguments of `pack`, or a Spark data frame. The destination is a disk that all executors share, or a
    bucket. Failed parts are written again, up to `retries` times; after an interruption, the same call resumes.
    """
    if hasattr(source, "rdd") and hasattr(source, "schema"):
        first = [row.asDict(recursive=True) for row in source.take(100)]
        return pack_frame(first, destination, knobs, _partitions(source))
    return _run(pack_plan(source, destination, **{"workers": 1, **knobs}), session, retries, progress)


def convert(
    source: Any, destination: Uri, *, to: str, tasks: int, session: Any = None, retries: int = 3, progress: bool = True,
    **knobs: Any,
) -> Dataset:  # fmt: skip
    """[`feedline.convert`][feedline.convert] with this many Spark tasks: the same bytes."""
    plan = convert_plan(source, destination, to=to, tasks=tasks, **{"workers": 1, **knobs})
    return _run(plan, session, retries, progress)


def _run(plan: Any, session: Any, retries: int, progress: bool) -> Dataset:
    session = session if session is not None else SparkSession.getActiveSession()
    if session is None:
        raise OptionError("session: there is no Spark session; make one, or give it")
    for _ in counted(_rounds(session, plan, retries), len(plan.missing()), show=progress, what="parts"):
        pass
    return plan.commit()  # type: ignore[no-any-return]


def _rounds(session: Any, plan: Any, retries: int) -> Iterator[int]:
    """Writes parts in rounds of a few for each core: progress can be shown, and a failed round costs little."""
    missing, size, failures = plan.missing(), 8 * session.sparkContext.defaultParallelism, 0
    while missing:
        now, missing = missing[:size], missing[size:]
        try:
            session.sparkContext.parallelize(now, len(now)).foreach(plan.write)
        except Exception:
            failures += 1
            if failures > retries:
                raise
            missing = plan.missing()
            continue
        yield from now


def _partitions(frame: Any) -> Callable[..., list[str | None]]:
    def run(place: str, knobs: Any) -> list[str | None]:
        def write(rows: Iterator[Any]) -> list[str | None]:
            return [write_rows((row.asDict(recursive=True) for row in rows), place, knobs)]

        return list(frame.rdd.mapPartitions(write).collect())

    return run
