"""Calls that do not fit: an argument that is not there, or one too few, is an error like every other wrong argument."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, NoReturn, ParamSpec, TypeVar

from .errors import ArgumentError

__all__ = ["Called", "called"]

Given = ParamSpec("Given")
Made = TypeVar("Made")


def called(function: Callable[Given, Made]) -> Callable[Given, Made]:
    """The same function; a call that does not fit it raises `ArgumentError`.

    >>> @called
    ... def double(number): return 2 * number
    >>> double(nummer=3)
    Traceback (most recent call last):
    feedline.errors.ArgumentError: double: missing a required argument: 'number'; there are number
    """

    @functools.wraps(function)
    def call(*args: Given.args, **kwargs: Given.kwargs) -> Made:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            _explain(function, error, args, kwargs)

    return call


class Called(type):
    """The same for what is made by calling a class."""

    # What `help` and editors show, where it is not what `__init__` says.
    _shown: inspect.Signature | None = None

    @property
    def __signature__(cls) -> inspect.Signature:
        """That of `__init__`: else the one of `__call__` below would be shown."""
        if cls._shown is not None:
            return cls._shown
        made = inspect.signature(cls.__init__)  # type: ignore[misc]
        return made.replace(parameters=list(made.parameters.values())[1:])

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Makes one."""
        try:
            return super().__call__(*args, **kwargs)
        except TypeError as error:
            _explain(cls, error, args, kwargs)


def _explain(call: Any, error: TypeError, args: Any, kwargs: Any) -> NoReturn:
    """Raises `error`, or what is wrong with the call if that was the reason."""
    if isinstance(error, ArgumentError):
        raise error
    signature = inspect.signature(call)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as reason:
        # What a method was called on is no argument of it.
        names = [name for name in signature.parameters if name != "self"]
        raise ArgumentError(f"{call.__name__}: {reason}; there are {', '.join(names)}") from None
    raise error
