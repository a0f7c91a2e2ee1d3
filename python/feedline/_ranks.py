"""Detects the rank of this process and the number of processes."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from functools import partial

from . import _feedline
from .errors import OptionError

__all__ = ["check_worker", "discover", "shared_threads"]

_LOG = logging.getLogger("feedline")


def discover(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Rank and world size: as given, else of torch.distributed, the environment or JAX, else a single process.

    >>> discover(1, 4)
    (1, 4)
    """
    if (rank is None) != (world_size is None):
        raise OptionError("rank: rank and world_size go together; give both or neither")
    if rank is not None and world_size is not None:
        return rank, world_size
    for source, ask in (
        ("torch.distributed", _torch),
        ("RANK/WORLD_SIZE", partial(_environment, "RANK", "WORLD_SIZE")),
        ("SLURM", _slurm),
        ("JAX", _jax),
    ):
        found = ask()
        if found is not None:
            _LOG.info("rank %d of %d, from %s", *found, source)
            return found
    return 0, 1


def _torch() -> tuple[int, int] | None:
    # Only if the program already uses it: importing torch takes seconds.
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.get_rank(), distributed.get_world_size()


def _environment(rank: str, world_size: str) -> tuple[int, int] | None:
    values = os.environ.get(rank), os.environ.get(world_size)
    if values[0] is None or values[1] is None:
        return None
    try:
        return int(values[0]), int(values[1])
    except ValueError as error:
        raise OptionError(f"rank: {rank}={values[0]!r}, {world_size}={values[1]!r} are not numbers") from error


def _slurm() -> tuple[int, int] | None:
    """This task of a job step. In the batch script itself there is none: SLURM counts tasks that srun would start."""
    found = _environment("SLURM_PROCID", "SLURM_NTASKS")
    if found is None:
        return None
    # Only srun sets these. A first task without them is the batch script; other tasks exist only with srun.
    step = any(name in os.environ for name in ("SLURM_STEP_ID", "SLURM_STEPID", "SLURM_STEP_NUM_TASKS"))
    if step or found[0] != 0 or found[1] == 1:
        return found
    if _jax() is None:
        warnings.warn(
            f"SLURM_NTASKS={found[1]}, but this process was not started by srun, so it counts as the only one and "
            "gets all the data. Start it with srun, or give rank= and world_size=",
            stacklevel=6,
        )
    return None


def check_worker(placed_in: int | None) -> None:
    """Raises in a `DataLoader`'s worker process, where each worker would give everything, unless it was given its part.

    `placed_in` is the process in which the loader was given rank and world size.
    """
    data = sys.modules.get("torch.utils.data")
    info = data.get_worker_info() if data is not None else None
    if info is None or info.num_workers == 1 or placed_in == os.getpid():
        return
    raise OptionError(
        f"rank: this is worker {info.id} of {info.num_workers} of a DataLoader, and each would give all batches\n"
        "hint: give the DataLoader feedline.torch.as_iterable(loader), or use the Loader itself in its place; "
        "or make the Loader in the worker with rank= and world_size= that count the workers too"
    )


def shared_threads() -> int:
    """Default number of threads: 0 for all cores, or this rank's share if several ranks are on one machine.

    torchrun and similar set `LOCAL_WORLD_SIZE`. A rank that was bound to its own cores, fewer than
    its parent may use, already has its share.
    """
    try:
        local = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    except ValueError:
        return 0
    if local <= 1 or _bound():
        return 0
    return max(1, _feedline.usable_cores() // local)


def _bound() -> bool:
    if not hasattr(os, "sched_getaffinity"):
        return False
    try:
        return len(os.sched_getaffinity(0)) < len(os.sched_getaffinity(os.getppid()))
    except OSError:
        return False


def _jax() -> tuple[int, int] | None:
    jax = sys.modules.get("jax")
    if jax is None or not hasattr(jax, "process_count"):
        return None
    # Calling an uninitialised JAX would start its backends; a single process has nothing to divide anyway.
    bridge = getattr(getattr(jax, "_src", None), "xla_bridge", None)
    if bridge is None or not getattr(bridge, "_backends", None):
        return None
    return (jax.process_index(), jax.process_count()) if jax.process_count() > 1 else None
