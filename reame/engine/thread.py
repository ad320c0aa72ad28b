"""The one OS thread that computes, for the life of the process, and its inline twin for tests in virtual time.

One thread, because every OS thread that calls llama.cpp gets an OpenMP team of its own, and Trio's worker threads take
turns. A call costs about 50 us.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Protocol, TypeVar

import outcome
import trio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

T = TypeVar("T")


class Caller(Protocol):
    """Runs functions one after the other on the decode thread."""

    @property
    def is_wanted(self) -> bool:
        """Whether a function waits for the one that runs."""
        ...

    async def call(self, function: Callable[[], T]) -> T:
        """Run `function` there and return or raise what it does. Not cancellable: a step is never abandoned."""
        ...


class DecodeThread:
    """See `Caller`. Use `decode_thread()` to have one."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._token = trio.lowlevel.current_trio_token()
        self._is_over = False

    @property
    def is_wanted(self) -> bool:
        return not self._jobs.empty()

    async def call(self, function: Callable[[], T]) -> T:
        if self._is_over:  # nothing runs there any more, and whoever asks is being cancelled
            await trio.sleep_forever()
        task = trio.lowlevel.current_task()

        def job() -> None:
            result = outcome.capture(function)
            self._token.run_sync_soon(trio.lowlevel.reschedule, task, result)

        self._jobs.put(job)
        result: T = await trio.lowlevel.wait_task_rescheduled(lambda raise_cancel: trio.lowlevel.Abort.FAILED)
        return result

    def _main(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()

    def _end(self) -> None:
        self._is_over = True
        self._jobs.put(None)


@asynccontextmanager
async def decode_thread() -> AsyncIterator[DecodeThread]:
    """The thread lives as long as the block; leaving it waits for the step that runs."""
    thread = DecodeThread()
    async with trio.open_nursery() as nursery:
        main = partial(trio.to_thread.run_sync, thread._main, abandon_on_cancel=False, limiter=trio.CapacityLimiter(1))
        nursery.start_soon(main)
        try:
            yield thread
        finally:
            thread._end()


class InlineThread:
    """Runs the function at once, in the calling task: for tests with `autojump_clock`, whose time a real thread would
    let run away."""

    is_wanted = False

    async def call(self, function: Callable[[], T]) -> T:
        await trio.lowlevel.cancel_shielded_checkpoint()
        return function()
