"""`feedline simulate`: estimates the cost of an epoch, before a cluster is rented.

Requests are those that the engine's planner would make (neighbours joined, read-ahead that doubles, blocks of the disk
cache), for one node; the time is that of the slowest of network, decoding and training, since they run in parallel.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from .errors import OptionError

__all__ = ["Result", "Setup", "main", "simulate"]

# The engine's own constants; docs/remote.md explains them.
_GAP = 64 << 10
_PART = 8 << 20
_REQUESTS = 64
_CACHE_BLOCK = 4 << 20
_CACHE_REQUESTS = 16
_CACHE_OPEN = 256
_BLOCK = 1 << 20
_WINDOW = 256
_BUDGET = {"block": 512 << 20, "full": 256 << 20, "none": 256 << 20}
_MOST_BATCHES = 1024
# Bytes of a pack's index per sample: offset, length, checksum and image metadata.
_INDEX_BYTES = 30
# Round trips for opening a pack in a bucket (names, manifest), and of a loader before its first sample (a part's
# index).
_OPENING_TRIPS = 2
_INDEX_TRIPS = 1
# Number of samples whose requests are computed one by one; larger epochs are scaled up from these.
_MOST_SAMPLES = 400_000
_MOST_CACHED = 8_000_000
# Up to this many numbers are shuffled with a table.
_TABLE = 1 << 21


@dataclass
class Setup:
    """Input of a simulation. Sizes in bytes, times in seconds, rates per second."""

    samples: int
    sample_bytes: float
    nodes: int = 1
    ranks_per_node: int = 1
    batch_size: int = 256
    bandwidth: float = 1.25e9
    """Bandwidth of one node."""
    latency: float = 0.03
    """Time until the first byte of an answer."""
    total_bandwidth: float = math.inf
    """Bandwidth of the store, for all nodes together."""
    shuffle: str = "full"
    cache: float | None = None
    """Bytes of disk on each node; without it there is no disk cache."""
    decode_rate: float = math.inf
    """Samples that a node decodes per second."""
    step_rate: float = math.inf
    """Samples that a node trains on per second."""
    epochs: int = 2
    seed: int = 0
    sizes: Sequence[int] | None = field(default=None, repr=False)
    """Size of each sample, if known."""


@dataclass
class Result:
    """Result of a simulation, for each epoch if they differ."""

    epoch_seconds: list[float]
    limited_by: list[str]
    bytes_per_node: list[float]
    requests_per_node: list[float]
    requests_per_second: list[float]
    """Requests of all nodes, which the store must answer."""
    cache_hits: list[float]
    """Share of the blocks that were on the node's disk."""
    open_seconds: float
    first_batch_seconds: float
    shuffle_quality: float
    """1: batches are as mixed as after a full shuffle; 1 / batch size: each is one stretch of storage."""
    index_bytes: float
    memory_per_rank: float

    def document(self) -> dict[str, Any]:
        """The result as plain data for JSON."""
        return asdict(self)


def simulate(setup: Setup) -> Result:
    """Computes one epoch after the other for one node; the others are like it."""
    _check(setup)
    node = _Node(setup)
    seconds, limits, fetched, requests, rates, hits = [], [], [], [], [], []
    for epoch in range(setup.epochs):
        made = node.epoch(epoch)
        needs = node.needs(made)
        limit = max(needs, key=lambda name: needs[name])
        seconds.append(needs[limit] + (node.start() if epoch == 0 else 0.0))
        limits.append(limit)
        fetched.append(made.bytes)
        requests.append(made.requests)
        rates.append(made.requests * setup.nodes / max(seconds[-1], 1e-9))
        hits.append(made.hits)
    return Result(
        epoch_seconds=seconds,
        limited_by=limits,
        bytes_per_node=fetched,
        requests_per_node=requests,
        requests_per_second=rates,
        cache_hits=hits,
        open_seconds=_OPENING_TRIPS * setup.latency,
        first_batch_seconds=node.first_batch(),
        shuffle_quality=_quality(setup),
        index_bytes=setup.samples * _INDEX_BYTES,
        memory_per_rank=_BUDGET[setup.shuffle]
        + 3 * setup.batch_size * 3 * 224 * 224 * 4
        + min(setup.samples, 65_536) * 4,
    )


