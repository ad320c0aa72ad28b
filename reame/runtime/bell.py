"""How the decode thread tells Trio's thread that there is news, without handing over the interpreter.

`TrioToken.run_sync_soon` sends a byte down a socket; Python gives up its lock for every system call, Trio's thread
takes it, and the decode thread has it back when all streams are served: half a millisecond to two, in which nothing is
computed. A bell is rung by a call that keeps the lock. Trio's thread then runs while the next step is computed.
"""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

_WRITE = ctypes.PyDLL(None).write
_WRITE.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t)
_WRITE.restype = ctypes.c_ssize_t
_ONE = (1).to_bytes(8, sys.byteorder)
"""What an eventfd takes."""


@asynccontextmanager
async def hung(hear: Callable[[], None]) -> AsyncIterator[Callable[[], None]]:
    """A bell: its `ring`, for any thread, never waits. `hear` runs on Trio's thread soon after, once for all rings
    that came meanwhile, until the block is left."""
    descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def ring() -> None:
        _WRITE(descriptor, _ONE, len(_ONE))

    async def listen() -> None:
        while True:
            await trio.lowlevel.wait_readable(descriptor)
            os.eventfd_read(descriptor)
            hear()

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen)
            yield ring
            nursery.cancel_scope.cancel()
    finally:
        os.close(descriptor)
