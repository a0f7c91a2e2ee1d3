"""Translates the loader's knobs for the engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._callback import leading
from ._dataset import Dataset, Mix
from ._numa import cpus_for
from ._output import tuple_fields
from ._ranks import shared_threads
from .errors import OptionError
from .samplers import Balanced, Block, Buckets, Order, Packed, Random, Split, Weighted
from .samplers.epochs import Timetable
from .transforms.apply import specs
from .transforms.arrays import ArrayWindow
from .transforms.audio import AudioWindow, Mono, Resample
from .transforms.function import Python
from .transforms.mix import batch_specs
from .transforms.policy import flat
from .transforms.tokens import TokenWindow
from .transforms.video import Clip
from .transforms.views import MultiCrop, Yoked, unyoked

__all__ = ["by_field", "core_options", "draws", "images", "timetable"]

_AS_THEY_ARE = (
    "batch_size",
    "seed",
    "drop_last",
    "prefetch",
    "read_ahead",
    "rank",
    "world_size",
    "background",
    "exif_transpose",
    "allow_truncated",
    "page",
    "memory_format",
    "missing",
    "decode",
    "views",
    "index",
    "on_error",
    "max_errors",
    "timeout",
    "memory_budget",
    "persistent_workers",
    "auto_tune",
)


_KIND_OF: dict[type, str] = {
    ArrayWindow: "array",
    TokenWindow: "array",
    AudioWindow: "audio",
    Resample: "audio",
    Mono: "audio",
    Clip: "video",
}
"""The kind of field that a list of transforms is for, by the first of them that says so."""


def core_options(knobs: Mapping[str, Any], dataset: Dataset) -> tuple[dict[str, Any], bytes | None]:
    """The knobs that the engine itself uses, as JSON, and a sampler's long list."""
    options = {name: knobs[name] for name in _AS_THEY_ARE}
    cpus = cpus_for(knobs["numa"], knobs["device"])
    most = len(cpus) or shared_threads()
    options["num_workers"], options["cpus"] = knobs["num_workers"] or min(shared_threads(), most), cpus
    if knobs["max_pixels"] is not None:
        options["max_pixels"] = knobs["max_pixels"]
    options |= _kinds(knobs, dataset)
    fields = tuple_fields(knobs, dataset.schema)
    if fields is not None:
        options["fields"] = fields
    options["shuffle"], options["sampler"], numbers = _order(knobs, dataset)
    options["transforms"] = _transforms(knobs["transforms"], dataset, knobs["targets"])
    if knobs["decode"] == "device":
        # The engine reads and orders; the device decodes.
        options["decode"], options["transforms"] = "none", {}
    options["batch_transforms"] = _mixed(knobs, dataset)
    options["repeats"], options["return_params"] = knobs["repeats"], knobs["return_params"]
    options["targets"] = {field: target.to_spec() for field, target in (knobs["targets"] or {}).items()}
    return options, numbers


def _kinds(knobs: Mapping[str, Any], dataset: Dataset) -> dict[str, Any]:
    """Modes and element types of images: for all, and by field."""
    dtype, mode = knobs["dtype"], knobs["mode"]
    options: dict[str, Any] = {}
    if isinstance(dtype, Mapping):
        options["dtypes"] = dict(dtype)
    else:
        options["dtype"] = dtype
    if isinstance(mode, Mapping):
        options["modes"] = dict(mode)
    elif mode is not None:
        options["modes"] = {name: mode for name, kind in dataset.schema.items() if kind == "image"}
    return options


def timetable(knobs: Mapping[str, Any], dataset: Dataset) -> Timetable | None:
    """The timetable of a sampler that gives a new list in every epoch."""
    if not isinstance(knobs["sampler"], Order):
        return None
    ours = Split(len(dataset), knobs["batch_size"], knobs["world_size"], knobs["drop_last"], knobs["seed"])
    return Timetable(knobs["sampler"], ours)


