"""T(rows): what a step costs by its number of rows, as measured while serving. The curve is not smooth: a table."""

from __future__ import annotations

from bisect import bisect_left

EDGES = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024, 2048)
"""A step of n rows belongs to the smallest edge >= n. Kernels work on groups of rows, so small counts stand alone."""

WEIGHT = 0.25
"""Of a new measurement in the running mean: contexts grow and neighbours come, so old times fade within ten steps."""

LOAD_SECONDS = 0.002
"""For finding blocks on the disk and handing them from thread to thread, however few they are."""

DEFAULT_SECONDS_PER_ROW = 0.005
"""Assumed before anything was measured: careful on a small box, corrected by the first step."""


class StepCost:
    """Running means of seconds per step for each edge, and of seconds per token from the disk. Owner: the scheduler."""

    def __init__(self) -> None:
        self._seconds: dict[int, float] = {}
        self._load = self._restore = 10e-6

    def observe(self, rows: int, seconds: float) -> None:
        edge = _edge(rows)
        scaled = seconds * edge / rows
        old = self._seconds.get(edge, scaled)
        self._seconds[edge] = old + WEIGHT * (scaled - old)

    def seconds(self, rows: int) -> float:
        """Expected seconds of a step of `rows` rows; from the nearest measured counts where it was never seen.

        A row costs at most twice what it does at the next smaller measured count: if it seemed to cost more, the
        machine had stalled, and a count that is taken for slow would never be tried, and measured, again.
        """
        edge = _edge(rows)
        below = max((e for e in self._seconds if e < edge), default=None)
        above = min((e for e in self._seconds if e >= edge), default=None)
        if above is None:
            return self._seconds[below] * rows / below if below else DEFAULT_SECONDS_PER_ROW * rows
        if below is None:
            return self._seconds[above] * rows / above
        low, high = self._seconds[below], self._seconds[above]
        guess = high * rows / edge if above == edge else low + (high - low) * (rows - below) / (above - below)
        return min(guess, 2 * low * rows / below)

    def observe_load(self, tokens: int, seconds: float) -> None:
        """Reading and unpacking the blocks of that many tokens took this long."""
        if tokens:
            self._load += WEIGHT * (seconds / tokens - self._load)

    def observe_restore(self, tokens: int, seconds: float) -> None:
        """Putting the blocks of that many tokens into the cells took this long."""
        if tokens:
            self._restore += WEIGHT * (seconds / tokens - self._restore)

    def pays_to_load(self, tokens: int) -> bool:
        """Whether that many tokens come sooner from the disk than by computing them."""
        return LOAD_SECONDS + tokens * (self._load + self._restore) < self.seconds(tokens)

    def rows_within(self, seconds: float, limit: int) -> int:
        """The most rows, at most `limit`, of a step that stays within `seconds`; 0 when even one does not."""
        return bisect_left(range(1, limit + 1), True, key=lambda rows: self.seconds(rows) > seconds)


def _edge(rows: int) -> int:
    return EDGES[min(bisect_left(EDGES, rows), len(EDGES) - 1)]
