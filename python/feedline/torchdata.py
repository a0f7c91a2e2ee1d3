"""torchdata: a loader as a source node.

>>> import feedline as fl
>>> loader = fl.Loader(fl.open(example_folder), batch_size=4, fields=["label"], decode="none")  # doctest: +SKIP
>>> nodes.Loader(nodes.Mapper(feedline.torchdata.Node(loader), to_inputs))  # doctest: +SKIP

`StatefulDataLoader` takes `feedline.torch.as_iterable(loader)` with `batch_size=None`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torchdata.nodes import BaseNode

from ._loader import Loader

__all__ = ["Node"]


class Node(BaseNode):  # type: ignore[misc,type-arg,unused-ignore]
    """The loader's batches as a `torchdata.nodes` source. Each pass is the loader's next epoch."""

    def __init__(self, loader: Loader) -> None:
        super().__init__()
        self.loader = loader
        """The loader."""
        self._batches: Iterator[Any] | None = None

    def reset(self, initial_state: dict[str, Any] | None = None) -> None:
        """Starts the next epoch, or resumes from a saved state."""
        super().reset(initial_state)
        if initial_state is not None:
            self.loader.load_state_dict(initial_state)
        # Nothing is started until a batch is requested: an unused pass is no epoch.
        self._batches = None

    def next(self) -> Any:
        """The next batch."""
        if self._batches is None:
            self._batches = iter(self.loader)
        return next(self._batches)

    def get_state(self) -> dict[str, Any]:
        """Like the loader's."""
        return self.loader.state_dict()
