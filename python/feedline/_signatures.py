"""Calls with wrong arguments: an unknown or missing argument is an error like every other wrong argument."""

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
    """Wraps a function so that a call with wrong arguments raises `ArgumentError`.

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
    """The same for classes."""

    # The signature for `help` and editors, if it is not that of `__init__`.
    _shown: inspect.Signature | None = None

    @property
    def __signature__(cls) -> inspect.Signature:
        """That of `__init__`; otherwise the one of `__call__` below would be shown."""
        if cls._shown is not None:
            return cls._shown
        made = inspect.signature(cls.__init__)  # type: ignore[misc]
        return made.replace(parameters=list(made.parameters.values())[1:])

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Creates an instance."""
        try:
            return super().__call__(*args, **kwargs)
        except TypeError as error:
            _explain(cls, error, args, kwargs)


def _explain(call: Any, error: TypeError, args: Any, kwargs: Any) -> NoReturn:
    """Raises `error`, or an explanation if the call's arguments were the reason."""
    if isinstance(error, ArgumentError):
        raise error
    signature = inspect.signature(call)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as reason:
        # `self` is not an argument of the call.
        names = [name for name in signature.parameters if name != "self"]
        raise ArgumentError(f"{call.__name__}: {reason}; there are {', '.join(names)}") from None
    raise error
