"""Threads while serving: changes reach the engine between steps, and steps that tell nothing are not judged."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from reame.core.batch import Batch
from reame.core.thread_choice import WINDOW
from reame.engine.fake import FakeEngine
from reame.runtime.tuning import PRESSURE_S, ThreadTuning, TunedRunner

if TYPE_CHECKING:
    from collections.abc import Iterable


class Threads(FakeEngine):
    """Notes what it is set to."""

    def __init__(self) -> None:
        super().__init__(num_cells=100, num_seqs=4, max_rows=16)
        self.set: list[tuple[int, int]] = []

    def set_threads(self, decode: int, prefill: int) -> None:
        self.set.append((decode, prefill))


class Machine:
    """Its clock goes on by every step."""

    def __init__(self, *, decode: int = 4, prefill: int = 8) -> None:
        self.engine, self.now, self.pressure, self.readings = Threads(), 0.0, 0.0, 0
        self.tuning = ThreadTuning(
            self.engine, decode=decode, prefill=prefill, read_pressure=self.read, clock=lambda: self.now
        )

    def read(self) -> float:
        self.readings += 1
        return self.pressure

    def steps(self, times: Iterable[float]) -> None:
        for seconds in times:
            self.now += seconds
            self.tuning.after(1, seconds)


ERRATIC, CALM = [0.1, 0.1, 0.9] * (WINDOW // 3), [0.1] * WINDOW


def test_fewer_and_more_threads_of_both_kinds(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    with caplog.at_level(logging.INFO):
        machine.steps([0.1, *ERRATIC])
        assert (machine.tuning.threads, machine.engine.set) == (3, [(3, 6)])
        machine.steps([0.1, *CALM * 10])
    assert machine.engine.set == [(3, 6), (4, 8)]
    assert [record.getMessage() for record in caplog.records] == [
        "threads: 3 instead of 4, steps are erratic", "threads: 4 instead of 3, steps are steady again",
    ]  # fmt: skip


def test_prompts_are_read_by_one_thread_at_least() -> None:
    machine = Machine(decode=4, prefill=1)
    machine.steps([0.1, *ERRATIC])
    assert machine.engine.set == [(3, 1)]


def test_pressure_is_read_now_and_then_and_keeps_more_threads_away() -> None:
    machine = Machine()
    machine.pressure = 0.5
    machine.steps([0.1, *ERRATIC, 0.1, *CALM * 20])
    assert machine.tuning.threads == 3
    assert machine.readings == pytest.approx(machine.now / PRESSURE_S, rel=0.1)
    machine.pressure = 0.0
    machine.steps(CALM * 10)
    assert machine.tuning.threads == 4


def test_only_steps_that_computed_are_judged() -> None:
    machine = Machine()
    runner = TunedRunner(machine.engine)
    judged: list[tuple[int, float]] = []
    machine.tuning.after = lambda rows, seconds: judged.append((rows, seconds))  # type: ignore[method-assign]
    runner.tuning = machine.tuning
    assert runner.run(Batch((), ())).error is None
    assert judged == []
