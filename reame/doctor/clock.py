"""Timing that disturbs and is disturbed as little as can be: the fastest of a few runs, within an allowance."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Clock:
    """Counts down to the end of the whole; allowances are shares of what is left."""

    def __init__(self, seconds: float) -> None:
        self._start = time.monotonic()
        self._end = self._start + seconds
        self._seconds = seconds

    @property
    def left(self) -> float:
        return max(0.0, self._end - time.monotonic())

    @property
    def spent(self) -> float:
        return time.monotonic() - self._start

    @property
    def share(self) -> float:
        """Of the whole that is over, 0 to 1."""
        return min(1.0, 1 - self.left / self._seconds)


def fastest(run: Callable[[], float], *, seconds: float, most: int = 6) -> float:
    """The least of what `run` returns, in at most `most` runs and about `seconds`; once it runs in any case.

    A neighbour only ever makes a run longer, so the least is nearest to what the machine can do.
    """
    end = time.monotonic() + seconds
    best = run()
    for _ in range(most - 1):
        started = time.monotonic()
        if started + best > end:
            break
        best = min(best, run())
    return best
