"""The loader's knobs: names, defaults, allowed values and descriptions, once for `Loader` and `LoaderOptions`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, make_dataclass, replace
from functools import partial
from typing import Annotated, Any, TypedDict, get_type_hints

from ._checks import choice, flag, image_mode, listed, maybe, path, real, refuse, shown, text, texts, whole
from ._paths import Uri
from .errors import OptionError
from .samplers import Indices, Sampler
from .samplers.epochs import HasIndices
from .transforms import BatchTransform, Transform
from .transforms.mix import batch_specs
from .transforms.targets import Target

__all__ = [
    "DEFAULTS",
    "KNOBS",
    "REFUSED",
    "Knob",
    "KnobArguments",
    "KnobValues",
    "Knobs",
    "checked",
    "described",
    "refuse_unknown",
]

_COLLATES = ("ragged", "stack", "pad", "list")
_CONTEXTS = ("fork", "spawn", "forkserver")
# Longer times mean no limit.
_FOREVER = 1e9


@dataclass(frozen=True)
class Knob:
    """One knob."""

    check: Callable[[str, Any], Any]
    """Takes name and value; returns the value for the loader, or raises `OptionError`."""
    doc: str
    default: Any
    name: str = ""
    type: Any = None


def _shuffle(name: str, value: Any) -> bool | str:
    if value is None:
        return False
    if isinstance(value, str) and value in ("full", "block"):
        return str(value)
    try:
        return flag(name, value)
    except OptionError:
        raise OptionError(f"{name}: {shown(value)} is not one of False, True, 'full', 'block'") from None


def _sampler(name: str, value: Any) -> Any:
    """Anything that gives indices. The loader, which knows the data set, checks them."""
    if value is None or isinstance(value, Sampler):
        return value
    if isinstance(value, type):
        raise OptionError(f"{name}: {shown(value)} is a class (call it: add parentheses)")
    # Before `indices`: torch's tensors have a method of that name.
    if hasattr(value, "__array__"):
        return Indices(value)
    if callable(getattr(value, "indices", None)):
        return value
    iterable = hasattr(value, "__iter__") or (hasattr(value, "__getitem__") and hasattr(value, "__len__"))
    if not iterable or isinstance(value, (str, bytes, Mapping)):
        refuse(name, value, "a sampler, an iterable of indices, or an object with indices(epoch)")
    return value


def _read_ahead(name: str, value: Any) -> str | int:
    if isinstance(value, str):
        return choice(name, value, ("auto", "off"))
    if isinstance(value, bool) or value is None:
        refuse(name, value, "'auto', 'off' or a number of reads from 1 to 1024")
    return whole(name, value, low=1, high=1024)


def _numa(name: str, value: Any) -> str | int:
    if isinstance(value, str):
        return choice(name, value, ("auto", "off"))
    if isinstance(value, bool) or value is None:
        refuse(name, value, "'auto', 'off' or the number of a node")
    return whole(name, value, high=2**16)


def _transforms(name: str, value: Any) -> Any:
    if value is None or isinstance(value, Transform):
        return value
    if isinstance(value, Mapping):
        for field in value:
            text(f"{name}: name of a field", field)
        return value
    return listed(name, value, "a list of feedline.transforms, or a dict of such lists by field")


def _batch_transforms(name: str, value: Any) -> Any:
    found = listed(name, [value] if isinstance(value, BatchTransform) else value, "a list of T.MixUp and the like")
    batch_specs(found)
    return found


def _targets(name: str, value: Any) -> Any:
    if not isinstance(value, Mapping):
        refuse(name, value, "a dict of T.Mask, T.Boxes and T.Keypoints by field")
    for called, target in value.items():
        text(f"{name}: name of a field", called)
        if not isinstance(target, Target):
            hint = " (call it: add parentheses)" if isinstance(target, type) and issubclass(target, Target) else ""
            raise OptionError(f"{name}: {called}: {shown(target)} is not a T.Mask, T.Boxes or T.Keypoints{hint}")
    return dict(value)


def _named(name: str, value: Any, *, known: tuple[str, ...]) -> str:
    """A name from a string, or from an object of torch or NumPy with that name."""
    found = str(getattr(value, "__name__", None) or (value if isinstance(value, str) else shown(value)))
    found = found.removeprefix("torch.")
    return choice(
        name, {"contiguous_format": "channels_first"}.get(found, value if found not in known else found), known
    )


_IMAGE_TYPES = ("float32", "float16", "bfloat16", "uint8")
_NUMBER_TYPES = (*_IMAGE_TYPES, "uint16", "int16", "int32", "int64", "float64")


def _dtype(name: str, value: Any) -> Any:
    """One for all images, or a dict by field; fields of numbers allow more types."""
    if not isinstance(value, Mapping):
        return _named(name, value, known=_IMAGE_TYPES)
    return {
        text(f"{name}: name of a field", field): _named(f"{name}[{field!r}]", each, known=_NUMBER_TYPES)
        for field, each in value.items()
    }


def _colour(name: str, value: Any) -> tuple[int, int, int]:
    """Three numbers, or one for grey."""
    if isinstance(value, (int, float)):
        value = (value, value, value)
    numbers = tuple(whole(name, each, high=255) for each in listed(name, value, "three numbers from 0 to 255"))
    if len(numbers) != len(("red", "green", "blue")):
        refuse(name, value, "three numbers from 0 to 255")
    return numbers[0], numbers[1], numbers[2]


def _timeout(name: str, value: Any) -> float:
    seconds = real(name, value)
    if seconds <= 0:
        refuse(name, value, "a positive number of seconds")
    return min(seconds, _FOREVER)


def _collate(name: str, value: Any) -> Any:
    if not isinstance(value, Mapping):
        return choice(name, value, _COLLATES)
    return {text(f"{name}: name of a field", field): choice(name, each, _COLLATES) for field, each in value.items()}


def _dashboard(name: str, value: Any) -> bool | str:
    if isinstance(value, str):
        if not value.startswith(("http://127.0.0.1:", "http://localhost:")):
            refuse(name, value, "True, or the address of another rank's page on this machine")
        return value
    return flag(name, value)


def _context(name: str, value: Any) -> Any:
    if (isinstance(value, str) and value in _CONTEXTS) or hasattr(value, "Process"):
        return value
    raise OptionError(f"{name}: not one of {', '.join(map(repr, _CONTEXTS))}, nor a context: {shown(value)}")


def _function(name: str, value: Any) -> Any:
    if not callable(value):
        raise OptionError(f"{name}: {shown(value)} cannot be called")
    return value


def _tuple(name: str, value: Any) -> bool | tuple[str, ...]:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) or not isinstance(value, Iterable):
        refuse(name, value, "True or a list of fields, such as ('image', 'label')")
    return tuple(texts(name, value))


def _device(name: str, value: Any) -> Any:
    """A name or a device object of torch; torch checks whether the device exists."""
    if isinstance(value, str) or type(value).__module__.partition(".")[0] == "torch":
        return value
    return whole(name, value, high=2**15)


class KnobArguments(TypedDict, total=False):
    """Every knob once: its type, its default, what is allowed and what it does.

    `Loader` and `LoaderOptions` take these arguments; `Knobs`, `help` and the signatures are made from this list.
    """

    batch_size: Annotated[int, Knob(partial(whole, low=1, high=2**24), "samples per batch on each rank", default=64)]
    shuffle: Annotated[
        bool | str,
        Knob(
            _shuffle,
            '`True` (or `"full"`): every order equally likely; `"block"`: quasi-random, fast on slow storage',
            default=False,
        ),
    ]
    seed: Annotated[int, Knob(partial(whole, high=2**64 - 1), "seed of the order and of the augmentation", default=0)]
    drop_last: Annotated[bool, Knob(flag, "leave out a last batch that is not full", default=False)]
    sampler: Annotated[
        Sampler | HasIndices | Iterable[int] | None,
        Knob(
            _sampler,
            "one of `feedline.samplers` or of torch's, an iterable of indices, or an object with `indices(epoch)`",
            default=None,
        ),
    ]
    transforms: Annotated[
        Sequence[Transform] | Mapping[str, Any] | None,
        Knob(
            _transforms, "a list for the image field, or a dict by field; a dict in it for several views", default=None
        ),
    ]
    targets: Annotated[
        Mapping[str, Target] | None,
        Knob(
            maybe(_targets),
            "fields transformed together with the image: a dict of `T.Mask`, `T.Boxes`, `T.Keypoints` by field",
            default=None,
        ),
    ]
    batch_transforms: Annotated[
        Sequence[Any] | None,
        Knob(
            maybe(_batch_transforms),
            "operations that mix samples: a list of `T.MixUp`, `T.CutMix`, `T.Mosaic` and the like",
            default=None,
        ),
    ]
    repeats: Annotated[
        int,
        Knob(
            partial(whole, low=1, high=2**16), "how often each sample is repeated in a row, with new draws", default=1
        ),
    ]
    return_params: Annotated[
        bool, Knob(flag, 'return what was drawn: `batch["image.params"]`, for `T.replay`', default=False)
    ]
    fields: Annotated[Sequence[str] | None, Knob(maybe(texts), "load only these fields", default=None)]
    num_workers: Annotated[
        int,
        Knob(partial(whole, high=4096), "threads; 0 for all usable cores, shared with the other ranks here", default=0),
    ]
    numa: Annotated[
        str | int,
        Knob(
            _numa,
            'threads on the CPUs of one NUMA node: `"auto"` (beside the CUDA device, if known), `"off"` or its number',
            default="off",
        ),
    ]
    prefetch: Annotated[
        int | None, Knob(maybe(partial(whole, low=1, high=4096)), "batches to prepare ahead, in total", default=None)
    ]
    read_ahead: Annotated[
        str | int,
        Knob(
            _read_ahead,
            'read before bytes are needed: `"auto"` (remote data; local data while reads wait for storage), `"off"`, '
            "or how many local reads at once",
            default="auto",
        ),
    ]
    rank: Annotated[
        int | None,
        Knob(maybe(partial(whole, high=2**31)), "number of this process; detected if not given", default=None),
    ]
    world_size: Annotated[
        int | None,
        Knob(maybe(partial(whole, low=1, high=2**31)), "number of processes; detected if not given", default=None),
    ]
    output: Annotated[
        str,
        Knob(
            partial(choice, allowed=("auto", "torch", "numpy", "jax", "dlpack")),
            '`"torch"`, `"numpy"`, `"jax"` or `"dlpack"`; auto: torch if it is installed, else numpy',
            default="auto",
        ),
    ]
    device: Annotated[Any, Knob(maybe(_device), "device of the torch tensors", default=None)]
    dtype: Annotated[
        Any,
        Knob(
            _dtype,
            'element type of images: `"float32"`, `"float16"`, `"bfloat16"` or `"uint8"`; or a dict by field',
            default="float32",
        ),
    ]
    mode: Annotated[
        str | Mapping[str, str] | None,
        Knob(
            maybe(image_mode),
            'images as `"RGB"`, `"RGBA"`, `"L"`, `"LA"`, `"I;16"`, `"F"`, `"index"`, `"unchanged"`; or a dict by field',
            default=None,
        ),
    ]
    background: Annotated[
        Any, Knob(maybe(_colour), "the colour behind transparent pixels; without one, opacity is dropped", default=None)
    ]
    allow_truncated: Annotated[
        bool, Knob(flag, "decode JPEGs and PNGs that end early as far as they go, as Pillow can", default=False)
    ]
    page: Annotated[
        int,
        Knob(
            partial(whole, low=0, high=2**32 - 1),
            "the page of images and masks with several pages (TIFF), counted from 0",
            default=0,
        ),
    ]
    exif_transpose: Annotated[bool, Knob(flag, "rotate images as their EXIF orientation says", default=True)]
    memory_format: Annotated[
        Any,
        Knob(
            partial(_named, known=("channels_first", "channels_last")),
            '`"channels_first"` or `"channels_last"`',
            default="channels_first",
        ),
    ]
    missing: Annotated[
        str,
        Knob(
            partial(choice, allowed=("mask", "nan", "error")),
            'missing numbers: `"mask"` (0, or NaN for floats, and a column `NAME.valid`), `"nan"` or `"error"`',
            default="mask",
        ),
    ]
    pin_memory: Annotated[bool, Knob(flag, "make batches in page-locked memory", default=False)]
    non_blocking: Annotated[bool, Knob(flag, "let copies to a device overlap with the host", default=True)]
    timeout: Annotated[
        float | None, Knob(maybe(_timeout), "seconds without a batch after which an error is raised", default=None)
    ]
    on_error: Annotated[
        str,
        Knob(
            partial(choice, allowed=("raise", "skip", "replace")),
            'a bad sample raises, is left out (`"skip"`), or is replaced by another (`"replace"`)',
            default="raise",
        ),
    ]
    max_errors: Annotated[
        int | None, Knob(maybe(whole), "number of bad samples after which an error is raised", default=None)
    ]
    collate: Annotated[
        str | Mapping[str, str] | None,
        Knob(
            maybe(_collate),
            'values of different sizes: `"ragged"`, `"stack"`, `"pad"` or `"list"`, or a dict by field',
            default=None,
        ),
    ]
    as_tuple: Annotated[
        bool | Sequence[str] | None,
        Knob(maybe(_tuple), "batches as tuples: `True` for all fields, or their names", default=None),
    ]
    cache_dir: Annotated[Uri | None, Knob(maybe(path), "folder for caching remote data", default=None)]
    memory_budget: Annotated[
        int | None, Knob(maybe(partial(whole, low=1)), "largest number of bytes of batches in flight", default=None)
    ]
    persistent_workers: Annotated[bool, Knob(flag, "keep the threads between epochs", default=True)]
    auto_tune: Annotated[
        bool, Knob(flag, "adjust threads and prefetching from epoch to epoch, by what was slow", default=False)
    ]
    multiprocessing_context: Annotated[
        Any, Knob(_context, "how the worker processes of `map` and `T.Python` are started", default="forkserver")
    ]
    map: Annotated[
        Callable[..., Any] | None,
        Knob(maybe(_function), "a function applied to every sample, a dict of its fields", default=None),
    ]
    as_: Annotated[
        str | None,
        Knob(maybe(text), 'type of the images passed to `map`: `"numpy"`, `"pil"` or `"torch"`', default=None),
    ]
    batch_map: Annotated[
        Callable[..., Any] | None,
        Knob(maybe(_function), "a function applied to every batch, in a thread ahead of the loop", default=None),
    ]
    map_workers: Annotated[
        str | None,
        Knob(
            maybe(partial(choice, allowed=("processes", "threads"))),
            'where functions run: `"processes"` or `"threads"`',
            default=None,
        ),
    ]
    decode: Annotated[
        str,
        Knob(
            partial(choice, allowed=("exact", "fast", "none", "device")),
            '`"exact"` or `"fast"` pixels, `"none"` for the stored bytes, or `"device"` to decode there (nvImageCodec)',
            default="exact",
        ),
    ]
    views: Annotated[
        bool,
        Knob(
            flag,
            'with `decode="none"`: images and bytes as views into a pack\'s files, of which nothing is read or checked',
            default=False,
        ),
    ]
    index: Annotated[
        str,
        Knob(
            partial(choice, allowed=("auto", "off", "build")),
            'seek indexes of JPEGs that are stored without: `"auto"` collects them, `"build"` at once, or `"off"`',
            default="auto",
        ),
    ]
    max_pixels: Annotated[int | None, Knob(maybe(partial(whole, low=1)), "larger images are bad samples", default=None)]
    progress: Annotated[
        bool,
        Knob(flag, "a bar with images/s, waiting share and bottleneck; one line per minute in a log", default=False),
    ]
    dashboard: Annotated[
        bool | str,
        Knob(
            _dashboard,
            "a live page about this loader, on this machine alone; or another rank's page to send numbers to",
            default=False,
        ),
    ]


def _named_knob(name: str, hint: Any) -> Knob:
    knob: Knob = hint.__metadata__[0]
    return replace(knob, name=name, type=hint.__origin__)


KNOBS: dict[str, Knob] = {
    name: _named_knob(name, hint) for name, hint in get_type_hints(KnobArguments, include_extras=True).items()
}
"""Every knob by name."""

DEFAULTS: dict[str, Any] = {name: knob.default for name, knob in KNOBS.items()}
"""Default of every knob."""


class KnobValues(Mapping[str, Any]):
    """A value for every knob, by attribute or by name."""

    def __getitem__(self, name: str) -> Any:
        if name not in KNOBS:
            raise KeyError(name)
        return getattr(self, name)

    def __iter__(self) -> Iterator[str]:
        return iter(KNOBS)

    def __len__(self) -> int:
        return len(KNOBS)


Knobs: type[KnobValues] = make_dataclass(
    "Knobs",
    [(name, knob.type, field(default=knob.default)) for name, knob in KNOBS.items()],
    bases=(KnobValues,),
    frozen=True,
    kw_only=True,
    namespace={"__module__": __name__, "__doc__": "A value for every knob, held by `Loader` and `LoaderOptions`."},
)

REFUSED: dict[str, str] = {
    "part_size": "a property of the connection: set storage_options={'part_size': ...} in fl.open",
    "max_inflight_parts": "a property of the connection: set storage_options={'max_inflight_parts': ...} in fl.open",
    "page_cache": "a property of the storage: set storage_options={'page_cache': 'bypass'} in fl.open",
    "loading_mode": "batches are always delivered in order, whatever the order in which reads finish",
    "worker_init_fn": "workers are threads of the engine and run no Python",
    "collate_fn": "the engine puts batches together: see collate=, and batch_map= for a function of whole batches",
    "generator": "order and augmentation are drawn from seed",
    "prefetch_factor": "use prefetch=, which counts batches in total, not per worker",
    "batch_sampler": "use sampler= and batch_size=",
}
"""Knobs of other loaders, and why they are not here."""


def refuse_unknown(names: Iterable[str]) -> None:
    """Raises an error for the first name that is not a knob, with the reason if there is one."""
    for name in sorted(set(names) - set(KNOBS)):
        reason = REFUSED.get(name)
        raise OptionError(f"{name}: {reason}" if reason else f"{name}: no such knob; there are {', '.join(KNOBS)}")


def checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """These knobs, checked, in the order of the table."""
    refuse_unknown(given)
    return {name: knob.check(name, given[name]) for name, knob in KNOBS.items() if name in given}


def described(indent: str = "") -> str:
    """The table of knobs as text."""
    return "\n".join(f"{indent}- `{knob.name}` [{knob.default!r}]: {knob.doc}" for knob in KNOBS.values())
