"""The decode loop: alone owns the scheduler; takes jobs in, runs steps, sends events out.

Bound: the job channel holds what the intake lets in (slots + queue), and as many forks of labels.
"""

from __future__ import annotations

import logging
from collections import deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import trio
from attrs import frozen

from reame.core.vote_wave import first_wave
from reame.runtime import bell
from reame.runtime.archiving import archived_part
from reame.runtime.clients import Clients
from reame.runtime.run_ahead import News, RunAhead

if TYPE_CHECKING:
    from collections.abc import Callable

    from reame.core.batch import Load, StepResult
    from reame.core.blocks import Block
    from reame.core.events import Usage
    from reame.core.request import Request
    from reame.core.scheduler import Scheduler
    from reame.core.sequence import Sequence
    from reame.core.step_time import StepTime
    from reame.engine.step import StepRunner
    from reame.engine.thread import Caller
    from reame.errors import RequestError
    from reame.runtime.job import Job
    from reame.runtime.memory import Memory
    from reame.runtime.metrics import Metrics

log = logging.getLogger(__name__)


@frozen
class Loaded:
    """What came of a load, and the seconds it took."""

    load: Load
    blocks: tuple[Block, ...]
    seconds: float


CATCH_UP_S = 0.25
"""Between two looks whether there is room for more that is to be written."""
LOOK_S = 0.05
"""Between two looks at who came or left while nothing but the disk is waited for."""


