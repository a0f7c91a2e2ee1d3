"""Samples as JSON, for handing values from one Python to another. Needs nothing but NumPy."""

import base64
import json
import math
from pathlib import Path

import numpy as np


def plain(value):
    """A value as JSON that still knows what it was."""
    if isinstance(value, np.generic):
        value = value.item()  # LitData 0.2.45 gives NumPy's numbers
    if value is None or isinstance(value, bool):
        return {"plain": value}
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"bytes": base64.b64encode(bytes(value)).decode()}
    if isinstance(value, (int, str)):
        return {"plain": value}
    if isinstance(value, float):
        return {"float": repr(float(value))}
    if hasattr(value, "convert") and hasattr(value, "mode"):
        return {"pixels": plain(np.asarray(value.convert("RGB")))["array"]}
    if hasattr(value, "__array__"):
        array = np.ascontiguousarray(np.asarray(value))
        return {"array": [array.dtype.str, list(np.shape(value)), base64.b64encode(array.tobytes()).decode()]}
    return {"json": json.loads(json.dumps(value))}


def restored(tagged):
    """The value again."""
    (kind, value), *_ = tagged.items()
    if kind == "bytes":
        return base64.b64decode(value)
    if kind == "float":
        return float(value)
    if kind in {"array", "pixels"}:
        dtype, shape, data = value
        return np.frombuffer(base64.b64decode(data), dtype=dtype).reshape(shape)
    return value


def save(where, samples):
    """Writes samples, a list of dicts."""
    Path(where).write_text(json.dumps([{name: plain(value) for name, value in s.items()} for s in samples]))


def load(where):
    """Reads them."""
    return [{name: restored(value) for name, value in s.items()} for s in json.loads(Path(where).read_text())]


def same(ours, theirs):
    """Whether two values are one: exactly, arrays with their type and shape."""
    if isinstance(theirs, np.ndarray):
        ours = np.asarray(ours)
        return ours.dtype == theirs.dtype and ours.shape == theirs.shape and ours.tobytes() == theirs.tobytes()
    if isinstance(theirs, float) and isinstance(ours, float) and math.isnan(theirs):
        return math.isnan(ours)
    return type(ours) is type(theirs) and ours == theirs
