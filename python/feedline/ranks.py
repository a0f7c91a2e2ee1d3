"""Which of how many processes this one is."""

from __future__ import annotations

import logging
import os
import sys

from .errors import OptionError

__all__ = ["discover"]

_LOG = logging.getLogger("feedline")


def discover(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Rank and world size: as given, else torch.distributed's, else from the environment, else JAX's, else alone.

    >>> discover(1, 4)
    (1, 4)
    """
    if (rank is None) != (world_size is None):
        raise OptionError("rank: rank and world_size go together; give both or neither")
    if rank is not None and world_size is not None:
        return int(rank), int(world_size)
    for source, found in (
        ("torch.distributed", _torch()),
        ("RANK/WORLD_SIZE", _environment("RANK", "WORLD_SIZE")),
        ("SLURM", _environment("SLURM_PROCID", "SLURM_NTASKS")),
        ("JAX", _jax()),
    ):
        if found is not None:
            _LOG.info("rank %d of %d, from %s", *found, source)
            return found
    return 0, 1


def _torch() -> tuple[int, int] | None:
    # Only if the program uses it already: importing torch takes seconds.
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


def _jax() -> tuple[int, int] | None:
    jax = sys.modules.get("jax")
    if jax is None or not hasattr(jax, "process_count"):
        return None
    # Asking an uninitialised JAX would start its backends; a single process has nothing to divide anyway.
    bridge = getattr(getattr(jax, "_src", None), "xla_bridge", None)
    if bridge is None or not getattr(bridge, "_backends", None):
        return None
    return (jax.process_index(), jax.process_count()) if jax.process_count() > 1 else None
