"""The loader's knobs as an immutable, fluent builder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ._checks import flag
from ._knobs import DEFAULTS, REFUSED, KnobArguments, Knobs, checked, refuse_unknown
from ._signatures import Called
from .errors import OptionError
from .samplers import Random, Weighted

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["DEFAULTS", "REFUSED", "LoaderOptions", "refuse_unknown"]


class LoaderOptions(metaclass=Called):
    """A loader's knobs, set step by step. Every step returns a new object; the old one is not changed.

    Every value is checked when it is given. Read a knob back as `options["batch_size"]`, as
    `options.batch_size_value`, or all of them with `to_dict()`.

    >>> options = LoaderOptions().with_batch_size(256).shuffle(True, 42).num_workers(8)
    >>> options["batch_size"], options.seed_value, options.num_workers_value
    (256, 42, 8)
    >>> options == LoaderOptions(batch_size=256, shuffle=True, seed=42, num_workers=8)
    True
    >>> options
    LoaderOptions(batch_size=256, shuffle=True, seed=42, num_workers=8)
    """

    __slots__ = ("_knobs",)

    def __init__(self, **knobs: Unpack[KnobArguments]) -> None:
        # Only what was set: the loader's own arguments fill the rest.
        self._knobs = checked(knobs)

    def _with(self, **knobs: Any) -> LoaderOptions:
        return LoaderOptions(**{**self._knobs, **knobs})

    def __getitem__(self, knob: str) -> Any:
        if not isinstance(knob, str) or knob not in DEFAULTS:
            raise OptionError(f"{knob}: no such knob; there are {', '.join(DEFAULTS)}")
        return self._knobs.get(knob, DEFAULTS[knob])

    def __getattr__(self, name: str) -> Any:
        if name.endswith("_value") and name[: -len("_value")] in DEFAULTS:
            return self[name[: -len("_value")]]
        raise AttributeError(name)

    def to_dict(self) -> dict[str, Any]:
        """All knobs with their values, defaults included."""
        return dict(Knobs(**self._knobs))

    def given(self) -> dict[str, Any]:
        """Only the knobs that were set."""
        return dict(self._knobs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LoaderOptions) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(repr(self.to_dict()))

    def __repr__(self) -> str:
        return f"LoaderOptions({', '.join(f'{name}={value!r}' for name, value in self._knobs.items())})"

    def __getstate__(self) -> dict[str, Any]:
        return self._knobs

    def __setstate__(self, knobs: dict[str, Any]) -> None:
        self._knobs = knobs

    # Steps, in the order of DEFAULTS.

    def with_batch_size(self, samples: int) -> LoaderOptions:
        """Samples per batch on each rank."""
        return self._with(batch_size=samples)

    def shuffle(self, on: bool | str = True, seed: int | None = None) -> LoaderOptions:
        """Order of an epoch, and its seed."""
        return self._with(shuffle=on) if seed is None else self._with(shuffle=on, seed=seed)

    def with_seed(self, seed: int) -> LoaderOptions:
        """Seed of the order and of the augmentation."""
        return self._with(seed=seed)

    def with_generator_seed(self, seed: int) -> LoaderOptions:
        """The same as `with_seed`: there is one seed for everything."""
        return self._with(seed=seed)

    def drop_last(self, on: bool = True) -> LoaderOptions:
        """Whether to leave out a last batch that is not full."""
        return self._with(drop_last=on)

    def with_sampler(self, sampler: Any) -> LoaderOptions:
        """A sampler, or any iterable of indices."""
        return self._with(sampler=sampler)

    def sequential_sampling(self) -> LoaderOptions:
        """As stored."""
        return self._with(shuffle=False, sampler=None)

    def random_sampling(self, *, replacement: bool = False) -> LoaderOptions:
        """In random order."""
        if flag("replacement", replacement):
            return self._with(sampler=Random(replacement=True))
        return self._with(shuffle=True)

    def weighted_sampling(self, weights: Any, num_samples: int | None = None) -> LoaderOptions:
        """By weight, with replacement."""
        return self._with(sampler=Weighted(weights, num_samples))

    def with_transforms(self, transforms: Any) -> LoaderOptions:
        """Transforms: a list for the image field, or a dict by field."""
        return self._with(transforms=transforms)

    def with_fields(self, fields: Iterable[str]) -> LoaderOptions:
        """Load only these fields."""
        return self._with(fields=fields)

    def num_workers(self, threads: int) -> LoaderOptions:
        """Worker threads; 0 for all usable cores."""
        return self._with(num_workers=threads)

    def numa(self, node: str | int) -> LoaderOptions:
        """Threads on the CPUs of one NUMA node: `"auto"`, `"off"` or its number."""
        return self._with(numa=node)

    def prefetch(self, batches: int) -> LoaderOptions:
        """Number of batches to prepare ahead."""
        return self._with(prefetch=batches)

    def read_ahead(self, how: str | int) -> LoaderOptions:
        """Whether bytes are read before they are needed: `"auto"`, `"off"`, or how many local reads at once."""
        return self._with(read_ahead=how)

    def shard(self, rank: int, world_size: int) -> LoaderOptions:
        """Rank of this process, and the number of processes."""
        return self._with(rank=rank, world_size=world_size)

    distributed_sampling = shard

    def with_output(self, output: str) -> LoaderOptions:
        """`"torch"`, `"numpy"`, `"jax"` or `"dlpack"`."""
        return self._with(output=output)

    def with_device(self, device: Any) -> LoaderOptions:
        """Device of the torch tensors."""
        return self._with(device=device)

    def with_dtype(self, dtype: Any) -> LoaderOptions:
        """Element type of images."""
        return self._with(dtype=dtype)

    def with_mode(self, mode: str | Mapping[str, str] | None) -> LoaderOptions:
        """Mode of images: `"RGB"`, `"L"`, `"I;16"`, `"index"` and the like, for all or by field."""
        return self._with(mode=mode)

    def with_background(self, colour: Any) -> LoaderOptions:
        """The colour behind transparent pixels."""
        return self._with(background=colour)

    def allow_truncated(self, on: bool = True) -> LoaderOptions:
        """Whether JPEGs and PNGs that end early are decoded as far as they go."""
        return self._with(allow_truncated=on)

    def with_page(self, page: int) -> LoaderOptions:
        """The page of images and masks with several pages (TIFF), counted from 0."""
        return self._with(page=page)

    def exif_transpose(self, on: bool = True) -> LoaderOptions:
        """Whether images are rotated as their EXIF orientation says."""
        return self._with(exif_transpose=on)

    def channels_last(self) -> LoaderOptions:
        """Images as rows, columns, channels in memory."""
        return self._with(memory_format="channels_last")

    def channels_first(self) -> LoaderOptions:
        """Images as channels, rows, columns in memory."""
        return self._with(memory_format="channels_first")

    def missing(self, how: str) -> LoaderOptions:
        """Missing numbers: `mask` (0, or NaN for floats, and `NAME.valid`), `nan` or `error`."""
        return self._with(missing=how)

    def pin_memory(self, on: bool = True) -> LoaderOptions:
        """Copy batches to page-locked memory."""
        return self._with(pin_memory=on)

    def non_blocking(self, on: bool = True) -> LoaderOptions:
        """Whether copies to a device overlap with the host."""
        return self._with(non_blocking=on)

    def with_timeout(self, seconds: float | None) -> LoaderOptions:
        """Seconds without a batch after which an error is raised."""
        return self._with(timeout=seconds)

    timeout_seconds = with_timeout

    def with_on_error(self, policy: str, max_errors: int | None = None) -> LoaderOptions:
        """What to do with a bad sample."""
        return self._with(on_error=policy, max_errors=max_errors)

    def with_collate(self, collate: str | Mapping[str, str] | None) -> LoaderOptions:
        """How values of different sizes are returned."""
        return self._with(collate=collate)

    def with_as_tuple(self, fields: bool | Iterable[str] = True) -> LoaderOptions:
        """Batches as tuples: of all fields, or of these."""
        return self._with(as_tuple=fields)

    def with_memory_budget(self, size: int | None) -> LoaderOptions:
        """Largest number of bytes of batch memory in flight, ragged values included. One batch is always allowed."""
        return self._with(memory_budget=size)

    def persistent_workers(self, on: bool = True) -> LoaderOptions:
        """Whether to keep the threads between epochs."""
        return self._with(persistent_workers=on)

    def auto_tune(self, on: bool = True) -> LoaderOptions:
        """Whether to adjust threads and prefetching from epoch to epoch, by what was slow."""
        return self._with(auto_tune=on)

    def with_map(self, function: Any, as_: str | None = None) -> LoaderOptions:
        """A function applied to every sample, and the type of its images: `"numpy"`, `"pil"` or `"torch"`."""
        return self._with(map=function, as_=as_)

    def with_batch_map(self, function: Any) -> LoaderOptions:
        """A function applied to every batch."""
        return self._with(batch_map=function)

    def with_map_workers(self, kind: str | None) -> LoaderOptions:
        """Where functions run: in `"processes"` or `"threads"`."""
        return self._with(map_workers=kind)

    def with_decode(self, decode: str) -> LoaderOptions:
        """`"exact"`, `"fast"` or `"none"`."""
        return self._with(decode=decode)

    def with_views(self, on: bool = True) -> LoaderOptions:
        """Whether undecoded values are views into the mapped files of a pack."""
        return self._with(views=on)

    def with_index(self, index: str) -> LoaderOptions:
        """`"auto"`, `"off"` or `"build"`: seek indexes of JPEGs that are stored without."""
        return self._with(index=index)

    # Presets.

    def gpu_optimized(self) -> LoaderOptions:
        """For one GPU: page-locked memory, overlapping copies, threads that are kept."""
        return self._with(pin_memory=True, persistent_workers=True, non_blocking=True)

    def distributed_optimized(self, rank: int, world_size: int) -> LoaderOptions:
        """The same, for one of several processes; every rank gets the same number of batches."""
        return self.gpu_optimized().shard(rank, world_size)

    def debug_mode(self) -> LoaderOptions:
        """One thread, nothing kept, an error after ten seconds without a batch."""
        return self._with(num_workers=1, persistent_workers=False, timeout=10.0, auto_tune=False)
