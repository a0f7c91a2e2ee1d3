"""The loader: batches of tensors from a data set."""

from __future__ import annotations

import atexit
import json
import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from . import _feedline
from .callback import Callables, split
from .dataset import Dataset, Mix, Uri
from .dataset import open as open_dataset
from .errors import ClosedError, DataError, OptionError, StateError
from .options import DEFAULTS, LoaderOptions, refuse_unknown
from .output import Converter
from .ranks import discover
from .samplers import Indices, Order, PerEpoch, Sampler, Split
from .samplers.epochs import HasIndices, Timetable
from .transforms import Transform

__all__ = ["Loader"]

_UNSET: Any = object()
_OPEN: weakref.WeakSet[Loader] = weakref.WeakSet()


class Loader:
    """Batches of a data set, as dicts of tensors.

    Threads, not processes, do the work; order and augmentation depend only on `(seed, epoch, sample index)`. Iterate
    it once per epoch: each `iter()` starts the next epoch (or the one set with
    [`set_epoch`][feedline.Loader.set_epoch]). Batches are yours to keep.

    >>> import feedline as fl
    >>> from feedline import transforms as T
    >>> train = [T.RandomResizedCrop(32), T.RandomHorizontalFlip(), T.Normalize.imagenet()]
    >>> with fl.Loader(fl.open(example_folder), batch_size=4, shuffle=True, transforms=train, output="numpy") as loader:
    ...     for batch in loader:
    ...         print(batch["image"].shape, batch["image"].dtype, batch["label"].shape)
    (4, 3, 32, 32) float32 (4,)
    (4, 3, 32, 32) float32 (4,)
    (4, 3, 32, 32) float32 (4,)
    """

    def __init__(
        self,
        dataset: Dataset | Uri | Sequence[Uri],
        *,
        batch_size: int = _UNSET,
        shuffle: bool | str = _UNSET,
        seed: int = _UNSET,
        drop_last: bool = _UNSET,
        sampler: Sampler | HasIndices | Iterable[int] | None = _UNSET,
        transforms: Sequence[Transform] | Mapping[str, Any] | None = _UNSET,
        fields: Sequence[str] | None = _UNSET,
        num_workers: int = _UNSET,
        prefetch: int | None = _UNSET,
        rank: int | None = _UNSET,
        world_size: int | None = _UNSET,
        output: str = _UNSET,
        device: Any = _UNSET,
        dtype: Any = _UNSET,
        memory_format: Any = _UNSET,
        pin_memory: bool = _UNSET,
        non_blocking: bool = _UNSET,
        timeout: float | None = _UNSET,
        on_error: str = _UNSET,
        max_errors: int | None = _UNSET,
        collate: str | Mapping[str, str] | None = _UNSET,
        cache_dir: Uri | None = _UNSET,
        memory_budget: int | None = _UNSET,
        persistent_workers: bool = _UNSET,
        auto_tune: bool = _UNSET,
        multiprocessing_context: Any = _UNSET,
        decode: str = _UNSET,
        max_pixels: int | None = _UNSET,
        options: LoaderOptions | None = None,
        **unknown: Any,
    ) -> None:
        refuse_unknown(unknown)
        arguments = locals()
        given = {name: arguments[name] for name in DEFAULTS if arguments[name] is not _UNSET}
        knobs = {**DEFAULTS, **(options.given() if options is not None else {}), **given}
        self._dataset = dataset if isinstance(dataset, Dataset) else open_dataset(dataset)
        if knobs["cache_dir"] is not None:
            self._dataset = _cached(self._dataset, knobs["cache_dir"])
        self._knobs = _resolve(knobs)
        self._converter = Converter(self._knobs)
        self._next = (0, 0)
        self._latest: _Progress | None = None
        self._weights: list[float] | None = None
        self._start()

    def _start(self) -> None:
        self._timetable = _timetable(self._knobs, self._dataset)
        spec, numbers = _core_options(self._knobs, self._dataset)
        if self._timetable is not None:
            spec["sampler"] = self._timetable.spec()
        functions = _functions(self._knobs["transforms"], self._dataset)
        if not functions and self._knobs["multiprocessing_context"] != "forkserver":
            raise OptionError("multiprocessing_context: only for T.Python transforms, of which there are none here")
        self._callables = Callables(functions, self._knobs) if functions else None
        self._core = _feedline.Loader(self._dataset._core, json.dumps(spec), numbers)  # noqa: SLF001 - same package
        if self._weights is not None:
            self._core.set_weights(self._weights)
        self._process = os.getpid()
        self._closed = False
        _OPEN.add(self)

    def __len__(self) -> int:
        return len(self._core)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        if self._process != os.getpid():
            # After a fork the threads exist only in the parent: begin anew with the same settings. The old core is
            # left alone; it knows that it is in the wrong process.
            self._start()
        epoch, first = self._next
        order = self._timetable.epoch(epoch) if self._timetable is not None else None
        core: Any = self._core.epoch(epoch, first, order)
        if self._callables is not None:
            core = self._callables.epoch(core, epoch)
        self._latest = _Progress(epoch, first, self._global_batch(), len(core))
        self._next = (epoch + 1, 0)
        return _Batches(self, core, self._latest)

    def _with_knobs(self, **changed: Any) -> Loader:
        """A loader over the same data at the same place, with some knobs changed."""
        other = Loader.__new__(Loader)
        other.__setstate__({**self.__getstate__(), "knobs": {**self._knobs, **changed}})
        return other

    def _global_batch(self) -> int:
        return int(self._knobs["batch_size"]) * int(self._knobs["world_size"])

    @property
    def dataset(self) -> Dataset:
        """The data set."""
        return self._dataset

    @property
    def batch_size(self) -> int:
        """Samples per batch on each rank."""
        return int(self._knobs["batch_size"])

    @property
    def epoch(self) -> int:
        """The epoch that the next `iter()` starts."""
        return self._next[0]

    @property
    def options(self) -> LoaderOptions:
        """The knobs in force."""
        return LoaderOptions(**self._knobs)

    def set_epoch(self, epoch: int) -> None:
        """The next `iter()` starts this epoch from its beginning, unless it is the one to be gone on with.

        Training loops call this at the start of every epoch; after `load_state_dict` the call for the restored epoch
        must not lose the restored place.
        """
        if epoch < 0:
            raise OptionError(f"epoch: {epoch} is negative")
        if int(epoch) != self._next[0] or self._latest is not None:
            self.seek(epoch)

    def seek(self, epoch: int, batch: int = 0) -> None:
        """The next `iter()` starts `epoch` at batch number `batch`. Takes no time, wherever that is."""
        if epoch < 0 or batch < 0:
            raise OptionError(f"seek: epoch {epoch}, batch {batch}: neither may be negative")
        if batch > len(self):
            raise OptionError(f"seek: batch {batch} of an epoch with {len(self)}")
        self._next = (int(epoch), int(batch) * self._global_batch())
        self._latest = None

    def skip(self, batches: int) -> None:
        """The next `iter()` starts this many batches after the place that `state_dict()` tells."""
        if batches < 0:
            raise OptionError(f"skip: {batches} batches; use seek() to go back")
        epoch, first = self._position()
        size, count = self._global_batch(), len(self)
        left = count - first // size
        if first % size:
            # A restored place need not be a multiple of this loader's batches.
            rest = self._epoch_samples() - first
            left = rest // size if self._knobs["drop_last"] else -(-rest // size)
        if batches < left or count == 0:
            self._next = (epoch, first + batches * size)
        else:
            epochs, rest = divmod(batches - left, count)
            self._next = (epoch + 1 + epochs, rest * size)
        self._latest = None

    def _epoch_samples(self) -> int:
        return int(json.loads(self._core.state(0, 0))["epoch_samples"])

    def _position(self) -> tuple[int, int]:
        return self._next if self._latest is None else self._latest.position()

    def set_weights(self, weights: Sequence[float]) -> None:
        """New weights for a [`mix`][feedline.mix], one per data set, for epochs begun from now on."""
        new = [float(weight) for weight in weights]
        self._core.set_weights(new)
        self._weights = new

    def state_dict(self) -> dict[str, Any]:
        """Where the latest iteration stands: small, JSON-able, the same on every rank.

        It counts batches that you received, not those read ahead. After the last batch of an epoch it is the beginning
        of the next.
        """
        state: dict[str, Any] = json.loads(self._core.state(*self._position()))
        if self._callables is not None:
            state["python"] = self._callables.names()
        return state

    def load_state_dict(self, state: Mapping[str, Any], *, strict: bool = True) -> None:
        """The next `iter()` goes on where `state` was taken, on any number of ranks. Takes no time.

        A state of other data, or of options that would give other batches, is refused with the difference; with
        `strict=False` the loader goes on from the same place all the same.
        """
        if not isinstance(state, Mapping):
            raise StateError(f"saved state does not fit: a {type(state).__name__} is not a state")
        here = self._callables.names() if self._callables is not None else None
        if strict and state.get("python") != here:
            raise StateError(f"saved state does not fit: T.Python was {state.get('python')}, is {here}")
        own = {name: value for name, value in state.items() if name != "python"}
        epoch, samples = self._core.check_state(json.dumps(own), strict)
        self._next = (epoch, samples)
        self._latest = None

    def stats(self) -> dict[str, Any]:
        """What was done so far, where the time went, and what limits the speed."""
        stats: dict[str, Any] = json.loads(self._core.stats())
        return stats

    def errors(self) -> list[dict[str, Any]]:
        """Samples that could not be read or decoded, each with uri, index, stage, offset and reason."""
        return self._core.errors()

    def close(self) -> None:
        """Stops all threads. Batches you have stay valid."""
        if self._process == os.getpid():
            self._core.close()
            if self._callables is not None:
                self._callables.close()
        self._closed = True

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        state = {"dataset": self._dataset, "knobs": self._knobs, "next": self._position()}
        return {**state, "weights": self._weights}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._dataset, self._knobs, self._next = state["dataset"], state["knobs"], state["next"]
        self._weights = state["weights"]
        self._converter = Converter(self._knobs)
        self._latest = None
        self._start()

    def __repr__(self) -> str:
        return f"Loader({self._dataset!r}, batch_size={self.batch_size}, batches={len(self)})"


