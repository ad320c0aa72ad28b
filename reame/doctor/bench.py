"""A model under the stopwatch: steps of so many rows at a fixed depth. In the doctor's child process only."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from reame.engine.base import Row
from reame.engine.llama import LlamaEngine, LlamaOptions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NUM_CELLS = 2048
MAX_ROWS = 256
DEPTH = 64
"""Tokens before each measured step: some attention, and little time to get there."""
_ALL_SAMPLED = 64
"""Steps up to this many rows are those of users and drafts, where each row gives logits; larger ones read prompts."""


class Bench:
    """One loaded model whose sequence 0 is `DEPTH` tokens long between any two calls."""

    def __init__(self, path: Path, options: LlamaOptions) -> None:
        started = time.perf_counter()
        self.engine = LlamaEngine(path, options)
        self.load_seconds = time.perf_counter() - started
        self._feed(DEPTH, at=0)

    def threads(self, count: int) -> None:
        """From now on; the first step after it, which wakes the team, is not measured."""
        self.engine.set_threads(count, count)
        self.step(1)

    def step(self, rows: int) -> float:
        """Seconds of one step of that many rows behind the others."""
        if self.engine.info.whole_state:
            self.engine.copy(0, 1, DEPTH)
        started = time.perf_counter()
        self._feed(rows, at=DEPTH)
        seconds = time.perf_counter() - started
        self._back_to(DEPTH)
        return seconds

    def save_and_restore(self) -> tuple[float, float, int]:
        """Seconds to take the cells of `DEPTH` tokens out, to put them back, and their bytes."""
        saving = _seconds(lambda: self.engine.save(0, 0, DEPTH))
        data = self.engine.save(0, 0, DEPTH)
        self._back_to(0)
        restoring = _seconds(lambda: self.engine.restore(0, 0, DEPTH, data))
        return saving, restoring, len(data)

    def refill(self) -> None:
        """After somebody else has used the engine, and left it empty."""
        self._feed(DEPTH, at=0)

    def close(self) -> None:
        self.engine.close()

    def _feed(self, count: int, at: int) -> None:
        size = self.engine.info.vocab_size
        every = count <= _ALL_SAMPLED
        self.engine.decode(
            [Row(17 * (at + i) % size, at + i, 0, every or i == count - 1) for i in range(count)]
        )

    def _back_to(self, length: int) -> None:
        """A state that cannot be cut comes back from sequence 1, which has kept it."""
        if self.engine.info.whole_state and length:
            self.engine.trim(0, 0)
            self.engine.copy(1, 0, length)
            self.engine.trim(1, 0)
        else:
            self.engine.trim(0, length)
        self.engine.compact(())


def _seconds(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started
