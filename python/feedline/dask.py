"""Dask: packing and converting on a cluster.

```python
client = distributed.Client("tcp://scheduler:8786")
feedline.dask.pack("s3://bucket/raw", "s3://bucket/packed", client=client)
```
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import distributed

from ._dataset import Dataset
from ._parts import convert_plan, pack_plan
from ._paths import Uri
from ._progress import counted

__all__ = ["convert", "pack"]


def pack(
    source: Any, destination: Uri, *, client: Any = None, retries: int = 3, progress: bool = True, **knobs: Any
) -> Dataset:
    """[`feedline.pack`][feedline.pack] with Dask tasks, one for each part: the same bytes.

    Takes the arguments of `pack`. The destination is a disk that all workers share, or a bucket. The default `client`
    is the current one. If a worker dies, another one writes its part; after an interruption, the same call resumes.
    """
    return _run(pack_plan(source, destination, **{"workers": 1, **knobs}), client, retries, progress)


def convert(
    source: Any, destination: Uri, *, to: str, tasks: int, client: Any = None, retries: int = 3, progress: bool = True,
    **knobs: Any,
) -> Dataset:  # fmt: skip
    """[`feedline.convert`][feedline.convert] with this many Dask tasks: the same bytes."""
    plan = convert_plan(source, destination, to=to, tasks=tasks, **{"workers": 1, **knobs})
    return _run(plan, client, retries, progress)


def _run(plan: Any, client: Any, retries: int, progress: bool) -> Dataset:
    client = client if client is not None else distributed.get_client()
    missing = plan.missing()
    for _ in counted(_done(client, plan, missing, retries), len(missing), show=progress, what="parts"):
        pass
    return plan.commit()  # type: ignore[no-any-return]


def _done(client: Any, plan: Any, parts: list[int], retries: int) -> Iterator[None]:
    """Yields parts as they are written. Few run at a time, so that the driver's memory does not grow."""
    most = 2 * max(1, sum(client.nthreads().values()))
    rest = iter(parts)
    under_way = distributed.as_completed()

    def send(count: int) -> None:
        for part in islice(rest, count):
            under_way.add(client.submit(plan.write, part, pure=False, retries=retries))

    send(most)
    for future in under_way:
        future.result()
        future.release()
        send(1)
        yield
