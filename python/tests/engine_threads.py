"""The engine's threads in this process, for tests that count them."""

from __future__ import annotations

import gc
import time
from pathlib import Path


def engine_threads():
    """Their thread ids. Compare sets, never counts: threads of other tests may end at any time."""
    gc.collect()
    return {task.name for task in Path("/proc/self/task").iterdir() if is_engine_thread(task)}


def is_engine_thread(task):
    try:
        name = (task / "comm").read_text()
    except OSError:  # the thread has just ended
        return False
    # Network threads belong to the process, not to a loader, and stay.
    return name.startswith("feedline-") and not name.startswith("feedline-net")


def eventually(condition, seconds=30.0):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True
