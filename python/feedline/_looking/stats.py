"""What a loader has done, for people and for monitoring programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from feedline import _feedline
from feedline.errors import OptionError

__all__ = ["Stats", "merge_stats"]

_STAGES = ("read", "bytes", "decode", "transform", "copy", "wait")
_SHOWN = {"bytes": "wait for bytes", "wait": "wait for the consumer"}

# Name, kind and meaning of what Prometheus and OpenTelemetry get, and where it stands.
_NUMBERS: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    ("batches", "counter", "Batches delivered.", ("batches",)),
    ("samples", "counter", "Samples delivered.", ("delivered",)),
    ("samples_per_second", "gauge", "Samples delivered per second, lately.", ("recent_samples_per_second",)),
    ("read_bytes", "counter", "Stored bytes read.", ("bytes_read",)),
    ("failed_samples", "counter", "Samples that could not be read or decoded.", ("failed",)),
    ("skipped_rows", "counter", "Rows left out of batches because of that.", ("skipped",)),
    ("replaced_rows", "counter", "Rows filled with a substitute because of that.", ("replaced",)),
    ("consumer_wait_seconds", "counter", "Time the training loop waited for a batch.", ("consumer_wait_seconds",)),
    ("consumer_busy_seconds", "counter", "Time the training loop did something else.", ("consumer_busy_seconds",)),
    (
        "interpreter_wait_seconds",
        "counter",
        "Time a batch waited for the interpreter lock.",
        ("interpreter_wait_seconds",),
    ),
    ("threads", "gauge", "Worker threads.", ("threads",)),
    ("queue_ready", "gauge", "Batches that are ready.", ("queue", "ready")),
    ("queue_depth", "gauge", "Batches that there is room for.", ("depth",)),
    ("storage_requests", "counter", "Requests to remote storage.", ("storage", "requests")),
    ("storage_retries", "counter", "Requests that were made again.", ("storage", "retries")),
    ("storage_bytes", "counter", "Bytes that came over the network.", ("storage", "bytes")),
    ("cache_hits", "counter", "Blocks found in the disk cache.", ("storage", "cache_hits")),
    ("cache_misses", "counter", "Blocks fetched for the disk cache.", ("storage", "cache_misses")),
    ("batch_memory_bytes", "gauge", "Memory of batches that are out.", ("memory", "lent_bytes")),
    ("resident_memory_bytes", "gauge", "Memory of the process.", ("memory", "resident_bytes")),
    ("cpu_seconds", "counter", "Processor time of the worker threads.", ("cores", "cpu_seconds")),
)


class Stats(dict[str, Any]):
    """What a loader has done so far: a dict, and what monitoring programs need.

    `stats["bottleneck"]` names what limits the speed and what would help, `stats["bound"]` is one word for it:
    `"consumer"`, `"decode"`, `"transform"`, `"read"`, `"bytes"` (the network), `"copy"`, `"functions"` (`map=`,
    `T.Python` and the like) or `"lock"` (other Python threads hold the interpreter). `stats["seconds"]` and
    `stats["occupancy"]` show the workers' time by stage, `stats["queue"]["history"]` how many batches were ready over
    time. `print(stats)` shows them as a table.

    >>> import feedline as fl
    >>> with fl.Loader(fl.open(example_folder), batch_size=4, output="numpy", decode="none") as loader:
    ...     batches = list(loader)
    ...     stats = loader.stats()
    >>> stats["batches"], stats["delivered"], stats["failed"]
    (3, 12, 0)
    >>> print(stats.prometheus({"job": "train"}).splitlines()[2])
    feedline_batches_total{job="train"} 3
    >>> stats.opentelemetry()["feedline.samples"]
    12
    """

    def __str__(self) -> str:
        lines = [self["bottleneck"], ""]
        lines.append(
            f"{self['delivered']:,} samples in {self['batches']:,} batches, {self['samples_per_second']:,.0f}/s "
            f"({self['recent_samples_per_second']:,.0f}/s lately), {self['threads']} threads"
        )
        for stage in _STAGES:
            share = self["occupancy"][stage]
            name, seconds = _SHOWN.get(stage, stage), self["seconds"][stage]
            lines.append(f"  {name:<22} {share:>6.1%} {seconds:>10.2f} s  {'#' * round(30 * share)}")
        ready, depth = self["queue"]["ready"], self["depth"]
        lines.append(f"{ready} of {depth} batches ready, {self['memory']['resident_bytes'] / 2**20:,.0f} MiB resident")
        failures = {name: self[name] for name in ("failed", "skipped", "replaced") if self[name]}
        failures |= {"retries": self["storage"]["retries"]} if self["storage"]["retries"] else {}
        lines += [", ".join(f"{count:,} {name}" for name, count in failures.items())] if failures else []
        return "\n".join(lines + self["warnings"])

    def prometheus(self, labels: Mapping[str, str] | None = None) -> str:
        """The numbers as text that Prometheus reads, with these labels on each."""
        lines: list[str] = []
        for name, kind, meaning, value in self._numbers():
            full = f"feedline_{name}_total" if kind == "counter" else f"feedline_{name}"
            lines += [f"# HELP {full} {meaning}", f"# TYPE {full} {kind}", f"{full}{_labels(labels)} {value}"]
        full = "feedline_stage_seconds_total"
        lines += [f"# HELP {full} Time of the worker threads by stage.", f"# TYPE {full} counter"]
        lines += [f"{full}{_labels({**(labels or {}), 'stage': s})} {self['seconds'][s]}" for s in _STAGES]
        full = "feedline_bottleneck"
        lines += [f"# HELP {full} What limits the speed.", f"# TYPE {full} gauge"]
        lines += [f"{full}{_labels({**(labels or {}), 'bound': self['bound']})} 1"]
        return "\n".join(lines) + "\n"

    def opentelemetry(self) -> dict[str, float | int]:
        """The numbers by dotted names, as an OpenTelemetry meter takes them: nothing is nested, all are numbers."""
        found = {f"feedline.{name}": value for name, _, _, value in self._numbers()}
        found |= {f"feedline.stage.{stage}.seconds": self["seconds"][stage] for stage in _STAGES}
        found |= {f"feedline.stage.{stage}.occupancy": self["occupancy"][stage] for stage in _STAGES}
        return found

    def _numbers(self) -> Iterator[tuple[str, str, str, float | int]]:
        for name, kind, meaning, place in _NUMBERS:
            value: Any = self
            for key in place:
                value = value[key]
            yield name, kind, meaning, value


def _labels(labels: Mapping[str, str] | None) -> str:
    def quoted(value: object) -> str:
        return str(value).replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")

    inside = ",".join(f'{name}="{quoted(value)}"' for name, value in (labels or {}).items())
    return f"{{{inside}}}" if inside else ""


def merge_stats(stats: Iterable[Mapping[str, Any]]) -> Stats:
    """The statistics of several ranks as one: counts, times and rates add up, the bottleneck is judged again.

    Every rank calls `loader.stats()`; bring them together as you like (`torch.distributed.all_gather_object`, files, a
    queue): they are plain data. `["ranks"]` of the result has rate, waiting share and bottleneck of each.

    >>> import feedline as fl
    >>> parts = []
    >>> for rank in range(2):
    ...     with fl.Loader(example_folder, batch_size=3, rank=rank, world_size=2, output="numpy") as loader:
    ...         batches = list(loader)
    ...         parts.append(loader.stats())
    >>> both = fl.merge_stats(parts)
    >>> both["delivered"], len(both["ranks"])
    (12, 2)
    """
    try:
        ranks = [dict(each) for each in stats]
        # The engine does not know the functions, and counts their time as its consumer's.
        given = [json.dumps(each | ({"bound": "consumer"} if _slowed(each) else {})) for each in ranks]
    except (TypeError, ValueError) as error:
        raise OptionError(f"stats: not what loader.stats() gave: {error}") from error
    merged = Stats(json.loads(_feedline.merge_stats(given)))
    if any("functions_wait_seconds" in each for each in ranks):
        merged["functions_wait_seconds"] = sum(each.get("functions_wait_seconds", 0.0) for each in ranks)
    for shown, each in zip(merged.get("ranks", ()), ranks, strict=False):
        shown["bound"] = each["bound"]
        if _slowed(each) and merged["bound"] == "consumer":
            merged["bound"], merged["bottleneck"] = each["bound"], each["bottleneck"]
    return merged


def _slowed(stats: Mapping[str, Any]) -> bool:
    return stats.get("bound") == "functions"
