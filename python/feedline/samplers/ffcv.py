"""FFCV's orders."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from feedline._checks import flag, listed, path, whole
from feedline.errors import DataError, OptionError

from .epochs import Ids, Order, Split, digest
from .mersenne import Words
from .own import set_fields, whole_numbers
from .torch import SEEDS, TorchDistributed

_SEEDS_PER_RUN = 912_300
_HEADER = np.dtype([("version", "<u2"), ("fields", "<u2"), ("page", "<u4"), ("samples", "<u8"), ("allocations", "<u8")])
_ALLOCATION = np.dtype([("sample", "<u8"), ("at", "<u8"), ("bytes", "<u8")])


@dataclass(frozen=True)
class FfcvRandom(Order):
    """FFCV's `OrderOption.RANDOM`; on several ranks, or with `distributed=True`, that of `distributed=True`.

    A loader without a seed chose one at random: read it from `loader.seed`, or start again.

    >>> FfcvRandom(seed=42).ranks(0, Split(10, 2, 1, False))[0].tolist()
    [5, 6, 0, 7, 3, 2, 4, 9, 1, 8]
    """

    seed: int = 0
    distributed: bool = False

    def __post_init__(self) -> None:
        set_fields(self, seed=whole("seed", self.seed, high=SEEDS), distributed=flag("distributed", self.distributed))

    def ranks(self, epoch: int, split: Split) -> list[Ids]:
        """NumPy's permutation, or torch's over ranks."""
        if self.distributed or split.world_size > 1:
            return list(TorchDistributed(seed=self.seed).ranks(epoch, split))
        return [np.random.default_rng(self.seed + epoch).permutation(split.samples)]


class FfcvQuasiRandom(Order):
    """FFCV's `OrderOption.QUASI_RANDOM`: samples from a moving buffer of pages, as many as two batches have samples.

    `pages` are the samples of each page of the file, in FFCV's order; `of(file)` reads them from
    a `.beton`. A pack made from that file keeps its sample numbers, so this order fits it too. FFCV has it for one
    process only. It shuffles what the epoch before left, and once before the first: so this is the order of a
    run from epoch 0 without a restart, and computing epoch `n` takes `n` shuffles, about 1 µs per sample
    each, unless the epoch before was computed last.

    >>> order = FfcvQuasiRandom([[], [0, 1, 2], [3, 4, 5]], seed=7)
    >>> sorted(order.ranks(0, Split(6, 1, 1, False))[0].tolist())
    [0, 1, 2, 3, 4, 5]
    """

    def __init__(self, pages: Iterable[Iterable[int]], seed: int = 0) -> None:
        found = listed("pages", pages, "the samples of each page")
        self.pages: list[list[int]] = [whole_numbers(page, "pages").tolist() for page in found]
        self.seed = whole("seed", seed)
        self._shuffled: tuple[int, list[list[int]]] = (-1, self.pages)

    @classmethod
    def of(cls, file: str | os.PathLike[str], seed: int = 0) -> FfcvQuasiRandom:
        """The order of this `.beton`."""
        return cls(_pages(Path(path("file", file))), seed)

    def ranks(self, epoch: int, split: Split) -> list[Ids]:
        """One list: FFCV has this order for one process only."""
        if split.world_size > 1:
            raise OptionError("sampler: FFCV has QUASI_RANDOM for one process only")
        # The next sample of a page is at its end.
        pages = [page[::-1] for page in self._after(epoch)]
        between = Words(self.seed * _SEEDS_PER_RUN + epoch)
        coming = list(range(len(pages)))
        between.shuffle(coming, high=False)
        return [np.asarray(_drawn(pages, coming, between, 2 * split.batch_size), dtype=np.int64)]

    def _after(self, epoch: int) -> list[list[int]]:
        """The pages as shuffled for `epoch`."""
        done, pages = self._shuffled if self._shuffled[0] <= epoch else (-1, self.pages)
        if done < epoch:
            pages = [list(page) for page in pages]
            # A loader reads epoch 0 once when it is created, and again when it starts.
            for number in [0] * (done < 0) + list(range(done + 1, epoch + 1)):
                inside = Words(self.seed * _SEEDS_PER_RUN + number)
                for page in pages:
                    inside.shuffle(page, high=True)
            self._shuffled = (epoch, pages)
        return pages

    def name(self, split: Split) -> str:
        """Includes the batch size, which determines the size of the buffer."""
        flat = [sample for page in self.pages for sample in (*page, -1)]
        rest = f"seed={self.seed}, batch_size={split.batch_size}"
        return f"FfcvQuasiRandom(<{len(self.pages)} pages #{digest(flat)}>, {rest})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FfcvQuasiRandom) and (self.pages, self.seed) == (other.pages, other.seed)

    def __hash__(self) -> int:
        return hash((len(self.pages), self.seed))

    def __repr__(self) -> str:
        return f"FfcvQuasiRandom(<{len(self.pages)} pages>, seed={self.seed})"


def _drawn(pages: list[list[int]], coming: list[int], between: Words, room: int) -> list[int]:
    """Samples, each the next of a page drawn from the buffer; an empty page is replaced by another."""
    coming = [page for page in reversed(coming) if pages[page]]
    buffer: list[int] = []
    drawn: list[int] = []
    while True:
        while coming and len(buffer) < room:
            buffer.append(coming.pop())
        if not buffer:
            return drawn
        page = buffer[between.below(len(buffer), high=False)]
        drawn.append(pages[page].pop())
        if not pages[page]:
            buffer.remove(page)


def _pages(file: Path) -> list[list[int]]:
    """The samples of each page. FFCV stores them as sets, so the order is that of a Python set."""
    size = file.stat().st_size
    with file.open("rb") as opened:
        head = np.frombuffer(opened.read(_HEADER.itemsize), dtype=_HEADER)
        if not head.size or head["version"][0] != 2 or head["page"][0] == 0:  # noqa: PLR2004 - the only one there is
            raise DataError(f"{file}: not a .beton file of version 2")
        at = int(head["allocations"][0])
        if not _HEADER.itemsize <= at <= size:
            raise DataError(f"{file}: the allocation table would begin at {at} of {size} bytes")
        opened.seek(at)
        rest = opened.read()
    table = np.frombuffer(rest[: len(rest) - len(rest) % _ALLOCATION.itemsize], dtype=_ALLOCATION)
    if not table.size:
        raise DataError(f"{file}: all fields are numbers, so there are no pages; use FfcvRandom")
    shift = np.uint64(int(head["page"][0]).bit_length() - 1)
    numbers = (table["at"] >> shift).tolist()
    if table["at"].max() >= size:
        raise DataError(f"{file}: the allocation table points beyond the end of the file")
    sets: list[set[int]] = [set() for _ in range(max(numbers) + 1)]
    for sample, page in zip(table["sample"].tolist(), numbers, strict=True):
        sets[page].add(sample)
    return [list(page) for page in sets]
