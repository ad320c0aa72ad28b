"""The idle lane: how much background work a step takes on beside people's rows. Pure. Owner: the scheduler.

Another row is free where the kernels work on groups of rows, or where cores are idle, and dear where they are not: the
measured T(rows) tells. A step with people in it may take `Limits.slowdown` longer than it would without the others;
with 0 all others wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence as Seq

    from reame.core.cost import StepCost
    from reame.core.limits import Limits
    from reame.core.sequence import Sequence

PROBE_STEPS = 200
"""So many steps in a row with no place for background work, and one row of it is taken all the same: the times that
speak against it may be old."""
ROUGH = 16
"""Within so many more rows each number is tried: the curve is not smooth there. From there on it rises."""


class IdleLane:
    """`room` is to be asked once for each step that people have rows in and background work could join."""

    def __init__(self, limits: Limits, cost: StepCost) -> None:
        self._limits = limits
        self._cost = cost
        self._unfilled = 0

    def room(self, num_people: int, most: int) -> int:
        """How many background sequences, at most `most`, find rows beside so many people who decode."""
        self._unfilled += 1
        return self._rows(num_people, most)

    def share(self, behind: Seq[Sequence], num_rows: int) -> list[tuple[Sequence, int]]:
        """The rows of background sequences, which come oldest first, in a step of `num_rows` others: those that decode
        before those that catch up. One whose prompt is rated gets a single row, for which there are always logits."""
        wanted = {s.order: 1 if s.request.prompt_logprobs else s.num_next for s in behind}
        spare = self._rows(num_rows, min(sum(wanted.values()), self._limits.max_rows - num_rows))
        granted = []
        for sequence in sorted(behind, key=lambda s: not s.decodes):
            rows = min(wanted[sequence.order], spare)
            spare -= rows
            if rows:
                granted.append((sequence, rows))
        if granted:
            self._unfilled = 0
        return granted

    def _rows(self, num_rows: int, most: int) -> int:
        """The most rows that keep the step within its time; the curve is not smooth, four may be cheaper than three."""
        if not self._limits.slowdown:
            return 0
        seconds = self._cost.seconds
        limit = seconds(num_rows) * (1 + self._limits.slowdown)
        rising = self._cost.rows_within(limit, num_rows + most) - num_rows
        fitting = (more for more in range(min(most, max(rising, ROUGH)), 0, -1) if seconds(num_rows + more) <= limit)
        return next(fitting, int(self._unfilled > PROBE_STEPS and min(num_rows, most) > 0))
