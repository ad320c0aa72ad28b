"""`reame cache forget` on a daemon that runs: its orders are looked for, carried out, and ticked off.

Order: the live cells and what runs first, then what waits for the disk, then the disk. So nothing comes after what was
deleted.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

import trio

from reame.memory.inbox import Inbox
from reame.memory.outage import Seldom
from reame.runtime.recall import memory_dir, memory_salt

if TYPE_CHECKING:
    from reame.config import Config
    from reame.runtime.decode import DecodeLoop
    from reame.runtime.embeddings import Embeddings
    from reame.runtime.memory import Memory

LOOK_S = 1.0
"""Seconds between two looks: one listing of a directory that is nearly always empty."""

log = logging.getLogger(__name__)


def open_inbox(config: Config) -> Inbox | None:
    """None where nothing is kept, or where the directory cannot be written. Files: call it in a thread."""
    if not config.memory.enabled:
        return None
    try:
        return Inbox(memory_dir(config))
    except OSError as error:
        log.warning(
            "`reame cache forget` will not reach this daemon's cells: %s: %s (set memory.path)",
            error.filename or memory_dir(config), error.strerror,
        )  # fmt: skip
        return None


class Forgetting:
    """`run` until `close`. An order that comes later is for the command: it deletes what is on disk once more when the
    daemon has ended."""

    def __init__(
        self, inbox: Inbox | None, loop: DecodeLoop, memory: Memory, embeddings: Embeddings | None = None
    ) -> None:
        self._inbox = inbox
        self._loop = loop
        self._memory = memory
        self._embeddings = embeddings
        self._scope = trio.CancelScope()
        self._emptied = Seldom(time.monotonic)

    async def run(self) -> None:
        inbox = self._inbox
        if inbox is None:
            return
        with self._scope:
            while True:
                if await trio.to_thread.run_sync(self._restore, inbox):
                    self._emptied.warn("%s: files were deleted while it is in use; it is filled again", inbox.directory)
                for order in await trio.to_thread.run_sync(inbox.orders):
                    self._memory.begin_era(order.namespace)  # what its calls still launch leaves nothing either
                    await self._loop.forget(order.namespace)
                    await self._memory.forget(order.namespace)
                    if self._embeddings is not None:
                        self._embeddings.forget(order.namespace)
                    await trio.to_thread.run_sync(inbox.done, order)
                    log.info("forgot all of the API key %s", order.namespace or "(none)")
                await trio.sleep(LOOK_S)

    def _restore(self, inbox: Inbox) -> bool:
        """Whether the directory was emptied, and can be used again: for orders, and with the salt that names what is
        kept from now on, else nobody would find it after a restart."""
        if not inbox.is_gone:
            return False
        try:
            memory_salt(inbox.directory, own=self._memory.kept.salt)
            inbox.reopen()
        except OSError:
            return False  # until the next look
        return True

    def close(self) -> None:
        self._scope.cancel()