class DecodeLoop:
    """`run` ends when the job channel is closed and all work is done."""

    def __init__(
        self,
        scheduler: Scheduler,
        runner: StepRunner,
        thread: Caller,
        jobs: trio.MemoryReceiveChannel[Job],
        memory: Memory,
        metrics: Metrics,
        *,
        run_ahead: int = 1,
        tell_time: Callable[[StepTime], None] = lambda time: None,
    ) -> None:
        self.scheduler = scheduler
        self._runner = runner
        self._thread = thread
        self._jobs = jobs
        self._memory = memory
        self._metrics = metrics
        metrics.watch_loop(scheduler)
        self._num_loading = 0
        self._send_loaded, self._loaded = trio.open_memory_channel[Loaded](scheduler.limits.max_running)
        self._clients = Clients(self._ended)
        self._stop_error: RequestError | None = None
        self._at_rest = True
        self._run_ahead = run_ahead
        self._tell_time = tell_time
        self._news: deque[News] = deque()
        self._to_forget: list[tuple[str, trio.Event]] = []
        self._rest = trio.CancelScope()
        self._clock = trio.lowlevel.current_clock()
        self._moved_at: float | None = None
        """When it last got on with its work; None while it waits for some."""

    async def run(self) -> None:
        async with bell.hung(self._take_news) as ring, trio.open_nursery() as readers:
            ahead = RunAhead(
                self.scheduler,
                self._runner,
                self._clock.current_time,
                is_wanted=self._is_wanted,
                tell=self._told,
                wake=ring,
                most_steps=self._run_ahead,
            )
            while await self._take_in():
                self._moved_at = trio.current_time()
                for sequence in self._clients.take_absent():
                    self.scheduler.cancel(sequence)
                if self._stop_error:
                    self._fail_all(self._stop_error)
                forgotten, self._to_forget = self._to_forget, []
                for namespace, _ in forgotten:
                    self.scheduler.forget(namespace)
                    self.nudge()  # somebody waits for it: one step, not as many as it may run ahead
                self.scheduler.heed_disk(loses=self._memory.loses, waits=self._memory.is_behind)
                batch = self.scheduler.plan(trio.current_time())
                self._clients.send(self.scheduler.take_events())
                for load in self.scheduler.take_loads():
                    self._num_loading += 1
                    readers.start_soon(self._read, load)
                self._at_rest = batch is None
                if batch is not None:
                    await self._thread.call(partial(ahead.run, batch))
                    self._take_news()
                elif not self._num_loading:
                    await self._audit()
                for _, done in forgotten:
                    done.set()

    def stalled_s(self) -> float:
        """Seconds in which it did not get on, although there is something to do."""
        moved_at = self._moved_at
        return 0.0 if moved_at is None else self._clock.current_time() - moved_at

    def _told(self, news: News) -> None:
        """From the decode thread, after each step."""
        self._news.append(news)
        self._moved_at = self._clock.current_time()

    def _take_news(self) -> None:
        """Also while the scheduler is lent: only reads it."""
        while self._news:
            news = self._news.popleft()
            for saved in news.result.saved:
                self._memory.keep(saved)
            self._count(news.result)
            if news.time:
                self._tell_time(news.time)
            self._clients.send(news.events)

    def usage(self, request: Request) -> Usage | None:
        """What the request took so far; None when it is not in the loop. Also while the scheduler is lent."""
        return self._clients.usage(request)

    def wave(self, size: int) -> int:
        """How many of a conclave's candidates begin, by what steps took lately."""
        return first_wave(size, self.scheduler.cost.seconds, others=len(self.scheduler.running))

    async def forget(self, namespace: str) -> None:
        """Until no cell holds anything that was computed for it before, but for what runs, which leaves nothing. Waits
        for ever when the loop has ended."""
        done = trio.Event()
        self._to_forget.append((namespace, done))
        self._rest.cancel()
        self.nudge()
        await done.wait()

    def nudge(self) -> None:
        """Somebody left: look who before the next step."""
        self._clients.nudge()

    def _is_wanted(self) -> bool:
        """From the decode thread: reads of single values."""
        return (
            self._clients.is_nudged
            or self._stop_error is not None
            or self._thread.is_wanted
            or self._jobs.statistics().current_buffer_used > 0
        )

    async def _read(self, load: Load) -> None:
        started = trio.current_time()
        blocks = await self._memory.read(load)
        await self._send_loaded.send(Loaded(load, blocks, trio.current_time() - started))

    def stop(self, error: RequestError) -> None:
        """End everything that runs or comes with `error`, at the next step."""
        self._stop_error = error

    async def _take_in(self) -> bool:
        """Add the jobs and blocks that came. Waits when there is nothing to do: for blocks, if some are being read
        (`LOOK_S` at a time), else for a job. False: there never will be any more."""
        await trio.lowlevel.checkpoint_if_cancelled()  # with work at hand nothing below waits
        if self._at_rest and self._num_loading:
            with trio.move_on_after(LOOK_S):  # a slow disk holds up nobody who does not need it
                self._take_loaded(await self._loaded.receive())
        with suppress(trio.WouldBlock):
            while True:
                self._take_loaded(self._loaded.receive_nowait())
        try:
            if self._at_rest and not self._clients and not self._to_forget:
                self._moved_at = None
                with trio.CancelScope() as self._rest:
                    if self._memory.is_behind:  # what it has no room for yet is read when it has
                        self._rest.deadline = trio.current_time() + CATCH_UP_S
                    self._add(await self._jobs.receive())
            while True:
                self._add(self._jobs.receive_nowait())
        except trio.WouldBlock:
            return True
        except trio.EndOfChannel:
            if self._at_rest and self._memory.is_behind:
                await trio.sleep(CATCH_UP_S)
                return True
            return bool(self._clients or self._num_loading) or not self._at_rest

    def _take_loaded(self, loaded: Loaded) -> None:
        self._num_loading -= 1
        self.scheduler.loaded(loaded.load, loaded.blocks, loaded.seconds)

    def _add(self, job: Job) -> None:
        sequence = self.scheduler.add(job.request, trio.current_time(), job.num_on_disk)
        sequence.arrived = sequence.arrived if job.arrived is None else job.arrived
        sequence.traceless = job.traceless
        self._clients.add(sequence, job)

    def _ended(self, sequence: Sequence) -> None:
        if not sequence.traceless:
            self._memory.remember(archived_part(sequence), sequence.request.namespace)

    def _fail_all(self, error: RequestError) -> None:
        for sequence in self.scheduler.sequences():
            self.scheduler.fail(sequence, error, trio.current_time())

    def _count(self, result: StepResult) -> None:
        """What a step adds; the rest is read off when somebody looks (`Metrics.watch_loop`)."""
        metrics = self._metrics
        if result.outputs or result.error:  # what only copies or saves cells is no step to those who wait
            metrics.step_seconds.observe(result.seconds)
        if result.error:
            metrics.step_errors.inc()
            log.error("step failed: %s", result.error)

    async def _audit(self) -> None:
        """Nothing to do: nobody may be waiting, and the engine's cells must be those of the scheduler's mirror."""
        if self._clients:
            raise RuntimeError(f"{len(self._clients)} requests wait and nothing is done for them")
        lengths = await self._thread.call(self._runner.lengths)
        expected = [len(slot.tokens) for slot in self.scheduler.admission.slots.slots]
        if lengths != expected:
            raise RuntimeError(f"the cells are not what the scheduler believes: {lengths} instead of {expected}")
