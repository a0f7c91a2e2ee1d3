"""Foreign values for `sampler=`: torch's samplers, lists, any iterable."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np

from feedline._checks import shown
from feedline.errors import OptionError

from .epochs import PerEpoch, SubsetRandom
from .own import Indices, Random, Sampler, Sequential, Weighted, whole_numbers

__all__ = ["translate"]


def translate(given: Any, samples: int) -> Sampler | None:
    """The sampler that `given` means for a data set of `samples` samples.

    torch's samplers are translated, so that every epoch has its own order. An object is refused if it would be read
    only once although its order changes.
    """
    if given is None or isinstance(given, Sampler):
        return given
    # torch's tensors have a method of that name.
    if callable(getattr(given, "indices", None)) and not hasattr(given, "__array__"):
        return PerEpoch(given)
    if callable(getattr(given, "set_epoch", None)):
        raise OptionError(
            f"sampler: a {type(given).__name__} would be read once, in its present epoch, and only this rank's part\n"
            "hint: fl.samplers.TorchDistributed(seed=..., shuffle=..., drop_last=...) gives its order of every epoch"
        )
    translated = _torchs(given, samples)
    return translated if translated is not None else Indices(_read(given))


def _torchs(given: Any, samples: int) -> Sampler | None:
    """One of torch's own samplers as feedline's; `None` for anything else."""
    # A user with such an object has imported torch.
    data: Any = sys.modules.get("torch.utils.data")
    kind = type(given)
    if data is None or kind not in _names(data):
        return None
    if kind is data.BatchSampler:
        raise OptionError("sampler: a BatchSampler gives batches, not samples\nhint: use sampler= and batch_size=")
    if kind is data.SubsetRandomSampler:
        _no_generator(given)
        return SubsetRandom(np.asarray(given.indices))
    if kind is data.WeightedRandomSampler:
        _no_generator(given)
        return Weighted(given.weights, given.num_samples, replacement=given.replacement)
    return _of_whole_data(given, samples, ordered=kind is data.SequentialSampler)


def _names(data: Any) -> tuple[type, ...]:
    names = ("BatchSampler", "RandomSampler", "SequentialSampler", "SubsetRandomSampler", "WeightedRandomSampler")
    return tuple(getattr(data, name) for name in names)


def _of_whole_data(given: Any, samples: int, *, ordered: bool) -> Sampler:
    """The meaning of torch's `SequentialSampler` and `RandomSampler`, which only know the number of samples."""
    count = len(given.data_source)
    if ordered:
        return Sequential() if count == samples else Indices(range(count))
    _no_generator(given)
    if count != samples:
        raise OptionError(
            f"sampler: a RandomSampler over {count} samples, but the data set has {samples}\n"
            f"hint: fl.samplers.SubsetRandom(range({count})) shuffles the first {count}"
        )
    # Without its own number it has as many as its data.
    return Random(replacement=given.replacement, num_samples=None if given.num_samples == count else given.num_samples)


def _no_generator(given: Any) -> None:
    if getattr(given, "generator", None) is not None:
        raise OptionError(
            f"sampler: the generator of a {type(given).__name__} would not be used: orders are drawn from seed=\n"
            "hint: leave it out; fl.samplers.TorchRandom(seed=..., loader=False) gives exactly torch's order"
        )


def _read(given: Any) -> np.ndarray[Any, Any]:
    """The indices; if they can be read again, checks that they are the same."""
    fixed = hasattr(given, "__array__") or isinstance(given, (Sequence, AbstractSet, Iterator))
    first = whole_numbers(given)
    if fixed or not isinstance(given, Iterable):
        return first
    again = whole_numbers(given)
    if not np.array_equal(first, again):
        raise OptionError(
            f"sampler: {shown(given)} gives another order each time, but would be read once, for all epochs\n"
            "hint: give it a method indices(epoch) that returns the order of every epoch; see docs/order.md"
        )
    return first
