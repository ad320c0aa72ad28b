"""The steps before the first request: they bring the weights into memory, and are the first entries of T(rows)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from reame.engine.base import Row

if TYPE_CHECKING:
    from reame.core.cost import StepCost
    from reame.engine.base import Engine

TOUCH_ROWS = 8
"""Of the very first step, which is not measured: it waits for the disk."""
MEASURED_ROWS = (1, 16, 64, 4, 8, 2, 32, 3, 6, 12)
"""In the order of what they tell about drafts and prompts."""
LEAST_MEASURED = 2
"""So many are measured in any case, the others while all have not taken `MOST_SECONDS`."""
MOST_SECONDS = 2.0


def take_first_steps(engine: Engine, cost: StepCost, *, is_seeded: bool = False) -> None:
    """For the decode thread. The cells are empty before and after. `is_seeded`: `cost` starts from a profile, so the
    least is enough."""
    _decode(engine, TOUCH_ROWS)
    begun, most_seconds = time.perf_counter(), 0.0 if is_seeded else MOST_SECONDS
    for number, count in enumerate(MEASURED_ROWS):
        if number >= LEAST_MEASURED and time.perf_counter() - begun > most_seconds:
            break
        rows = min(count, engine.max_rows)
        cost.observe(rows, _decode(engine, rows))
    engine.compact(())


def _decode(engine: Engine, num_rows: int) -> float:
    """Seconds of a step of that many rows."""
    rows = [Row(i % engine.info.vocab_size, i, 0, i == num_rows - 1) for i in range(min(num_rows, engine.max_rows))]
    started = time.perf_counter()
    engine.decode(rows)
    seconds = time.perf_counter() - started
    engine.trim(0, 0)
    return seconds
