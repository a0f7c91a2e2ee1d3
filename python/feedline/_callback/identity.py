"""Functions and their parameters as short texts, for saved states: the same in every process and on every machine."""

from __future__ import annotations

import hashlib
import random
import sys
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from functools import partial
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

__all__ = ["in_words"]

Around = tuple[Any, ...]
"""The objects that contain the current one, from the outside in."""

DEEPEST = 24
"""Objects nested deeper than this are represented by their type only."""


def in_words(function: Any) -> str:
    """Name for people, and digest of code and parameters for exact comparison."""
    named = function.func if isinstance(function, partial) else function
    owner = named if hasattr(named, "__qualname__") else type(named)
    digest = hashlib.blake2b(digest_size=6)
    for word in _words(function, ()):
        digest.update(len(word).to_bytes(8, "little"))
        digest.update(word)
    return f"{owner.__module__}.{owner.__qualname__} #{digest.hexdigest()}"


def _words(value: Any, around: Around) -> list[bytes]:
    """What identifies a value: never an address, never an order that differs from run to run."""
    if value is None or isinstance(value, (bool, int, float, complex, str)):
        return [type(value).__name__.encode(), repr(value).encode("utf-8", "surrogatepass")]
    if isinstance(value, (bytes, bytearray)):
        return [b"bytes", bytes(value)]
    kind = _name(type(value))
    if len(around) > DEEPEST or any(value is outer for outer in around) or _draws(value):
        # A generator's state is not chosen by the user; an object that contains itself would never end.
        return [kind]
    return [kind, *_inside(value, (*around, value))]


def _inside(value: Any, around: Around) -> list[bytes]:  # noqa: PLR0911 - one line per kind
    if isinstance(value, np.ndarray) and value.dtype != object:
        return [str((value.dtype.str, value.shape)).encode(), np.ascontiguousarray(value).tobytes()]
    if isinstance(value, (list, tuple)):
        return [b"(", *(word for item in value for word in _words(item, around)), b")"]
    if isinstance(value, Mapping):
        pairs = [(_words(key, around), _words(item, around)) for key, item in value.items()]
        return [b"{", *(word for key, item in sorted(pairs) for word in (*key, *item)), b"}"]
    if isinstance(value, AbstractSet):
        return [b"<", *(word for words in sorted(_words(item, around) for item in value) for word in words), b">"]
    if isinstance(value, FunctionType):
        return _function(value, around)
    if isinstance(value, MethodType):
        return [*_words(value.__func__, around), *_words(value.__self__, around)]
    if isinstance(value, (type, ModuleType, BuiltinFunctionType, np.ufunc)):
        return [_name(value)]
    return _object(value, around)


def _function(function: FunctionType, around: Around) -> list[bytes]:
    cells = []
    for cell in function.__closure__ or ():
        try:
            cells.append(cell.cell_contents)
        except ValueError:  # noqa: PERF203 - not yet bound
            cells.append(None)
    more = (function.__defaults__, function.__kwdefaults__, cells)
    return [_name(function), *_code(function.__code__, around), *_words(more, around)]


def _code(code: CodeType, around: Around) -> list[bytes]:
    """Instructions and constants: no file names, no line numbers."""
    words = [code.co_code, *(name.encode() for name in code.co_names)]
    for constant in code.co_consts:
        words += _code(constant, around) if isinstance(constant, CodeType) else _words(constant, ())
    return words


def _object(value: Any, around: Around) -> list[bytes]:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return _words(value.detach().cpu().as_subclass(torch.Tensor).float().numpy(), around)
    if torch is not None and isinstance(value, torch.dtype):
        return [str(value).encode()]
    try:
        parts = value.__reduce_ex__(4)
    except Exception:  # noqa: BLE001 - locks, files: they have no identity
        return []
    if isinstance(parts, str):
        return [parts.encode()]
    # Constructor, arguments, state, list items, dict items.
    known = [list(part) if at > 2 and part is not None else part for at, part in enumerate(parts[:5])]  # noqa: PLR2004
    return [word for part in known for word in _words(part, around)]


def _draws(value: Any) -> bool:
    torch = sys.modules.get("torch")
    makers = (random.Random, np.random.Generator, np.random.RandomState, np.random.BitGenerator)
    return isinstance(value, makers) or (torch is not None and isinstance(value, torch.Generator))


def _name(value: Any) -> bytes:
    names = (getattr(value, "__module__", ""), getattr(value, "__qualname__", getattr(value, "__name__", "")))
    return ".".join(map(str, names)).encode()
