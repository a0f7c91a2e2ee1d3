"""JAX: batches as global arrays over the devices of all processes.

```python
mesh = jax.make_mesh((jax.device_count(),), ("data",))
loader = fl.Loader("/data/train.pack", batch_size=32, shuffle=True, drop_last=True, transforms=ops)
for batch in feedline.jax.sharded(loader, NamedSharding(mesh, PartitionSpec("data"))):
    state = train_step(state, batch["image"], batch["label"])
```

`output="jax"` alone gives arrays on this process's default device.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np

from ._loader import Loader
from .errors import OptionError

__all__ = ["Sharded", "sharded"]


def sharded(loader: Loader, sharding: Any) -> Sharded:
    """The loader's batches as global arrays: each process provides its own rows, and nothing is sent between them.

    `sharding` divides the first dimension over the devices, as `NamedSharding(mesh, PartitionSpec("data"))` does; or is
    a mapping from field to sharding, for fields with their own layout. Row `i` of a global batch is row
    `i` of the batch that one process alone would get from `batch_size * processes`. Values without a fixed shape
    (text, ragged fields) stay local to this process.
    """
    return Sharded(loader, sharding)


class Sharded:
    """Result of [`sharded`][feedline.jax.sharded]."""

    def __init__(self, loader: Loader, sharding: Any) -> None:
        own, here = (
            (loader.options["rank"], loader.options["world_size"]),
            (jax.process_index(), jax.process_count()),
        )
        if own != here:
            raise OptionError(
                f"rank: the loader is rank {own[0]} of {own[1]}, JAX's process {here[0]} of {here[1]}\n"
                "hint: make the loader after jax.distributed.initialize(), or give rank= and world_size="
            )
        if not loader.drop_last and here[1] > 1:
            raise OptionError("drop_last: global arrays need full batches on every process; set drop_last=True")
        self.loader = loader
        """The loader."""
        self._sharding = sharding

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[Any]:
        return (jax.tree.map_with_path(self._place, batch) for batch in self.loader)

    def _place(self, path: Any, value: Any) -> Any:
        if not hasattr(value, "dtype") or not hasattr(value, "shape") or not value.shape:
            return value
        sharding = self._sharding
        if isinstance(sharding, Mapping):
            name = getattr(path[0], "key", None) if path else None
            if name not in sharding:
                return value
            sharding = sharding[name]
        local = np.asarray(value)
        shape = (local.shape[0] * jax.process_count(), *local.shape[1:])
        place: Any = jax.make_array_from_process_local_data
        return place(sharding, local, shape)

    def set_epoch(self, epoch: int) -> None:
        """Like the loader's."""
        self.loader.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Like the loader's: the same on every process."""
        return self.loader.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Like the loader's."""
        self.loader.load_state_dict(state)
