"""While serving: the number of threads follows how steady the steps are. Owner of it: the decode thread.

One log line a change; `/metrics` has the number.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from reame.core.thread_choice import ThreadChoice
from reame.engine.step import StepRunner
from reame.host.contention import pressure

if TYPE_CHECKING:
    from collections.abc import Callable

    from reame.core.batch import Batch, StepResult
    from reame.engine.base import Engine

PRESSURE_S = 2.0
"""Seconds between two readings of the CPU's pressure: the kernel's own number is a mean over ten."""

log = logging.getLogger(__name__)


def cpu_pressure() -> float:
    """0 where the kernel does not measure it. Some 30 us: a file of /proc."""
    return pressure().cpu or 0.0


class ThreadTuning:
    """Between 1 and `decode` threads; those that read prompts are as many fewer in proportion."""

    def __init__(
        self,
        engine: Engine,
        *,
        decode: int,
        prefill: int,
        read_pressure: Callable[[], float] = cpu_pressure,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._choice = ThreadChoice(decode)
        self._prefill = prefill
        self._read_pressure = read_pressure
        self._clock = clock
        self._pressure, self._read_at = 0.0, float("-inf")

    @property
    def threads(self) -> int:
        """Any thread may ask."""
        return self._choice.threads

    def after(self, rows: int, seconds: float) -> None:
        """A step of so many rows took this long."""
        if self._clock() >= self._read_at + PRESSURE_S:
            self._pressure, self._read_at = self._read_pressure(), self._clock()
        before = self.threads
        change = self._choice.observe(rows, seconds, pressure=self._pressure)
        if change is not None:
            prefill = max(1, self._prefill * self.threads // self._choice.most)
            self._engine.set_threads(self.threads, prefill)
            log.info("threads: %d instead of %d, %s", self.threads, before, change.value)


class TunedRunner(StepRunner):
    """Its steps are what `tuning` judges. Steps that failed, or computed nothing, tell nothing."""

    tuning: ThreadTuning | None = None

    def run(self, batch: Batch) -> StepResult:
        result = super().run(batch)
        if self.tuning is not None and result.outputs:
            self.tuning.after(batch.num_rows, result.seconds)
        return result
