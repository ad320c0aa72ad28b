"""Whether the threads of a step should spin long or shortly at their barriers, by the company they have.

Alone a long spin is a few per cent faster. Beside a process that never rests it is two to four times slower: who spins
burns the time of the thread that it waits for. Short bursts of others harm a short spin more than a long one. Pure.
"""

from __future__ import annotations

BUSY = 0.5
"""CPUs that others use, the hypervisor included, from which a short spin is better."""
CALM = 0.25
"""CPUs below which a long one is."""
PATIENCE = 3
"""Calm looks, one after the other, before the spin is long again."""


class SpinChoice:
    """Long at first."""

    def __init__(self) -> None:
        self.is_short = False
        self._num_calm = 0

    def observe(self, company: float) -> bool:
        """`company`: CPUs that others used since the last look. Whether the choice changed."""
        self._num_calm = self._num_calm + 1 if company < CALM else 0
        before = self.is_short
        if company >= BUSY:
            self.is_short = True
        elif self._num_calm >= PATIENCE:
            self.is_short = False
        return self.is_short is not before
