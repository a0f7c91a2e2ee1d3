"""Opening data: [`open`][feedline.open]."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from . import _feedline
from ._checks import choice, flag, listed, mapping, maybe, refuse, shown, text
from ._dataset import Dataset
from ._hub import is_hub, located
from ._partners import annotated, by_stem
from ._paths import Uri, local_text
from ._rows import check_schema, is_frame, is_rows
from ._signatures import called
from ._tables import hugging_face, in_memory, is_hugging_face, refuse_unused
from .errors import OptionError

__all__ = ["open", "open_source", "settings", "storage_text"]


@called
def open(  # noqa: A001 - the public contract names it so
    uri: Any,
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
    root: Uri | None = None,
    schema: Mapping[str, str] | None = None,
    follow_links: bool = False,
    annotations: Uri | None = None,
    dtype: str | None = None,
) -> Dataset:
    """Opens data in place: a folder of images, a pack, tar files, a zip, a table.

    `uri` is a path, a brace or glob pattern (`train-{000..146}.tar`, `*.jpg`), or a list of those; several folders,
    packs or tables are joined, with classes matched by name. `~` and relative paths are resolved at once. `format` is
    detected from the content unless given. `fields` selects and renames: `{"image": "jpg;jpeg;png", "label": "cls"}`.

    A table (`.csv`, `.tsv`, `.jsonl`) has a sample in each row; a column of image paths becomes the image, and a label
    column of text becomes classes. Paths start at the table's folder, or at `root`. A data frame, a list of dicts and a
    `datasets.Dataset` are tables too. `schema` gives the kinds of columns that cannot be detected:
    `{"file": "image", "label": "text"}`; with it, arrays in `.npy` and `.npz` files can be images.

    `hf://datasets/ORG/NAME[@REVISION][/PATH]` are files on the Hugging Face hub, at the revision's commit
    when it is opened; the token is found as in `huggingface_hub`.

    `{"image": "images/", "mask": "masks/"}` joins files of the same name in parallel folders; files without a partner
    are left out with a warning. With `annotations`, images of a folder get the `boxes` and `label` of their objects:
    COCO's file (`"instances.json"`; boxes as corners, segmentations as `masks`), a folder of Pascal VOC's `.xml`
    (corners), or one of YOLO's `.txt` (centre and size, as shares: `T.Boxes("cxcywh", normalized=True)`).

    Some formats have more options. `split` selects one of several parts (`train`, `test`). Fields that are Python
    pickles are refused unless `allow_pickle` is set, since reading one can run any code; `ds[i]` then unpickles them, a
    loader returns their bytes. `password` is for encrypted data, `verify_hashes` compares files with the hashes in
    their index. Tables may name image files beside them; a file outside the folder, reached by a symbolic link, is
    refused unless `follow_links` is set.

    `format="tokens"` reads files of token numbers; `dtype` (`"uint16"`) is the type of those that do not say it.

    >>> import feedline as fl
    >>> ds = fl.open(example_folder)
    >>> ds.format, len(ds), ds.classes
    ('folder', 12, ['cat', 'dog', 'owl'])
    >>> sorted(ds[0])
    ['image', 'label', 'path']
    """
    choice("on_change", on_change, ("error",))  # changed data are always an error
    reading = _reading(
        split=split,
        allow_pickle=allow_pickle,
        password=password,
        verify_hashes=verify_hashes,
        follow_links=follow_links,
        dtype=dtype,
    )
    text("format", format)
    picked, kinds, storage = _picked(fields), check_schema(schema), storage_text(storage_options, cache_dir)
    if annotations is not None or isinstance(uri, Mapping):
        refuse_unused(format=format, root=root, schema=schema, **reading)
        if annotations is None:
            return Dataset(by_stem(uri, picked, storage))
        return Dataset(annotated(uri, annotations, picked, storage))
    if is_hugging_face(uri):
        refuse_unused(format=format, root=root, schema=schema, **reading)
        return Dataset(hugging_face(uri, picked, storage))
    reading["root"] = None if root is None else local_text("root", root)
    if is_frame(uri) or is_rows(uri):
        refuse_unused(format=format, **{name: value for name, value in reading.items() if name != "root"})
        return Dataset(in_memory(uri, picked, reading, kinds, storage))
    reading["schema"] = kinds
    uris = _uris("uri", uri)
    if any(is_hub(one) for one in uris):
        uris, reached = located(uris, storage_options, split)
        reading["split"], storage = None, storage_text(reached, cache_dir)
    core = _feedline.Dataset.open(uris, format, picked, json.dumps(reading), storage)
    for warning in core.warnings():
        warnings.warn(warning, stacklevel=3)
    return Dataset(core)


def open_source(source: Any, options: Mapping[str, object] | None) -> Dataset:
    """Opens the source of a function that writes data."""
    storage_text(options, knob="source_storage_options")
    if isinstance(source, Dataset):
        if options:
            raise OptionError("source_storage_options: the source is already open; pass them to open")
        return source
    if not (is_hugging_face(source) or is_frame(source) or is_rows(source)):
        _uris("source", source)
    try:
        return open(source, storage_options=options)
    except OptionError as error:
        # Here, `storage_options` are those of the destination.
        if str(error).startswith("storage_options: "):
            raise OptionError(f"source_{error}") from None
        raise


def _reading(**given: Any) -> dict[str, Any]:
    """How formats read, checked, in the core's form."""
    checks: dict[str, Callable[[str, Any], Any]] = {
        "split": maybe(text),
        "allow_pickle": flag,
        "password": maybe(text),
        "verify_hashes": flag,
        "follow_links": flag,
        "dtype": maybe(_element_type),
    }
    return {name: checks[name](name, value) for name, value in given.items()}


