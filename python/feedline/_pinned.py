"""Batches in page-locked memory: the engine's threads fill tensors of torch; only the device copies.

It has not been run on a GPU yet; tests replace `empty`, `locked` and `available`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["PinnedMemory", "pinned_array"]


def available() -> bool:
    """Whether memory can be page-locked."""
    import torch  # noqa: PLC0415 - optional, imported only where used

    return bool(torch.cuda.is_available())


def current_device() -> int:
    """The device of the calling thread."""
    import torch  # noqa: PLC0415 - optional, imported only where used

    return int(torch.cuda.current_device())


def empty(length: int, device: int) -> Any:
    """A tensor of bytes in page-locked memory, from torch's own allocator, with the context of `device`."""
    import torch  # noqa: PLC0415 - optional, imported only where used

    # Threads start on device 0; every process of a machine would get a context there.
    with torch.cuda.device(device):
        return torch.empty(length, dtype=torch.uint8, pin_memory=True)


def locked(tensor: Any) -> Any:
    """A copy in page-locked memory."""
    return tensor.pin_memory()


class PinnedMemory:
    """Gives the engine its memory. Called by its threads, once per batch and column.

    torch's allocator knows which copies to devices still read a tensor, and gives memory out again only after
    that. So nothing is reused here.
    """

    def __init__(self) -> None:
        self._device: int | None = None

    def arrive(self) -> None:
        """Notes the device of the thread that iterates."""
        self._device = current_device()

    def __call__(self, length: int) -> Any:
        return empty(length, self._device or 0)


def pinned_array(buffer: Any) -> Any:
    """A column as a tensor in page-locked memory: the engine's own if it is, else a copy."""
    import torch  # noqa: PLC0415 - optional, imported only where used

    from ._output import torch_array  # noqa: PLC0415 - the two know each other

    owner = None if isinstance(buffer, np.ndarray) else buffer.owner
    if owner is None:
        return locked(torch_array(buffer))
    dtype = getattr(torch, buffer.dtype)
    count = int(np.prod(buffer.shape, dtype=np.int64))
    return owner[: count * dtype.itemsize].view(dtype).view(buffer.shape)
