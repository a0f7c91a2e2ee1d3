"""Values whose size differs from sample to sample."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

__all__ = ["Ragged"]


class Ragged:
    """A batch of values of different sizes: one flat array and where each value begins.

    `data` is the flat array, `offsets` (int64, one more than there are values) says where each begins, `shapes` is a
    list of tuples where values have a shape of their own, else `None`. `r[i]` is a view, not a copy; text comes as
    `str` and JSON as what it says.

    >>> import numpy as np
    >>> r = Ragged(np.arange(5), np.array([0, 2, 5]))
    >>> len(r), r[1].tolist(), [len(v) for v in r]
    (2, [2, 3, 4], [2, 3])
    """

    def __init__(
        self,
        data: Any,
        offsets: Any,
        shapes: Sequence[tuple[int, ...]] | None = None,
        *,
        kind: str = "numbers",
        bounds: list[int] | None = None,
    ) -> None:
        self.data = data
        self.offsets = offsets
        self.shapes = None if shapes is None else list(shapes)
        self.kind = kind
        # The offsets as Python numbers; given where they cannot be read back from `offsets` (a device, plain DLPack).
        self._bounds: list[int] = offsets.tolist() if bounds is None else bounds

    def __len__(self) -> int:
        return len(self._bounds) - 1

    def __getitem__(self, index: int) -> Any:
        count = len(self)
        at = index + count if index < 0 else index
        if not 0 <= at < count:
            raise IndexError(f"value {index} of {count}")
        view = self.data[self._bounds[at] : self._bounds[at + 1]]
        if self.shapes is not None:
            return view.reshape(self.shapes[at])
        if self.kind == "text":
            return bytes(memoryview(view.numpy() if hasattr(view, "numpy") else view)).decode("utf-8", "replace")
        if self.kind == "json":
            text = bytes(memoryview(view.numpy() if hasattr(view, "numpy") else view))
            return json.loads(text) if text else None
        return view

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    def lengths(self) -> list[int]:
        """Elements of each value."""
        return [high - low for low, high in zip(self._bounds[:-1], self._bounds[1:], strict=True)]

    def tolist(self) -> list[Any]:
        """All values, as a list."""
        return list(self)

    def to(self, *args: Any, **kwargs: Any) -> Ragged:
        """The same on another device (torch only)."""
        data, offsets = self.data.to(*args, **kwargs), self.offsets.to(*args, **kwargs)
        return Ragged(data, offsets, self.shapes, kind=self.kind, bounds=self._bounds)

    def __repr__(self) -> str:
        return f"Ragged({len(self)} values, {self._bounds[-1]} elements of {self.data.dtype}, kind={self.kind!r})"
