"""Exceptions. Every class derives from [`Error`][feedline.errors.Error] and from the matching built-in.

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
    """Base of all exceptions of feedline. The attributes give the location, or `None` if there is none."""

    uri: str | None = None
    """The data set."""
    shard: str | None = None
    """The file or object inside it."""
    sample: int | None = None
    """The sample's index, as in `batch["index"]`."""
    source_sample: int | None = None
    """The sample's index in its original data set, which differs after `select`, `concat` or `mix`."""
    field: str | None = None
    """The sample's field."""
    offset: int | None = None
    """The byte offset."""


class StorageError(Error, OSError):
    """The system or a store failed: broken connection, full disk, unreadable medium."""

    def __str__(self) -> str:
        return str(self.args[1]) if len(self.args) > 1 else super().__str__()


class NotFoundError(StorageError, FileNotFoundError):
    """There is no such file, folder or object."""


class AccessError(StorageError, PermissionError):
    """It exists, but may not be read or written."""


class DataError(Error, ValueError):
    """The data do not follow their format."""


class SampleError(DataError):
    """One sample could not be read, decoded or transformed."""

    stage: str | None = None
    """`read`, `decode`, `transform` or `batch`."""
    reason: str | None = None
    """The reason."""


class TooManyBadSamplesError(DataError):
    """More bad samples than `max_errors` allows, a batch without good samples, or a bad sample without a substitute."""


class OptionError(Error, ValueError):
    """A setting that is not possible, alone or with the others."""


class ArgumentError(OptionError, TypeError):
    """A call with an unknown argument, or without a required one."""


class OutOfRangeError(OptionError, IndexError):
    """An index of a sample or value that does not exist."""


class OutOfMemoryError(Error, MemoryError):
    """The system has no more memory. Raised whatever `on_error` says: it is not the sample's fault."""


class StateError(Error, ValueError):
    """A saved state that does not fit this loader."""


class LoaderTimeoutError(Error, TimeoutError):
    """No batch was ready within `timeout`."""


class ClosedError(Error, RuntimeError):
    """The loader was closed, or belongs to another process."""


class RepeatedEpochWarning(UserWarning):
    """A new loader gives an epoch that another one of this process has already given."""
