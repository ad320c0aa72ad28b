"""How many threads serve best right now, judged by step times: fewer when they become erratic, more when all is calm.

All threads of a step meet at barriers hundreds of times, so one that a neighbour holds up holds up all: with a core
less the step is slower and steady. The caller feeds `observe` and sets what it returns. Pure: it counts steps.
"""

from __future__ import annotations

from collections import deque
from enum import Enum

WINDOW = 24
"""Steps that are judged together, all with the same number of threads."""
SLOW = 1.7
"""Times the usual length: a step from here on was held up."""
HELD_UP = 0.25
"""Share of held-up steps in a window from which the threads are one too many."""
CALM = 0.05
"""Share of held-up steps below which a window is calm."""
PRESSED = 0.1
"""CPU pressure (the share of time in which somebody waits) above which more threads are not tried."""
PATIENCE = 4
"""Calm windows before more threads are tried; twice as many after each time that this went wrong."""
MOST_PATIENCE = 64
_FORGET = 0.02
"""How fast the usual length follows steps that are slower: contexts grow. Faster ones count at once."""


class Change(Enum):
    """Why the number of threads changes."""

    LOWERED = "steps are erratic"
    RAISED = "steps are steady again"


class ThreadChoice:
    """Between 1 and `most` threads, `most` being the configured or measured number. Owner: the tuner."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.threads = most
        self._stride = max(1, most // 8)
        self._usual: dict[tuple[int, int], float] = {}
        self._window: deque[bool] = deque(maxlen=WINDOW)
        self._calm = 0
        self._patience = PATIENCE
        self._is_trial = False

    def observe(self, rows: int, seconds: float, *, pressure: float = 0.0) -> Change | None:
        """One step of so many rows took this long. `pressure`: of the CPU, 0 to 1; 0 when it is not known.

        Returns a change when `threads` is another from now on. Steps of different sizes are compared with their own
        kind only.
        """
        if self.most == 1:
            return None
        usual = self._usual.get((self.threads, rows))
        self._learn(rows, seconds, usual)
        if usual is None:
            return None
        self._window.append(seconds > SLOW * usual)
        return self._judge(pressure) if len(self._window) == WINDOW else None

    def usual(self, rows: int) -> float | None:
        """Seconds that such a step takes with the present threads when nothing holds it up; None: not known."""
        return self._usual.get((self.threads, rows))

    def _learn(self, rows: int, seconds: float, usual: float | None) -> None:
        key = (self.threads, rows)
        if usual is None or seconds < usual:
            self._usual[key] = seconds
        elif seconds < SLOW * usual:
            self._usual[key] = usual + _FORGET * (seconds - usual)

    def _judge(self, pressure: float) -> Change | None:
        held_up = sum(self._window) / WINDOW
        self._window.clear()
        if held_up >= HELD_UP and self.threads > 1:
            if self._is_trial:
                self._patience = min(MOST_PATIENCE, 2 * self._patience)
            return self._change(-self._stride)
        if held_up > CALM or pressure > PRESSED:
            self._calm = 0
            return None
        self._calm += 1
        if self._is_trial and self._calm >= self._patience:
            self._is_trial, self._patience = False, PATIENCE  # it went well
        if self.threads < self.most and self._calm >= self._patience:
            return self._change(self._stride)
        return None

    def _change(self, by: int) -> Change:
        self.threads = min(self.most, max(1, self.threads + by))
        self._calm = 0
        self._is_trial = by > 0
        return Change.RAISED if by > 0 else Change.LOWERED