def draws(knobs: Mapping[str, Any], dataset: Dataset) -> bool:
    """Whether epochs differ, because order or augmentation is random."""
    sampler = knobs["sampler"]
    drawn = isinstance(sampler, (Order, Random, Block, Balanced, Weighted)) or isinstance(dataset, Mix)
    drawn = drawn or (isinstance(sampler, (Buckets, Packed)) and sampler.shuffle) or knobs["shuffle"] is not False
    drawn = drawn or bool(knobs.get("batch_transforms"))
    return drawn or any(
        _is_random(value) for value in by_field(knobs["transforms"], dataset, knobs.get("targets")).values()
    )


def _is_random(value: Any) -> bool:
    if isinstance(value, Yoked):
        return True
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
        if _cuts_windows(knobs, dataset):
            raise OptionError("sampler: TokenWindow's samples are windows, and this sampler counts documents")
        return "off", None, None  # given epoch by epoch
    if sampler is not None:
        return "off", sampler.to_spec(), sampler.numbers()
    return {False: "off", "block": "block"}.get(shuffle, "full"), None, None


def _cuts_windows(knobs: Mapping[str, Any], dataset: Dataset) -> bool:
    lists = by_field(knobs["transforms"], dataset, knobs["targets"]).values()
    return any(isinstance(op, TokenWindow) for ops in lists if not isinstance(ops, Mapping) for op in flat(ops))


def _transforms(transforms: Any, dataset: Dataset, targets: Mapping[str, Any] | None) -> dict[str, Any]:
    found = by_field(transforms, dataset, targets)
    if targets:
        _check_followed(found)
    return {field: _field_transforms(field, value) for field, value in found.items()}


def _mixed(knobs: Mapping[str, Any], dataset: Dataset) -> list[dict[str, Any]]:
    """The batch transforms."""
    found = batch_specs(knobs["batch_transforms"] or [])
    lists = [
        ops
        for value in by_field(knobs["transforms"], dataset, knobs["targets"]).values()
        for ops in (value.values() if isinstance(value, Mapping) else (value,))
    ]
    python = any(isinstance(op, Python) for ops in lists if not isinstance(ops, Yoked) for op in flat(ops))
    if found and (python or knobs["map"] is not None):
        raise OptionError(
            "batch_transforms: functions (map=, T.Python) run after the engine's rows are finished; mix in batch_map="
        )
    if knobs["repeats"] > 1 and not knobs["shuffle"] and knobs["sampler"] is None and not isinstance(dataset, Mix):
        raise OptionError(
            "repeats: an epoch stays as long as before and so shows fewer samples; without shuffle=True or a sampler "
            "they would be the same ones in every epoch"
        )
    return found


def _check_followed(transforms: Mapping[str, Any]) -> None:
    for field, value in transforms.items():
        for ops in value.values() if isinstance(value, Mapping) else (value,):
            if not isinstance(ops, Yoked) and any(isinstance(op, Python) for op in flat(ops)):
                raise OptionError(f"targets: {field} goes through T.Python, and targets cannot follow what it moves")


def by_field(transforms: Any, dataset: Dataset, targets: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
    """Transforms by image field; a list belongs to the only image field that is not a target."""
    if transforms is None:
        return {}
    if isinstance(transforms, Mapping) and not isinstance(transforms, MultiCrop):
        return transforms
    wanted = _KIND_OF.get(next((type(op) for op in flat(transforms) if type(op) in _KIND_OF), Python), "image")
    found = [name for name, kind in dataset.schema.items() if kind == wanted and name not in (targets or ())]
    if len(found) != 1:
        raise OptionError(f"transforms: a list is for a data set with one {wanted} field; this one has {found}")
    return {found[0]: transforms}


def _field_transforms(field: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return {view: specs(f"{field}.{view}", leading(ops)) for view, ops in unyoked(field, value).items()}
    return specs(field, leading(value))


def images(knobs: Mapping[str, Any], dataset: Dataset) -> list[str]:
    """Image fields that are decoded."""
    wanted = dataset.schema if knobs["fields"] is None else knobs["fields"]
    decoded, targets = knobs["decode"] != "none", knobs["targets"] or ()
    there = [name for name, kind in dataset.schema.items() if kind == "image" and name in wanted]
    return [name for name in there if decoded and name not in targets]
