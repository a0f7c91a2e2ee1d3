"""Keras 3, on any of its backends: a loader as a `PyDataset`.

```python
data = feedline.keras.dataset(fl.Loader("/data/train.pack", batch_size=256, shuffle=True, transforms=ops))
model.fit(data, shuffle=False, epochs=10, callbacks=[data.callback()])
```

`shuffle=False`, because the loader shuffles samples; Keras would shuffle whole batches, which is refused. To resume in
the middle of an epoch, load the saved state and train the rest of that epoch in a separate call, since Keras counts
the batches of an epoch once per call:

```python
data.load_state_dict(state)
model.fit(data, shuffle=False, initial_epoch=data.epoch, epochs=data.epoch + 1, callbacks=[data.callback()])
model.fit(data, shuffle=False, initial_epoch=data.epoch, epochs=10, callbacks=[data.callback()])
```
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from ._loader import Loader
from .errors import OptionError

__all__ = ["Batches", "dataset"]


def dataset(loader: Loader, fields: Sequence[str] | None = ("image", "label")) -> Batches:
    """The loader's batches as a `keras.utils.PyDataset`.

    `fields` are the parts of a batch: one is the input, two are input and target, three have sample weights as well.
    With `None` the batches are dicts, or the results of the loader's `as_tuple` or `batch_map`.
    """
    return Batches(loader, fields)


class Batches(keras.utils.PyDataset):  # type: ignore[misc,unused-ignore]
    """Result of [`dataset`][feedline.keras.dataset]."""

    def __init__(self, loader: Loader, fields: Sequence[str] | None) -> None:
        super().__init__(workers=1, use_multiprocessing=False)
        self.loader = loader
        """The loader."""
        self._fields = None if fields is None else tuple(fields)
        self.epoch = loader.epoch
        """The current epoch, or the next."""
        self._first = 0
        self._done = 0
        self._at = -1
        self._led = False
        self._running: Iterator[Any] = iter(())

    @property
    def num_batches(self) -> int:
        """Number of batches left in the epoch."""
        return len(self.loader) - self._first

    def __len__(self) -> int:
        return self.num_batches

    def __getitem__(self, index: int) -> Any:
        """Batch `index` of the rest of the epoch. Backends read the first few twice; otherwise they read in order."""
        wanted = self._first + int(index)
        if wanted != self._at:
            if index:
                raise OptionError(
                    "shuffle: batches are requested out of order; the loader shuffles, so use fit(shuffle=False)"
                )
            self.loader.seek(self.epoch, wanted)
            self._running = iter(self.loader)
        batch = next(self._running)
        self._at = wanted + 1
        return self._arrays(batch)

    def _arrays(self, batch: Any) -> Any:
        if self._fields is None or not isinstance(batch, Mapping):
            return batch
        return tuple(np.asarray(batch[name]) for name in self._fields)

    def on_epoch_end(self) -> None:
        """Moves to the next epoch, unless only the first batches of this one were read.

        Keras also calls this after it has read the first batches; with `callback` it says which epoch starts.
        """
        if self._at >= len(self.loader) and not self._led:
            self._begin(self.epoch + 1)

    def _begin(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch, self._first, self._done = epoch, 0, 0
        self._at = -1

    def callback(self) -> Any:
        """A callback that tracks epochs and trained batches: backends read ahead, so only Keras knows its position.

        Pass it to `fit` before callbacks that save `state_dict()`. Epochs are then Keras's own, from `initial_epoch`.
        """
        self._led = True
        return _Counting(self)

    def state_dict(self) -> dict[str, Any]:
        """Position of the training: counts batches trained on, not batches read."""
        epoch, batch = self.epoch, self._first + self._done
        if batch >= len(self.loader):
            epoch, batch = epoch + 1, 0
        return {**self.loader.state_dict(), "epoch": epoch, "samples": batch * self.loader._global_batch()}  # noqa: SLF001

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resumes training there."""
        self.loader.load_state_dict(state)
        self.epoch, samples = self.loader._position()  # noqa: SLF001 - same package
        size = self.loader._global_batch()  # noqa: SLF001
        if samples % size:
            raise OptionError(
                f"state: {samples} samples are not whole batches of {size}; use the batch size it was saved with"
            )
        self._first, self._done, self._at = samples // size, 0, -1


class _Counting(keras.callbacks.Callback):  # type: ignore[misc,unused-ignore]
    def __init__(self, data: Batches) -> None:
        super().__init__()
        self._data = data

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        del logs
        self._data._begin(epoch)  # noqa: SLF001 - same module

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        del logs
        self._data._begin(epoch + 1)  # noqa: SLF001 - same module

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        del logs
        self._data._done = batch + 1  # noqa: SLF001 - same module
