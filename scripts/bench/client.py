"""A client so light that it is hardly a neighbour: one thread, raw sockets, bytes kept and read only afterwards.

On two cores the client competes with the server that it measures. It therefore does nothing while streams run but
`recv`, a clock reading and a count; `noise` reports what it used. Every side gets this same client.
"""

from __future__ import annotations

import json
import selectors
import socket
from time import perf_counter
from typing import TYPE_CHECKING, Any

from attrs import Factory, define, frozen

from bench.errors import BenchError
from bench.sse import Arrival, Reply, read

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SILENCE_S = 600.0
"""A run in which nothing arrives for so long is given up."""


@frozen
class Cue:
    """The moment at which the stream at `index` has shown `events` events."""

    index: int
    events: int


@frozen(kw_only=True)
class Part:
    """One request of a play: sent at `after` (None: at once), left by the client at `until` (None: at its end). A body
    with messages goes to the chat endpoint."""

    body: Mapping[str, Any]
    after: Cue | None = None
    until: Cue | None = None


@define(eq=False)
class _Stream:
    """The state of one request on its own connection, which exists once it is sent."""

    part: Part
    connection: socket.socket | None = None
    sent: float = 0.0
    arrivals: list[Arrival] = Factory(list)
    events: int = 0
    is_over: bool = False

    def send(self, port: int) -> socket.socket:
        body = json.dumps(self.part.body).encode()
        path = "/v1/chat/completions" if "messages" in self.part.body else "/v1/completions"
        head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        self.connection = socket.create_connection(("127.0.0.1", port), timeout=SILENCE_S)
        self.sent = perf_counter()
        self.connection.sendall(head.encode() + body)
        return self.connection

    def receive(self) -> None:
        assert self.connection is not None
        data = self.connection.recv(1 << 16)
        self.arrivals.append((perf_counter(), data))
        self.events += data.count(b"data:")
        self.is_over = not data or b"data: [DONE]" in data


def play(port: int, parts: Sequence[Part]) -> list[Reply]:
    """Run the requests together against the server at `port`; the replies in the order of `parts`.

    Raises BenchError for refusals, errors, silence, and a stream that ended before another one's cue.
    """
    streams = [_Stream(part) for part in parts]
    try:
        with selectors.DefaultSelector() as selector:
            _run(port, streams, selector)
    except OSError as error:
        raise BenchError(f"the connection to the server broke: {error}") from error
    finally:
        for stream in streams:
            if stream.connection is not None:
                stream.connection.close()
    return [read(stream.sent, stream.arrivals) for stream in streams]


def _run(port: int, streams: Sequence[_Stream], selector: selectors.BaseSelector) -> None:
    def has_come(cue: Cue) -> bool:
        return streams[cue.index].events >= cue.events

    while not all(stream.is_over for stream in streams):
        for stream in streams:
            if stream.connection is None and (stream.part.after is None or has_come(stream.part.after)):
                selector.register(stream.send(port), selectors.EVENT_READ, stream)
        if not selector.get_map():
            raise BenchError("a stream ended before the next request's turn came")
        ready = selector.select(SILENCE_S)
        if not ready:
            raise BenchError(f"nothing came for {SILENCE_S:.0f} s")
        for key, _ in ready:
            key.data.receive()
        for key in list(selector.get_map().values()):
            until = key.data.part.until
            if key.data.is_over or (until is not None and has_come(until)):
                key.data.is_over = True
                selector.unregister(key.fileobj)
                key.data.connection.close()
