"""Threads on the CPUs of one NUMA node, on made-up machines."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import feedline as fl
import pytest
import torch
from feedline import _numa

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only on Linux")


@pytest.fixture
def two_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Node 0 has this process's first CPU, node 3 the others and some that it may not use."""
    own = sorted(os.sched_getaffinity(0))
    for node, cpus in ((0, f"{own[0]}"), (3, ",".join(map(str, [*own[1:], "5000-5003"])))):
        (tmp_path / f"node{node}").mkdir()
        (tmp_path / f"node{node}/cpulist").write_text(cpus + "\n")
    (tmp_path / "has_cpu").write_text("0,3\n")
    monkeypatch.setattr(_numa, "NODES", tmp_path)
    return own


def workers() -> set[int]:
    """The engine's worker threads."""
    names = {int(task.name): (task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()}
    return {task for task, name in names.items() if name.removeprefix("feedline-").isdecimal()}


def cpus_of_workers(loader: fl.Loader, others: set[int]) -> list[set[int]]:
    """The CPUs that each of this loader's threads may use; `others` were there before."""
    list(loader)
    until = time.monotonic() + 60
    # A thread that was not needed for this little data may not have its name yet.
    while len(found := workers() - others) < loader.stats()["threads"] and time.monotonic() < until:
        time.sleep(0.01)
    return [os.sched_getaffinity(task) for task in found]


def test_threads_run_on_the_node(folder: Path, two_nodes: list[int]) -> None:
    before, others = os.sched_getaffinity(0), workers()
    with fl.Loader(folder, decode="none", numa=0, num_workers=3) as loader:
        assert cpus_of_workers(loader, others) == [{two_nodes[0]}] * 3
        assert loader.stats()["cpus"] == [two_nodes[0]]
    assert os.sched_getaffinity(0) == before, "the caller's own are not changed"
    with fl.Loader(folder, decode="none", numa=0) as loader:
        assert loader.stats()["threads"] == 1, "no more threads than the node has CPUs"
    if len(two_nodes) > 1:
        with fl.Loader(folder, decode="none", numa=3) as loader:
            assert loader.stats()["cpus"] == two_nodes[1:]
    others = workers()
    with fl.Loader(folder, decode="none", num_workers=2) as loader:
        assert cpus_of_workers(loader, others) == [before] * 2
        assert loader.stats()["cpus"] == []


def test_nodes_that_do_not_exist_are_refused(folder: Path, two_nodes: list[int]) -> None:
    with pytest.raises(fl.OptionError, match="numa: there is no node 1; this machine has 0, 3"):
        fl.Loader(folder, numa=1)
    (_numa.NODES / "node3/cpulist").write_text("5000\n")
    with pytest.raises(fl.OptionError, match="may not use any CPU of node 3"):
        fl.Loader(folder, numa=3)
    wrong: Any
    for wrong in ("on", -1, 1.5, True, None):
        with pytest.raises(fl.OptionError, match="numa"):
            fl.Loader(folder, numa=wrong)
    assert two_nodes


def test_auto_is_the_node_of_the_cuda_device(
    two_nodes: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _numa.cpus_for("auto") == _numa.cpus_for("auto", "cpu") == _numa.cpus_for("auto", "cuda:0") == []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    place = SimpleNamespace(pci_domain_id=0, pci_bus_id=0xAF, pci_device_id=0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: place)
    monkeypatch.setattr(_numa, "DEVICES", tmp_path)
    assert _numa.cpus_for("auto", "cuda:0") == [], "the system does not know the device"
    device = tmp_path / "0000:af:00.0"
    device.mkdir()
    for node, cpus in (("0", two_nodes[:1]), ("-1", [])):
        (device / "numa_node").write_text(f"{node}\n")
        assert _numa.cpus_for("auto", "cuda:0") == cpus
