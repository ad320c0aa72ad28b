"""The HTTP server: connections and their bound, and an orderly end.

It runs Hypercorn's protocol code on sockets and connections of our own. One task per connection; at most
`server.max_connections` of them, the next one is told 503 and closed.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config as HypercornConfig
from hypercorn.trio.worker_context import WorkerContext

from reame.api.chunks import dumps
from reame.api.connection import Connection
from reame.api.errors import error_object
from reame.api.listen import listen, notice_vanished_clients, url
from reame.errors import RequestError

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable, Sequence

    from hypercorn.typing import ASGIFramework

    from reame.config import Config, ServerConfig

IDLE_S = 75.0
"""Seconds that a connection may wait for the head of a request; the pools of common clients and proxies wait less."""
LAST_WORDS_S = 1.0
"""Seconds after the grace period in which streams that were told to end may still say so."""
_log = logging.getLogger(__name__)


async def serve(
    app: ASGIFramework,
    config: Config,
    *,
    shutdown_trigger: Callable[[], Awaitable[object]],
    sockets: Sequence[socket.socket] | None = None,
    task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until `shutdown_trigger` returns, then until the running requests end or `server.grace_s` has passed.

    `sockets` are listening ones, closed here; without them `listen` opens the configuration's host and port, which
    raises ConfigError. `task_status.started` gets their URLs. Cancelling ends every connection at once.
    """
    server = config.server
    listening = listen(server.host, server.port) if sockets is None else sockets
    for each in listening:
        notice_vanished_clients(each, server.write_timeout_s)
    listeners = [trio.SocketListener(trio.socket.from_stdlib_socket(each)) for each in listening]
    door = _Door(app, server)
    async with trio.open_nursery() as connections:
        try:
            async with trio.open_nursery() as accepting:
                accepting.start_soon(
                    partial(trio.serve_listeners, door.receive, listeners, handler_nursery=connections)
                )
                task_status.started([url(each) for each in listening])
                await shutdown_trigger()
                accepting.cancel_scope.cancel()
            await door.drain(server.grace_s + LAST_WORDS_S)
        finally:
            door.abort()
            connections.cancel_scope.cancel()


class _Door:
    """Counts who is in. After `drain` has begun, idle connections close and busy ones do so after their answer."""

    def __init__(self, app: ASGIFramework, server: ServerConfig) -> None:
        self._app = ASGIWrapper(app)
        self._server = server
        self._hypercorn = _hypercorn_config()
        self._context = WorkerContext(None)
        self._inside: set[Connection] = set()
        self._draining = False
        self._all_gone = trio.Event()

    async def receive(self, stream: trio.SocketStream) -> None:
        """Serve one client to its end. A fault in here is logged and ends nothing but its connection."""
        if len(self._inside) >= self._server.max_connections:
            await _turn_away(stream)
            return
        connection = Connection(
            stream, self._app, self._hypercorn, self._context, write_timeout_s=self._server.write_timeout_s
        )
        self._inside.add(connection)
        try:
            await connection.run()
        except* Exception as faults:
            _log.error("a connection broke off", exc_info=faults)
        finally:
            self._inside.discard(connection)
            if self._draining and not self._inside:
                self._all_gone.set()

    async def drain(self, seconds: float) -> None:
        """Wait until everyone has left, but no longer than `seconds`."""
        self._draining = True
        await self._context.terminated.set()
        if self._inside:
            with trio.move_on_after(seconds):
                await self._all_gone.wait()

    def abort(self) -> None:
        for connection in self._inside:
            connection.abort()


def _hypercorn_config() -> HypercornConfig:
    """Quiet: requests are logged by the runtime. No read timeout, as it would cut live streams."""
    config = HypercornConfig()
    config.accesslog = None
    config.errorlog = _log
    config.include_server_header = False
    config.keep_alive_timeout = IDLE_S
    return config


async def _turn_away(stream: trio.SocketStream) -> None:
    """Hear the request, say that it is too full here, and give the client a moment to read that."""
    with trio.move_on_after(1):
        try:
            await stream.receive_some()
            await stream.send_all(_TOO_MANY)
            await stream.send_eof()
            while await stream.receive_some():
                pass
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass


def _too_many() -> bytes:
    body = dumps(error_object(RequestError("Too many connections to this server.", status=503)))
    head = "HTTP/1.1 503 Service Unavailable", "Content-Type: application/json", f"Content-Length: {len(body)}"
    return "\r\n".join([*head, "Retry-After: 1", "Connection: close", "", body]).encode()


_TOO_MANY = _too_many()
