"""Encodes images of other libraries: existing bytes are kept, anything else is written as PNG, which is lossless."""

from __future__ import annotations

import io
import os
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["encoded", "is_image", "png"]

_PNG_MODES = ("1", "L", "LA", "P", "RGB", "RGBA", "I;16")
_CHANNELS = (1, 3, 4)


def is_image(value: object) -> bool:
    """Whether a value is an image of another library: Pillow's, or a row of a Hugging Face data set."""
    return _is_pillow(value) or _is_stored(value)


def encoded(value: Any) -> bytes:
    """The bytes of an image file for any kind of image; a `TypeError` or `ValueError` if it is not one."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if _is_stored(value):
        return _stored(value)
    if isinstance(value, (str, os.PathLike)):
        return Path(value).expanduser().read_bytes()
    if _is_pillow(value):
        return _pillow(value)
    if hasattr(value, "detach"):
        return png(_rows_first(value.detach().cpu().numpy(), channels_first=True))
    if hasattr(value, "__array__"):
        return png(_rows_first(np.asarray(value), channels_first=False))
    raise TypeError(f"a {type(value).__name__} is not an image")


def png(pixels: np.ndarray[Any, Any]) -> bytes:
    """A PNG file of 8- or 16-bit pixels: height, width, and channels if there are any."""
    if pixels.dtype.kind == "b":
        pixels = pixels.astype(np.uint8) * 255
    if pixels.dtype not in (np.uint8, np.uint16):
        raise ValueError(f"pixels of {pixels.dtype}; an image has uint8 or uint16")
    height, width = pixels.shape[:2]
    channels = 1 if pixels.ndim == 2 else pixels.shape[2]  # noqa: PLR2004 - rows and columns alone
    depth = pixels.dtype.itemsize
    lines = pixels.astype(pixels.dtype.newbyteorder(">")).reshape(height, -1).view(np.uint8)
    # Each byte is stored as the difference to the pixel before: photographs become half as large.
    step = channels * depth
    differences = lines.copy()
    differences[:, step:] -= lines[:, :-step]
    body = np.concatenate([np.ones((height, 1), np.uint8), differences], axis=1).tobytes()
    kind = {1: 0, 2: 4, 3: 2, 4: 6}[channels]
    header = struct.pack(">IIBBBBB", width, height, 8 * depth, kind, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(body, 3)), (b"IEND", b""))
    parts = (
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def _is_pillow(value: object) -> bool:
    return hasattr(value, "mode") and callable(getattr(value, "save", None)) and hasattr(value, "getbands")


def _is_stored(value: object) -> bool:
    """`{"bytes": ..., "path": ...}`: the form of an undecoded image in Hugging Face data sets."""
    return isinstance(value, Mapping) and set(value) == {"bytes", "path"}


def _stored(value: Mapping[str, Any]) -> bytes:
    if value["bytes"] is not None:
        return bytes(value["bytes"])
    if value["path"] is None:
        raise ValueError("an image with neither bytes nor path")
    return Path(value["path"]).read_bytes()


def _pillow(image: Any) -> bytes:
    """The file's own bytes if the image was not changed; else its pixels as PNG."""
    untouched = bool(getattr(image, "tile", None)) and not getattr(image, "decoderconfig", ())
    if untouched:
        stream, name = getattr(image, "fp", None), getattr(image, "filename", "")
        if name and Path(name).is_file():
            return Path(name).read_bytes()
        if stream is not None and not stream.closed and stream.seekable():
            at = stream.tell()
            stream.seek(0)
            whole: bytes = stream.read()
            stream.seek(at)
            return whole
    if image.mode not in _PNG_MODES:
        raise ValueError(f"an image of mode {image.mode} cannot be written without loss; convert it to RGB first")
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def _rows_first(pixels: np.ndarray[Any, Any], *, channels_first: bool) -> np.ndarray[Any, Any]:
    """Changes to rows, columns, channels; torch has channels first."""
    if pixels.ndim == 3:  # noqa: PLR2004 - with channels
        first, last = pixels.shape[0] in _CHANNELS, pixels.shape[2] in _CHANNELS
        if first and (channels_first or not last):
            pixels = np.moveaxis(pixels, 0, 2)
    if pixels.ndim not in (2, 3) or (pixels.ndim == 3 and pixels.shape[2] not in _CHANNELS) or 0 in pixels.shape:  # noqa: PLR2004
        raise ValueError(f"an array of shape {pixels.shape} is not an image: height, width and 1, 3 or 4 channels")
    if pixels.dtype.kind == "f":
        pixels = _levels(pixels)
    return np.ascontiguousarray(pixels)


def _levels(pixels: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Reverts `ToTensor` on 8-bit pixels; any other values would lose precision."""
    levels = np.rint(pixels * 255)
    exact = np.isfinite(pixels).all() and levels.min(initial=0) >= 0 and levels.max(initial=0) <= 255  # noqa: PLR2004
    if not exact or not np.array_equal((levels / 255).astype(pixels.dtype), pixels):
        raise ValueError(f"pixels of {pixels.dtype} that are not multiples of 1/255; give uint8, or store an array")
    whole: np.ndarray[Any, Any] = levels.astype(np.uint8)
    return whole
