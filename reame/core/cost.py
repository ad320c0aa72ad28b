"""T(rows): what a step costs by its number of rows, as measured while serving. The curve is not smooth: a table."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

EDGES = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024, 2048)
"""A step of n rows belongs to the smallest edge >= n. Kernels work on groups of rows, so small counts stand alone."""

WEIGHT = 0.25
"""Of a new measurement in the running mean: contexts grow and neighbours come, so old times fade within ten steps."""

MOST_LONGER = 2.0
"""Times the mean that one measurement may count: a step in which the machine stood still is not how long steps take."""

LOAD_SECONDS = 0.002
"""For finding blocks on the disk and handing them from thread to thread, however few they are."""

MOST_SLOWER, FADING = 8.0, 0.999
"""Times the usual that one load may count; and what is left of the price after each step: what is too dear to be loaded
is not measured again either."""

LEAST_PER_TOKEN = 1e-6
"""No disk is faster."""

DEFAULT_SECONDS_PER_ROW = 0.005
"""Assumed before anything was measured: careful on a small box, corrected by the first step."""

FAR = 1 << 30
"""More rows than anybody asks about."""


class StepCost:
    """Running means of seconds per step for each edge, and of seconds per token from the disk. Owner: the scheduler."""

    def __init__(self) -> None:
        self._seconds: dict[int, float] = {}
        self._rows: list[int] = []
        self._times: list[float] = []
        self._known: dict[int, float] = {}
        """Answers since the last measurement; none of them: the points are to be drawn anew."""
        self._load = self._restore = 10e-6

    def seed(self, table: Mapping[int, float]) -> None:
        """Start from seconds by number of rows that were measured before; what is measured from now on wins."""
        for rows, seconds in table.items():
            self.observe(rows, seconds)

    def seed_disk(self, *, load: float, restore: float) -> None:
        """Start from seconds a token for reading blocks from the disk, and for putting them into the cells."""
        self._load, self._restore = load, restore

    def observe(self, rows: int, seconds: float) -> None:
        edge = edge_of(rows)
        scaled = seconds * edge / rows
        old = self._seconds.get(edge, scaled)
        self._seconds[edge] = old + WEIGHT * (min(scaled, MOST_LONGER * old) - old)
        self._known = {}
        self._load *= FADING
        self._restore *= FADING

    def seconds(self, rows: int) -> float:
        """Expected seconds of a step of `rows` rows: on the line between the nearest measured counts, and in
        proportion to the rows outside of them.

        A row costs at most twice what it does at the next smaller measured count: if it seemed to cost more, the
        machine had stalled, and a count that is taken for slow would never be tried, and measured, again.
        """
        known = self._known.get(rows)
        if known is None:
            if not self._known:
                self._draw()
            known = self._known[rows] = self._between(rows)
        return known

    def observe_load(self, tokens: int, seconds: float) -> None:
        """Reading and unpacking the blocks of that many tokens took this long. One that took very long says more about
        its moment than about the disk."""
        if tokens:
            each = max(0.0, seconds - LOAD_SECONDS) / tokens
            self._load += WEIGHT * (min(each, MOST_SLOWER * max(self._load, LEAST_PER_TOKEN)) - self._load)

    def observe_restore(self, tokens: int, seconds: float) -> None:
        """Putting the blocks of that many tokens into the cells took this long."""
        if tokens:
            self._restore += WEIGHT * (seconds / tokens - self._restore)

    def pays_to_load(self, tokens: int) -> bool:
        """Whether that many tokens come sooner from the disk than by computing them."""
        return LOAD_SECONDS + tokens * (self._load + self._restore) < self.seconds(tokens)

    def rows_within(self, seconds: float, limit: int) -> int:
        """The most rows, at most `limit`, of a step that stays within `seconds` (or a billionth more, as sums round);
        0 when even one does not."""
        seconds *= 1 + 1e-9
        return bisect_left(range(1, limit + 1), True, key=lambda rows: self.seconds(rows) > seconds)

    def _draw(self) -> None:
        """The measured points, none above twice the one before it, between no rows at all and very many."""
        rows, times = [0], [0.0]
        for edge, seconds in sorted(self._seconds.items()) or [(1, DEFAULT_SECONDS_PER_ROW)]:
            times.append(min(seconds, 2 * times[-1] * edge / rows[-1]) if rows[-1] else seconds)
            rows.append(edge)
        times.append(times[-1] * FAR / rows[-1])
        rows.append(FAR)
        self._rows, self._times = rows, times

    def _between(self, rows: int) -> float:
        above = max(1, bisect_left(self._rows, rows))
        low, high = self._rows[above - 1], self._rows[above]
        less, more = self._times[above - 1], self._times[above]
        return less + (more - less) * (rows - low) / (high - low)


def edge_of(rows: int) -> int:
    """The number of rows that a step of `rows` rows is counted under."""
    return EDGES[min(bisect_left(EDGES, rows), len(EDGES) - 1)]
