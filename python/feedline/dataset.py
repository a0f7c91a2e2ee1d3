"""Data where they lie: [`open`][feedline.open] and what it gives."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Union

import numpy as np

from . import _feedline
from .errors import OptionError

__all__ = ["Dataset", "Mix", "concat", "mix", "open"]

Uri = Union[str, "os.PathLike[str]"]


class Dataset:
    """Samples by number. Made by [`open`][feedline.open], [`pack`][feedline.pack] and [`concat`][feedline.concat].

    Cheap to copy, picklable, safe to share between threads. `ds[i]` is a dict; images are `bytes` unless
    [`decoded`][feedline.Dataset.decoded] is used.
    """

    def __init__(self, core: _feedline.Dataset, *, decoded: bool = False) -> None:
        self._core = core
        self._decoded = decoded
        self._pickled = core.pickled()

    def __len__(self) -> int:
        return len(self._core)

    def __getitem__(self, index: int) -> dict[str, Any]:
        count = len(self)
        at = int(index) + count if index < 0 else int(index)
        if not 0 <= at < count:
            raise IndexError(f"sample {index} of {count}")
        sample = self._core.get(at, self._decoded)
        for name in self._pickled:  # only there when the user said allow_pickle=True
            if sample[name] is not None:
                sample[name] = pickle.loads(sample[name])  # noqa: S301
        return sample

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[index] for index in range(len(self)))

    @property
    def schema(self) -> dict[str, str]:
        """Field names and what they hold: `image`, `int`, `float`, `text`, `json`, `bytes` or `array`."""
        return dict(self._core.schema())

    @property
    def format(self) -> str:
        """The format's name, as `open` takes it."""
        return self._core.format()

    @property
    def uri(self) -> str:
        """What was opened."""
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
        """What was found but is not part of the data set: foreign files, unreadable folders."""
        return self._core.problems()

    def decoded(self) -> Dataset:
        """The same samples, with images as uint8 arrays (height, width, 3)."""
        return Dataset(self._core, decoded=True)

    def select(self, indices: Iterable[int]) -> Dataset:
        """Only these samples, in this order."""
        count = len(self)
        given = np.asarray(indices if hasattr(indices, "__array__") or isinstance(indices, range) else list(indices))
        if given.ndim != 1 or (given.size and not np.issubdtype(given.dtype, np.integer)):
            raise OptionError("select: not a list of whole numbers")
        chosen = np.where(given < 0, given + count, given).astype("<i8")
        outside = given[(chosen < 0) | (chosen >= count)]
        if outside.size:
            raise IndexError(f"sample {outside[0]} of {count}")
        return Dataset(self._core.select(chosen.tobytes()), decoded=self._decoded)

    def cached(self, cache_dir: Uri | None = None, *, pack: bool = True, image: str = "jpeg") -> Dataset:
        """The same samples, packed on this machine while they are read.

        The first epoch trains from wherever the data lie, and meanwhile a thread writes a pack with seek indexes below
        `cache_dir` (default: `$FEEDLINE_CACHE_DIR`, else the user's cache folder); as soon as it is complete, samples
        come from it. They are the same samples to the byte. The pack is found by the data's fingerprint, so changed
        data never meet an old one; an interrupted pack is gone on with, and processes share one. Data behind a network
        are fetched through the disk cache in the same folder, each byte once. With `pack=False` there is only that.

        [`copy_status`][feedline.Dataset.copy_status] tells how far it is.

        >>> import feedline as fl, time
        >>> ds = fl.open(example_folder).cached(tmp_path / "cache")
        >>> while not ds.copy_status["complete"]:
        ...     time.sleep(0.01)
        >>> len(ds), ds.format
        (12, 'folder')
        """
        folder = os.fspath(cache_dir) if cache_dir is not None else _default_cache()
        if not pack:
            return Dataset(self._core.with_cache_dir(folder), decoded=self._decoded)
        if image not in ("jpeg", "as-is"):
            raise OptionError(f"image: {image!r} changes an image's bytes; cached packs are jpeg or as-is")
        return Dataset(self._core.cached(folder, image), decoded=self._decoded)

    @property
    def copy_status(self) -> dict[str, Any] | None:
        """How far a [`cached`][feedline.Dataset.cached] data set's pack is; `None` for a data set without one.

        `folder`, `samples`, `total`, `complete`, and `failure`: the reason, if packing ended early (samples then keep
        coming from the source).
        """
        return self._core.copy_status()

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self._core.spec(), self._decoded)

    def __repr__(self) -> str:
        return f"Dataset({self.uri!r}, format={self.format!r}, samples={len(self)}, fields={list(self.schema)})"


def storage_text(options: Mapping[str, object] | None, cache_dir: Uri | None = None) -> str:
    """How to reach what is not on this machine, as the core takes it."""

    def text(value: object) -> str:
        return str(value).lower() if isinstance(value, bool) else str(value)

    nested = [name for name, value in (options or {}).items() if isinstance(value, Mapping)]
    if nested:
        raise OptionError(f"storage_options: {nested[0]} is a mapping; name each setting by itself")
    named = {name: text(value) for name, value in (options or {}).items() if value is not None}
    return json.dumps({"options": named, "cache_dir": None if cache_dir is None else os.fspath(cache_dir)})