class _Progress:
    """How far a pass over an epoch came: outlives the pass itself, so that a broken-off loop can be gone on with."""

    def __init__(self, epoch: int, first: int, global_batch: int, batches: int) -> None:
        self._epoch = epoch
        self._first = first
        self._global_batch = global_batch
        self.batches = batches
        self.received = 0

    def position(self) -> tuple[int, int]:
        """Epoch and global samples received."""
        if self.received >= self.batches:
            return self._epoch + 1, 0
        return self._epoch, self._first + self.received * self._global_batch


class _Batches:
    """One pass over an epoch."""

    def __init__(self, loader: Loader, core: Any, progress: _Progress) -> None:
        self._loader = loader
        self._core = core
        self._progress = progress
        self._process = os.getpid()

    def __iter__(self) -> _Batches:
        return self

    def __len__(self) -> int:
        return self._progress.batches - self._progress.received

    def __next__(self) -> dict[str, Any]:
        if self._process != os.getpid():
            raise ClosedError(
                "this iteration was begun before a fork; its threads exist only in the parent process\n"
                "hint: call iter() again in the child"
            )
        try:
            made = self._core.next()
        except DataError:
            # The batch with the bad sample is lost; what comes next is the one after it.
            self._progress.received += 1
            raise
        if made is None:
            raise StopIteration
        self._progress.received += 1
        return self._loader._converter.batch(made)  # noqa: SLF001 - same module

    def close(self) -> None:
        """Stops this pass."""
        if self._process == os.getpid():
            self._core.close()


