"""The loader's knobs as an immutable, fluent builder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .errors import OptionError

__all__ = ["DEFAULTS", "REFUSED", "LoaderOptions", "refuse_unknown"]

DEFAULTS: dict[str, Any] = {
    "batch_size": 64,
    "shuffle": False,
    "seed": 0,
    "drop_last": False,
    "sampler": None,
    "transforms": None,
    "fields": None,
    "num_workers": 0,
    "prefetch": None,
    "rank": None,
    "world_size": None,
    "output": "auto",
    "device": None,
    "dtype": "float32",
    "memory_format": "channels_first",
    "pin_memory": False,
    "non_blocking": True,
    "timeout": None,
    "on_error": "raise",
    "max_errors": None,
    "collate": None,
    "cache_dir": None,
    "memory_budget": None,
    "persistent_workers": True,
    "auto_tune": False,
    "multiprocessing_context": "forkserver",
    "decode": "exact",
    "max_pixels": None,
}

REFUSED: dict[str, str] = {
    "part_size": "a property of the connection: say storage_options={'part_size': ...} in fl.open",
    "max_inflight_parts": "a property of the connection: say storage_options={'max_inflight_parts': ...} in fl.open",
    "page_cache": "not adjustable: samples are read with pread, once each, and the kernel's own read-ahead is kept",
    "loading_mode": "batches always come in order, whatever the order in which reads finish",
    "worker_init_fn": "workers are threads of the engine and run no Python",
    "collate_fn": "a Python function per batch would stall the engine; see collate=",
    "generator": "order and augmentation are drawn from seed",
    "prefetch_factor": "say prefetch=, which counts batches in all, not per worker",
    "batch_sampler": "say sampler= and batch_size=",
}
"""Knobs of other loaders, and why they are not here."""


def refuse_unknown(names: Iterable[str]) -> None:
    """An error for the first name that is not a knob, with the reason where there is one."""
    for name in sorted(set(names) - set(DEFAULTS)):
        reason = REFUSED.get(name)
        raise OptionError(f"{name}: {reason}" if reason else f"{name}: no such knob; there are {', '.join(DEFAULTS)}")


class LoaderOptions:
    """A loader's knobs, put together step by step. Every step gives a new value; the old one stays as it is.

    Read a knob back as `options["batch_size"]`, as `options.batch_size_value`, or all of them with `to_dict()`.

    >>> options = LoaderOptions().with_batch_size(256).shuffle(True, 42).num_workers(8)
    >>> options["batch_size"], options.seed_value, options.num_workers_value
    (256, 42, 8)
    >>> options == LoaderOptions(batch_size=256, shuffle=True, seed=42, num_workers=8)
    True
    >>> options
    LoaderOptions(batch_size=256, shuffle=True, seed=42, num_workers=8)
    """

    __slots__ = ("_knobs",)

    def __init__(self, **knobs: Any) -> None:
        refuse_unknown(knobs)
        # Only what was set: a loader's own arguments then fill the rest.
        self._knobs = {name: knobs[name] for name in DEFAULTS if name in knobs}

    def _with(self, **knobs: Any) -> LoaderOptions:
        return LoaderOptions(**{**self._knobs, **knobs})

    def __getitem__(self, knob: str) -> Any:
        if knob not in DEFAULTS:
            raise KeyError(knob)
        return self._knobs.get(knob, DEFAULTS[knob])

    def __getattr__(self, name: str) -> Any:
        if name.endswith("_value") and name[: -len("_value")] in DEFAULTS:
            return self[name[: -len("_value")]]
        raise AttributeError(name)

    def to_dict(self) -> dict[str, Any]:
        """All knobs with their values, defaults included."""
        return {name: self[name] for name in DEFAULTS}

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
        """Order of an epoch, and what it is drawn from."""
        return self._with(shuffle=on) if seed is None else self._with(shuffle=on, seed=seed)

    def with_seed(self, seed: int) -> LoaderOptions:
        """What order and augmentation are drawn from."""
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
        from .samplers import Random  # noqa: PLC0415 - samplers import this module's neighbours

        return self._with(sampler=Random(replacement=True)) if replacement else self._with(shuffle=True)

    def weighted_sampling(self, weights: Any, num_samples: int | None = None) -> LoaderOptions:
        """By weight, with replacement."""
        from .samplers import Weighted  # noqa: PLC0415 - samplers import this module's neighbours

        return self._with(sampler=Weighted(weights, num_samples))

    def with_transforms(self, transforms: Any) -> LoaderOptions:
        """Transforms: a list for the image field, or a dict by field."""
        return self._with(transforms=transforms)

    def with_fields(self, fields: Iterable[str]) -> LoaderOptions:
        """Load only these fields."""
        return self._with(fields=list(fields))

    def num_workers(self, threads: int) -> LoaderOptions:
        """Worker threads; 0 for all usable cores."""
        return self._with(num_workers=threads)

    def prefetch(self, batches: int) -> LoaderOptions:
        """Batches to be ready ahead."""
        return self._with(prefetch=batches)

    def shard(self, rank: int, world_size: int) -> LoaderOptions:
        """This process's place among all."""
        return self._with(rank=rank, world_size=world_size)

    distributed_sampling = shard

    def with_output(self, output: str) -> LoaderOptions:
        """`"torch"`, `"numpy"`, `"jax"` or `"dlpack"`."""
        return self._with(output=output)

    def with_device(self, device: Any) -> LoaderOptions:
        """Where torch tensors go."""
        return self._with(device=device)

    def with_dtype(self, dtype: Any) -> LoaderOptions:
        """Element type of images."""
        return self._with(dtype=dtype)

    def channels_last(self) -> LoaderOptions:
        """Images as rows, columns, channels in memory."""
        return self._with(memory_format="channels_last")

    def channels_first(self) -> LoaderOptions:
        """Images as channels, rows, columns in memory."""
        return self._with(memory_format="channels_first")

    def pin_memory(self, on: bool = True) -> LoaderOptions:
        """Copy batches to page-locked memory."""
        return self._with(pin_memory=on)

    def non_blocking(self, on: bool = True) -> LoaderOptions:
        """Whether copies to a device overlap with the host."""
        return self._with(non_blocking=on)

    def with_timeout(self, seconds: float | None) -> LoaderOptions:
        """Seconds without a batch after which to give up."""
        return self._with(timeout=seconds)

    timeout_seconds = with_timeout

    def with_on_error(self, policy: str, max_errors: int | None = None) -> LoaderOptions:
        """What to do with a bad sample."""
        return self._with(on_error=policy, max_errors=max_errors)

    def with_collate(self, collate: str | Mapping[str, str] | None) -> LoaderOptions:
        """How values of different sizes arrive."""
        return self._with(collate=collate)

    def with_memory_budget(self, size: int | None) -> LoaderOptions:
        """Bytes of batch memory in flight."""
        return self._with(memory_budget=size)

    def persistent_workers(self, on: bool = True) -> LoaderOptions:
        """Whether to keep the threads between epochs."""
        return self._with(persistent_workers=on)

    def auto_tune(self, on: bool = True) -> LoaderOptions:
        """Whether to adjust threads and batches ahead from epoch to epoch, by what was slow."""
        return self._with(auto_tune=on)

    def with_decode(self, decode: str) -> LoaderOptions:
        """`"exact"`, `"fast"` or `"none"`."""
        return self._with(decode=decode)

    # Presets.

    def gpu_optimized(self) -> LoaderOptions:
        """For one GPU: page-locked memory, copies that overlap, threads that stay."""
        return self._with(pin_memory=True, persistent_workers=True, non_blocking=True)

    def distributed_optimized(self, rank: int, world_size: int) -> LoaderOptions:
        """The same, for one of several processes; every rank gets as many batches as the others."""
        return self.gpu_optimized().shard(rank, world_size)

    def debug_mode(self) -> LoaderOptions:
        """One thread, nothing kept, an error after ten seconds without a batch."""
        return self._with(num_workers=1, persistent_workers=False, timeout=10.0, auto_tune=False)
