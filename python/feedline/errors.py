"""What feedline raises. Every class derives from [`Error`][feedline.errors.Error] and from the built-in that fits.

>>> import feedline as fl
>>> try:
...     fl.open("/no/such/folder")
... except FileNotFoundError as error:
...     print(isinstance(error, fl.Error))
True
"""

from __future__ import annotations

__all__ = [
    "AccessError",
    "ClosedError",
    "DataError",
    "Error",
    "LoaderTimeoutError",
    "NotFoundError",
    "OptionError",
    "SampleError",
    "StateError",
    "StorageError",
    "TooManyBadSamplesError",
]


class Error(Exception):
    """Anything feedline raises. Where it has a place, the attributes say which; otherwise they are `None`."""

    uri: str | None = None
    """The data set."""
    shard: str | None = None
    """The file or object inside it."""
    sample: int | None = None
    """The sample's index."""
    field: str | None = None
    """The sample's field."""
    offset: int | None = None
    """The byte."""


class StorageError(Error, OSError):
    """The system or a store refused: broken connection, full disk, unreadable medium."""

    def __str__(self) -> str:
        return str(self.args[1]) if len(self.args) > 1 else super().__str__()


class NotFoundError(StorageError, FileNotFoundError):
    """There is no such file, folder or object."""


class AccessError(StorageError, PermissionError):
    """It is there, but may not be read or written."""


class DataError(Error, ValueError):
    """The data are not what their format demands."""


class SampleError(DataError):
    """One sample could not be read, decoded or transformed."""

    stage: str | None = None
    """`read`, `decode`, `transform` or `batch`."""
    reason: str | None = None
    """Why."""


class TooManyBadSamplesError(DataError):
    """More bad samples than `max_errors` allows, or a batch with nobody left."""


class OptionError(Error, ValueError):
    """A setting that cannot be, alone or with the others."""


class StateError(Error, ValueError):
    """A saved state that does not fit this loader."""


class LoaderTimeoutError(Error, TimeoutError):
    """No batch came within `timeout`."""


class ClosedError(Error, RuntimeError):
    """The loader was closed, or belongs to another process."""
