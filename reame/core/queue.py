"""Who waits, and whose turn it is: first come first served per API key, keys in turn."""

from __future__ import annotations

from collections import deque
from itertools import zip_longest
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reame.core.sequence import Sequence

Turn = tuple[str, bool]
"""A key's name, and whether this is its background work."""


class FairQueue:
    """Waiting sequences. The bound on their number is the intake's (`scheduler.queue`), not this one's."""

    def __init__(self) -> None:
        self._by_key: dict[Turn, deque[Sequence]] = {}
        """Keys in the order of their next turn; only keys with somebody waiting."""

    def __len__(self) -> int:
        return sum(map(len, self._by_key.values()))

    @property
    def has_people(self) -> bool:
        """Whether anything but background work waits."""
        return any(not background for _, background in self._by_key)

    def __iter__(self) -> Iterator[Sequence]:
        """In the order of service: the first of each key, then the second of each key, and so on."""
        rounds = zip_longest(*map(list, self._by_key.values()))
        return (sequence for turn in rounds for sequence in turn if sequence is not None)

    def add(self, sequence: Sequence) -> None:
        self._by_key.setdefault(_turn(sequence), deque()).append(sequence)

    def put_back(self, sequence: Sequence) -> None:
        """A preempted sequence: next of its key, and its key is next."""
        key = _turn(sequence)
        waiting = self._by_key.pop(key, deque())
        waiting.appendleft(sequence)
        self._by_key = {key: waiting, **self._by_key}

    def take(self, sequence: Sequence) -> None:
        """`sequence` is served: its key's next turn comes after all others'."""
        key = _turn(sequence)
        waiting = self._by_key.pop(key)
        waiting.remove(sequence)
        if waiting:
            self._by_key[key] = waiting

    def discard(self, sequence: Sequence) -> None:
        """`sequence` gives up waiting; nobody's turn changes. Nothing happens if it does not wait."""
        key = _turn(sequence)
        waiting = self._by_key.get(key, deque())
        if sequence in waiting:
            waiting.remove(sequence)
            if not waiting:
                del self._by_key[key]


def _turn(sequence: Sequence) -> Turn:
    """Background work takes no turn away from its key's other requests."""
    return sequence.request.key, sequence.request.background
