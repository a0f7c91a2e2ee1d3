"""What the tests of cluster engines share: a source, its pack by one process, and how to compare."""

from __future__ import annotations

import filecmp
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import feedline as fl
import numpy as np

PART_BYTES = 3000


def many(folder):
    """The folder twenty times over: packing it takes long enough to be disturbed."""
    return fl.concat([fl.open(folder)] * 20)


def same(a, b):
    a, b = Path(a), Path(b)
    names = sorted(p.relative_to(a) for p in a.rglob("*") if p.is_file())
    assert names == sorted(p.relative_to(b) for p in b.rglob("*") if p.is_file())
    for name in names:
        assert filecmp.cmp(a / name, b / name, shallow=False), name


def parts(folder):
    """Finished parts, with what tells whether they were written again."""
    return {p.name: (p.stat().st_mtime_ns, p.stat().st_ino) for p in Path(folder).glob("part-*.fl")}


def memory():
    """What this process has in memory, in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def kill_driver(engine, address, folder, pack):
    """Starts to pack `many(folder)` and kills the driver in the middle; gives the parts that were written."""
    here = Path(__file__).parent
    command = [sys.executable, str(here / "pack_run.py"), engine, address, str(folder), str(pack)]
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(here)}) as driver:
        while len(parts(pack)) < 5:
            assert driver.poll() is None, "the driver ended by itself"
            time.sleep(0.002)
        driver.send_signal(signal.SIGKILL)
    # Tasks of a driver that died may still write; a part that is there is whole all the same.
    before = parts(pack)
    assert not (Path(pack) / "feedline.json").exists()
    return before


def check_after_kill(pack, before, folder, alone):
    """Packed again: what was there was left alone, and the result is that of one process."""
    after = parts(pack)
    assert all(after[name] == found for name, found in before.items())
    assert len(after) > len(before)
    fl.pack(many(folder), alone, part_bytes=PART_BYTES, progress=False)
    same(alone, pack)


def check_small_driver(engine_pack, tmp_path):
    """A million entries: the process that hands out the parts grows by less than 150 MB."""
    table = tmp_path / "rows.npy"
    np.save(table, np.arange(4_000_000).reshape(-1, 4))
    before = memory()
    packed = engine_pack(table, tmp_path / "p", part_bytes=1_000_000, progress=False)
    assert len(packed) == 1_000_000
    assert packed[999_999][next(iter(packed.schema))].tolist() == list(range(3_999_996, 4_000_000))
    assert memory() - before < 150
