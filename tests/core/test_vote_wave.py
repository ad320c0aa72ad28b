"""How many candidates begin, by tables of step times worked by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from reame.core.vote_wave import first_wave

if TYPE_CHECKING:
    from collections.abc import Callable

IN_FOURS = dict(enumerate((75, 117, 141, 124, 167, 191, 225, 233, 276), 1))
"""Milliseconds of a model whose kernels work on four rows at a time."""


@pytest.mark.parametrize(
    ("size", "seconds", "others", "wave"),
    [
        # of 5, three agree with a chance of 0.75^3 = 0.42, and three of four with 0.74
        (5, lambda rows: 1.0, 0, 5),  # rows are free: 1, with four 1.26, with three 1.58
        (5, float, 0, 3),  # rows cost all alike: 3 + 0.58 * 2 = 4.16, 4 + 0.26 = 4.26, 5
        (5, lambda rows: 10.0 + rows, 0, 5),  # 15, 14 + 0.26 * 11 = 16.9, 13 + 0.58 * 12 = 19.9
        (5, IN_FOURS.__getitem__, 0, 4),  # 167, 124 + 0.26 * 75 = 144, 141 + 0.58 * 117 = 209
        (5, IN_FOURS.__getitem__, 4, 5),  # 276, 233 + 0.26 * 167 = 277, 225 + 0.58 * 191 = 336
        (2, float, 0, 2),
        (1, float, 0, 1),
    ],
)
def test_the_shortest_expected_time(size: int, seconds: Callable[[int], float], others: int, wave: int) -> None:
    assert first_wave(size, seconds, others=others) == wave
