"""The terminal as a front of the daemon, beside HTTP: waits until the model is ready, lets a person talk, and ends."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Protocol

import trio
from attrs import define

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from reame.commands.screen import Screen
    from reame.runtime.intake import Intake

INTERRUPTED, TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM
REFRESH_S = 0.1


class Talk(Protocol):
    """What happens once the model is ready; returns the exit status. Ctrl-C arrives in `interrupts`."""

    async def __call__(self, interrupts: AsyncIterator[int]) -> int: ...


@define
class TerminalFront:
    """See `reame.runtime.daemon.Front`. `status` is the exit status once it has ended. SIGINT is its own."""

    intake: Intake
    screen: Screen
    talk: Talk
    status: int = 0

    async def __call__(
        self, *, shutdown_trigger: Callable[[], Awaitable[None]], task_status: trio.TaskStatus[list[str]]
    ) -> None:
        with trio.open_signal_receiver(signal.SIGINT) as interrupts:
            task_status.started(["this terminal"])
            async with trio.open_nursery() as nursery:

                async def end_on_shutdown() -> None:
                    await shutdown_trigger()
                    self.status = TERMINATED
                    nursery.cancel_scope.cancel()

                nursery.start_soon(end_on_shutdown)
                ready = await unless_interrupted(interrupts, self._wait_ready)
                self.status = await self.talk(interrupts) if ready else INTERRUPTED
                nursery.cancel_scope.cancel()

    async def _wait_ready(self) -> None:
        try:
            while not self.intake.is_ready():
                self.screen.status(self.intake.detail)
                with trio.move_on_after(REFRESH_S):
                    await self.intake.wait_ready()
        finally:
            self.screen.status("")


async def unless_interrupted(
    interrupts: AsyncIterator[int], work: Callable[[], Awaitable[object]], *, deaf_s: float = 0.0
) -> bool:
    """Do `work`; an interrupt cancels it, and the result is then False. Those of the first `deaf_s` seconds do not."""
    done = False
    deaf_until = trio.current_time() + deaf_s
    async with trio.open_nursery() as nursery:

        async def listen() -> None:
            async for _ in interrupts:
                if trio.current_time() >= deaf_until:
                    nursery.cancel_scope.cancel()

        nursery.start_soon(listen)
        await work()
        done = True
        nursery.cancel_scope.cancel()
    return done
