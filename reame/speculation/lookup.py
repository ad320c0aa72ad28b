"""Prompt look-up: where the last tokens of a text stood before, what followed them may follow again.

The idea is Saxena's "prompt lookup decoding" (2023), with the longest match instead of an n-gram of fixed length.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from reame.speculation.realignment import Place

SHORTEST = 2
"""Tokens of a match at least."""
LONGEST = 64
"""A match that is this long is not followed further back."""
MOST_SITES = 24
"""Places that are looked at, the newest first."""

_SHIFT = 24
"""Bits of a token id: vocabularies are far smaller than 16 million."""


class Match(NamedTuple):
    """`length` tokens before `position` are the same as the last ones of the text that was asked for."""

    length: int
    position: int


class IndexedPlace(NamedTuple):
    """A `realignment.Place` in a live text."""

    tokens: list[int]
    position: int

    def after(self, most: int) -> list[int]:
        return self.tokens[self.position : self.position + most]

    def before(self, most: int) -> list[int]:
        return self.tokens[max(0, self.position - most) : self.position]


class NgramIndex:
    """A growing text, and where each pair of its tokens stood. About 1 us and 150 bytes a token."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self._newest: dict[int, int] = {}
        self._older: list[int] = []

    def extend(self, tokens: Iterable[int]) -> None:
        """A pair is entered when its successor is known, so that a text never finds its own end."""
        known, newest, older = self.tokens, self._newest, self._older
        for token in tokens:
            here = len(known)
            if here >= SHORTEST:
                pair = known[-2] << _SHIFT | known[-1]
                older.append(newest.get(pair, -1))
                newest[pair] = here
            else:
                older.append(-1)
            known.append(token)

    def find(self, tail: Sequence[int]) -> Match | None:
        """The place whose past agrees longest with `tail`; of equals the newest."""
        if len(tail) < SHORTEST:
            return None
        position = self._newest.get(tail[-2] << _SHIFT | tail[-1], -1)
        best: Match | None = None
        for _ in range(MOST_SITES):
            if position < 0:
                break
            length = self._agreement(tail, position)
            if best is None or length > best.length:
                best = Match(length, position)
                if length >= LONGEST:
                    break
            position = self._older[position]
        return best

    def place(self, position: int) -> Place:
        return IndexedPlace(self.tokens, position)

    def continuation(self, position: int, most: int) -> tuple[int, ...]:
        """What follows from there on. A text that repeats itself is continued beyond its end."""
        found = self.tokens[position : position + most]
        period = len(self.tokens) - position
        while len(found) < most:
            found.append(found[len(found) - period])
        return tuple(found)

    def _agreement(self, tail: Sequence[int], position: int) -> int:
        known, most = self.tokens, min(len(tail), position, LONGEST)
        length = SHORTEST
        while length < most and tail[-1 - length] == known[position - 1 - length]:
            length += 1
        return length