def _element_type(name: str, dtype: Any) -> str:
    """The name of an element type, given as a name or as a type of NumPy."""
    try:
        found = np.dtype(dtype).name
    except Exception:  # noqa: BLE001 - NumPy asks the value, which may raise anything
        refuse(name, dtype, "the type of tokens, such as 'uint16'")
    return choice(name, found, ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"))


def _uris(knob: str, given: Any) -> list[str]:
    if isinstance(given, (str, bytes, os.PathLike)):
        return [local_text(knob, given)]
    allowed = "a path, a uri, or a list of those"
    if isinstance(given, Mapping) or not isinstance(given, Iterable):
        raise OptionError(f"{knob}: a {type(given).__name__} cannot be opened ({shown(given)}); give {allowed}")
    uris = [local_text(knob, one) for one in listed(knob, given, allowed)]
    if not uris:
        refuse(knob, given, allowed)
    return uris


def _picked(fields: Mapping[str, str] | None) -> list[tuple[str, str]] | None:
    allowed = "a dict of names, such as {'image': 'jpg;png', 'label': 'cls'}"
    found = mapping("fields", fields, allowed)
    for stored in found.values():
        text("fields: what is stored", stored)
    return list(found.items()) or None


def storage_text(
    options: Mapping[str, object] | None, cache_dir: Uri | None = None, knob: str = "storage_options"
) -> str:
    """Storage settings for remote data, in the core's form."""
    folder = None if cache_dir is None else local_text("cache_dir", cache_dir)
    return json.dumps({"options": settings(options, knob), "cache_dir": folder})


def settings(options: Mapping[str, object] | None, knob: str = "storage_options") -> dict[str, str]:
    """Storage options as names and texts."""
    named: dict[str, str] = {}
    for name, value in mapping(knob, options, "a dict of settings by name").items():
        if isinstance(value, Mapping) and name == "headers":
            named.update({f"header.{header}": _setting(knob, header, content) for header, content in value.items()})
        elif value is not None:
            named[name] = _setting(knob, name, value)
    return named


def _setting(knob: str, name: object, value: Any) -> str:
    """A setting as text: text, a number, yes or no, or a list of those."""
    if isinstance(value, (list, tuple)):
        return ",".join(_setting(knob, name, one) for one in value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        raise OptionError(f"{knob}: {name} is a mapping; give each setting separately")
    if not isinstance(value, (str, int, float, os.PathLike)):
        raise OptionError(f"{knob}: {name} is {shown(value)}, which is not text, a number, True or False")
    return text(f"{knob}: {name}", str(value))
