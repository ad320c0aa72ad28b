"""Raw HTTP over a socket: a request, an answer read to its end, and what becomes of the connection."""

from __future__ import annotations

import json
from typing import Any

import trio

CHAT = "/v1/chat/completions"
GET = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"


def post(body: dict[str, Any], path: str = CHAT, *, extra: str = "") -> bytes:
    """A request as bytes."""
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{extra}"
    return f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data


async def receive_until(stream: trio.SocketStream, mark: bytes) -> bytes:
    """What comes, up to and with `mark`; the end of the stream before it is a failure."""
    got = b""
    while mark not in got:
        part = await stream.receive_some()
        assert part, f"the connection ended after {got!r}"
        got += part
    return got


async def answer(stream: trio.SocketStream) -> tuple[bytes, bytes]:
    """Status line and body of the next answer, which must have a Content-Length."""
    got = await receive_until(stream, b"\r\n\r\n")
    head, _, body = got.partition(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    (length,) = (int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length:"))
    while len(body) < length:
        body += await stream.receive_some()
    return head.split(b"\r\n")[0], body


async def is_over(stream: trio.SocketStream) -> bool:
    """Reads to the end of the connection, by FIN or RST."""
    try:
        while await stream.receive_some():
            pass
    except trio.BrokenResourceError:
        pass
    return True


async def cannot_send(stream: trio.SocketStream) -> bool:
    """Sends until the other side refuses to hear more."""
    try:
        while True:
            await stream.send_all(b" " * 100_000)
    except trio.BrokenResourceError:
        return True
