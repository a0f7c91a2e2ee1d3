"""Values whose size differs from sample to sample."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from ._checks import part, place, refuse
from .errors import DataError, OptionError

__all__ = ["Ragged", "Views"]


class Ragged:
    """A batch of values of different sizes: one flat array and the offset of each value.

    `data` is the flat array, `offsets` (int64, one more than there are values) has the start of each value, `shapes` is
    a list of tuples if values have shapes, else `None`. `r[i]` is a view, not a copy; text is returned as `str` and
    JSON as the parsed value. `r[1:3]` is a batch of those values.

    >>> import numpy as np
    >>> r = Ragged(np.arange(5), np.array([0, 2, 5]))
    >>> len(r), r[1].tolist(), [len(v) for v in r]
    (2, [2, 3, 4], [2, 3])
    >>> len(r[:1]), r[::-1].tolist()[0].tolist()
    (1, [2, 3, 4])
    """

    def __init__(
        self,
        data: Any,
        offsets: Any,
        shapes: Sequence[tuple[int, ...]] | None = None,
        *,
        kind: str = "numbers",
        bounds: list[int] | None = None,
        name: str | None = None,
        samples: list[int] | None = None,
    ) -> None:
        if bounds is None and (getattr(data, "ndim", 0) != 1 or not hasattr(data, "dtype")):
            refuse("data", data, "a flat array")
        self.data = data
        self.offsets = offsets
        self.shapes = None if shapes is None else list(shapes)
        self.kind = kind
        # For messages: the field, and the sample numbers.
        self._name, self._samples = name, samples
        # The offsets as Python numbers; given if they cannot be read from `offsets` (a device, plain DLPack).
        self._bounds: list[int] = _bounds(offsets) if bounds is None else bounds

    def __len__(self) -> int:
        return len(self._bounds) - 1

    def __getitem__(self, index: int | slice) -> Any:
        count = len(self)
        if isinstance(index, slice):
            return self._part(part("index", index, count))
        at = place("index", index, count, "value")
        view = self.data[self._bounds[at] : self._bounds[at + 1]]
        if self.shapes is not None:
            return view.reshape(self.shapes[at])
        if self.kind == "text":
            return bytes(memoryview(view.numpy() if hasattr(view, "numpy") else view)).decode("utf-8", "replace")
        if self.kind == "json":
            text = bytes(memoryview(view.numpy() if hasattr(view, "numpy") else view))
            return self._parsed(at, text) if text else None
        return view

    def _part(self, chosen: range) -> Ragged:
        """Some of the values: a view if they are consecutive, else a copy."""
        shapes = None if self.shapes is None else [self.shapes[at] for at in chosen]
        bounds = [self._bounds[at] for at in chosen] + ([self._bounds[chosen[-1] + 1]] if chosen else [0])
        if chosen.step == 1:
            low, high = bounds[0], bounds[-1]
            data = self.data[low:high]
        else:
            pieces = [self.data[self._bounds[at] : self._bounds[at + 1]] for at in chosen]
            bounds = [0, *accumulate(len(piece) for piece in pieces)]
            low, data = 0, _joined(self.data, pieces)
        starts = [bound - low for bound in bounds]
        offsets = self.offsets.new_tensor(starts) if hasattr(self.offsets, "new_tensor") else np.array(starts, np.int64)
        samples = None if self._samples is None else [self._samples[at] for at in chosen]
        return Ragged(data, offsets, shapes, kind=self.kind, bounds=starts, name=self._name, samples=samples)

    def _parsed(self, at: int, text: bytes) -> Any:
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raised = DataError(f"{self._place(at)}: not readable as JSON: {error}")
            raised.field, raised.sample = self._name, None if self._samples is None else self._samples[at]
            raise raised from None

    def _place(self, at: int) -> str:
        where = f"value {at} of the batch" if self._samples is None else f"sample {self._samples[at]}"
        return where if self._name is None else f"{where}, field '{self._name}'"

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    def lengths(self) -> list[int]:
        """Number of elements of each value."""
        return [high - low for low, high in zip(self._bounds[:-1], self._bounds[1:], strict=True)]

    def tolist(self) -> list[Any]:
        """All values, as a list."""
        return list(self)

    def to(self, *args: Any, **kwargs: Any) -> Ragged:
        """The same on another device (torch only)."""
        if not hasattr(self.data, "to"):
            raise OptionError("to: only torch's tensors can be moved to other devices; use output='torch'")
        try:
            data, offsets = self.data.to(*args, **kwargs), self.offsets.to(*args, **kwargs)
        except (TypeError, ValueError, RuntimeError) as error:
            raise OptionError(f"to: torch refuses: {str(error).splitlines()[0]}") from error
        return Ragged(
            data, offsets, self.shapes, kind=self.kind, bounds=self._bounds, name=self._name, samples=self._samples
        )

    def __repr__(self) -> str:
        return f"Ragged({len(self)} values, {self._bounds[-1]} elements of {self.data.dtype}, kind={self.kind!r})"


class Views(Ragged):
    """Values that lie in mapped files, here and there: `r[i]` is a view of its file, `data` joins all, which copies.

    >>> import numpy as np
    >>> file = np.arange(10, dtype=np.uint8)
    >>> r = Views(np.array([[0, 6, 2], [0, 1, 3]]), lambda number: file)
    >>> len(r), r[0].tolist(), np.shares_memory(r[1], file), r.offsets.tolist(), r.data.tolist()
    (2, [6, 7], True, [0, 2, 5], [6, 7, 1, 2, 3])
    """

    def __init__(self, places: np.ndarray[Any, Any], file: Callable[[int], Any], *, name: str | None = None) -> None:
        # File, start and length of each value.
        self._places, self._file = places, file
        self._rows: list[list[int]] | None = None
        self.shapes, self.kind = None, "bytes"
        self._name, self._samples = name, None

    @property
    def data(self) -> Any:
        """All values in one flat array: a copy."""
        return _joined(self._like(), list(self))

    @property
    def offsets(self) -> Any:
        """Start of each value in `data`, and the end of the last."""
        starts, like = np.array(self._bounds, np.int64), self._like()
        if not hasattr(like, "new_tensor"):
            return starts
        import torch  # noqa: PLC0415 - optional, imported only where used

        return torch.from_numpy(starts)

    @property
    def _bounds(self) -> list[int]:  # type: ignore[override]
        return [0, *np.cumsum(self._places[:, 2]).tolist()]

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            chosen = part("index", index, len(self))
            return Views(self._places[list(chosen)], self._file, name=self._name)
        if self._rows is None:
            self._rows = self._places.tolist()
        file, start, length = self._rows[place("index", index, len(self), "value")]
        return self._file(file)[start : start + length]

    def __iter__(self) -> Iterator[Any]:
        file = self._file
        return (file(number)[start : start + length] for number, start, length in self._places.tolist())

    def lengths(self) -> list[int]:
        """Number of bytes of each value."""
        return [int(length) for length in self._places[:, 2]]

    def to(self, *args: Any, **kwargs: Any) -> Ragged:
        """The same on another device (torch only): a copy."""
        return Ragged(self.data, self.offsets, kind=self.kind, name=self._name).to(*args, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles are copies: another process has not mapped the files."""
        return Ragged, (self.data, self.offsets, None)

    def _like(self) -> Any:
        return self._file(int(self._places[0, 0])) if len(self) else np.empty(0, np.uint8)

    def __repr__(self) -> str:
        return f"Ragged({len(self)} views, {self._bounds[-1]} bytes in mapped files, kind='bytes')"


def _bounds(offsets: Any) -> list[int]:
    found = offsets.tolist() if hasattr(offsets, "tolist") else offsets
    if not isinstance(found, list) or not found or not all(isinstance(bound, int) for bound in found):
        refuse("offsets", offsets, "an array of whole numbers, one more than there are values")
    return found


def _joined(like: Any, pieces: list[Any]) -> Any:
    if not pieces:
        return like[:0]
    if hasattr(like, "new_tensor"):
        import torch  # noqa: PLC0415 - optional, imported only where used

        return torch.cat(pieces)
    if isinstance(like, np.ndarray):
        return np.concatenate(pieces)
    import jax.numpy  # noqa: PLC0415 - optional, imported only where used

    return jax.numpy.concatenate(pieces)
