"""How many sequences at once a step is best filled with. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

ENOUGH = 0.9
"""Of the best rate. Times are rough, and those of a number that is not in use are old; a number that seemed best by
chance would be kept. And where prompts are read beside them, more at once read the weights for more rows."""


def widest(seconds: Callable[[int], float], most: int) -> int:
    """The largest number, at most `most`, of sequences that draw about as many tokens a second as can be, where
    `seconds(rows)` is what a step of so many rows takes."""
    rates = [rows / seconds(rows) for rows in range(1, most + 1)]
    good = ENOUGH * max(rates)
    return max(rows for rows, rate in enumerate(rates, 1) if rate >= good)
