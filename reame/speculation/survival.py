"""How far guesses come true: a table of measured acceptance by source, kind of guess, and place in the draft."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from reame.core.draft import Draft

if TYPE_CHECKING:
    from collections.abc import Sequence

PRIOR = 4.0
"""Tokens' worth of belief in the estimate of a kind that was never seen."""
MEMORY = 200.0
"""Tokens after which old experience counts half: what people ask for changes."""
LEAST = 0.02
"""A draft ends where it is less likely than this."""
MATCH_EDGES = (2, 3, 4, 6, 9, 16, 32)
"""Lengths of a match that stand for all from there to the next."""

_PLACES = [min(i, 3) for i in range(4)] + [4] * 4 + [5] * 8 + [6] * 16 + [7] * 224
"""Places in a draft that are counted together: 0, 1, 2, 3, 4-7, 8-15, 16-31, and what follows."""
WHOLE = -1
"""All places together."""


@frozen
class Guess:
    """Tokens that `source` believes to follow, and the kind that each is counted under. `kinds` may be one for all."""

    source: str
    tokens: tuple[int, ...]
    kinds: Sequence[int]
    prior: float
    """The chance of a token, given those before it, as long as nothing was measured."""
    overrules: tuple[int, ...] = ()
    """Guesses that begin with one of these: its source has followed the text, and knows better where it may fail."""


def match_kind(length: int) -> int:
    """The kind of a guess that follows a match of this many tokens, 0 for the shortest."""
    kind = 0
    while kind + 1 < len(MATCH_EDGES) and length >= MATCH_EDGES[kind + 1]:
        kind += 1
    return kind


class Survival:
    """Owner: the decode thread."""

    def __init__(self) -> None:
        self._right: dict[tuple[str, int, int], float] = {}
        self._tried: dict[tuple[str, int, int], float] = {}

    def draft(self, guess: Guess) -> Draft | None:
        """The guess with the probability that each of its tokens and all before it come true."""
        alive, chance, survivals = 1.0, 0.0, []
        before = None
        for now in zip(_PLACES, guess.kinds, strict=False):
            if now != before:
                chance, before = self._chance(guess, *now), now
            alive *= chance
            if alive < LEAST:
                break
            survivals.append(alive)
        length = min(len(survivals), len(guess.tokens))
        return Draft(guess.tokens[:length], tuple(survivals[:length]), guess.source) if length else None

    def learn(self, guess: Guess, start: int, num_right: int, *, failed: bool) -> None:
        """The tokens `start`..`start + num_right - 1` came true, and with `failed` the next one did not."""
        for i in range(start, start + num_right + failed):
            source, kind, right = guess.source, guess.kinds[i], i < start + num_right
            self._count((source, kind, _PLACES[i]), right)
            self._count((source, kind, WHOLE), right)

    def _chance(self, guess: Guess, place: int, kind: int) -> float:
        """Of one token, given those before it. What is believed of a place that was hardly seen lies half way between
        the prior and what is known of the kind at all places: so the first drafts that come true make the next ones
        longer, and texts that repeat themselves whole do not speak for all others."""
        whole = self._estimate((guess.source, kind, WHOLE), guess.prior)
        return self._estimate((guess.source, kind, place), (guess.prior + whole) / 2)

    def _estimate(self, key: tuple[str, int, int], belief: float) -> float:
        return (self._right.get(key, 0.0) + PRIOR * belief) / (self._tried.get(key, 0.0) + PRIOR)

    def _count(self, key: tuple[str, int, int], right: bool) -> None:
        tried = self._tried.get(key, 0.0) + 1
        hits = self._right.get(key, 0.0) + right
        scale = 0.5 if tried > MEMORY else 1.0
        self._tried[key], self._right[key] = tried * scale, hits * scale
