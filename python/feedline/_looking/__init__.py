"""What shows how a loader runs.

```text
stats.py      what `loader.stats()` gives: a dict with a sentence, Prometheus text and OpenTelemetry's names
progress.py   a bar, or one line per minute in a log
headspace.py  how fast a loop could go if loading cost nothing
trace.py      what every thread did when, in a file
dashboard.py  the live page
notebook.py   rich reprs, and `show`
log.py        the engine's events in Python's logging
```
"""

from __future__ import annotations

from .dashboard import Dashboard
from .headspace import Headspace, headspace
from .log import Log
from .notebook import Shown, dataset_html, loader_html, register, show
from .progress import Bar, ProgressBar, progress
from .stats import Stats, merge_stats
from .trace import Trace

__all__ = [
    "Bar",
    "Dashboard",
    "Headspace",
    "Log",
    "ProgressBar",
    "Shown",
    "Stats",
    "Trace",
    "dataset_html",
    "headspace",
    "loader_html",
    "merge_stats",
    "progress",
    "register",
    "show",
]
