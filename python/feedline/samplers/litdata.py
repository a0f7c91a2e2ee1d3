"""LitData's order."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from feedline._checks import flag, path, whole
from feedline.errors import DataError, OptionError

from .epochs import Ids, Order, Split, digest
from .own import set_fields, whole_numbers

# A worker's share: chunks by number, each with the sample numbers of the worker's part.
_Share = list[tuple[int, range]]


@dataclass(frozen=True, init=False, repr=False)
class LitData(Order):
    """The order of LitData's `StreamingDataset(shuffle=...)` under a `StreamingDataLoader`, on one node.

    `chunks` are the samples of each chunk; `of(folder)` reads them from `index.json`. `num_workers` is the number of
    *its* workers, which this order depends on (0 counts as 1, as there). `window` is `item_shuffle_window` of LitData
    0.2.76, where 0 is a full shuffle of each chunk; for versions without it, set `window=None`. On several
    ranks LitData drops samples that do not fill a batch on each; so must the loader (`drop_last=True`).

    >>> order = LitData([8] * 6, num_workers=2, window=None)
    >>> order.ranks(0, Split(48, 8, 1, False))[0][:8].tolist()
    [41, 45, 43, 40, 42, 47, 44, 46]
    """

    chunks: tuple[int, ...]
    seed: int
    num_workers: int
    shuffle: bool
    window: int | None

    def __init__(
        self,
        chunks: Iterable[int],
        *,
        seed: int = 42,
        num_workers: int = 1,
        shuffle: bool = True,
        window: int | None = 256,
    ) -> None:
        sizes = tuple(whole_numbers(chunks, "chunks").tolist())
        set_fields(self, chunks=sizes, seed=whole("seed", seed, high=2**32 - 1))
        set_fields(self, num_workers=max(1, whole("num_workers", num_workers, high=2**16)))
        set_fields(self, shuffle=flag("shuffle", shuffle), window=None if window is None else whole("window", window))

    @classmethod
    def of(
        cls,
        folder: str | os.PathLike[str],
        *,
        seed: int = 42,
        num_workers: int = 1,
        shuffle: bool = True,
        window: int | None = 256,
    ) -> LitData:
        """The order of the data set in this folder."""
        index = Path(path("folder", folder))
        index = index / "index.json" if index.is_dir() else index
        try:
            sizes = [int(chunk["chunk_size"]) for chunk in json.loads(index.read_text())["chunks"]]
        except (ValueError, KeyError, TypeError) as reason:
            raise DataError(f"{index}: not an index of LitData ({reason!r})") from reason
        return cls(sizes, seed=seed, num_workers=num_workers, shuffle=shuffle, window=window)

    def ranks(self, epoch: int, split: Split) -> list[Ids]:
        """Every rank's workers take turns, batch by batch."""
        total = sum(self.chunks)
        if total != split.samples:
            raise OptionError(f"sampler: the chunks have {total} samples, the data set {split.samples}")
        if split.world_size > 1 and not split.drop_last:
            raise OptionError(
                "sampler: on several ranks LitData drops the samples that are left over; set drop_last=True"
            )
        number = epoch + 1  # LitData counts from 1
        shares = self._shares(number, split)
        lists = [self._items(share, number) for share in shares]
        per_rank = self.num_workers
        starts = range(0, len(lists), per_rank)
        return [_turns(lists[start : start + per_rank], split.batch_size) for start in starts]

    def _shares(self, number: int, split: Split) -> list[_Share]:
        """Chunks in this epoch's order, given to one worker after the other until each has its batches."""
        ends = np.cumsum((0, *self.chunks)).tolist()
        chunks = [(at, range(ends[at], ends[at + 1])) for at in range(len(self.chunks))]
        if self.shuffle:
            order = np.random.RandomState([self.seed, number]).permutation(len(chunks))
            chunks = [chunks[at] for at in order]
        shares: list[_Share] = []
        remaining = [chunk for chunk in chunks if chunk[1]][::-1]
        for wanted in self._budgets(split):
            share: _Share = []
            missing = wanted
            while missing:
                chunk, samples = remaining.pop()
                part, rest = samples[:missing], samples[missing:]
                share.append((chunk, part))
                missing -= len(part)
                if rest:
                    remaining.append((chunk, rest))
            shares.append(share)
        return shares

    def _budgets(self, split: Split) -> list[int]:
        """Number of samples of every worker of every rank: whole batches; the first workers get one more."""
        batches = split.samples // split.batch_size // split.world_size
        each, more = divmod(batches, self.num_workers)
        rank = [(each + (at < more)) * split.batch_size for at in range(self.num_workers)]
        budgets = rank * split.world_size
        if not split.drop_last:
            budgets[-self.num_workers + more] += split.samples - sum(budgets)
        return budgets

    def _items(self, share: _Share, number: int) -> Ids:
        """A worker's samples in order."""
        # Older versions seed by the worker's chunks and the place among them, newer ones by all chunks and the chunk's
        # number.
        own = self.window is None
        seeds = [(len(share), at) if own else (len(self.chunks), chunk) for at, (chunk, _) in enumerate(share)]
        parts = [
            self._shuffled(part, [self.seed, count, number, which])
            for (count, which), (_, part) in zip(seeds, share, strict=True)
        ]
        return np.concatenate([np.empty(0, dtype=np.int64), *parts])

    def _shuffled(self, part: range, seed: list[int]) -> Ids:
        items = np.arange(part.start, part.stop, dtype=np.int64)
        if not self.shuffle or len(items) < 2:  # noqa: PLR2004 - one sample has one order
            return items
        random = np.random.RandomState(seed)
        if self.window is None or self.window <= 1:
            return random.permutation(items)
        blocks = [items[at : at + self.window].tolist() for at in range(0, len(items), self.window)]
        for block in blocks:
            random.shuffle(block)
        if len(blocks) > 1:
            random.shuffle(blocks)
        return np.asarray([item for block in blocks for item in block], dtype=np.int64)

    def name(self, split: Split) -> str:
        """Includes the split, on which the order depends."""
        batches = f"batches of {split.batch_size} on {split.world_size} ranks"
        return f"{self!r} #{digest(self.chunks)}, {batches}"

    def __repr__(self) -> str:
        rest = f"seed={self.seed}, num_workers={self.num_workers}, shuffle={self.shuffle}, window={self.window}"
        return f"LitData(<{len(self.chunks)} chunks>, {rest})"


def _turns(workers: list[Ids], batch_size: int) -> Ids:
    """A rank's order: a batch of every worker in turn. Only the very last batch may be short."""
    longest = max(len(items) for items in workers)
    rounds = range(0, longest, batch_size)
    return np.concatenate(
        [np.empty(0, dtype=np.int64), *(items[at : at + batch_size] for at in rounds for items in workers)]
    )
