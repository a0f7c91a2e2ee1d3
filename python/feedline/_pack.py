"""Writing packs: [`pack`][feedline.pack]."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from . import _feedline
from ._checks import choice, flag, maybe, refuse, whole
from ._dataset import Dataset, refuse_mix
from ._opening import open as open_dataset
from ._opening import open_source, storage_text
from ._paths import Uri, local_text
from ._progress import watched
from ._rows import Samples
from ._signatures import called
from ._tables import is_hugging_face
from .errors import OptionError

__all__ = ["pack"]

_IMAGES = ("jpeg", "compact", "dct", "yuv420", "rgb", "as-is")


@called
def pack(
    source: Any,
    destination: Uri,
    *,
    image: str = "jpeg",
    shorter_side: int | None = None,
    longer_side: int | None = None,
    quality: int | None = None,
    baseline: bool = False,
    video: str = "keep",
    part_bytes: int | None = None,
    workers: int = 0,
    progress: bool = True,
    resume: bool = True,
    overwrite: bool = False,
    append: bool = False,
    on_error: str = "raise",
    check: str | None = None,
    schema: Mapping[str, str] | None = None,
    field_names: Sequence[str] | None = None,
    classes: Sequence[str] | None = None,
    storage_options: Mapping[str, object] | None = None,
    source_storage_options: Mapping[str, object] | None = None,
) -> Dataset:
    """Writes `source` as a pack and opens it.

    `source` is anything [`open`][feedline.open] accepts, a data set, or samples in Python: an iterable of dicts, a
    data frame, a map-style data set of torch. Packing is parallel and crash-safe: after an interruption, the same call
    resumes, and the result is the same to the byte. An iterable starts again.

    For samples in Python, `schema` gives the kinds of the fields; by default they are detected from the first samples.
    Pillow's images and rows of the form `{"bytes": ..., "path": ...}` are images: encoded bytes are kept if there are
    any, otherwise pixels are stored without loss (PNG). NumPy's arrays and torch's tensors are arrays unless the schema
    says `image`.
    Tuples need `field_names`. `classes` are the names of the labels; text labels become their numbers.

    With `image="jpeg"` the original bytes are kept bit for bit; `baseline=True` rewrites progressive files without loss
    (only sequential ones can be decoded in part). `image="compact"` stores JPEGs in another form of about their size.
    The files can be restored byte for byte, and it decodes nearly as fast as `dct`. The few files that would grow
    are stored as with `jpeg`, and so are progressive ones. `shorter_side`, `longer_side` and `quality` re-encode
    images.

    Videos are stored as they are, with an index of their frames beside them. `video="gop=8"` encodes them once more, as
    H.264 with a key frame every 8 frames, so that a clip needs few frames beside its own; this needs the `ffmpeg`
    program.

    `check` says how thoroughly images are checked before they are written: `"none"`, `"header"` or `"decode"`. With
    `on_error="skip"` they are decoded by default, and images that cannot be decoded are left out; the pack's
    manifest counts and lists them.

    With `append=True` the samples are added to the finished pack at the destination, as new parts; the old ones are not
    changed. The same call again adds nothing.

    The destination is a folder, or a prefix such as `s3://bucket/train` (with `storage_options`): each part is
    then written here, uploaded and removed, the manifest last; an interrupted upload is resumed. For a remote
    source, use `source_storage_options`.

    >>> import feedline as fl
    >>> packed = fl.pack(example_folder, tmp_path / "animals", progress=False)
    >>> packed.format, len(packed), packed.classes
    ('pack', 12, ['cat', 'dog', 'owl'])
    >>> rows = [{"text": "one", "number": 1}, {"text": "two", "number": 2}]
    >>> fl.pack(rows, tmp_path / "rows", progress=False)[1]
    {'text': 'two', 'number': 2}
    """
    settings = settings_text(
        image=image,
        shorter_side=shorter_side,
        longer_side=longer_side,
        quality=quality,
        baseline=baseline,
        video=video,
        part_bytes=part_bytes,
        workers=workers,
        on_error=on_error,
        check=check,
        resume=resume,
        overwrite=overwrite,
    )
    flag("progress", progress)
    flag("append", append)
    target = local_text("destination", destination)
    storage = storage_text(storage_options)
    described: dict[str, Any] = {"schema": schema, "field_names": field_names, "classes": classes}
    if is_openable(source):
        _refuse_descriptions(described)
        dataset = open_source(source, source_storage_options)
        _write_dataset(dataset, target, storage, settings, append=append, show=progress)
    else:
        _refuse_for_samples(target, append, source_storage_options)
        _write_samples(Samples(source, **described), target, settings)
    return open_dataset(target, format="pack", storage_options=storage_options)


def _refuse_descriptions(described: Mapping[str, Any]) -> None:
    """Refuses what describes samples in Python."""
    for name, value in described.items():
        if value is not None:
            raise OptionError(f"{name}: only for samples in Python; a data set has its own")


def _refuse_for_samples(target: str, append: bool, source_options: Mapping[str, object] | None) -> None:
    """Refuses what only data sets can have."""
    storage_text(source_options, knob="source_storage_options")
    if append:
        raise OptionError("append: samples from Python cannot be appended\nhint: pack them, then merge")
    if source_options:
        raise OptionError("source_storage_options: an iterable is not remote")
    if "://" in target:
        raise OptionError(
            "destination: an iterable is packed into a local folder; pack or convert that folder to upload it"
        )


def _write_dataset(dataset: Dataset, target: str, storage: str, settings: str, *, append: bool, show: bool) -> None:
    refuse_mix(dataset)
    if append and "://" in target:
        raise OptionError("append: only to a pack on this machine's disks")

    def write(counts: _feedline.PackProgress) -> None:
        if append:
            _feedline.append_pack(dataset._core, target, settings, counts)  # noqa: SLF001 - same package
        else:
            _feedline.pack(dataset._core, target, storage, settings, counts)  # noqa: SLF001

    watched(len(dataset), write, show=show)


def _write_samples(samples: Samples, target: str, settings: str) -> None:
    writer = _feedline.PackWriter(target, list(samples.schema.items()), samples.classes, settings)
    samples.push_all(writer.push)
    writer.finish()


def settings_text(**knobs: Any) -> str:
    """The knobs that determine what is written, checked, in the core's form."""
    side = maybe(partial(whole, low=1, high=2**32 - 1))
    checks: dict[str, Callable[[str, Any], Any]] = {
        "image": lambda name, value: choice(name, value, _IMAGES),
        "shorter_side": side,
        "longer_side": side,
        "quality": maybe(partial(whole, low=1, high=100)),
        "baseline": flag,
        "video": _video,
        "part_bytes": maybe(partial(whole, low=1)),
        "workers": partial(whole, high=4096),
        "on_error": lambda name, value: choice(name, value, ("raise", "skip")),
        "check": maybe(partial(choice, allowed=("none", "header", "decode"))),
        "resume": flag,
        "overwrite": flag,
    }
    return json.dumps({name: checks[name](name, value) for name, value in knobs.items()})


def _video(name: str, value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"keep|gop=[1-9]\d{0,2}|gop=1000", value):
        refuse(name, value, "'keep', or 'gop=N' with N from 1 to 1000")
    return value


def is_openable(source: object) -> bool:
    """Whether it can be opened, and so be read again; otherwise the samples are in Python."""
    return isinstance(source, (Dataset, str, bytes, os.PathLike)) or is_hugging_face(source) or _is_uris(source)


def _is_uris(source: object) -> bool:
    one = (str, bytes, os.PathLike)
    return isinstance(source, Sequence) and bool(source) and all(isinstance(uri, one) for uri in source)
