"""The HTTP front and the batches beside it, as one front of the daemon."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from reame.runtime.batches import Batches
    from reame.runtime.daemon import Front


def with_batches(front: Front, batches: Batches) -> Front:
    """The front with its batches: as long as it serves they are worked on, and when it stops so do they, at once."""

    async def both(
        *, shutdown_trigger: Callable[[], Awaitable[None]], task_status: trio.TaskStatus[list[str]]
    ) -> None:
        async with trio.open_nursery() as nursery:

            async def until_shutdown() -> None:
                async with trio.open_nursery() as working:
                    working.start_soon(batches.run)
                    await shutdown_trigger()
                    working.cancel_scope.cancel()

            nursery.start_soon(until_shutdown)
            await front(shutdown_trigger=shutdown_trigger, task_status=task_status)
            nursery.cancel_scope.cancel()

    return both
