"""Texts compared by their words, and the one in the middle of several. Pure.

Distance is Jaccard's over the sets of words and pairs of words (characters, in scripts without blanks). It is a metric,
so that a text which most of the others repeat word for word is always the medoid.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from reame.core.vote_script import WORD

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_WORDS = 4000
"""Of each text are compared."""


def shingles(text: str) -> frozenset[str]:
    """Its words, and each two that follow each other."""
    words = WORD.findall(text.casefold())[:MOST_WORDS]
    return frozenset(words) | {f"{a} {b}" for a, b in pairwise(words)}


def distance(a: frozenset[str], b: frozenset[str]) -> float:
    """From 0, the same, to 1, nothing in common."""
    union = len(a | b)
    return 1 - len(a & b) / union if union else 0.0


def remoteness(texts: Mapping[int, str]) -> dict[int, float]:
    """The sum of each text's distances from all others: that of the medoid is the least."""
    sets = {index: shingles(text) for index, text in texts.items()}
    return {a: round(sum(distance(sets[a], sets[b]) for b in sets), 9) for a in sets}
