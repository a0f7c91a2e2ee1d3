"""Data sets: samples by number, concatenated or mixed data sets. [`open`][feedline.open] returns one."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, overload

import numpy as np

from . import _feedline
from ._checks import choice, flag, image_mode, listed, part, place, real, refuse, whole
from ._lookalike import PlannedBatch
from ._parting import bounds, chosen_numbers, draws
from ._paths import Uri, local_text
from ._signatures import called
from .errors import OptionError, OutOfRangeError

__all__ = ["Dataset", "Mix", "concat", "mix", "refuse_mix"]


class Dataset:
    """Samples by number. Returned by [`open`][feedline.open], [`pack`][feedline.pack] and [`concat`][feedline.concat].

    Cheap to copy, picklable, safe to share between threads. `ds[i]` is a dict; images are `bytes` unless
    [`decoded`][feedline.Dataset.decoded] is used.
    """

    def __init__(self, core: _feedline.Dataset, *, decoded: dict[str, str] | None = None, page: int = 0) -> None:
        self._opened = core
        self._process = os.getpid()
        self._decoded = decoded
        self._page = page
        self._pickled = core.pickled()

    @property
    def _core(self) -> _feedline.Dataset:
        """The engine's data set, reopened in a forked child.

        The child has none of the parent's threads, but all locks are as they were at the fork: one held by a thread
        would stay locked for ever. So only the description is used, which has no lock.
        """
        if self._process != os.getpid():
            self._opened = _feedline.Dataset.from_spec(self._opened.spec())
            self._process = os.getpid()
        return self._opened

    def __len__(self) -> int:
        return len(self._core)

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, index: slice) -> Dataset: ...

    @overload
    def __getitem__(self, index: str) -> Any: ...

    def __getitem__(self, index: int | slice | str) -> Any:
        """A sample by number, a part by slice (`ds[0:3]`, a data set), or one field of all samples by name.

        A field of numbers is an array, any other a list.

        >>> import feedline as fl
        >>> ds = fl.open(example_folder)
        >>> ds["label"].tolist(), len(ds[-3:])
        ([0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2], 3)
        """
        if isinstance(index, str):
            return self._column(index)
        count = len(self)
        if isinstance(index, slice):
            return self.select(part("index", index, count))
        sample = self._core.get(place("index", index, count, "sample"), self._decoded, self._page)
        if self._decoded is not None:
            for name, kind in self._core.schema():
                if kind == "video" and sample[name] is not None:
                    sample[name] = _feedline.Video(sample[name])
        for name in self._pickled:  # only if the user set allow_pickle=True
            if sample[name] is not None:
                sample[name] = pickle.loads(sample[name])  # noqa: S301
        return sample

    def __getitems__(self, indices: Iterable[int]) -> Any:
        """Several samples at once, as torch's `DataLoader` requests them; a batch planned by a loader comes from it."""
        if isinstance(indices, PlannedBatch):
            return indices.batch()
        return [self[index] for index in listed("indices", indices, "a list of samples")]

    def _column(self, name: str) -> Any:
        kinds = self.schema
        if name not in kinds:
            raise OptionError(f"there is no field {name!r}; the data set has: {', '.join(kinds)}")
        if (self._decoded is not None and kinds[name] in ("image", "video")) or name in self._pickled:
            return [self[index][name] for index in range(len(self))]
        return self._core.column(name)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[index] for index in range(len(self)))

    @property
    def schema(self) -> dict[str, str]:
        """Field names and kinds: `image`, `int`, `float`, `text`, `json`, `bytes`, `array`, `audio` or `video`."""
        return dict(self._core.schema())

    @property
    def units(self) -> dict[str, str]:
        """Units of date and time fields, which are integers: `timestamp[ms]`, `date32[day]`, `duration[us]`, ..."""
        return dict(self._core.units())

    @property
    def format(self) -> str:
        """Name of the format, as `open` accepts it."""
        return self._core.format()

    @property
    def uri(self) -> str:
        """The address that was opened."""
        return self._core.uri()

    @property
    def classes(self) -> list[str] | None:
        """Class names by label, if the source has them."""
        return self._core.classes()

    @property
    def fingerprint(self) -> str:
        """32 hex digits that change when the data change."""
        return self._core.fingerprint()

    @property
    def problems(self) -> list[dict[str, Any]]:
        """Things found that are not part of the data set: foreign files, unreadable folders, members of no sample."""
        return self._core.problems()

    @called
    def decoded(self, *, mode: str | Mapping[str, str] = "RGB", page: int = 0) -> Dataset:
        """The same samples, with images as arrays (height, width, channels) of the file's numbers.

        `mode` is as in [`Loader`][feedline.Loader], for all image fields or by field: `"RGB"` gives uint8 arrays
        (height, width, 3), `"index"` the classes of a mask (height, width), `"unchanged"` all numbers of the file.
        `page` is the page of images with several pages (TIFF), counted from 0.

        A video has `frames(indices)` (uint8: frames, height, width, 3), `times`, `fps`, `duration` and a length.

        >>> import feedline as fl
        >>> ds = fl.open(example_folder)
        >>> ds.decoded()[0]["image"].shape, ds.decoded(mode="L")[0]["image"].shape
        ((60, 80, 3), (60, 80))
        """
        fields = [name for name, kind in self.schema.items() if kind == "image"]
        given, page = image_mode("mode", mode), whole("page", page, low=0, high=2**32 - 1)
        if isinstance(given, str):
            return Dataset(self._core, decoded=dict.fromkeys(fields, given), page=page)
        for name in given:
            if name not in fields:
                refuse("mode", name, f"the name of an image field ({', '.join(fields) or 'there is none'})")
        return Dataset(self._core, decoded={name: given.get(name, "RGB") for name in fields}, page=page)

    @called
    def select(self, indices: Iterable[int]) -> Dataset:
        """Selects these samples, in this order; or those for which a mask of booleans, one per sample, is true.

        >>> import feedline as fl
        >>> ds = fl.open(example_folder)
        >>> len(ds.select(ds["label"] == 1)), len(ds.select([0, -1]))
        (4, 2)
        """
        count = len(self)
        given = chosen_numbers("indices", indices)
        if given.dtype == np.bool_:
            if given.size != count:
                raise OptionError(f"indices: a mask of {given.size} for a data set of {count} samples")
            given = np.flatnonzero(given)
        chosen = np.where(given < 0, given + count, given).astype("<i8")
        outside = given[(chosen < 0) | (chosen >= count)]
        if outside.size:
            raise OutOfRangeError(f"indices: {outside[0]} is not a sample of {count}")
        return Dataset(self._core.select(chosen.tobytes()), decoded=self._decoded, page=self._page)

    @called
    def split(self, *parts: float | Sequence[float], seed: int | None = 0) -> tuple[Dataset, ...]:
        """Splits the data set at random: `train, test = ds.split(0.9)`, `ds.split(0.8, 0.1, 0.1)`.

        Parts are fractions, or numbers of samples; the rest is one more part. Which sample is in which part
        depends only on `seed` and the number of samples; each part keeps the order of storage. With `seed=None`
        nothing is shuffled: the first part is the beginning.

        >>> import feedline as fl
        >>> train, test = fl.open(example_folder).split(0.75, seed=1)
        >>> len(train), len(test)
        (9, 3)
        """
        given = [*parts[0]] if len(parts) == 1 and isinstance(parts[0], Sequence) else list(parts)
        cuts = pairwise(bounds(given, len(self)))
        order = np.arange(len(self)) if seed is None else np.argsort(draws(len(self), seed), kind="stable")
        return tuple(self.select(np.sort(order[low:high])) for low, high in cuts)

    @called
    def cached(self, cache_dir: Uri | None = None, *, pack: bool = True, image: str = "jpeg") -> Dataset:
        """The same samples, packed on this machine while they are read.

        The first epoch reads from the source, while a thread writes a pack with seek indexes below
        `cache_dir` (default: `$FEEDLINE_CACHE_DIR`, else the user's cache folder); as soon as it is complete, samples
        are read from it. They are the same samples to the byte. The pack is stored under the data's fingerprint, so
        changed data never use an old pack; an interrupted pack is resumed, and processes share one. Remote data are
        fetched through the disk cache in the same folder, each byte once. With `pack=False` there is only the disk
        cache.

        [`copy_status`][feedline.Dataset.copy_status] shows the progress.

        >>> import feedline as fl, time
        >>> ds = fl.open(example_folder).cached(tmp_path / "cache")
        >>> while not ds.copy_status["complete"]:
        ...     time.sleep(0.01)
        >>> len(ds), ds.format
        (12, 'folder')
        """
        folder = local_text("cache_dir", cache_dir) if cache_dir is not None else _default_cache()
        choice("image", image, ("jpeg", "as-is"))  # the others change an image's bytes
        if not flag("pack", pack):
            return Dataset(self._core.with_cache_dir(folder), decoded=self._decoded, page=self._page)
        return Dataset(self._core.cached(folder, image), decoded=self._decoded, page=self._page)

    @property
    def copy_status(self) -> dict[str, Any] | None:
        """Progress of the pack of a [`cached`][feedline.Dataset.cached] data set; `None` for a data set without one.

        `folder`, `samples`, `total`, `complete`, and `failure`: the reason, if packing ended early (samples are then
        still read from the source).
        """
        return self._core.copy_status()

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self._core.spec(), self._decoded, self._page)

    def _repr_html_(self) -> str:
        from ._looking import dataset_html  # noqa: PLC0415 - it looks at loaders, too

        return dataset_html(self)

    def __repr__(self) -> str:
        return f"Dataset({self.uri!r}, format={self.format!r}, samples={len(self)}, fields={list(self.schema)})"


