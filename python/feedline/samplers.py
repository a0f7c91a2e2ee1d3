"""Which samples an epoch has, in which order, beyond `shuffle`."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Random", "Sampler", "Sequential"]


class Sampler:
    """The base of all samplers."""


@dataclass(frozen=True)
class Sequential(Sampler):
    """As stored.

    >>> Sequential()
    Sequential()
    """


@dataclass(frozen=True)
class Random(Sampler):
    """Every sample once, in random order.

    >>> Random()
    Random(replacement=False)
    """

    replacement: bool = False
