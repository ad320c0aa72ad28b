"""Steps that follow from each other, run without asking the Trio thread in between.

A step of a small model takes ten milliseconds, and two hops between threads half of one. While all that is to do is to
decode on, the decode thread therefore commits and plans by itself, and tells what happened behind its back.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from attrs import frozen

from reame.core.events import Finish
from reame.core.step_time import StepTime, step_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from reame.core.batch import Batch, StepResult
    from reame.core.events import Event
    from reame.core.scheduler import Scheduler
    from reame.core.sequence import Sequence
    from reame.engine.step import StepRunner


WAKE_SECONDS = 0.02
"""Faster than this nobody reads; and to send a token takes the other threads' cores half a millisecond. Twice as long
gave no more tokens that could be measured. First tokens and ends are sent at once."""


@frozen
class News:
    """What came of one step. `time` is None when it tells nothing."""

    result: StepResult
    events: list[tuple[Sequence, Event]]
    time: StepTime | None


@frozen
class RunAhead:
    """`run` is for the decode thread. Until it returns the scheduler is lent to it, and nobody else may change it.

    At most `most_steps` steps, and only while `is_wanted` (asked after each) says that nobody wants anything else.
    `tell` is called after each step, `wake` for an end and every `WAKE_SECONDS` while it goes on. `clock` is that of
    the scheduler.
    """

    scheduler: Scheduler
    runner: StepRunner
    clock: Callable[[], float]
    is_wanted: Callable[[], bool]
    tell: Callable[[News], None]
    wake: Callable[[], None]
    most_steps: int

    def run(self, batch: Batch) -> None:
        awaited = any(not part.sequence.first_token for part in batch.slices)
        woken = -inf if awaited else self.clock()
        for num_left in range(self.most_steps - 1, -1, -1):
            result = self.runner.run(batch)
            now, num_written = self.clock(), self.scheduler.admission.slots.num_written
            self.scheduler.commit(batch, result, now)
            time = step_time(batch, result, num_written=num_written, at=now)
            events = self.scheduler.take_events()
            self.tell(News(result, events, time))
            if not num_left or self.is_wanted() or not self.scheduler.only_decodes:
                return
            following = self.scheduler.plan(self.clock())
            if following is None:
                return
            if self.clock() - woken >= WAKE_SECONDS or any(isinstance(event, Finish) for _, event in events):
                self.wake()
                woken = self.clock()
            batch = following