def _cached(dataset: Dataset, folder: Uri) -> Dataset:
    """The data set behind a disk cache; a setting that would change nothing is a mistake."""
    cached = dataset.cached(folder, pack=False)
    if cached._core.spec() == dataset._core.spec():  # noqa: SLF001 - same package
        raise OptionError("cache_dir: local data need no cache")
    return cached


def _resolve(knobs: dict[str, Any]) -> dict[str, Any]:
    """Knobs with everything found out that can be found out once: ranks, sampler, names of types."""
    knobs = dict(knobs)
    knobs["rank"], knobs["world_size"] = discover(knobs["rank"], knobs["world_size"])
    knobs["dtype"] = _name("dtype", knobs["dtype"], ("float32", "float16", "bfloat16", "uint8"))
    knobs["memory_format"] = _name("memory_format", knobs["memory_format"], ("channels_first", "channels_last"))
    context = knobs["multiprocessing_context"]
    if context not in ("fork", "spawn", "forkserver") and not hasattr(context, "Process"):
        raise OptionError("multiprocessing_context: not one of 'fork', 'spawn', 'forkserver', nor a context")
    sampler = knobs["sampler"]
    if sampler is not None and not isinstance(sampler, Sampler):
        knobs["sampler"] = _sampler(sampler)
    return knobs


def _sampler(given: Any) -> Sampler:
    """A sampler from what is none: an object that knows every epoch, or a list."""
    if callable(getattr(given, "indices", None)):
        return PerEpoch(given)
    if callable(getattr(given, "set_epoch", None)):
        raise OptionError(
            f"sampler: a {type(given).__name__} would be read once, in its present epoch, and only this rank's part\n"
            "hint: fl.samplers.TorchDistributed(seed=..., shuffle=..., drop_last=...) gives its order of every epoch"
        )
    return Indices(given)


def _timetable(knobs: Mapping[str, Any], dataset: Dataset) -> Timetable | None:
    """For a sampler that gives another list in every epoch."""
    if not isinstance(knobs["sampler"], Order) or knobs["batch_size"] < 1:
        return None  # the engine has the words for a batch size that cannot be
    split = Split(len(dataset), int(knobs["batch_size"]), int(knobs["world_size"]), bool(knobs["drop_last"]))
    return Timetable(knobs["sampler"], split)


