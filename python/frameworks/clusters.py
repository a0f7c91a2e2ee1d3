"""What the tests of cluster engines share: a source, its pack by one process, and how to compare."""

from __future__ import annotations

import filecmp
import os
from pathlib import Path

PART_BYTES = 3000


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
