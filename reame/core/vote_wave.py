"""How many candidates begin side by side, when the others are asked only if these do not decide. Pure."""

from __future__ import annotations

from math import comb
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

AGREES = 0.75
"""Assumed chance that a candidate says what most say. It decides about time only, never about an answer."""


def first_wave(size: int, seconds: Callable[[int], float], *, others: int = 0) -> int:
    """Of `size` candidates, at least the majority: as many as give the shortest expected time a token, where
    `seconds(rows)` is what a step takes and `others` rows are computed beside them anyway.

    Rows are not free on a CPU, and not alike: the fourth may cost nothing, and the fifth as much as a step of its own.
    """
    majority = size // 2 + 1

    def expected(wave: int) -> float:
        left = size - wave
        again = _undecided(wave, majority) * seconds(others + left) if left else 0.0
        return seconds(others + wave) + again

    return min(range(size, majority - 1, -1), key=expected)


def _undecided(wave: int, majority: int) -> float:
    """The chance that of so many fewer than the majority agree."""
    return sum(comb(wave, agree) * AGREES**agree * (1 - AGREES) ** (wave - agree) for agree in range(majority))
