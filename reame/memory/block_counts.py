"""What became of the blocks of one store, counted by several threads."""

from __future__ import annotations

import threading

from attrs import frozen


@frozen(kw_only=True)
class BlockStats:
    """`blocks` and `bytes` are on disk now, all models and processes together. The others count blocks since the start:
    read, asked for and not had, found damaged or of another model, not written for want of room or of a working disk,
    evicted by this process, written.
    """

    blocks: int
    bytes: int
    hits: int
    misses: int
    corrupt: int
    foreign: int
    dropped: int
    evicted: int
    stored: int


class BlockCounts:
    """Owner of the running numbers."""

    def __init__(self) -> None:
        self._numbers = dict.fromkeys(("hits", "misses", "corrupt", "foreign", "dropped", "stored"), 0)
        self._turn = threading.Lock()

    def add(self, **numbers: int) -> None:
        with self._turn:
            for name, number in numbers.items():
                self._numbers[name] += number

    def stats(self, *, blocks: int, bytes: int, evicted: int) -> BlockStats:
        with self._turn:
            return BlockStats(blocks=blocks, bytes=bytes, evicted=evicted, **self._numbers)
