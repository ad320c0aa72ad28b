"""Threads for a disk that may hang: who asks it something waits so long and no longer, and a fault is no answer."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeVar

import trio

from reame.runtime.kept import guarded

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

log = logging.getLogger(__name__)


class DiskThreads:
    """At most `number` at once. `patience_s`: seconds after which what is looked up is given up."""

    def __init__(self, number: int, patience_s: float) -> None:
        self._limiter = trio.CapacityLimiter(number)
        self.patience_s = patience_s
        self._is_slow = False
        """What was looked up last was given up."""

    async def look(self, function: Callable[[], T], otherwise: T) -> T:
        """What it says; `otherwise` after a fault, and when it takes too long or nobody wants it any more: then its
        thread is left to itself, so that a disk that hangs holds up nobody. Who comes while all threads are left to
        themselves does not wait either."""
        if self._is_slow and not self._limiter.available_tokens:
            return otherwise
        with trio.move_on_after(self.patience_s):
            run = trio.to_thread.run_sync
            found = await run(guarded, function, otherwise, limiter=self._limiter, abandon_on_cancel=True)
            self._is_slow = False
            return found
        if not self._is_slow:
            log.warning("the memory's disk is silent for %.0f s: going on without what it keeps", self.patience_s)
        self._is_slow = True
        return otherwise

    async def run(self, function: Callable[[], T], otherwise: T) -> T:
        """The same for what is to be done however long it takes."""
        return await trio.to_thread.run_sync(guarded, function, otherwise, limiter=self._limiter)
