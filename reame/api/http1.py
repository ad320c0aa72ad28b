"""HTTP/1.1 as Hypercorn speaks it on h11, and nothing beside it.

A wish to change to another protocol (WebSocket, h2c) is not heard, as RFC 9110, 7.8 allows; the request is answered all
the same. HTTP/2 without asking gets 505: Hypercorn's ends the whole connection when one stream's body is refused half
way, and the proxies in front of us speak HTTP/1.1. What h11 refuses is told with the error object of all other answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import h11
from hypercorn.events import Closed
from hypercorn.protocol.h11 import H11Protocol

from reame.api.chunks import dumps
from reame.api.errors import error_object
from reame.errors import RequestError

if TYPE_CHECKING:
    from hypercorn.events import Event

_MESSAGES = {
    400: "This is no well-formed HTTP/1.1 request.",
    431: "The request's line and headers are too large for this server.",
    501: "The server does not know that Transfer-Encoding: send the body as it is, or `chunked`.",
    505: "This server speaks HTTP/1.1 only.",
}
_CODES = {431: "headers_too_large", 501: "not_implemented", 505: "http_version_not_supported"}


class _Http2Error(Exception):
    """A client begins as one that speaks HTTP/2."""


class Http1(H11Protocol):
    """The requests of one connection, one after the other."""

    connection: h11.Connection

    async def handle(self, event: Event) -> None:
        try:
            await super().handle(event)
        except _Http2Error:
            await self._send_error_response(505)
            await self.send(Closed())

    async def _check_protocol(self, event: h11.Request) -> None:
        if event.method == b"PRI":
            raise _Http2Error

    async def _create_stream(self, request: h11.Request) -> None:
        await super()._create_stream(_without_upgrade(request))

    async def _send_error_response(self, status_code: int) -> None:
        message = _MESSAGES.get(status_code, _MESSAGES[400])
        body = dumps(error_object(RequestError(message, status=status_code, code=_CODES.get(status_code)))).encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            (b"connection", b"close"),
            *self.config.response_headers("h11"),
        ]
        await self._send_h11_event(h11.Response(status_code=status_code, headers=headers))
        await self._send_h11_event(h11.Data(data=body))
        await self._send_h11_event(h11.EndOfMessage())


def _without_upgrade(request: h11.Request) -> h11.Request:
    """With the header Hypercorn would make a WebSocket of it."""
    headers = [(name, value) for name, value in request.headers if name != b"upgrade"]
    if len(headers) == len(request.headers):
        return request
    return h11.Request(method=request.method, target=request.target, headers=headers, http_version=request.http_version)
