"""Feedline's own samplers. The engine does the work; these say what is wanted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from feedline.errors import OptionError

__all__ = ["Balanced", "Block", "Buckets", "Indices", "Random", "Sampler", "Sequential", "Weighted"]


class Sampler:
    """The base of all samplers."""

    _kind = ""

    def to_spec(self) -> dict[str, Any]:
        """The sampler as plain data; long lists apart, see `numbers`."""
        spec: dict[str, Any] = {"kind": self._kind}
        spec.update({field.name: getattr(self, field.name) for field in fields(self)})  # type: ignore[arg-type]
        return spec

    def numbers(self) -> bytes | None:
        """Weights or indices, eight bytes each."""
        return None


@dataclass(frozen=True)
class Sequential(Sampler):
    """As stored.

    >>> Sequential()
    Sequential()
    """

    _kind = "sequential"


@dataclass(frozen=True)
class Random(Sampler):
    """In random order: every sample once, or each drawn on its own with `replacement`.

    >>> Random()
    Random(replacement=False, num_samples=None)
    """

    _kind = "random"

    replacement: bool = False
    num_samples: int | None = None


@dataclass(frozen=True)
class Block(Sampler):
    """Quasi-random, as `shuffle="block"`: blocks of neighbours shuffled, and samples inside a window of blocks.

    >>> Block(block=256, window=16)
    Block(block=256, window=16)
    """

    _kind = "block"

    block: int | None = None
    window: int | None = None


@dataclass(frozen=True)
class Balanced(Sampler):
    """Every class equally often, whatever their sizes; a class's samples come in shuffled cycles.

    >>> Balanced()
    Balanced(field='label', num_samples=None)
    """

    _kind = "balanced"

    field: str = "label"
    num_samples: int | None = None


class Weighted(Sampler):
    """Samples by weight, as torch's `WeightedRandomSampler`.

    >>> Weighted([1.0, 3.0, 0.0], num_samples=100)
    Weighted(<3 weights>, num_samples=100, replacement=True)
    """

    _kind = "weighted"

    def __init__(
        self, weights: npt.ArrayLike | Iterable[float], num_samples: int | None = None, *, replacement: bool = True
    ) -> None:
        given = weights if hasattr(weights, "__array__") or isinstance(weights, Sequence) else list(weights)  # type: ignore[arg-type]
        self.weights = np.ascontiguousarray(given, dtype="<f8")
        if self.weights.ndim != 1:
            raise OptionError(f"sampler: weights have {self.weights.ndim} dimensions, not one")
        self.num_samples = num_samples
        self.replacement = bool(replacement)

    def to_spec(self) -> dict[str, Any]:
        """Without the weights."""
        rest = {"num_samples": self.num_samples, "replacement": self.replacement}
        return {"kind": self._kind, "weights": [], **rest}

    def numbers(self) -> bytes:
        """The weights."""
        return self.weights.tobytes()

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Weighted)
            and self.to_spec() == other.to_spec()
            and np.array_equal(self.weights, other.weights)
        )

    def __hash__(self) -> int:
        return hash((self.numbers(), self.num_samples, self.replacement))

    def __repr__(self) -> str:
        rest = f"num_samples={self.num_samples}, replacement={self.replacement}"
        return f"Weighted(<{len(self.weights)} weights>, {rest})"


class Indices(Sampler):
    """Exactly these samples, in this order, in every epoch: what any iterable of indices becomes.

    >>> Indices([4, 1, 1])
    Indices(<3 indices>)
    """

    _kind = "indices"

    def __init__(self, indices: npt.ArrayLike | Iterable[int]) -> None:
        array = np.asarray(indices) if hasattr(indices, "__array__") else np.asarray(list(indices))  # type: ignore[arg-type]
        if array.ndim != 1 or (array.size and not np.issubdtype(array.dtype, np.integer)):
            raise OptionError("sampler: not a list of whole numbers")
        self.indices = np.ascontiguousarray(array, dtype="<i8")
        negative = self.indices[self.indices < 0]
        if negative.size:
            raise OptionError(f"sampler: index {negative[0]} is negative")

    def to_spec(self) -> dict[str, Any]:
        """Without the indices."""
        return {"kind": self._kind, "indices": []}

    def numbers(self) -> bytes:
        """The indices."""
        return self.indices.tobytes()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Indices) and np.array_equal(self.indices, other.indices)

    def __hash__(self) -> int:
        return hash(self.numbers())

    def __repr__(self) -> str:
        return f"Indices(<{len(self.indices)} indices>)"


@dataclass(frozen=True, init=False)
class Buckets(Sampler):
    """Batches of images of one shape, so that they stack without padding.

    With `sizes`, an image belongs to the (height, width) whose aspect ratio is nearest to its own; together with
    `T.BucketResize(sizes)` every batch then has exactly one of these sizes. Without, every height and width that occurs
    is a bucket of its own. Sizes come from the index of a pack; of other formats every header is read once.

    >>> Buckets([(192, 256), (256, 192)])
    Buckets(sizes=((192, 256), (256, 192)), field=None, shuffle=True)
    """

    _kind = "buckets"

    sizes: tuple[tuple[int, int], ...]
    field: str | None
    shuffle: bool

    def __init__(
        self, sizes: Iterable[Sequence[int]] | None = None, *, field: str | None = None, shuffle: bool = True
    ) -> None:
        pairs = tuple((int(height), int(width)) for height, width in sizes or ())
        object.__setattr__(self, "sizes", pairs)
        object.__setattr__(self, "field", field)
        object.__setattr__(self, "shuffle", bool(shuffle))
