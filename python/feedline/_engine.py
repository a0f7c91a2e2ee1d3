"""The loader's knobs in the engine's words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._callback import leading
from ._dataset import Dataset, Mix
from ._output import tuple_fields
from ._ranks import shared_threads
from .errors import OptionError
from .samplers import Balanced, Block, Buckets, Order, Random, Split, Weighted
from .samplers.epochs import Timetable
from .transforms.apply import specs
from .transforms.policy import flat

__all__ = ["by_field", "core_options", "draws", "images", "timetable"]

_AS_THEY_ARE = (
    "batch_size",
    "seed",
    "drop_last",
    "prefetch",
    "rank",
    "world_size",
    "dtype",
    "memory_format",
    "missing",
    "decode",
    "on_error",
    "max_errors",
    "timeout",
    "memory_budget",
    "persistent_workers",
    "auto_tune",
)


def core_options(knobs: Mapping[str, Any], dataset: Dataset) -> tuple[dict[str, Any], bytes | None]:
    """The part of the knobs that the engine itself acts on: its JSON, and a sampler's long list."""
    options = {name: knobs[name] for name in _AS_THEY_ARE}
    options["num_workers"] = knobs["num_workers"] or shared_threads()
    if knobs["max_pixels"] is not None:
        options["max_pixels"] = knobs["max_pixels"]
    fields = tuple_fields(knobs, dataset.schema)
    if fields is not None:
        options["fields"] = fields
    options["shuffle"], options["sampler"], numbers = _order(knobs, dataset)
    options["transforms"] = _transforms(knobs["transforms"], dataset)
    return options, numbers


def timetable(knobs: Mapping[str, Any], dataset: Dataset) -> Timetable | None:
    """For a sampler that gives another list in every epoch."""
    if not isinstance(knobs["sampler"], Order):
        return None
    ours = Split(len(dataset), knobs["batch_size"], knobs["world_size"], knobs["drop_last"], knobs["seed"])
    return Timetable(knobs["sampler"], ours)


def draws(knobs: Mapping[str, Any], dataset: Dataset) -> bool:
    """Whether epochs differ: something in order or augmentation is drawn anew for each."""
    sampler = knobs["sampler"]
    drawn = isinstance(sampler, (Order, Random, Block, Balanced, Weighted)) or isinstance(dataset, Mix)
    drawn = drawn or (isinstance(sampler, Buckets) and sampler.shuffle) or knobs["shuffle"] is not False
    return drawn or any(_is_random(value) for value in by_field(knobs["transforms"], dataset).values())


def _is_random(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_is_random(ops) for ops in value.values())
    return any(getattr(op, "random", False) for op in flat(value))


def _order(knobs: Mapping[str, Any], dataset: Dataset) -> tuple[str, dict[str, Any] | None, bytes | None]:
    """Shuffle, sampler, and the sampler's long list."""
    shuffle, sampler = knobs["shuffle"], knobs["sampler"]
    if sampler is not None and shuffle is not False:
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
    return {False: "off", "block": "block"}.get(shuffle, "full"), None, None


def _transforms(transforms: Any, dataset: Dataset) -> dict[str, Any]:
    return {field: _field_transforms(field, value) for field, value in by_field(transforms, dataset).items()}


def by_field(transforms: Any, dataset: Dataset) -> Mapping[str, Any]:
    """Transforms by image field; a list is that of the only one."""
    if transforms is None:
        return {}
    if isinstance(transforms, Mapping):
        return transforms
    found = [name for name, kind in dataset.schema.items() if kind == "image"]
    if len(found) != 1:
        raise OptionError(f"transforms: a list is for a data set with one image field; this one has {found}")
    return {found[0]: transforms}


def _field_transforms(field: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return {view: specs(f"{field}.{view}", leading(ops)) for view, ops in value.items()}
    return specs(field, leading(value))


def images(knobs: Mapping[str, Any], dataset: Dataset) -> list[str]:
    """Image fields that arrive decoded."""
    wanted = dataset.schema if knobs["fields"] is None else knobs["fields"]
    decoded = knobs["decode"] != "none"
    return [name for name, kind in dataset.schema.items() if decoded and kind == "image" and name in wanted]