def _name(knob: str, value: object, known: tuple[str, ...]) -> str:
    """A name from a string, or from torch's or NumPy's object of that name."""
    text = str(getattr(value, "__name__", None) or value).removeprefix("torch.")
    text = {"contiguous_format": "channels_first"}.get(text, text)
    if text not in known:
        raise OptionError(f"{knob}: {value!r} is none of {', '.join(known)}")
    return text


def _core_options(knobs: Mapping[str, Any], dataset: Dataset) -> tuple[dict[str, Any], bytes | None]:
    """The part of the knobs that the engine itself acts on: its JSON, and a sampler's long list."""
    names = ("batch_size", "seed", "drop_last", "num_workers", "prefetch", "rank", "world_size", "dtype")
    more = (
        "memory_format",
        "decode",
        "on_error",
        "max_errors",
        "timeout",
        "memory_budget",
        "persistent_workers",
        "auto_tune",
    )
    options = {name: knobs[name] for name in (*names, *more)}
    if knobs["max_pixels"] is not None:
        options["max_pixels"] = int(knobs["max_pixels"])
    if knobs["fields"] is not None:
        options["fields"] = list(knobs["fields"])
    options["shuffle"], options["sampler"], numbers = _order(knobs, dataset)
    options["transforms"] = _transforms(knobs["transforms"], dataset)
    return options, numbers


def _order(knobs: Mapping[str, Any], dataset: Dataset) -> tuple[str, dict[str, Any] | None, bytes | None]:
    """Shuffle, sampler, and the sampler's long list."""
    shuffle, sampler = knobs["shuffle"], knobs["sampler"]
    if shuffle not in (False, True, None, "full", "block"):
        raise OptionError(f"shuffle: {shuffle!r} is none of False, True, 'full', 'block'")
    if sampler is not None and shuffle not in (False, None):
        raise OptionError("sampler: already gives the order; leave shuffle off")
    if isinstance(dataset, Mix):
        if sampler is not None or shuffle == "block":
            raise OptionError("sampler: a mix draws by its weights; give neither a sampler nor shuffle='block'")
        mixed = {"lengths": dataset.lengths, "weights": dataset.weights, "num_samples": dataset.epoch_samples}
        return "off", {"kind": "mix", **mixed}, None
    if isinstance(sampler, Order):
        return "off", None, None  # handed over epoch by epoch
    if sampler is not None:
        return "off", sampler.to_spec(), sampler.numbers()
    return {False: "off", None: "off", "block": "block"}.get(shuffle, "full"), None, None


def _transforms(transforms: Any, dataset: Dataset) -> dict[str, Any]:
    return {field: _field_transforms(field, value) for field, value in _by_field(transforms, dataset).items()}


def _by_field(transforms: Any, dataset: Dataset) -> Mapping[str, Any]:
    if transforms is None:
        return {}
    if isinstance(transforms, Mapping):
        return transforms
    images = [name for name, kind in dataset.schema.items() if kind == "image"]
    if len(images) != 1:
        raise OptionError(f"transforms: a list is for a data set with one image field; this one has {images}")
    return {images[0]: transforms}


def _field_transforms(field: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return {view: _specs(f"{field}.{view}", split(f"{field}.{view}", ops)[0]) for view, ops in value.items()}
    return _specs(field, split(field, value)[0])


def _functions(transforms: Any, dataset: Dataset) -> dict[str, list[Callable[..., Any]]]:
    """The user's own functions by column."""
    found = {}
    for field, value in _by_field(transforms, dataset).items():
        views = (
            {f"{field}.{view}": ops for view, ops in value.items()} if isinstance(value, Mapping) else {field: value}
        )
        found.update({name: split(name, ops)[1] for name, ops in views.items()})
    return {name: functions for name, functions in found.items() if functions}


def _specs(where: str, ops: Any) -> list[dict[str, Any]]:
    if isinstance(ops, Transform):
        ops = [ops]
    specs = []
    for op in ops:
        if not isinstance(op, Transform):
            hint = " (call it: add parentheses)" if isinstance(op, type) and issubclass(op, Transform) else ""
            raise OptionError(f"transforms: {where}: {op!r} is not one of feedline.transforms{hint}")
        spec = op.to_spec()
        if spec is not None:
            specs.append(spec)
    return specs


@atexit.register
def _close_all() -> None:
    """Threads must not outlive the interpreter that their batches belong to."""
    close: Callable[[Loader], None] = Loader.close
    for loader in list(_OPEN):
        close(loader)
