"""Drafts: guesses at what follows, and how many of their tokens a step should verify. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import define, frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

GAIN = 1.1
"""Tokens per second must grow by this factor, else a step takes no draft: steps are not measured that exactly, and what
looks best among many guesses is seldom as good. With 1.02, drafts of new letters cost more than they saved."""


@frozen
class Draft:
    """A guess. `survivals[i]` is the estimated probability that tokens 0..i all come true; it never rises.

    Any guess is legal as long as its token ids exist: wrong ones cost rows, never change a text.
    """

    tokens: tuple[int, ...]
    survivals: tuple[float, ...]
    source: str

    def cut(self, length: int) -> Draft | None:
        """Its first `length` tokens; None when nothing is left."""
        if length >= len(self.tokens):
            return self
        return Draft(self.tokens[:length], self.survivals[:length], self.source) if length > 0 else None


@define
class DraftCount:
    """What came of the drafts of one source, or of one request. `seconds` saved: negative when drafts cost."""

    proposed: int = 0
    accepted: int = 0
    seconds: float = 0.0

    def add(self, proposed: int, accepted: int, seconds: float) -> None:
        self.proposed += proposed
        self.accepted += accepted
        self.seconds += seconds


def draft_lengths(
    survivals: Sequence[Sequence[float]], *, rows: int, room: int, seconds: Callable[[int], float], gain: float = GAIN
) -> list[int]:
    """How many tokens of each draft to verify beside `rows` rows that are computed anyway, at most `room` in all.

    The likeliest tokens of all users come first; as many are taken as give the most useful rows per second,
    (rows + sum of their survivals) / T(rows + number of them), and none at all unless that beats T(rows) by `gain`.
    """
    ranked = sorted((-survival, index) for index, each in enumerate(survivals) for survival in each)[:room]
    plain, useful, best, taken = rows / seconds(rows), float(rows), 0.0, 0
    for number, (survival, _) in enumerate(ranked, 1):
        useful -= survival
        rate = useful / seconds(rows + number)
        if rate > best:
            best, taken = rate, number
    lengths = [0] * len(survivals)
    if best > gain * plain:
        for _, index in ranked[:taken]:
            lengths[index] += 1
    return lengths