def _default_cache() -> str:
    chosen = os.environ.get("FEEDLINE_CACHE_DIR")
    if chosen:
        return chosen
    root = os.environ.get("XDG_CACHE_HOME")
    return str((Path(root) if root else Path.home() / ".cache") / "feedline")


def _restore(spec: str, decoded: bool) -> Dataset:
    return Dataset(_feedline.Dataset.from_spec(spec), decoded=decoded)


class Mix(Dataset):
    """Several data sets by weight. Made by [`mix`][feedline.mix].

    As a data set it is all of them one after the other; a loader draws from them by weight.
    """

    def __init__(self, parts: Sequence[Dataset], weights: Sequence[float], epoch_samples: int) -> None:
        super().__init__(_feedline.Dataset.concat([part._core for part in parts]), decoded=parts[0]._decoded)  # noqa: SLF001
        self._parts = list(parts)
        self.weights = [float(weight) for weight in weights]
        """The weight of each data set."""
        self.epoch_samples = int(epoch_samples)
        """Samples per epoch."""

    @property
    def lengths(self) -> list[int]:
        """Samples of each data set."""
        return [len(part) for part in self._parts]

    def decoded(self) -> Dataset:
        """The same samples, with images as uint8 arrays (height, width, 3)."""
        return Mix([part.decoded() for part in self._parts], self.weights, self.epoch_samples)

    def __reduce__(self) -> tuple[Any, ...]:
        return Mix, (self._parts, self.weights, self.epoch_samples)

    def __repr__(self) -> str:
        parts = ", ".join(f"({part!r}, {weight})" for part, weight in zip(self._parts, self.weights, strict=True))
        return f"Mix([{parts}], epoch_samples={self.epoch_samples})"


def mix(parts: Iterable[tuple[Dataset, float]], epoch_samples: int | None = None) -> Mix:
    """Several data sets with the same fields, drawn from by weight.

    An epoch has `epoch_samples` samples (default: as many as all data sets together); each share is exact. The samples
    of a set come in shuffled cycles that go on from epoch to epoch: none repeats before all others were had.
    Weights can be changed between epochs with `Loader.set_weights`.

    >>> import feedline as fl
    >>> ds = fl.open(example_folder)
    >>> mixed = fl.mix([(ds.select(range(4)), 0.75), (ds.select(range(4, 12)), 0.25)], epoch_samples=8)
    >>> with fl.Loader(mixed, batch_size=8, decode="none", output="numpy") as loader:
    ...     [int((batch["index"] < 4).sum()) for batch in loader]
    [6]
    """
    pairs = list(parts)
    if not pairs:
        raise OptionError("mix: needs at least one data set")
    datasets, weights = [dataset for dataset, _ in pairs], [weight for _, weight in pairs]
    return Mix(datasets, weights, sum(map(len, datasets)) if epoch_samples is None else epoch_samples)


def open(  # noqa: A001 - the public contract names it so
    uri: Uri | Sequence[Uri],
    *,
    format: str = "auto",  # noqa: A002 - the public contract names it so
    fields: Mapping[str, str] | None = None,
    cache_dir: Uri | None = None,
    storage_options: Mapping[str, object] | None = None,
    on_change: str = "error",
    split: str | None = None,
    allow_pickle: bool = False,
    password: str | None = None,
    verify_hashes: bool = False,
) -> Dataset:
    """Opens data where they lie: a folder of images, a pack, tar files.

    `uri` is a path, a brace or glob pattern (`train-{000..146}.tar`, `*.tar`), or a list of those. `format` is found
    from the content unless given. `fields` picks and renames: `{"image": "jpg;jpeg;png", "label": "cls"}`.

    Some formats ask more. `split` picks one of several parts (`train`, `test`). Fields that are Python pickles are
    refused unless `allow_pickle`, since reading one can run any code; `ds[i]` then unpickles them, a loader hands out
    their bytes. `password` is for encrypted data, `verify_hashes` compares files with the hashes in their index.

    >>> import feedline as fl
    >>> ds = fl.open(example_folder)
    >>> ds.format, len(ds), ds.classes
    ('folder', 12, ['cat', 'dog', 'owl'])
    >>> sorted(ds[0])
    ['image', 'label', 'path']
    """
    if on_change != "error":
        raise OptionError(f"on_change: {on_change!r} is not supported; changed data are always an error")
    uris = [os.fspath(uri)] if isinstance(uri, (str, os.PathLike)) else [os.fspath(one) for one in uri]
    reading = {"split": split, "allow_pickle": allow_pickle, "password": password, "verify_hashes": verify_hashes}
    picked = list(fields.items()) if fields else None
    storage = storage_text(storage_options, cache_dir)
    return Dataset(_feedline.Dataset.open(uris, format, picked, json.dumps(reading), storage))


def concat(datasets: Iterable[Dataset]) -> Dataset:
    """Several data sets with the same fields, one after the other.

    >>> import feedline as fl
    >>> ds = fl.open(example_folder)
    >>> len(fl.concat([ds, ds.select([0, 1])]))
    14
    """
    parts = list(datasets)
    if not parts:
        raise OptionError("concat: needs at least one data set")
    core = _feedline.Dataset.concat([part._core for part in parts])  # noqa: SLF001 - same module family
    return Dataset(core, decoded=parts[0]._decoded)  # noqa: SLF001
