"""Who waits, and whose turn it is: first come first served per API key, keys in turn."""

from __future__ import annotations

from collections import deque
from itertools import zip_longest
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reame.core.sequence import Sequence


class FairQueue:
    """Waiting sequences. The bound on their number is the intake's (`scheduler.queue`), not this one's."""

    def __init__(self) -> None:
        self._by_key: dict[str, deque[Sequence]] = {}
        """Keys in the order of their next turn; only keys with somebody waiting."""

    def __len__(self) -> int:
        return sum(map(len, self._by_key.values()))

    def __iter__(self) -> Iterator[Sequence]:
        """In the order of service: the first of each key, then the second of each key, and so on."""
        rounds = zip_longest(*map(list, self._by_key.values()))
        return (sequence for turn in rounds for sequence in turn if sequence is not None)

    def add(self, sequence: Sequence) -> None:
        self._by_key.setdefault(sequence.request.key, deque()).append(sequence)

    def put_back(self, sequence: Sequence) -> None:
        """A preempted sequence: next of its key, and its key is next."""
        key = sequence.request.key
        waiting = self._by_key.pop(key, deque())
        waiting.appendleft(sequence)
        self._by_key = {key: waiting, **self._by_key}

    def take(self, sequence: Sequence) -> None:
        """`sequence` is served: its key's next turn comes after all others'."""
        waiting = self._by_key.pop(sequence.request.key)
        waiting.remove(sequence)
        if waiting:
            self._by_key[sequence.request.key] = waiting

    def discard(self, sequence: Sequence) -> None:
        """`sequence` gives up waiting; nobody's turn changes. Nothing happens if it does not wait."""
        waiting = self._by_key.get(sequence.request.key, deque())
        if sequence in waiting:
            waiting.remove(sequence)
            if not waiting:
                del self._by_key[sequence.request.key]
