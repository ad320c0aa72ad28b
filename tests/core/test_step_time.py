"""Which steps are compared with which."""

from __future__ import annotations

import pytest

from reame.core.batch import Output, StepResult
from reame.core.draft import Draft
from reame.core.limits import Limits
from reame.core.request import Request, Sampling
from reame.core.scheduler import Scheduler
from reame.core.slots import Slots
from reame.core.step_time import StepTime, step_time
from reame.errors import EngineError


def time_of(rows: int, *, sampled: int = 1, cells: int = 1000, seconds: float = 0.1) -> StepTime:
    return StepTime(num_rows=rows, num_sampled=sampled, num_cells=cells, seconds=seconds, at=0.0)


def test_few_rows_are_compared_with_as_many_only() -> None:
    assert len({time_of(rows).kind for rows in range(1, 17)}) == 16


def test_chunks_of_nearly_the_same_size_are_alike_by_their_time_for_a_row() -> None:
    first, second = time_of(50, seconds=0.5), time_of(60, seconds=0.6)
    assert first.kind == second.kind
    assert first.comparable_seconds == pytest.approx(second.comparable_seconds) == pytest.approx(0.64)
    assert time_of(64).kind != time_of(65).kind
    assert time_of(5000).kind == time_of(2048).kind


def test_a_long_context_is_not_compared_with_a_short_one() -> None:
    assert time_of(1, cells=100).kind == time_of(1, cells=256).kind
    assert time_of(1, cells=1000).kind == time_of(1, cells=1010).kind
    kinds = [time_of(1, cells=cells).kind for cells in (300, 600, 1200, 2400, 20_000, 2_000_000_000)]
    assert len(set(kinds)) == len(kinds)


def test_logits_of_many_rows_are_work_too() -> None:
    assert time_of(64, sampled=1).kind != time_of(64, sampled=64).kind


def test_what_is_told_of_a_step() -> None:
    limits = Limits(max_running=2, max_rows=16)
    scheduler = Scheduler(Slots(64, 2), limits, piece=lambda _: b"x", eog_tokens=frozenset())
    scheduler.add(Request(id="a", prompt=(1, 2, 3), max_tokens=9, sampling=Sampling(temperature=0)), 0.0)
    batch = scheduler.plan(0.0)
    assert batch is not None
    failed = StepResult(seconds=0.1, error=EngineError("broken"))
    assert step_time(batch, failed, num_written=0, at=1.0) is None
    draft = Draft((5, 6, 7), (0.99, 0.99, 0.99), "prompt")
    result = StepResult(outputs=[Output((4,), draft=draft)], seconds=0.3)
    assert step_time(batch, result, num_written=0, at=1.0) == StepTime(
        num_rows=3, num_sampled=1, num_cells=9, seconds=0.3, at=1.0
    )
    scheduler.cost.seed({1: 0.1, 4: 0.1, 16: 0.1})
    scheduler.commit(batch, result, 1.0)
    batch = scheduler.plan(1.0)
    assert batch is not None
    result = StepResult(outputs=[Output((5, 6, 7, 8), num_accepted=3)], seconds=0.1)
    assert step_time(batch, result, num_written=3, at=2.0) == StepTime(
        num_rows=4, num_sampled=4, num_cells=3 + 4 * 7, seconds=0.1, at=2.0
    )
