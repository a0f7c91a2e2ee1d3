"""Feedline's own samplers. They describe the order; the engine computes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from feedline._checks import flag, mapping, maybe, refuse, shown, text, whole
from feedline._signatures import Called
from feedline.errors import OptionError

__all__ = [
    "Balanced",
    "Block",
    "Buckets",
    "Indices",
    "Packed",
    "Random",
    "Sampler",
    "Sequential",
    "Weighted",
    "whole_numbers",
]

_count = maybe(whole)


def set_fields(sampler: object, **values: object) -> None:
    """Sets attributes of a frozen dataclass during construction."""
    for name, value in values.items():
        object.__setattr__(sampler, name, value)


def whole_numbers(indices: Any, name: str = "sampler") -> npt.NDArray[np.int64]:
    """A list of samples for the engine; an error for anything else."""
    try:
        array = np.asarray(indices) if hasattr(indices, "__array__") else np.asarray(list(indices))
    except (TypeError, ValueError, OverflowError, RuntimeError):
        refuse(name, indices, "a list of whole numbers")
    if array.ndim != 1 or (array.size and not np.issubdtype(array.dtype, np.integer)):
        raise OptionError(f"{name}: not a list of whole numbers: {shown(indices)}")
    ids = np.ascontiguousarray(array, dtype="<i8")
    negative = ids[ids < 0]
    if negative.size:
        raise OptionError(f"{name}: index {negative[0]} is negative")
    return ids


class Sampler(metaclass=Called):
    """The base of all samplers."""

    _kind = ""

    def to_spec(self) -> dict[str, Any]:
        """The sampler as plain data, without long lists: see `numbers`."""
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
    """In random order: every sample once, or each drawn independently with `replacement`.

    >>> Random()
    Random(replacement=False, num_samples=None)
    """

    _kind = "random"

    replacement: bool = False
    num_samples: int | None = None

    def __post_init__(self) -> None:
        set_fields(self, replacement=flag("replacement", self.replacement))
        set_fields(self, num_samples=_count("num_samples", self.num_samples))


@dataclass(frozen=True)
class Block(Sampler):
    """Quasi-random, like `shuffle="block"`: shuffles blocks of neighbours, and samples inside a window of blocks.

    >>> Block(block=256, window=16)
    Block(block=256, window=16)
    """

    _kind = "block"

    block: int | None = None
    window: int | None = None

    def __post_init__(self) -> None:
        for name in ("block", "window"):
            value = getattr(self, name)
            set_fields(self, **{name: None if value is None else whole(name, value, low=1)})


@dataclass(frozen=True)
class Balanced(Sampler):
    """Every class equally often, whatever its size; a class's samples come in shuffled cycles.

    >>> Balanced()
    Balanced(field='label', num_samples=None)
    """

    _kind = "balanced"

    field: str = "label"
    num_samples: int | None = None

    def __post_init__(self) -> None:
        set_fields(self, field=text("field", self.field), num_samples=_count("num_samples", self.num_samples))


class Weighted(Sampler):
    """Samples by weight, like torch's `WeightedRandomSampler`.

    >>> Weighted([1.0, 3.0, 0.0], num_samples=100)
    Weighted(<3 weights>, num_samples=100, replacement=True)
    """

    _kind = "weighted"

    def __init__(
        self, weights: npt.ArrayLike | Iterable[float], num_samples: int | None = None, *, replacement: bool = True
    ) -> None:
        try:
            given = weights if hasattr(weights, "__array__") or isinstance(weights, Sequence) else list(weights)  # type: ignore[arg-type]
            self.weights = np.ascontiguousarray(given)
        except (TypeError, ValueError, OverflowError, RuntimeError):
            refuse("weights", weights, "a list of numbers")
        if self.weights.ndim != 1 or isinstance(weights, (str, bytes)):
            refuse("weights", weights, "a list of numbers, one per sample")
        if self.weights.dtype.kind not in "fiub" and self.weights.size:
            refuse("weights", weights, "a list of numbers")
        self.weights = self.weights.astype("<f8")
        self.num_samples = _count("num_samples", num_samples)
        self.replacement = flag("replacement", replacement)

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
    """Exactly these samples, in this order, in every epoch; any iterable of indices becomes this.

    >>> Indices([4, 1, 1])
    Indices(<3 indices>)
    """

    _kind = "indices"

    def __init__(self, indices: npt.ArrayLike | Iterable[int]) -> None:
        self.indices = whole_numbers(indices)

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

    With `sizes`, an image goes to the (height, width) with the nearest aspect ratio; together with
    `T.BucketResize(sizes)` every batch then has exactly one of these sizes. Without, every height and width that occurs
    is a bucket. Sizes come from the index of a pack; for other formats every header is read once.

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
        set_fields(self, sizes=pairs_of_sizes(() if sizes is None else sizes))
        set_fields(self, field=None if field is None else text("field", field), shuffle=flag("shuffle", shuffle))


class Packed(Sampler):
    """Packs several samples into each row of a batch, up to `max_tokens`; `batch_size` counts rows.

    `lengths` are the tokens of every sample: a list, or the name of a field, whose value is the length (an integer) or
    whose array has that length. `patches={"image": 14}` adds an image's patches of 14 x 14 pixels. In every epoch the
    samples are shuffled and packed again, `window` of them at a time.
    A sample that is longer than a row is an error, or left out with `drop_long`.

    A batch has the samples of its rows one after the other, each field as usual, and besides: `batch["cu_seqlens"]`
    (int32: where each sample would begin in one flat sequence, and the end), `batch["position_ids"]` (int64: places
    within each sample, for that sequence) and `batch["rows"]` (int64: the first sample of each row, and the number
    of samples). The data of an array field that says the lengths are that flat sequence: `batch["tokens"].data`.
    Epochs may differ in length by a row or two: `len(loader)` is that of the next one.

    >>> Packed(4096, lengths=[700, 3000, 300])
    Packed(4096, lengths=<3 lengths>, patches={}, window=8192, drop_long=False, shuffle=True)
    """

    _kind = "packed"

    def __init__(
        self,
        max_tokens: int,
        lengths: str | npt.ArrayLike | Iterable[int],
        *,
        patches: Mapping[str, int] | None = None,
        window: int = 8192,
        drop_long: bool = False,
        shuffle: bool = True,
    ) -> None:
        self.max_tokens = whole("max_tokens", max_tokens, 1, 2**31 - 1)
        self.field = lengths if isinstance(lengths, str) else None
        self.lengths = None if isinstance(lengths, str) else whole_numbers(lengths, "lengths")
        given = mapping(
            "patches", {} if patches is None else patches, "sides of patches by image field, such as {'image': 14}"
        )
        self.patches = {text("patches", name): whole("patches", side, 1) for name, side in given.items()}
        self.window = whole("window", window, 1, 2**31 - 1)
        self.drop_long, self.shuffle = flag("drop_long", drop_long), flag("shuffle", shuffle)

    def to_spec(self) -> dict[str, Any]:
        """Without the lengths."""
        names = ("max_tokens", "field", "patches", "window", "drop_long", "shuffle")
        return {"kind": self._kind, **{name: getattr(self, name) for name in names}}

    def numbers(self) -> bytes | None:
        """The lengths."""
        return None if self.lengths is None else self.lengths.tobytes()

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, Packed) and self.to_spec() == other.to_spec()
        return same and self.numbers() == other.numbers()  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((self.max_tokens, self.field, self.numbers()))

    def __repr__(self) -> str:
        lengths = repr(self.field) if self.lengths is None else f"<{len(self.lengths)} lengths>"
        rest = f"window={self.window}, drop_long={self.drop_long}, shuffle={self.shuffle}"
        return f"Packed({self.max_tokens}, lengths={lengths}, patches={self.patches}, {rest})"


def pairs_of_sizes(sizes: Any) -> tuple[tuple[int, int], ...]:
    """Pairs of (height, width)."""
    allowed = "a list of (height, width)"
    try:
        pairs = [tuple(pair) for pair in sizes]
    except (TypeError, ValueError, RuntimeError):
        refuse("sizes", sizes, allowed)
    if isinstance(sizes, (str, bytes)) or any(len(pair) != 2 for pair in pairs):  # noqa: PLR2004 - height and width
        refuse("sizes", sizes, allowed)
    most = 2**32 - 1
    return tuple((whole("sizes", high, 1, most), whole("sizes", wide, 1, most)) for high, wide in pairs)
