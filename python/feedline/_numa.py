"""CPUs of one NUMA node, for a loader's threads: batches then lie in the memory of that node."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from .errors import OptionError

__all__ = ["cpus_for"]

NODES = Path("/sys/devices/system/node")
DEVICES = Path("/sys/bus/pci/devices")


def cpus_for(numa: str | int, device: Any = None) -> list[int]:
    """The CPUs of a node that this process may use; none if the threads may run anywhere.

    >>> cpus_for("off")
    []
    """
    if numa == "off":
        return []
    if sys.platform != "linux":
        raise OptionError(f"numa: {numa!r} needs Linux")
    node = _of_device(device) if numa == "auto" else int(numa)
    if node is None:
        return []
    nodes = _nodes()
    if node not in nodes:
        there = ", ".join(map(str, sorted(nodes))) or "none that the system reports"
        raise OptionError(f"numa: there is no node {node}; this machine has {there}")
    cpus = nodes[node] & os.sched_getaffinity(0)
    if not cpus:
        raise OptionError(f"numa: this process may not use any CPU of node {node}")
    return sorted(cpus)


def _nodes() -> dict[int, set[int]]:
    """The CPUs of every node."""
    lists = {path.parent.name.removeprefix("node"): path for path in NODES.glob("node*/cpulist")}
    return {int(number): _cpus(path.read_text()) for number, path in lists.items() if number.isdecimal()}


def _cpus(text: str) -> set[int]:
    """Reads a list such as `0-3,8`.

    >>> sorted(_cpus("0-3,8"))
    [0, 1, 2, 3, 8]
    """
    found: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def _of_device(device: Any) -> int | None:
    """The node beside which a CUDA device sits, if the system knows."""
    if device is None:
        return None
    import torch  # noqa: PLC0415 - takes seconds

    found = torch.device(device)
    if found.type != "cuda" or not torch.cuda.is_available():
        return None
    properties = torch.cuda.get_device_properties(found)
    found_parts = (getattr(properties, f"pci_{part}_id", None) for part in ("domain", "bus", "device"))
    parts: list[int] = [part for part in found_parts if part is not None]
    if len(parts) < 3:  # noqa: PLR2004 - older versions of torch have none of them
        return None
    address = "{:04x}:{:02x}:{:02x}.0".format(*parts)
    try:
        node = int((DEVICES / address / "numa_node").read_text())
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None
