"""The Mersenne Twister, word by word: the generator of torch and Numba."""

from __future__ import annotations

import numpy as np

_BLOCK = 4096


class Words:
    """32-bit words of the generator as started by `init_genrand(seed)`, which uses the seed's low 32 bits."""

    def __init__(self, seed: int) -> None:
        self._state = np.random.RandomState(seed & 0xFFFF_FFFF)
        self._words: list[int] = []

    def next(self) -> int:
        """The next word."""
        if not self._words:
            # Over the whole range, NumPy returns words unchanged.
            self._words = self._state.randint(0, 1 << 32, _BLOCK, dtype=np.uint32).tolist()[::-1]
        return self._words.pop()

    def below(self, bound: int, *, high: bool) -> int:
        """A number below `bound`, by rejection: from a word's high bits as in Python, or its low ones as in NumPy."""
        if high:
            return next(word for word in iter(lambda: self.next() >> (32 - bound.bit_length()), -1) if word < bound)
        if bound == 1:
            return 0
        mask = (1 << (bound - 1).bit_length()) - 1
        return next(word for word in iter(lambda: self.next() & mask, -1) if word < bound)

    def shuffle(self, items: list[int], *, high: bool) -> None:
        """Shuffles uniformly, from the end to the beginning."""
        for at in range(len(items) - 1, 0, -1):
            other = self.below(at + 1, high=high)
            items[at], items[other] = items[other], items[at]
