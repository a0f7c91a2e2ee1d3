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
    "ArgumentError",
    "ClosedError",
    "DataError",
    "Error",
    "LoaderTimeoutError",
    "NotFoundError",
    "OptionError",
    "OutOfMemoryError",
    "OutOfRangeError",
    "RepeatedEpochWarning",
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
    """The sample's index, as `batch["index"]` has it."""
    source_sample: int | None = None
    """Its index in the data set that it comes from: another one after `select`, `concat` or `mix`."""
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
    """More bad samples than `max_errors` allows, a batch with nobody left, or a bad sample nobody could replace."""


class OptionError(Error, ValueError):
    """A setting that cannot be, alone or with the others."""


class ArgumentError(OptionError, TypeError):
    """A call with an argument that is not there, or without one that must be."""


class OutOfRangeError(OptionError, IndexError):
    """A number of a sample or value that is not there."""


class OutOfMemoryError(Error, MemoryError):
    """The system has no memory left for what was asked. Raised whatever `on_error` says: no sample is to blame."""


class StateError(Error, ValueError):
    """A saved state that does not fit this loader."""


class LoaderTimeoutError(Error, TimeoutError):
    """No batch came within `timeout`."""


class ClosedError(Error, RuntimeError):
    """The loader was closed, or belongs to another process."""


class RepeatedEpochWarning(UserWarning):
    """A new loader gives an epoch that another one of this process gave already."""