def _default_cache() -> str:
    chosen = os.environ.get("FEEDLINE_CACHE_DIR")
    if chosen:
        return chosen
    root = os.environ.get("XDG_CACHE_HOME")
    return str((Path(root) if root else Path.home() / ".cache") / "feedline")


def _restore(spec: str, decoded: dict[str, str] | None, page: int) -> Dataset:
    return Dataset(_feedline.Dataset.from_spec(spec), decoded=decoded, page=page)


class Mix(Dataset):
    """Several data sets by weight. Returned by [`mix`][feedline.mix].

    As a data set it is their concatenation; a loader draws from them by weight.
    """

    def __init__(self, parts: Sequence[Dataset], weights: Sequence[float], epoch_samples: int) -> None:
        first = parts[0]
        core = _feedline.Dataset.concat([part._core for part in parts])  # noqa: SLF001
        super().__init__(core, decoded=first._decoded, page=first._page)  # noqa: SLF001
        self._parts = list(parts)
        self.weights = [float(weight) for weight in weights]
        """The weight of each data set."""
        self.epoch_samples = int(epoch_samples)
        """Samples per epoch."""

    @property
    def lengths(self) -> list[int]:
        """Samples of each data set."""
        return [len(part) for part in self._parts]

    def decoded(self, *, mode: str | Mapping[str, str] = "RGB", page: int = 0) -> Mix:
        """The same samples, with images as arrays; see `Dataset.decoded`."""
        return self._of([part.decoded(mode=mode, page=page) for part in self._parts])

    def cached(self, cache_dir: Uri | None = None, *, pack: bool = True, image: str = "jpeg") -> Mix:
        """The same mix, with each data set packed on this machine; see `Dataset.cached`."""
        return self._of([part.cached(cache_dir, pack=pack, image=image) for part in self._parts])

    def _of(self, parts: Sequence[Dataset]) -> Mix:
        """The same mix of these data sets."""
        return Mix(parts, self.weights, self.epoch_samples)

    @property
    def copy_status(self) -> dict[str, Any] | None:
        """Progress of all packs of a [`cached`][feedline.Dataset.cached] mix together."""
        found = [status for status in (part.copy_status for part in self._parts) if status is not None]
        if not found:
            return None
        return {
            "folder": found[0]["folder"],
            "samples": sum(status["samples"] for status in found),
            "total": sum(status["total"] for status in found),
            "complete": all(status["complete"] for status in found),
            "failure": next((status["failure"] for status in found if status["failure"]), None),
        }

    def select(self, indices: Iterable[int]) -> Dataset:
        """Refused: the selection would have no weights."""
        del indices
        raise OptionError(
            "select: samples selected from a mix would no longer be drawn by weight\n"
            "hint: select from each data set, then mix"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return Mix, (self._parts, self.weights, self.epoch_samples)

    def __repr__(self) -> str:
        parts = ", ".join(f"({part!r}, {weight})" for part, weight in zip(self._parts, self.weights, strict=True))
        return f"Mix([{parts}], epoch_samples={self.epoch_samples})"


@called
def mix(parts: Iterable[tuple[Dataset, float]], epoch_samples: int | None = None) -> Mix:
    """Several data sets with the same fields, drawn from by weight.

    An epoch has `epoch_samples` samples (default: as many as all data sets together); each share is exact. The samples
    of a set come in shuffled cycles that continue from epoch to epoch: none repeats before all others were used.
    Weights can be changed between epochs with `Loader.set_weights`.

    A mix among the data sets is flattened: its own data sets share its weight in proportion, so the
    result is one flat mix.

    >>> import feedline as fl
    >>> ds = fl.open(example_folder)
    >>> mixed = fl.mix([(ds.select(range(4)), 0.75), (ds.select(range(4, 12)), 0.25)], epoch_samples=8)
    >>> with fl.Loader(mixed, batch_size=8, decode="none", output="numpy") as loader:
    ...     [int((batch["index"] < 4).sum()) for batch in loader]
    [6]
    >>> fl.mix([(ds, 1), (mixed, 1)]).weights
    [1.0, 0.75, 0.25]
    """
    pairs = [each for pair in _pairs(parts) for each in _flat(*pair)]
    if sum(weight for _, weight in pairs) <= 0:
        raise OptionError(f"mix: the weights {[weight for _, weight in pairs]} are all 0")
    datasets, weights = [dataset for dataset, _ in pairs], [weight for _, weight in pairs]
    count = sum(map(len, datasets)) if epoch_samples is None else whole("epoch_samples", epoch_samples)
    return Mix(datasets, weights, count)


def refuse_mix(dataset: Dataset) -> None:
    """For functions that write samples: files have no weights."""
    if isinstance(dataset, Mix):
        raise OptionError("source: a mix has weights, which files do not\nhint: write each data set, then mix those")


def _pairs(parts: Any) -> list[tuple[Dataset, float]]:
    """Data sets with their weights."""
    allowed = "a list of (data set, weight)"
    if isinstance(parts, Dataset):
        refuse("mix", parts, allowed)
    found = listed("mix", parts, allowed)
    if not found:
        raise OptionError("mix: needs at least one data set")
    for pair in found:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2 or not isinstance(pair[0], Dataset):  # noqa: PLR2004
            refuse("mix", pair, "(data set, weight)")
    return [(dataset, real("mix: weight", weight, 0.0)) for dataset, weight in found]


def _flat(dataset: Dataset, weight: float) -> list[tuple[Dataset, float]]:
    """The data sets of a mix, with their shares of its weight."""
    if not isinstance(dataset, Mix):
        return [(dataset, weight)]
    total = sum(dataset.weights)
    return [(part, weight * own / total) for part, own in zip(dataset._parts, dataset.weights, strict=True)]  # noqa: SLF001


@called
def concat(datasets: Iterable[Dataset]) -> Dataset:
    """Several data sets with the same fields, one after the other.

    >>> import feedline as fl
    >>> ds = fl.open(example_folder)
    >>> len(fl.concat([ds, ds.select([0, 1])]))
    14
    """
    if isinstance(datasets, Dataset):
        refuse("concat", datasets, "a list of data sets")
    parts = listed("concat", datasets, "a list of data sets")
    if not parts:
        raise OptionError("concat: needs at least one data set")
    for each in parts:
        if not isinstance(each, Dataset):
            refuse("concat", each, "a data set")
    if any(isinstance(part, Mix) for part in parts):
        raise OptionError(
            "concat: a mix in a concatenation would no longer be drawn by weight\n"
            "hint: fl.mix takes mixes among its data sets"
        )
    core = _feedline.Dataset.concat([part._core for part in parts])  # noqa: SLF001 - same module family
    return Dataset(core, decoded=parts[0]._decoded, page=parts[0]._page)  # noqa: SLF001


if hasattr(os, "register_at_fork"):
    # No thread may be changing shared state at the fork: it would stay half-changed in the child.
    os.register_at_fork(
        before=_feedline.before_fork, after_in_parent=_feedline.after_fork, after_in_child=_feedline.after_fork
    )
