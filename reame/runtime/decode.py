"""The decode loop: alone owns the scheduler; takes jobs in, runs steps, sends events out.

Bounds: the job channel holds what the intake lets in (slots + queue). A reply channel holds `REPLY_EVENTS` events for
each sequence, about 200 bytes each; a reader that lets it fill is a slow client and loses its request.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

import trio
from attrs import frozen

from reame.core.events import Event, Finish

if TYPE_CHECKING:
    from reame.core.batch import Batch, StepResult
    from reame.core.request import Request
    from reame.core.scheduler import Scheduler
    from reame.core.sequence import Sequence
    from reame.engine.step import StepRunner
    from reame.engine.thread import Caller
    from reame.errors import RequestError
    from reame.runtime.metrics import Metrics

REPLY_EVENTS = 1024

log = logging.getLogger(__name__)


@frozen
class Job:
    """A request, and where its events go: (index of the choice, event). The client is gone when nobody receives."""

    request: Request
    index: int
    reply: trio.MemorySendChannel[tuple[int, Event]]


class DecodeLoop:
    """`run` ends when the job channel is closed and all work is done."""

    def __init__(
        self,
        scheduler: Scheduler,
        runner: StepRunner,
        thread: Caller,
        jobs: trio.MemoryReceiveChannel[Job],
        metrics: Metrics,
    ) -> None:
        self.scheduler = scheduler
        self._runner = runner
        self._thread = thread
        self._jobs = jobs
        self._metrics = metrics
        self._live: dict[Sequence, Job] = {}
        self._stop_error: RequestError | None = None
        self._at_rest = True
        self._num_preempted = 0

    async def run(self) -> None:
        while await self._take_in():
            self._drop_absent()
            if self._stop_error:
                self._fail_all(self._stop_error)
            batch = self.scheduler.plan(trio.current_time())
            self._send()
            self._at_rest = batch is None
            if batch is None:
                await self._audit()
                continue
            result = await self._thread.call(partial(self._runner.run, batch))
            self.scheduler.commit(batch, result, trio.current_time())
            self._count(batch, result)
            self._send()

    def stop(self, error: RequestError) -> None:
        """End everything that runs or comes with `error`, at the next step."""
        self._stop_error = error

    async def _take_in(self) -> bool:
        """Add the jobs that came. Waits for one when idle. False: no job will come any more and none is left."""
        await trio.lowlevel.checkpoint_if_cancelled()
        try:
            if not self._live:
                self._add(await self._jobs.receive())
            while True:
                self._add(self._jobs.receive_nowait())
        except trio.WouldBlock:
            return True
        except trio.EndOfChannel:
            return not self._at_rest

    def _add(self, job: Job) -> None:
        self._live[self.scheduler.add(job.request, trio.current_time())] = job

    def _drop_absent(self) -> None:
        """A closed channel is the message: nobody receives, so nothing more is computed."""
        for sequence, job in list(self._live.items()):
            if not job.reply.statistics().open_receive_channels:
                self.scheduler.cancel(sequence)
                self._forget(sequence)

    def _fail_all(self, error: RequestError) -> None:
        for sequence in self.scheduler.sequences():
            self.scheduler.fail(sequence, error, trio.current_time())

    def _send(self) -> None:
        for sequence, event in self.scheduler.take_events():
            job = self._live.get(sequence)
            if job is None:
                continue
            try:
                job.reply.send_nowait((job.index, event))
            except trio.BrokenResourceError:
                self.scheduler.cancel(sequence)
                self._forget(sequence)
            except trio.WouldBlock:
                log.warning("request %s ended: its client does not read", job.request.id)
                self.scheduler.cancel(sequence)
                self._forget(sequence)
            else:
                if isinstance(event, Finish):
                    self._forget(sequence)

    def _forget(self, sequence: Sequence) -> None:
        self._live.pop(sequence).reply.close()

    def _count(self, batch: Batch, result: StepResult) -> None:
        metrics, slots = self._metrics, self.scheduler.admission.slots
        metrics.steps.inc()
        metrics.rows.inc(batch.num_rows)
        metrics.step_seconds.observe(result.seconds)
        metrics.generated_tokens.inc(sum(len(output.tokens) for output in result.outputs))
        if result.error:
            metrics.step_errors.inc()
            log.error("step failed: %s", result.error)
        num_preempted = self.scheduler.admission.num_preempted
        metrics.preemptions.inc(num_preempted - self._num_preempted)
        self._num_preempted = num_preempted
        metrics.running.set(len(self.scheduler.running))
        metrics.waiting.set(len(self.scheduler.waiting()))
        metrics.cells_free.set(slots.num_free)
        metrics.cells_running.set(slots.num_pinned)

    async def _audit(self) -> None:
        """Nothing to do: nobody may be waiting, and the engine's cells must be those of the scheduler's mirror."""
        if self._live:
            raise RuntimeError(f"{len(self._live)} requests wait and nothing is done for them")
        lengths = await self._thread.call(self._runner.lengths)
        expected = [len(slot.tokens) for slot in self.scheduler.admission.slots.slots]
        if lengths != expected:
            raise RuntimeError(f"the cells are not what the scheduler believes: {lengths} instead of {expected}")
