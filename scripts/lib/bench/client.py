"""A client so light that it is hardly a neighbour: one thread, raw sockets, bytes kept and read only afterwards.

On two cores the client competes with the server that it measures. It therefore does nothing while streams run but
`recv`, a clock reading and a count; `noise` reports what it used. Every side gets this same client.
"""

from __future__ import annotations

import json
import selectors
import socket
import ssl
from time import perf_counter
from typing import TYPE_CHECKING, Any

from attrs import Factory, define, frozen

from bench.errors import BenchError
from bench.sse import Arrival, Reply, read

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SILENCE_S = 600.0
"""A run in which nothing arrives for so long is given up."""


@frozen(kw_only=True)
class Address:
    """Where a server listens. `base`: what stands before `/v1` in its URLs; `model`: what requests must name, if any;
    `is_plain`: it gets OpenAI's fields only, as others may refuse what they do not know."""

    host: str = "127.0.0.1"
    port: int
    base: str = ""
    tls: bool = False
    key: str = ""
    model: str = ""
    is_plain: bool = False

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://{self.host}:{self.port}{self.base}"

    def connect(self) -> socket.socket:
        connection = socket.create_connection((self.host, self.port), timeout=SILENCE_S)
        if not self.tls:
            return connection
        return ssl.create_default_context().wrap_socket(connection, server_hostname=self.host)

    @property
    def authorization(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"} if self.key else {}

    def told(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The body as this server is sent it."""
        fields = {name: value for name, value in body.items() if not (self.is_plain and name == "reame")}
        return fields | ({"model": self.model} if self.model else {})

    def request(self, path: str, body: Mapping[str, Any]) -> bytes:
        """The bytes of a POST."""
        content = json.dumps(self.told(body)).encode()
        more = "".join(f"{name}: {value}\r\n" for name, value in self.authorization.items())
        head = (
            f"POST {self.base}{path} HTTP/1.1\r\nHost: {self.host}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(content)}\r\nConnection: close\r\n{more}"
        )
        return head.encode() + b"\r\n" + content


@frozen
class Cue:
    """The moment at which the stream at `index` has shown `events` events."""

    index: int
    events: int


@frozen(kw_only=True)
class Part:
    """One request of a play: sent `at` so many seconds after its begin and at `after` (None: at once), left by the
    client at `until` (None: at its end). Without a `path`, a body with messages goes to the chat endpoint."""

    body: Mapping[str, Any]
    path: str = ""
    at: float = 0.0
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

    def send(self, address: Address) -> socket.socket:
        path = self.part.path or ("/v1/chat/completions" if "messages" in self.part.body else "/v1/completions")
        self.connection = address.connect()
        self.sent = perf_counter()
        self.connection.sendall(address.request(path, self.part.body))
        return self.connection

    def receive(self) -> None:
        assert self.connection is not None
        data = self.connection.recv(1 << 16)
        if isinstance(self.connection, ssl.SSLSocket):
            while data and self.connection.pending():  # decrypted already: no selector would tell of it
                data += self.connection.recv(1 << 16)
        self.arrivals.append((perf_counter(), data))
        self.events += data.count(b"data:")
        self.is_over = not data or b"data: [DONE]" in data


def play(address: Address, parts: Sequence[Part]) -> list[Reply]:
    """Run the requests together against the server at `address`; the replies in the order of `parts`.

    Raises BenchError for refusals, errors, silence, and a stream that ended before another one's cue.
    """
    streams = [_Stream(part) for part in parts]
    try:
        with selectors.DefaultSelector() as selector:
            _run(address, streams, selector)
    except OSError as error:
        raise BenchError(f"the connection to the server broke: {error}") from error
    finally:
        for stream in streams:
            if stream.connection is not None:
                stream.connection.close()
    return [read(stream.sent, stream.arrivals) for stream in streams]


def _run(address: Address, streams: Sequence[_Stream], selector: selectors.BaseSelector) -> None:
    begun = perf_counter()

    def has_come(cue: Cue) -> bool:
        return streams[cue.index].events >= cue.events

    while not all(stream.is_over for stream in streams):
        waiting = [stream for stream in streams if stream.connection is None]
        ready_to_go = [stream for stream in waiting if stream.part.after is None or has_come(stream.part.after)]
        for stream in ready_to_go:
            if stream.part.at <= perf_counter() - begun:
                selector.register(stream.send(address), selectors.EVENT_READ, stream)
        later = [begun + stream.part.at for stream in ready_to_go if stream.connection is None]
        if not selector.get_map() and not later:
            raise BenchError("a stream ended before the next request's turn came")
        patience = max(0.0, min(later) - perf_counter()) if later else SILENCE_S
        ready = selector.select(patience)
        if not ready and not later:
            raise BenchError(f"nothing came for {SILENCE_S:.0f} s")
        for key, _ in ready:
            key.data.receive()
        for key in list(selector.get_map().values()):
            until = key.data.part.until
            if key.data.is_over or (until is not None and has_come(until)):
                key.data.is_over = True
                selector.unregister(key.fileobj)
                key.data.connection.close()