def _check(setup: Setup) -> None:
    if setup.cache is not None and setup.samples / setup.nodes > _MOST_CACHED:
        raise OptionError(f"cache: more than {_MOST_CACHED:,} samples on a node are not simulated; take fewer samples")
    if setup.shuffle not in _BUDGET:
        raise OptionError(f"shuffle: {setup.shuffle!r} is not one of {', '.join(_BUDGET)}")
    for name in ("samples", "nodes", "ranks_per_node", "batch_size", "epochs", "bandwidth", "sample_bytes"):
        if not getattr(setup, name) > 0:
            raise OptionError(f"{name}: {getattr(setup, name)!r} is not above 0")


@dataclass
class _Epoch:
    bytes: float
    requests: float
    hits: float
    mean: float
    at_once: int


class _Node:
    """One node: its share of each epoch, and the content of its disk."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        world = setup.nodes * setup.ranks_per_node
        self._share = setup.samples / setup.nodes
        self._world = world
        self._kept: OrderedDict[int, None] = OrderedDict()
        if setup.sizes is not None:
            self._ends = np.cumsum(np.asarray(setup.sizes, dtype=np.int64))

    def epoch(self, epoch: int) -> _Epoch:
        """Requests and bytes of this node in one epoch."""
        simulated, total, count, touched, missed = 0, 0.0, 0, 0, 0
        cached = self._setup.cache is not None
        for samples in self._planned(epoch):
            simulated += samples.size
            starts, ends = self._joined_requests(samples)
            if not cached:
                total += float((ends - starts).sum())
                count += starts.size
                continue
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
                for block in range(start // _CACHE_BLOCK, (end - 1) // _CACHE_BLOCK + 1):
                    touched += 1
                    missed += not self._is_cached(block)
        if cached:
            # The last block of the data is not full.
            blocks = self._size() / _CACHE_BLOCK
            total, count = missed * _CACHE_BLOCK * blocks / math.ceil(blocks), missed
        scale = self._share / max(simulated, 1)
        at_once = (_CACHE_REQUESTS if cached else _REQUESTS) * self._setup.ranks_per_node
        hits = 1 - missed / touched if touched else 0.0
        return _Epoch(total * scale, count * scale, hits, total / max(count, 1), at_once)

    def needs(self, made: _Epoch) -> dict[str, float]:
        """Seconds that each resource needs for the epoch, if the others cost nothing."""
        setup = self._setup
        link = min(setup.bandwidth, setup.total_bandwidth / setup.nodes)
        # Each request waits, then shares the link with the others that are in flight.
        waves = math.ceil(made.requests / made.at_once)
        waiting = waves * setup.latency + made.requests * made.mean / link / made.at_once
        return {
            "bandwidth": made.bytes / link,
            "latency": waiting,
            "decoding": self._share / setup.decode_rate,
            "training": self._share / setup.step_rate,
        }

    def first_batch(self) -> float:
        """Seconds from the start of a loader to its first batch."""
        setup = self._setup
        link = min(setup.bandwidth, setup.total_bandwidth / setup.nodes)
        batch = setup.batch_size * setup.ranks_per_node
        waves = math.ceil(setup.batch_size / _REQUESTS) if setup.shuffle != "none" else 1
        fetch = batch * setup.sample_bytes / link
        return (_INDEX_TRIPS + waves) * setup.latency + fetch + batch / setup.decode_rate

    def start(self) -> float:
        """Seconds before anything runs in parallel."""
        return _INDEX_TRIPS * self._setup.latency

    def _size(self) -> float:
        return self._setup.samples * self._setup.sample_bytes

    def _is_cached(self, block: int) -> bool:
        if block in self._kept:
            self._kept.move_to_end(block)
            return True
        self._kept[block] = None
        # Blocks that a process has open stay readable when they are evicted from the disk.
        most = max((self._setup.cache or 0) / _CACHE_BLOCK, _CACHE_OPEN * self._setup.ranks_per_node)
        if len(self._kept) > most:
            self._kept.popitem(last=False)
        return False

    def _planned(self, epoch: int) -> Iterator[np.ndarray[Any, Any]]:
        """Samples of this node, as many at a time as the planner looks ahead: one batch, two, four, ..."""
        setup = self._setup
        batch = setup.batch_size
        most = max(1, int(_BUDGET[setup.shuffle] * 8 / 9 / 2 / setup.sample_bytes / batch))
        # A block shuffle is planned window by window after its first batch.
        window = max(1, round(_BLOCK / setup.sample_bytes)) * _WINDOW / (batch * self._world)
        steps = math.ceil(setup.samples / (batch * self._world))
        # The content of a cache depends on everything before, so nothing can be scaled up.
        most_samples = _MOST_SAMPLES if setup.cache is None else _MOST_CACHED
        left = min(steps, math.ceil(most_samples / (batch * setup.ranks_per_node)))
        ranks = [self._samples(epoch, left, rank) for rank in range(setup.ranks_per_node)]
        step, ahead = 0, 1
        while left > 0:
            if setup.shuffle == "block" and step:
                ahead = max(1, math.ceil((step // window + 1) * window - step) if window > 1 else 1)
                most = ahead
            now = min(ahead, left, most, _MOST_BATCHES)
            for samples in ranks:
                yield samples[step * batch : (step + now) * batch]
            step, left, ahead = step + now, left - now, ahead * 2

    def _samples(self, epoch: int, steps: int, rank: int) -> np.ndarray[Any, Any]:
        """The samples of one rank of this node in its first steps: a slice of every global batch."""
        setup = self._setup
        batch = setup.batch_size
        first = (np.arange(steps, dtype=np.int64) * self._world + rank) * batch
        positions = (first[:, None] + np.arange(batch, dtype=np.int64)).reshape(-1)
        return _order(setup, epoch, positions[positions < setup.samples])

    def _joined_requests(self, samples: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Starts and ends of requests: neighbours are joined, up to the largest request."""
        if self._setup.sizes is not None:
            ends = self._ends[np.sort(samples)]
            starts = ends - np.asarray(self._setup.sizes, dtype=np.int64)[np.sort(samples)]
        else:
            starts = (np.sort(samples) * self._setup.sample_bytes).astype(np.int64)
            ends = starts + max(1, int(self._setup.sample_bytes))
        apart = np.flatnonzero(starts[1:] - ends[:-1] > _GAP)
        begins = starts[np.concatenate([[0], apart + 1])] if samples.size else starts
        stops = ends[np.concatenate([apart, [samples.size - 1]])] if samples.size else ends
        pieces = np.maximum(1, -(-(stops - begins) // _PART))
        if (pieces == 1).all():
            return begins, stops
        cut = [np.linspace(b, e, p + 1).astype(np.int64) for b, e, p in zip(begins, stops, pieces, strict=True)]
        return np.concatenate([c[:-1] for c in cut]), np.concatenate([c[1:] for c in cut])


def _order(setup: Setup, epoch: int, positions: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Samples at these positions: the same kind of order as the engine's, not the same numbers."""
    if setup.shuffle == "none" or positions.size == 0:
        return positions
    if setup.shuffle == "full":
        return _mixed(positions, setup.samples, setup.seed + 7919 * epoch)
    block = max(1, round(_BLOCK / setup.sample_bytes))
    window = block * _WINDOW
    blocks = math.ceil(setup.samples / block)
    which, inside = positions // window, positions % window
    result = np.empty_like(positions)
    for one in np.unique(which).tolist():
        mine = which == one
        size = min(window, setup.samples - one * window)
        place = _mixed(inside[mine], size, setup.seed + 104729 * epoch + one)
        number = np.minimum(one * _WINDOW + place // block, blocks - 1)
        drawn = _mixed(number, blocks, setup.seed + 7919 * epoch + 1)
        result[mine] = np.minimum(drawn * block + place % block, setup.samples - 1)
    return result


def _mixed(values: np.ndarray[Any, Any], size: int, seed: int) -> np.ndarray[Any, Any]:
    """Numbers below `size` in a random order: with a table if that is small, else each drawn independently.

    Drawn independently, a number may repeat; among a thousand million this does not affect the counts here.
    """
    if size <= _TABLE:
        table: np.ndarray[Any, Any] = _table_of(size, seed)[values]
        return table
    with np.errstate(over="ignore"):
        mixed = (values.astype(np.uint64) + np.uint64(seed)) * np.uint64(0x9E3779B97F4A7C15)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
        drawn: np.ndarray[Any, Any] = ((mixed ^ (mixed >> np.uint64(31))) % np.uint64(size)).astype(np.int64)
    return drawn


@lru_cache(maxsize=64)
def _table_of(size: int, seed: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).permutation(size)


def _quality(setup: Setup) -> float:
    """How much less the mean stored position varies from batch to batch than in storage order, compared with chance."""
    size = min(setup.batch_size * setup.nodes * setup.ranks_per_node, setup.samples)
    batches = min(200, setup.samples // size)
    if batches < 2:  # noqa: PLR2004 - one batch is all of it
        return 1.0
    chosen = np.random.default_rng(1).choice(setup.samples // size, batches, replace=False)
    most = min(size, 4096)
    means = [_order(setup, 0, n * size + np.linspace(0, size - 1, most).astype(np.int64)).mean() for n in chosen]
    by_chance = setup.samples**2 / 12 / most * (1 - size / setup.samples)
    return float(min(1.0, by_chance / max(float(np.var(means)), 1e-12)))


def _bytes(text: str) -> float:
    scale = {"k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15}
    text = text.strip().lower().removesuffix("b")
    try:
        return float(text[:-1]) * scale[text[-1]] if text[-1:] in scale else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size, such as 1.25G") from None


def _seconds(text: str) -> float:
    text = text.strip().lower()
    try:
        return float(text.removesuffix("ms")) / 1e3 if text.endswith("ms") else float(text.removesuffix("s"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time, such as 30ms") from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("feedline simulate", description="What an epoch would cost on a cluster.")
    parser.add_argument("path", nargs="?", help="a data set, for the number and size of its samples")
    parser.add_argument("--samples", type=int, help="instead of a data set: how many samples")
    parser.add_argument("--sample-bytes", type=_bytes, help="and how large one is, such as 110k")
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--ranks-per-node", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=256, help="of each rank")
    parser.add_argument("--bandwidth", type=_bytes, default=1.25e9, help="of a node, bytes per second [1.25G]")
    parser.add_argument("--total-bandwidth", type=_bytes, default=math.inf, help="of the store [no limit]")
    parser.add_argument("--latency", type=_seconds, default=0.03, help="until an answer begins [30ms]")
    parser.add_argument("--cache", type=_bytes, help="disk cache of each node [none]")
    parser.add_argument("--shuffle", choices=("full", "block", "none"), default="full")
    parser.add_argument("--decode-rate", type=float, default=math.inf, help="samples/s that a node decodes [no limit]")
    parser.add_argument("--step-rate", type=float, default=math.inf, help="samples/s that a node trains on [no limit]")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    return parser


def main(arguments: Sequence[str]) -> int:
    """The command line; returns the exit code."""
    parser = _parser()
    args = parser.parse_args(arguments)
    if (args.path is None) == (args.samples is None or args.sample_bytes is None):
        parser.error("give a data set, or --samples and --sample-bytes")
    known = {name: value for name, value in vars(args).items() if name in Setup.__dataclass_fields__}
    try:
        if args.path is not None:
            known.update(_measured(args.path))
        result = simulate(Setup(**known))
    except OptionError as error:
        parser.error(str(error))
    setup = Setup(**known)
    sys.stdout.write(json.dumps(result.document()) + "\n" if args.json else _table(setup, result))
    return 0


def _measured(path: str) -> dict[str, Any]:
    """Number and mean size of a data set's samples, from up to a thousand of them."""
    from ._opening import open as open_dataset  # noqa: PLC0415 - only for data that are there

    dataset = open_dataset(path)
    count = len(dataset)
    if not count:
        raise OptionError(f"{path}: no samples")
    measured = range(0, count, max(1, count // 1000))
    sizes = [sum(len(value) for value in dataset[n].values() if isinstance(value, (bytes, str))) for n in measured]
    return {"samples": count, "sample_bytes": max(1.0, sum(sizes) / len(sizes))}


def _table(setup: Setup, result: Result) -> str:
    size = setup.samples * setup.sample_bytes
    lines = [
        f"data             {setup.samples:,} samples, {_shown(size)}B; index {_shown(result.index_bytes)}B",
        f"nodes            {setup.nodes:,} with {setup.ranks_per_node} ranks, batch {setup.batch_size} on each",
        f"first batch      {result.first_batch_seconds:.2f} s after opening, which takes {result.open_seconds:.2f} s",
        f"shuffle quality  {result.shuffle_quality:.3f} (1: as a full shuffle)",
        f"memory per rank  {_shown(result.memory_per_rank)}B",
    ]
    for epoch, seconds in enumerate(result.epoch_seconds):
        line = f"epoch {epoch}          {_time(seconds)}, limited by {result.limited_by[epoch]}; per node "
        line += f"{_shown(result.bytes_per_node[epoch])}B in {result.requests_per_node[epoch]:,.0f} requests; "
        line += f"store {result.requests_per_second[epoch]:,.0f} requests/s"
        if setup.cache is not None:
            line += f"; cache hits {100 * result.cache_hits[epoch]:.0f} %"
        lines.append(line)
    return "\n".join(lines) + "\n"


def _shown(value: float) -> str:
    for unit, scale in (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value:.0f} "


def _time(seconds: float) -> str:
    if seconds < 120:  # noqa: PLR2004 - two minutes
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"  # noqa: PLR2004
