"""Streamed answers over a socket of one's own, read piece by piece; whoever leaves early closes it there and then."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import h11
import trio
from attrs import define, field

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Container

    from httpx2 import AsyncClient

ENOUGH = 1 << 16


@define
class Told:
    """A stream so far: the text of each choice, how each ended, the events as they came."""

    texts: dict[int, str] = field(factory=dict)
    reasons: dict[int, str] = field(factory=dict)
    events: list[dict[str, Any]] = field(factory=list)
    comments: int = 0
    error: dict[str, Any] | None = None
    is_done: bool = False

    def take(self, line: str) -> bool:
        """A line of the body; True when it carried text."""
        assert not self.is_done or not line, f"after the end mark: {line}"
        self.comments += line.startswith(":")
        if not line.startswith("data: "):
            return False
        if line == "data: [DONE]":
            self.is_done = True
            return False
        event = json.loads(line.removeprefix("data: "))
        if "error" in event:
            self.error = event["error"]
            return False
        self.events.append(event)
        return sum(self._choice(choice) for choice in event["choices"]) > 0

    def _choice(self, choice: dict[str, Any]) -> bool:
        text = choice["text"] if "text" in choice else choice["delta"].get("content", "")
        index = choice["index"]
        self.texts[index] = self.texts.get(index, "") + text
        if choice["finish_reason"]:
            self.reasons[index] = choice["finish_reason"]
        return bool(text)


class Stream:
    """An open streamed answer. `told` is what it has said so far, `status` and `headers` are there from the start."""

    def __init__(self, wire: trio.SocketStream) -> None:
        self.told = Told()
        self.status = 0
        self.headers: dict[str, str] = {}
        self._wire = wire
        self._parser = h11.Connection(h11.CLIENT)
        self._unread = b""
        self._is_over = False

    async def send(self, client: AsyncClient, path: str, body: dict[str, Any]) -> None:
        """Ask, with the client's own headers, and wait for the head of the answer."""
        content = json.dumps(body).encode()
        own = {name: value for name, value in client.headers.items() if name in ("authorization", "accept")}
        headers = own | {"Host": "daemon", "Content-Type": "application/json", "Content-Length": str(len(content))}
        parts = (
            h11.Request(method="POST", target=path, headers=list(headers.items())),
            h11.Data(data=content),
            h11.EndOfMessage(),
        )
        await self._wire.send_all(b"".join(self._parser.send(part) or b"" for part in parts))
        head = await self._next()
        assert isinstance(head, h11.Response)
        self.status = head.status_code
        self.headers = {name.decode(): value.decode() for name, value in head.headers}

    async def piece(self) -> bool:
        """Read on to the next piece of text; False at the end, as often as one asks."""
        while not self._is_over:
            while b"\n" in self._unread:
                line, _, self._unread = self._unread.partition(b"\n")
                if self.told.take(line.decode()):
                    return True
            event = await self._next()
            if isinstance(event, h11.Data):
                self._unread += event.data
            else:
                assert isinstance(event, h11.EndOfMessage)
                self._is_over = True
        return False

    async def rest(self) -> Told:
        while await self.piece():
            pass
        return self.told

    async def _next(self) -> h11.Event:
        """Raises h11.RemoteProtocolError when the connection ends in the middle."""
        while (event := self._parser.next_event()) is h11.NEED_DATA:
            self._parser.receive_data(await self._wire.receive_some(ENOUGH))
        assert isinstance(event, h11.Event)
        return event


@asynccontextmanager
async def streaming(
    client: AsyncClient, path: str, body: dict[str, Any], *, refusals: Container[int] = ()
) -> AsyncIterator[Stream]:
    """An answer being streamed, status 200 or one of `refusals`. Leaving the block closes the connection, as a client
    does who goes away."""
    host, port = client.base_url.host, client.base_url.port
    assert port is not None
    async with await trio.open_tcp_stream(host, port) as wire:
        opened = Stream(wire)
        await opened.send(client, path, body | {"stream": True})
        assert opened.status == 200 or opened.status in refusals, opened.status
        yield opened


async def stream(client: AsyncClient, path: str, body: dict[str, Any]) -> Told:
    """A streamed answer to its end, which must be a good one."""
    async with streaming(client, path, body) as opened:
        told = await opened.rest()
    assert told.error is None
    assert told.is_done
    return told
