"""The loader: batches of tensors from a data set."""

from __future__ import annotations

import atexit
import inspect
import json
import os
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import _feedline
from . import _repeats as repeats
from ._callback import Callables
from ._checks import listed, real, refuse, whole
from ._checks import path as check_path
from ._dataset import Dataset, Mix
from ._device import DeviceImages
from ._engine import by_field, core_options, draws, images, timetable
from ._knobs import KNOBS, KnobArguments, Knobs, KnobValues, checked, described
from ._left_out import warn_left_out
from ._lookalike import LooksLikeDataLoader
from ._looking import Dashboard, Log, Stats, Trace, loader_html, register
from ._opening import open as open_dataset
from ._options import LoaderOptions
from ._output import Converter
from ._paths import Uri
from ._pinned import PinnedMemory
from ._ranks import check_worker, discover
from ._running import Batches, FunctionTimes, Progress
from ._signatures import Called
from .errors import OptionError, StateError
from .samplers import Packed
from .samplers.given import translate
from .transforms.views import MultiCrop

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .torch import Places

__all__ = ["Loader"]

_OPEN: weakref.WeakSet[Loader] = weakref.WeakSet()


class Loader(LooksLikeDataLoader, metaclass=Called):
    """Batches of a data set, as dicts of tensors.

    Threads, not processes, do the work. Batches are yours to keep.

    Order and augmentation depend only on `(seed, epoch, sample index)`. Keep one loader for the whole training and
    iterate it once per epoch: each `iter()` starts the next epoch, even if the one before was not finished, so
    `next(iter(loader))` uses one up (`loader.set_epoch(0)` goes back). A new loader starts
    with epoch 0: set its position with [`set_epoch`][feedline.Loader.set_epoch] or
    [`load_state_dict`][feedline.Loader.load_state_dict], or it repeats the first loader's batches.

    A sample that cannot be read or decoded raises an error; with `on_error="skip"` the batch is delivered without it,
    with `on_error="replace"` it is replaced by another sample of this epoch's order. Different bad samples are counted,
    each once, however many epochs read it. More than `max_errors` of them, in a row or in total, raise
    `TooManyBadSamplesError`; without `max_errors` the limits are 100 in a row, and in total 1 % of the data set but at
    least 100. The count is part of `state_dict()`. A storage failure is not a bad sample: it always raises a
    `StorageError`, and the next `next()` retries the same batch.

    >>> import feedline as fl
    >>> from feedline import transforms as T
    >>> train = [T.RandomResizedCrop(32), T.RandomHorizontalFlip(), T.Normalize.imagenet()]
    >>> with fl.Loader(fl.open(example_folder), batch_size=4, shuffle=True, transforms=train, output="numpy") as loader:
    ...     for batch in loader:
    ...         print(batch["image"].shape, batch["image"].dtype, batch["label"].shape)
    (4, 3, 32, 32) float32 (4,)
    (4, 3, 32, 32) float32 (4,)
    (4, 3, 32, 32) float32 (4,)

    `map=` is a function applied to every sample, in worker processes or threads; `batch_map=` to every batch, in a
    thread ahead of the loop:

    >>> def brightest(sample):
    ...     return {"label": sample["label"], "top": sample["image"].max(axis=(1, 2)), "name": f"no. {sample['index']}"}
    >>> def to_tuple(batch):
    ...     return batch["top"], batch["name"]
    >>> more = {"map": brightest, "map_workers": "threads", "batch_map": to_tuple, "dtype": "uint8"}
    >>> with fl.Loader(fl.open(example_folder), batch_size=4, output="numpy", **more) as loader:
    ...     top, name = next(iter(loader))
    ...     print(top.shape, name)
    (4, 3) ['no. 0', 'no. 1', 'no. 2', 'no. 3']
    """

    def __init__(
        self,
        dataset: Dataset | Uri | Sequence[Uri],
        *,
        options: LoaderOptions | None = None,
        **knobs: Unpack[KnobArguments],
    ) -> None:
        if options is not None and not isinstance(options, LoaderOptions):
            refuse("options", options, "a feedline.LoaderOptions")
        given = {**(options.given() if options is not None else {}), **checked(knobs)}
        merged = Knobs(**given)
        self._dataset = dataset if isinstance(dataset, Dataset) else open_dataset(dataset)
        if merged["cache_dir"] is not None:
            self._dataset = _cached(self._dataset, merged["cache_dir"])
        # A loader that was given its part in a DataLoader's worker may be iterated there.
        self._placed_in = os.getpid() if merged["rank"] is not None else None
        self._knobs = _resolve(merged, self._dataset)
        self._next = (0, 0)
        self._latest: Progress | None = None
        # Whether the start was set explicitly; if not, a new loader that repeats another one's epoch causes a warning.
        self._start_given = False
        self._elsewhere: Places | None = None
        self._weights: list[float] | None = None
        self._old_weights: list[float] | None = None
        self._page: Dashboard | None = None
        self._start()
        if self._knobs["dashboard"]:
            self._page = Dashboard(self, self._knobs["dashboard"])

    def _start(self) -> None:
        self._converter = Converter(self._knobs)
        self._timetable = timetable(self._knobs, self._dataset)
        spec, numbers = core_options(self._knobs, self._dataset)
        if self._timetable is not None:
            spec["sampler"] = self._timetable.spec()
        by_fields = by_field(self._knobs["transforms"], self._dataset, self._knobs["targets"])
        warn_left_out(self._knobs, self._dataset, by_fields)
        self._callables = Callables.of(self._knobs, by_fields, images(self._knobs, self._dataset))
        if self._callables is not None:
            spec["pixels"] = self._callables.pixels
        self._device = DeviceImages.of(self._knobs, by_fields, images(self._knobs, self._dataset))
        # Functions make arrays of their own, so theirs are copied.
        self._memory = PinnedMemory() if self._converter.pinned and self._callables is None else None
        core = self._dataset._core  # noqa: SLF001 - same package
        self._made = _feedline.Loader(core, json.dumps(spec), numbers, self._memory)
        if self._weights is not None:
            self._made.set_weights(self._weights)
        self._log = Log()
        self._trace: Trace | None = None
        self._functions = FunctionTimes() if self._callables is not None or self._device is not None else None
        self._number = repeats.number()
        self._draws = draws(self._knobs, self._dataset)
        self._process = os.getpid()
        self._closed = False
        # Threads that call iter() at once get one epoch each.
        self._lock = threading.Lock()
        register()
        _OPEN.add(self)

    @property
    def _core(self) -> _feedline.Loader:
        if self._process != os.getpid():
            # After a fork the threads exist only in the parent: start again with the same settings. The old core is
            # not touched, since those threads may have held its locks; it checks that it is in the wrong process.
            self._start()
        return self._made

    def __len__(self) -> int:
        return self._core.length(self._next[0])

    def __iter__(self) -> Iterator[Any]:
        core: Any = self._core
        check_worker(self._placed_in)
        with self._lock:
            epoch, first = self._next
            order = self._timetable.epoch(epoch) if self._timetable is not None else None
            weights = self._old_weights if self._old_weights is not None else self._weights
            if weights is None and isinstance(self._dataset, Mix):
                weights = self._dataset.weights
            if self._memory is not None:
                self._memory.arrive()
            core = core.epoch(epoch, first, order, self._old_weights)
            if self._callables is not None:
                core = self._callables.epoch(core, epoch, first, self._converter.batch)
            if self._device is not None:
                core = self._device.epoch(core, epoch, self._converter.batch)
            self._latest = Progress(self._next, self._global_batch(), len(core), weights)
            self._next, self._old_weights = (epoch + 1, 0), None
            return Batches(self, core, self._latest, self._watch_repeats(epoch))

    def _watch_repeats(self, epoch: int) -> Callable[[], None] | None:
        """Warns if another loader of this process gave this epoch; returns what to call when this one gives it."""
        if self._start_given or not self._draws:
            return None
        names = self._python_names()
        run = f"{self._core.state(0, 0)} {self._knobs['rank']} {names}"
        repeats.begun(self._number, run, epoch)
        return lambda: repeats.received(self._number, run, epoch)

    def _with_knobs(self, **changed: Any) -> Loader:
        """A loader over the same data at the same place, with some knobs changed."""
        other = Loader.__new__(Loader)
        other.__setstate__({**self.__getstate__(), "knobs": Knobs(**{**self._knobs, **changed})})
        other._placed_in = os.getpid()  # noqa: SLF001 - whoever asks knows which part it is
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
        """The knobs of this loader."""
        return LoaderOptions(**self._knobs)

    def set_epoch(self, epoch: int) -> None:
        """Makes the next `iter()` start this epoch from its beginning, unless it is the one to be resumed.

        Training loops call this at the start of every epoch; after `load_state_dict` the call for the restored epoch
        must not lose the restored place.
        """
        number = whole("epoch", epoch)
        self._start_given = True
        if number != self._next[0] or self._latest is not None:
            self.seek(number)

    def seek(self, epoch: int, batch: int = 0) -> None:
        """Makes the next `iter()` start `epoch` at batch number `batch`. Any position takes no time."""
        place = (whole("epoch", epoch), whole("batch", batch) * self._global_batch())
        if batch > (count := self._core.length(place[0])):
            raise OptionError(f"seek: batch {batch} of an epoch with {count}")
        self._go_to(place)

    def _go_to(self, place: tuple[int, int], weights: list[float] | None = None) -> None:
        """Sets the place of the next `iter()`; `weights` are a mix's in that epoch, if later ones have others."""
        self._next, self._old_weights = place, weights
        self._latest = None
        self._start_given = True
        if self._elsewhere is not None:
            self._elsewhere.set_all(place)

    def skip(self, batches: int) -> None:
        """Makes the next `iter()` start this many batches after the position of `state_dict()`."""
        if isinstance(batches, int) and batches < 0:
            raise OptionError(f"skip: {batches} batches; use seek() to go back")
        batches = whole("skip", batches)
        epoch, first = self._position()
        size, count = self._global_batch(), self._core.length(epoch)
        left = count - first // size
        if first % size:
            # A restored place need not be a multiple of this loader's batches.
            rest = self._epoch_samples() - first
            left = rest // size if self._knobs["drop_last"] else -(-rest // size)
        if batches < left or count == 0:
            self._go_to((epoch, first + batches * size), self._position_weights())
        else:
            epoch, rest = epoch + 1, batches - left
            if not isinstance(self._knobs["sampler"], Packed):
                epoch, rest = epoch + rest // count, rest % count
            while rest >= (count := self._core.length(epoch)):  # packed epochs differ in length
                epoch, rest = epoch + 1, rest - count
            self._go_to((epoch, rest * size))

    def _epoch_samples(self) -> int:
        return int(json.loads(self._core.state(0, 0))["epoch_samples"])

    def _position(self) -> tuple[int, int]:
        return self._next if self._latest is None else self._latest.position()

    def _position_weights(self) -> list[float] | None:
        """A mix's weights in the epoch of that position, if it has started."""
        return self._old_weights if self._latest is None else self._latest.weights()

    def set_weights(self, weights: Sequence[float]) -> None:
        """Sets new weights for a [`mix`][feedline.mix], one per data set, for epochs started from now on.

        A running epoch keeps its own weights, also when it is resumed from a saved state; the state contains
        both.
        """
        given = listed("weights", weights, "a list of numbers, one per data set")
        new = [real("weights", weight, low=0.0) for weight in given]
        self._core.set_weights(new)
        self._weights = new

    def state_dict(self) -> dict[str, Any]:
        """Position of the latest iteration: small, JSON-able, the same on every rank.

        It counts batches that you received, not those prepared ahead. After the last batch of an epoch it is the
        beginning of the next. With `on_error="skip"` or `"replace"` it also lists this rank's bad samples (`"bad"`), so
        that a resumed run stops where an uninterrupted one would.
        """
        if self._elsewhere is not None and self._elsewhere.moved():
            raise StateError(
                "the batches were made in worker processes of a DataLoader, so it is not known here which arrived\n"
                "hint: torchdata's StatefulDataLoader asks its workers; or use num_workers=0, or the Loader itself"
            )
        state: dict[str, Any] = json.loads(self._core.state(*self._position(), self._position_weights()))
        names = self._python_names()
        if names is not None:
            state["python"] = names
        return state

    def _python_names(self) -> list[str] | None:
        """Names of the Python functions applied to batches."""
        made = [part.names() for part in (self._callables, self._device) if part is not None]
        return [name for names in made for name in names] if made else None

    def load_state_dict(self, state: Mapping[str, Any], *, strict: bool = True) -> None:
        """Makes the next `iter()` resume where `state` was taken, on any number of ranks. Takes no time.

        A state of other data, or of options that would give other batches, is refused with the differences; with
        `strict=False` the loader resumes from the same position anyway. A mix gets its saved weights, for
        the rest of the epoch and, if they were set with `set_weights`, for those that follow.
        """
        if not isinstance(state, Mapping):
            raise StateError(f"saved state does not fit: a {type(state).__name__} is not a state")
        here = self._python_names()
        if strict and state.get("python") != here:
            raise StateError(f"saved state does not fit: map or T.Python was {state.get('python')}, is {here}")
        own = {name: value for name, value in state.items() if name != "python"}
        try:
            text = json.dumps(own, default=_plain)
        except (TypeError, ValueError) as error:
            raise StateError(f"saved state does not fit: it is not plain data: {error}") from error
        epoch, samples, weights, coming = self._core.check_state(text, strict)
        if coming is not None:
            self.set_weights(coming)
        # At the very beginning of an epoch, weights that were set since mean that it had started.
        begun = samples > 0 or (coming is not None and coming != weights)
        self._go_to((epoch, samples), weights if begun else None)

    def stats(self) -> Stats:
        """What was done so far, where the time went, and what limits the speed: see [`Stats`][feedline.Stats].

        May be called at any time, also from another thread while a loop runs.
        """
        stats = Stats(json.loads(self._core.stats()))
        if self._functions is not None:
            self._functions.judge(stats)
        return stats

    @property
    def dashboard(self) -> str | None:
        """The address of its live page, with `dashboard=True`; other ranks of this machine may send to it."""
        return self._page.url if self._page is not None else None

    def trace(self, path: Uri) -> Trace:
        """Writes what every thread did when to a file that Perfetto and Chrome (`chrome://tracing`) open.

        The file has the last samples at once. From now on everything is recorded (up to a million samples) and written
        after each epoch and when the loader is closed; `with loader.trace(...)` writes at its end.

        >>> import feedline as fl, json, tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "trace.json")
        >>> with fl.Loader(fl.open(example_folder), batch_size=4, output="numpy") as loader, loader.trace(path):
        ...     batches = list(loader)
        >>> names = {event["name"] for event in json.load(open(path))["traceEvents"]}
        >>> "decode" in names and "wait for a batch" in names
        True
        """
        self._trace = Trace(self._core, check_path("path", path))
        return self._trace

    def errors(self) -> list[dict[str, Any]]:
        """Samples that could not be read or decoded, each once, with uri, index, stage, offset and reason.

        `index` is the number in `batch["index"]`; `source_index` is the sample's number in its original data set,
        which differs after `select`, `concat` or `mix`.
        """
        return self._core.errors()

    def close(self) -> None:
        """Stops all threads. Batches you have stay valid.

        A thread that is stuck in storage that does not answer is abandoned after five seconds, with a warning.
        """
        if self._closed:
            return
        self._closed, left = True, 0
        if self._process == os.getpid():
            if self._trace is not None:
                self._trace.write()
            if self._page is not None:
                self._page.close()
            try:
                left = self._core.close()
            finally:
                if self._callables is not None:
                    self._callables.close()
        if left:
            warnings.warn(
                f"{left} thread{'s' if left > 1 else ''} of the loader could not be stopped: storage does not answer "
                f"({self._dataset.uri}); left behind",
                RuntimeWarning,
                stacklevel=2,
            )

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        state = {"dataset": self._dataset, "knobs": self._knobs, "next": self._position()}
        return {**state, "weights": self._weights, "old_weights": self._position_weights()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._dataset, self._knobs, self._weights = state["dataset"], state["knobs"], state["weights"]
        self._placed_in = self._elsewhere = self._page = None
        self._go_to(state["next"], state["old_weights"])
        self._start()

    def _repr_html_(self) -> str:
        return loader_html(self)

    def __repr__(self) -> str:
        return f"Loader({self._dataset!r}, batch_size={self.batch_size}, batches={len(self)})"


def _cached(dataset: Dataset, folder: Uri) -> Dataset:
    """The data set with a disk cache; an error if a cache would have no effect."""
    cached = dataset.cached(folder, pack=False)
    if cached._core.spec() == dataset._core.spec():  # noqa: SLF001 - same package
        raise OptionError("cache_dir: local data need no cache")
    return cached


def _resolve(knobs: KnobValues, dataset: Dataset) -> KnobValues:
    """Fills in what can be detected: ranks and sampler."""
    rank, world_size = discover(knobs["rank"], knobs["world_size"])
    sampler = translate(knobs["sampler"], len(dataset))
    transforms = knobs["transforms"]
    if isinstance(transforms, MultiCrop):
        transforms = by_field(transforms, dataset, knobs["targets"])
    found = {"rank": rank, "world_size": world_size, "sampler": sampler, "transforms": transforms}
    return Knobs(**{**knobs, **found})


def _plain(value: Any) -> Any:
    """Converts a number of NumPy or torch to Python's, for JSON."""
    if not hasattr(value, "tolist"):
        raise TypeError(f"there is a {type(value).__name__} in it")
    return value.tolist()


def _signature() -> inspect.Signature:
    """The signature for `help` and editors: the knobs with their defaults."""
    written = inspect.signature(Loader.__init__)
    only = inspect.Parameter.KEYWORD_ONLY
    knobs = [inspect.Parameter(name, only, default=knob.default, annotation=knob.type) for name, knob in KNOBS.items()]
    own = written.parameters
    return written.replace(parameters=[own["dataset"], *knobs, own["options"]])


Loader._shown = _signature()  # noqa: SLF001 - of its own kind
Loader.__doc__ = f"{Loader.__doc__}\n    Knobs, with their defaults:\n\n{described('    ')}\n    "


@atexit.register
def _close_all() -> None:
    """Threads must not outlive the interpreter that owns their batches."""
    close: Callable[[Loader], None] = Loader.close
    for loader in list(_OPEN):
        close(loader)
