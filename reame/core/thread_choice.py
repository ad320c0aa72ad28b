"""How many threads serve best right now, judged by step times: fewer when they become erratic, more when all is calm.

All threads of a step meet at barriers hundreds of times, so one that a neighbour holds up holds up all: with a core
less the step is slower and steady. Whether that is worth it differs: under a quota it is many times faster, beside a
busy process and with a short spin it can be slower. So fewer threads are tried for a window, and kept if they are
faster. The caller feeds `observe` and sets what it returns. Pure: it counts steps.
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
SUSTAINED = 3
"""Windows with so many held-up steps, one after the other, before fewer threads are tried: a burst passes."""
CALM = 0.05
"""Share of held-up steps below which a window is calm."""
PRESSED = 0.3
"""CPU pressure (the share of time in which somebody waits) above which more threads are not tried."""
PATIENCE = 2
"""Calm windows before more threads are tried; twice as many after each time that this went wrong."""
MOST_PATIENCE = 64
PROBE = 80
"""Windows with fewer threads after which more are tried although there is no calm."""
FASTER = 0.85
"""Share of the mean step with more threads that the mean step with fewer ones may take, to be worth it."""
_FORGET = 0.02
"""How fast the usual length follows steps that are slower: contexts grow. Faster ones count at once."""


class Change(Enum):
    """Why the number of threads changes."""

    LOWERED = "steps are erratic"
    RAISED = "steps are steady again"
    RETURNED = "fewer were no faster"
    PROBED = "it is long since they were tried"
    GIVEN_UP = "more were no faster"


class ThreadChoice:
    """Between 1 and `most` threads, `most` being the configured or measured number. Owner: the tuner."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.threads = most
        self._stride = max(1, most // 8)
        self._usual: dict[tuple[int, int], float] = {}
        self._best: dict[int, float] = {}
        self._window: deque[tuple[bool, float]] = deque(maxlen=WINDOW)
        """For each step whether it was held up, and its length in best ones of its kind."""
        self._calm = 0
        self._erratic = 0
        self._patience = PATIENCE
        self._is_trial = False
        self._tried: tuple[int, float] | None = None
        """While fewer (-) or more (+) threads are tried: by how many, and the mean step before."""
        self._age = 0
        """Windows since the last change."""
        self._rest = 0
        self._next_rest = PATIENCE
        """Windows in which fewer threads are not tried, as they were no faster; twice as many each time."""

    def observe(self, kind: int, seconds: float, *, pressure: float = 0.0) -> Change | None:
        """A step took this long. `pressure`: of the CPU, 0 to 1; 0 when it is not known.

        Returns a change when `threads` is another from now on. `kind` is one number for steps that take as long when
        nothing holds them up (`StepTime.kind`): only these are compared.
        """
        if self.most == 1:
            return None
        usual = self._usual.get((self.threads, kind))
        self._learn(kind, seconds, usual)
        if usual is None:
            return None
        self._window.append((seconds > SLOW * usual, seconds / self._best[kind]))
        return self._judge(pressure) if len(self._window) == WINDOW else None

    def usual(self, kind: int) -> float | None:
        """Seconds that such a step takes with the present threads when nothing holds it up; None: not known."""
        return self._usual.get((self.threads, kind))

    def _learn(self, kind: int, seconds: float, usual: float | None) -> None:
        key = (self.threads, kind)
        self._best[kind] = min(seconds, self._best.get(kind, seconds))
        if usual is None or seconds < usual:
            self._usual[key] = seconds
        elif seconds < SLOW * usual:
            self._usual[key] = usual + _FORGET * (seconds - usual)

    def _judge(self, pressure: float) -> Change | None:
        held_up = sum(is_held_up for is_held_up, _ in self._window) / WINDOW
        took = sum(length for _, length in self._window) / WINDOW
        self._window.clear()
        self._rest, self._age = max(0, self._rest - 1), self._age + 1
        if change := self._compare(took):
            return change
        self._erratic = self._erratic + 1 if held_up >= HELD_UP else 0
        enough = 1 if self._is_trial else SUSTAINED
        if self._erratic >= enough and self.threads > 1 and not self._rest:
            if self._is_trial:
                self._patience = min(MOST_PATIENCE, 2 * self._patience)
            tried = None if self._is_trial else (-self._stride, took)
            return self._change(-self._stride, Change.LOWERED, tried)
        if self.threads < self.most and self._age >= PROBE:
            return self._change(self._stride, Change.PROBED, (self._stride, took))
        return self._wait_for_calm(held_up, pressure)

    def _compare(self, took: float) -> Change | None:
        """The window after a change shows what it was good for."""
        tried, self._tried = self._tried, None
        if tried is None:
            return None
        by, before = tried
        if by > 0:
            return self._change(-by, Change.GIVEN_UP) if took > before else None
        if took > FASTER * before:
            self._rest, self._next_rest = self._next_rest, min(MOST_PATIENCE, 2 * self._next_rest)
            return self._change(-by, Change.RETURNED)
        self._next_rest = PATIENCE
        return None

    def _wait_for_calm(self, held_up: float, pressure: float) -> Change | None:
        if held_up > CALM or pressure > PRESSED:
            self._calm = 0
            return None
        self._calm += 1
        if self._is_trial and self._calm >= self._patience:
            self._is_trial, self._patience = False, PATIENCE  # it went well
        if self.threads < self.most and self._calm >= self._patience:
            return self._change(self._stride, Change.RAISED)
        return None

    def _change(self, by: int, why: Change, tried: tuple[int, float] | None = None) -> Change:
        self.threads = min(self.most, max(1, self.threads + by))
        self._calm = self._age = self._erratic = 0
        self._is_trial = why is Change.RAISED
        self._tried = tried
        return why
