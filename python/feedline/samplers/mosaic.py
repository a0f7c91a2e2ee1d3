"""MosaicML Streaming's orders."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from feedline._checks import flag, path, shown, whole
from feedline.errors import DataError, OptionError

from .epochs import Ids, Order, Split, digest
from .own import set_fields, whole_numbers

_Spans = list[tuple[int, int]]


@dataclass(frozen=True, init=False, repr=False)
class Mosaic(Order):
    """The order of MosaicML's `StreamingDataset` of one stream, neither repeated nor subsampled.

    `shards` are the samples of each shard; `of(folder)` reads them from `index.json`. `method` is `shuffle_algo`:
    `"naive"`, `"py1s"`, `"py2s"`, `"py1br"` or `"py1e"`; `shuffle=False` is as stored, but divided the same way.
    `num_canonical_nodes` and `block_size` have Streaming's defaults, which depend on `nodes`: to resume a run on
    another number of nodes, give the first run's. The workers of its `DataLoader` do not matter.

    >>> order = Mosaic([5, 3, 4, 6], method="py1e", num_canonical_nodes=2, block_size=6)
    >>> order.shuffled(epoch=1).tolist()
    [5, 6, 7, 13, 12, 8, 11, 9, 10, 15, 14, 17, 16, 1, 0, 4, 3, 2]
    """

    shards: tuple[int, ...]
    method: str
    seed: int
    num_canonical_nodes: int
    block_size: int
    nodes: int
    shuffle: bool

    def __init__(
        self,
        shards: Iterable[int],
        *,
        method: str = "py1e",
        seed: int = 9176,
        num_canonical_nodes: int | None = None,
        block_size: int | None = None,
        nodes: int = 1,
        shuffle: bool = True,
    ) -> None:
        if not isinstance(method, str) or method not in _METHODS:
            raise OptionError(f"method: {shown(method)} is not one of {', '.join(_METHODS)}")
        many = 2**31
        nodes = whole("nodes", nodes, 1, many)
        default = 64 * nodes if method in ("py1s", "py2s") else nodes
        canonical = (
            default if num_canonical_nodes is None else whole("num_canonical_nodes", num_canonical_nodes, 0, many)
        )
        canonical = canonical or default
        if canonical % nodes and nodes % canonical:
            raise OptionError(f"sampler: neither of {canonical} canonical and {nodes} physical nodes divides the other")
        block = 0 if block_size is None else whole("block_size", block_size, high=2**53)
        set_fields(self, shards=tuple(whole_numbers(shards, "shards").tolist()), method=method)
        set_fields(self, seed=whole("seed", seed), shuffle=flag("shuffle", shuffle), nodes=nodes)
        set_fields(self, num_canonical_nodes=canonical, block_size=block or max(4_000_000 // canonical, 1 << 18))

    @classmethod
    def of(
        cls,
        folder: str | os.PathLike[str],
        *,
        method: str = "py1e",
        seed: int = 9176,
        num_canonical_nodes: int | None = None,
        block_size: int | None = None,
        nodes: int = 1,
        shuffle: bool = True,
    ) -> Mosaic:
        """The order of the data set in this folder."""
        index = Path(path("folder", folder))
        index = index / "index.json" if index.is_dir() else index
        try:
            sizes = [int(shard["samples"]) for shard in json.loads(index.read_text())["shards"]]
        except (ValueError, KeyError, TypeError) as reason:
            raise DataError(f"{index}: not an index of MosaicML Streaming ({reason!r})") from reason
        return cls(
            sizes,
            method=method,
            seed=seed,
            num_canonical_nodes=num_canonical_nodes,
            block_size=block_size,
            nodes=nodes,
            shuffle=shuffle,
        )

    def shuffled(self, epoch: int) -> Ids:
        """The epoch's permutation of all samples, before it is divided."""
        return _METHODS[self.method](self, epoch)

    def ranks(self, epoch: int, split: Split) -> list[Ids]:
        """Each rank's part of the permutation."""
        samples = sum(self.shards)
        if samples != split.samples:
            raise OptionError(f"sampler: the shards have {samples} samples, the data set {split.samples}")
        if split.world_size % self.nodes:
            raise OptionError(f"sampler: {split.world_size} ranks do not divide over {self.nodes} nodes")
        places = self._places(samples, split.world_size // self.nodes)
        if not self.shuffle:
            return places
        order = self.shuffled(epoch)
        return [order[each] for each in places]

    def _places(self, samples: int, ranks_per_node: int) -> list[Ids]:
        """The places of the permutation for each rank."""
        rows = self._rows(samples)
        flat = rows.transpose().reshape(-1)
        found = []
        for node in range(self.nodes):
            own = flat[node :: self.nodes]
            missing = -len(own) % ranks_per_node
            if missing:
                if ranks_per_node + missing - 1 > len(own):
                    raise OptionError(
                        f"sampler: {len(own)} samples are too few for the {ranks_per_node} ranks of a node"
                    )
                # Filled up with samples that other ranks had shortly before.
                first = len(own) - ranks_per_node - missing + 1
                own = np.concatenate([own, own[first : first + missing]])
            found += [own[rank::ranks_per_node] for rank in range(ranks_per_node)]
        return found

    def _rows(self, samples: int) -> Ids:
        """One row of places per canonical node, all of one length: a short row repeats its last place."""
        canonical = self.num_canonical_nodes
        if samples < canonical or (samples == canonical and canonical < self.nodes):
            raise OptionError(f"sampler: {samples} samples are too few for {canonical} canonical nodes")
        starts = np.arange(canonical + 1, dtype=np.int64) * samples // canonical
        length = -(-samples // canonical)
        rows: Ids = np.minimum(starts[:-1, None] + np.arange(length), starts[1:, None] - 1)
        ratio = self.nodes // canonical
        missing = -length % ratio if ratio > 1 else 0
        if missing:
            width = length + missing
            first = width - 2 * missing - ratio + 1
            if first < 0:
                raise OptionError(f"sampler: {samples} samples are too few for {self.nodes} nodes")
            rows = np.concatenate([rows, rows[:, first : first + missing]], axis=1)
        return rows

    def name(self, split: Split) -> str:
        """Without the ranks: the global batches are the same on any number of them."""
        del split
        return f"{self!r} #{digest(self.shards)}"

    def __repr__(self) -> str:
        where = f"num_canonical_nodes={self.num_canonical_nodes}, block_size={self.block_size}, nodes={self.nodes}"
        how = f"method={self.method!r}, seed={self.seed}"
        return f"Mosaic(<{len(self.shards)} shards>, {how}, {where}, shuffle={self.shuffle})"


def _naive(order: Mosaic, epoch: int) -> Ids:
    return np.random.default_rng(order.seed + epoch).permutation(sum(order.shards))


def _nodes(order: Mosaic, epoch: np.random.Generator) -> list[_Spans]:
    """The shards as spans of samples, shuffled once for the run, cut evenly into nodes, shuffled again in each."""
    ends = np.cumsum((0, *order.shards)).tolist()
    spans: _Spans = list(pairwise(ends))
    np.random.default_rng(order.seed).shuffle(spans)
    nodes = _cut(spans, ends[-1], order.num_canonical_nodes)
    for node in nodes:
        epoch.shuffle(node)
    return nodes


def _cut(spans: _Spans, samples: int, nodes: int) -> list[_Spans]:
    """Spans in order, divided at each node's share; a span over the boundary is cut in two."""
    remaining = spans[::-1]
    found = []
    had = 0
    for node in range(nodes):
        wanted = samples * (node + 1) // nodes
        own: _Spans = []
        while remaining:
            begin, end = remaining.pop()
            taken = min(end - begin, wanted - had)
            if taken == end - begin:
                own.append((begin, end))
                had += taken
                continue
            if taken:
                own.append((begin, begin + taken))
                had += taken
            remaining.append((begin + taken, end))
            break
        found.append(own)
    return found


def _py1s(order: Mosaic, epoch: int) -> Ids:
    random = np.random.default_rng(order.seed + epoch)
    return _shards_shuffled([span for node in _nodes(order, random) for span in node], random)


def _shards_shuffled(spans: _Spans, random: np.random.Generator) -> Ids:
    parts = [np.empty(0, dtype=np.int64)]
    for begin, end in spans:
        part = np.arange(begin, end, dtype=np.int64)
        random.shuffle(part)
        parts.append(part)
    return np.concatenate(parts)


def _py2s(order: Mosaic, epoch: int) -> Ids:
    """Shuffles samples inside shards before they are cut into nodes, and once more after."""
    run = np.random.default_rng(order.seed)
    ends = np.cumsum((0, *order.shards)).tolist()
    spans: _Spans = list(pairwise(ends))
    run.shuffle(spans)
    before = _shards_shuffled(spans, run)
    # The same cut, now as places in `before`.
    marks = np.cumsum([0, *(end - begin for begin, end in spans)]).tolist()
    nodes = _cut(list(pairwise(marks)), ends[-1], order.num_canonical_nodes)
    random = np.random.default_rng(order.seed + epoch)
    places = np.concatenate([_py2s_node(node, random) for node in nodes])
    return np.take(before, places)


def _py2s_node(node: _Spans, random: np.random.Generator) -> Ids:
    random.shuffle(node)
    return _shards_shuffled(node, random)


def _py1br(order: Mosaic, epoch: int) -> Ids:
    """Shuffles runs of about `block_size` samples, whose start differs in every node."""
    random = np.random.default_rng(order.seed + epoch)
    nodes = _nodes(order, random)
    least, most = int(0.75 * order.block_size), int(1.25 * order.block_size)
    staggers = random.integers(0, least, (order.num_canonical_nodes,))
    found = []
    for node, stagger in zip(nodes, staggers.tolist(), strict=True):
        ids = np.concatenate([np.empty(0, dtype=np.int64), *(np.arange(begin, end) for begin, end in node)])
        blocks = []
        at = 0
        while at < len(ids):
            size = int(random.integers(least, most))
            start, stop = max(at - stagger, 0), min(at + size - stagger, len(ids))
            blocks.append((start, stop))
            at += stop - start
        for start, stop in blocks:
            random.shuffle(ids[start:stop])
        found.append(ids)
    return np.concatenate(found)


def _py1e(order: Mosaic, epoch: int) -> Ids:
    """Moves every sample by a random distance of at most half a block."""
    random = np.random.default_rng(order.seed + epoch)
    nodes = _nodes(order, random)
    least, most = int(0.75 * order.block_size), int(1.25 * order.block_size)
    found = []
    for node in nodes:
        ids = _shards_shuffled(node, random)
        places = np.arange(len(ids), dtype=np.float64)
        at = 0
        for begin, end in node:
            size = end - begin
            reach = max((int(random.integers(least, most)) - size) / 2, 0)
            low, high = max(-reach, -at), min(reach, len(ids) - at - size)
            places[at : at + size] += random.uniform(low=low, high=high, size=size)
            at += size
        found.append(ids[np.argsort(places)])
    return np.concatenate(found)


_METHODS: dict[str, Callable[[Mosaic, int], Ids]] = {
    "naive": _naive,
    "py1s": _py1s,
    "py2s": _py2s,
    "py1br": _py1br,
    "py1e": _py1e,
}
