"""Counter-based random streams: the same key gives the same bits on every machine and under every NumPy.

Only the raw output of Philox is used, which NumPy guarantees; all that is made of it is integer arithmetic and exact
division by powers of two, so no mathematical library has a say in an input.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.random.bit_generator import ISeedSequence
from numpy.typing import NDArray


def digest(*key: object, size: int = 8) -> int:
    """An integer of `size` bytes that a key (any numbers and words, in order) represents."""
    text = "\x1f".join(map(str, key)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=size).digest(), "little")


def pick(count: int, *key: object) -> int:
    """An integer from 0 to `count` - 1 that a key represents."""
    return digest(*key) % max(count, 1)


class _Key(ISeedSequence):
    """A key of Philox as a seed: beside a `key`, NumPy asks the system for a seed, which takes twice as long."""

    def __init__(self, key: int) -> None:
        self.key = key

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> NDArray[np.uint64]:
        return np.array([self.key & (1 << 64) - 1, self.key >> 64], np.uint64)


class Stream:
    """The random stream of a key."""

    def __init__(self, *key: object) -> None:
        seed: Any = _Key(digest(*key, size=16))
        self._philox = np.random.Philox(seed)

    def bits(self, count: int) -> NDArray[np.uint64]:
        """The next `count` words of 64 bits."""
        return self._philox.random_raw(count)

    def normal(self, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Nearly normal numbers: the sum of twelve uniform ones, of mean 0 and variance 1, multiples of 2 ** -16."""
        count = int(np.prod(shape, dtype=np.int64))
        uniform = self.bits(3 * count).astype("<u8", copy=False).view("<u2").reshape(12, count)
        sums = uniform.sum(axis=0, dtype=np.uint32)
        return ((sums.astype(np.float64) - 393210.0) * 2.0**-16).reshape(shape)

    def uniform(self, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Numbers from 0 to 1, 1 excluded, multiples of 2 ** -53."""
        count = int(np.prod(shape, dtype=np.int64))
        return ((self.bits(count) >> np.uint64(11)).astype(np.float64) * 2.0**-53).reshape(shape)

    def below(self, limit: int, shape: tuple[int, ...]) -> NDArray[np.int64]:
        """Integers from 0 to `limit` - 1."""
        count = int(np.prod(shape, dtype=np.int64))
        return (self.bits(count) % np.uint64(max(limit, 1))).astype(np.int64).reshape(shape)

    def permutation(self, n: int) -> NDArray[np.int64]:
        return np.argsort(self.bits(n), kind="stable")
