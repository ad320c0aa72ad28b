"""One client's TCP or unix connection: Hypercorn's, with writes that cannot block for ever.

Stock Hypercorn shields its writes, so a client that stops reading would hold a shutdown, and its own sequence, for
ever. Here a write that makes no progress for the write timeout ends the connection. A client that is still sending
when it has been answered (413, 401) gets a moment to read the answer: closing at once would reset it away; and the
answer says that the connection ends with it (`exchange`, by `IS_SENDING`), or the next request might be sent into it.
And when a client has left, so has its connection; stock Hypercorn keeps it until it would have been idle for too long.
"""

from __future__ import annotations

import os
import socket
import struct
from contextlib import suppress
from typing import TYPE_CHECKING

import h11
import trio
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.trio.task_group import TaskGroup
from hypercorn.trio.tcp_server import MAX_RECV, TCPServer
from hypercorn.typing import ConnectionState
from hypercorn.utils import parse_socket_addr

from reame.api.http1 import Http1

if TYPE_CHECKING:
    from hypercorn.config import Config
    from hypercorn.trio.worker_context import WorkerContext
    from hypercorn.typing import AppWrapper

LINGER_S = 5
"""Seconds that a client may go on sending after the last answer."""
IS_SENDING = "is_client_sending"
"""In the ASGI scope's state: a function, whether the body of the request that is being answered still comes."""
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Connection(TCPServer):
    """Serves the requests of `stream` one after the other. `await connection.run()`."""

    protocol: Http1  # type: ignore[assignment]

    def __init__(
        self,
        stream: trio.SocketStream,
        app: AppWrapper,
        config: Config,
        context: WorkerContext,
        *,
        write_timeout_s: float,
    ) -> None:
        state = {IS_SENDING: self._is_client_sending}
        super().__init__(app, config, context, state, stream)  # type: ignore[arg-type]
        self._socket = stream.socket
        self._write_timeout_s = write_timeout_s
        self._reading = trio.CancelScope()
        self._is_lingering = False
        self._is_client_gone = False

    async def run(self) -> None:
        """Hypercorn's, but for TLS and HTTP/2."""
        try:
            client, server = (
                parse_socket_addr(self._socket.family, name)
                for name in (self._socket.getpeername(), self._socket.getsockname())
            )
            state = ConnectionState(self.state)
            async with TaskGroup() as tasks:
                self._task_group = tasks
                self.protocol = Http1(
                    self.app, self.config, self.context, tasks, state, False, client, server, self.protocol_send
                )
                await self.idle_task.restart(tasks, self._idle_timeout)
                await self._read_data()
        except OSError:
            pass
        finally:
            await self._close()

    def abort(self) -> None:
        """Close without a word; pending reads and writes fail at once."""
        if self._socket.fileno() != -1:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            self._socket.close()

    async def protocol_send(self, event: Event) -> None:
        if isinstance(event, RawData):
            await self._write(event.data)
        elif isinstance(event, Closed) and self._may_send_more() and not self._is_lingering:
            await self._linger()
        elif isinstance(event, Updated) and self._is_client_gone:
            await self.idle_task.stop()
        else:
            await super().protocol_send(event)

    async def _write(self, data: bytes) -> None:
        """At once where the kernel has room, as nearly always; else within the time limit, whoever is cancelled."""
        sent = 0 if self.send_lock.locked() else self._write_now(data)
        if sent == len(data):
            return
        async with self.send_lock:
            try:
                with trio.CancelScope(shield=True) as scope:
                    while sent < len(data):
                        scope.deadline = trio.current_time() + self._write_timeout_s
                        sent += await self._socket.send(data[sent:])
            except (OSError, trio.ClosedResourceError):
                await self._lost()
            else:
                if scope.cancelled_caught:
                    self.abort()
                    await self._lost()

    async def _lost(self) -> None:
        """The reader may be waiting for the end of an answer, with the client's next request in hand."""
        self._reading.cancel()
        await self.protocol.handle(Closed())

    def _write_now(self, data: bytes) -> int:
        """Bytes that the kernel took without waiting; a fault shows when the rest is sent."""
        try:
            return os.write(self._socket.fileno(), data)
        except OSError:
            return 0

    async def _read_data(self) -> None:
        with self._reading, suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while data := await self.stream.receive_some(MAX_RECV):
                if not self._is_lingering:
                    await self.protocol.handle(RawData(bytes(data)))
        self._is_client_gone = True
        await self.idle_task.stop()
        await self.protocol.handle(Closed())

    def _is_client_sending(self) -> bool:
        return self.protocol.connection.their_state is h11.SEND_BODY

    def _may_send_more(self) -> bool:
        """Also what is no HTTP may have a rest: where that began, nobody knows where it ends."""
        return self.protocol.connection.their_state in (h11.SEND_BODY, h11.ERROR)

    async def _linger(self) -> None:
        """End our side; what still comes is read and dropped, but not for long."""
        self._is_lingering = True
        self._reading.deadline = trio.current_time() + LINGER_S
        with trio.CancelScope(shield=True), suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await self.stream.send_eof()
