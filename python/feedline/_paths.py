"""Paths and uris, as users write them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ._checks import shown
from .errors import OptionError

__all__ = ["Uri", "local_text"]

Uri = str | bytes | os.PathLike[str] | os.PathLike[bytes]


def local_text(knob: str, uri: Any) -> str:
    """A path or uri as text; local paths become absolute, so that a later change of directory has no effect."""
    if not isinstance(uri, (str, bytes, os.PathLike)):
        raise OptionError(f"{knob}: {shown(uri)} is a {type(uri).__name__}, not a path or a uri")
    text = os.fsdecode(uri)
    if not text:
        raise OptionError(f"{knob}: an empty name is not a path or a uri")
    if "\0" in text:
        raise OptionError(f"{knob}: {text!r} has a zero byte, which no name of a file can have")
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise OptionError(f"{knob}: {text!r} is not UTF-8, which names of data must be")
    if "://" in text or text.startswith("{"):
        return text
    # A file whose name really begins with a tilde takes precedence, as in the engine.
    expanded = text if Path(text).exists() else os.path.expanduser(text)  # noqa: PTH111 - patterns are no paths
    return text if "::" in text else os.path.join(os.getcwd(), expanded)  # noqa: PTH118, PTH109
