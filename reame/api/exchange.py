"""One HTTP request on Quart-Trio, with what the stock ASGI connection gets wrong put right.

- The last `send` is shielded. Hypercorn closes or recycles the connection inside it, and first tells the application
  that the client is gone; stock Quart-Trio then cancels itself in the middle, and idle connections never close.
- What a request holds (`Request.held`) is let go in the task that serves it, whenever it ends: a client may leave
  between the making of a response and its first byte.
- An answer to a client that is still sending says that its connection ends (`connection.Connection` ends it).
- A compressed body is refused (415) as soon as somebody wants to read it; nothing of it is kept.
- Paths are taken leniently: with or without `/v1`, with or without a slash at the end.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, NoReturn, cast
from urllib.parse import urlsplit

import trio
from quart_trio.asgi import TrioASGIHTTPConnection
from quart_trio.wrappers import TrioRequest
from quart_trio.wrappers.request import TrioBody

from reame.api.connection import IS_SENDING
from reame.errors import RequestError

if TYPE_CHECKING:
    from hypercorn.typing import ASGISendCallable, ASGISendEvent, HTTPScope
    from quart import Quart
    from quart import Request as QuartRequest


UPLOAD = "POST", "/files"
LAST_SEND_S = 120
"""Seconds; far above what the last part of an answer takes, as writes have their own time limit."""


class Request(TrioRequest):
    """`held`: contexts that live until the response is sent or its client is gone. Their end must not need to wait."""

    held: AsyncExitStack


class EncodedBody(TrioBody):
    """Who reads it gets RequestError."""

    def append(self, data: bytes) -> None:
        pass

    def __await__(self) -> NoReturn:
        raise _encoded()

    async def __anext__(self) -> NoReturn:
        raise _encoded()


def _encoded() -> RequestError:
    return RequestError("Send the body as it is: no `Content-Encoding` but `identity` is decoded here.", status=415)


class Exchange(TrioASGIHTTPConnection):
    """The ASGI connection class of the application."""

    def __init__(self, app: Quart, scope: HTTPScope) -> None:
        super().__init__(app, {**scope, "path": route_path(scope["path"])})

    def _create_request_from_scope(self, send: ASGISendCallable) -> QuartRequest:
        """An uploaded file may be larger than other bodies."""
        made = super()._create_request_from_scope(send)
        if made.headers.get("Content-Encoding", "").strip().lower() not in ("", "identity"):
            made.body = EncodedBody(None, None)
        elif (made.method, made.path) == UPLOAD:
            made.body = made.body_class(made.content_length, self.app.config["MAX_UPLOAD_LENGTH"])
        return made

    async def handle_request(  # type: ignore[override]
        self, nursery: trio.Nursery, request: QuartRequest, send: ASGISendCallable
    ) -> None:
        async with AsyncExitStack() as held:
            cast("Request", request).held = held
            await super().handle_request(nursery, request, cast("ASGISendCallable", partial(self._send, send)))

    async def _send(self, send: ASGISendCallable, message: ASGISendEvent) -> None:
        if message["type"] == "http.response.start" and self.scope.get("state", {}).get(IS_SENDING, bool)():
            message["headers"] = [*message["headers"], (b"connection", b"close")]
        if message["type"] != "http.response.body" or message.get("more_body", False):
            await send(message)
            return
        with trio.move_on_after(LAST_SEND_S, shield=True):
            await send(message)


def route_path(path: str) -> str:
    """The path that routes are declared with: no `/v1` in front, single slashes, none at the end.

    A client that takes us for a proxy sends the whole URL.
    """
    if not path.startswith("/"):
        path = urlsplit(path).path
    parts = [part for part in path.split("/") if part]
    if parts[:1] == ["v1"]:
        del parts[0]
    return "/" + "/".join(parts)
