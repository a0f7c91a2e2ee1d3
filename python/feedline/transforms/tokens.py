"""Windows of tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from feedline._checks import choice, flag, refuse, whole

from .base import Transform, set_fields

__all__ = ["TokenWindow"]

LONGEST = 2**40
"""The most tokens that a window or a stride can have."""


@dataclass(frozen=True, init=False)
class TokenWindow(Transform):
    """Cuts windows of `size` tokens out of a stream: in the list of a field of tokens.

    A loader's samples are then windows: shuffling, ranks and resuming count them, and `batch["index"]` is their number.
    `batch["tokens"]` has `size` tokens of each, as int64; with `targets`, `batch["targets"]` has the same one token
    later. All documents and files are one stream, in order, unless `across=False`: then no window crosses the end of a
    document (of a file, if the data have no documents), and what is left at its end is dropped.

    `policy="sequential"` puts a window every `stride` tokens (`size` by default), so that an epoch shows every token
    once. `"random"` begins windows anywhere, other ones in each epoch; `batch["index"]` is then the first token.

    >>> TokenWindow(1024, targets=True)
    TokenWindow(size=1024, targets=True, stride=None, policy='sequential', across=True)
    """

    size: int
    targets: bool
    stride: int | None
    policy: str
    across: bool

    def __init__(
        self,
        size: int,
        targets: bool = False,
        stride: int | None = None,
        policy: Literal["sequential", "random"] = "sequential",
        across: bool = True,
    ) -> None:
        set_fields(self, size=whole("size", size, 1, LONGEST), targets=flag("targets", targets))
        set_fields(self, stride=None if stride is None else whole("stride", stride, 1, LONGEST))
        set_fields(self, policy=choice("policy", policy, ("sequential", "random")), across=flag("across", across))
        if self.policy == "random" and stride is not None:
            refuse("stride", stride, "None with policy='random': windows begin anywhere")
        set_fields(self, random=self.policy == "random")
