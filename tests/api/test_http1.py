"""What is refused before the application hears of it, and protocols that are not spoken. Over real sockets."""

from __future__ import annotations

import gzip
import json
import logging
import socket
import struct
from typing import TYPE_CHECKING

import pytest
from scripted import ScriptedIntake, chat_body, finish, serving
from test_server import GET, answer, is_over
from wire import post, receive_until

from reame.core.events import Delta

if TYPE_CHECKING:
    import trio
    from scripted import Served

WEBSOCKET = b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
WEBSOCKET_KEY = b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
H2C = b"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@pytest.fixture(autouse=True)
def _no_error_is_logged(caplog: pytest.LogCaptureFixture) -> object:
    yield
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == []


async def error_of(client: trio.SocketStream) -> tuple[bytes, dict[str, str | None]]:
    """Status line and error object of the next answer, after which the connection must end."""
    status, body = await answer(client)
    assert await is_over(client)
    return status, json.loads(body)["error"]


@pytest.mark.parametrize("wish", [WEBSOCKET, WEBSOCKET + WEBSOCKET_KEY, H2C], ids=["no key", "WebSocket", "h2c"])
@pytest.mark.parametrize(("path", "status"), [(b"/v1/models", b"200"), (b"/nope", b"404")])
async def test_a_wish_for_another_protocol_is_not_heard(
    intake: ScriptedIntake, wish: bytes, path: bytes, status: bytes
) -> None:
    async with serving(intake) as served:
        client = await served.raw(b"")
        for _ in range(2):
            await client.send_all(b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n" + wish + b"\r\n")
            line, body = await answer(client)
            assert line.split()[1] == status
            assert json.loads(body)
        await client.send_all(post(chat_body(), extra=wish.decode()))
        assert b'"content":"Hello"' in (await answer(client))[1]


async def test_http2_is_refused(intake: ScriptedIntake) -> None:
    async with serving(intake) as served:
        client = await served.raw(PREFACE)
        await client.send_all(b"\x00" * 10_000)
        line, error = await error_of(client)
    assert line.split()[1] == b"505"
    assert error["message"] == "This server speaks HTTP/1.1 only."


@pytest.mark.parametrize(
    ("raw", "status", "code"),
    [
        (b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}", 400, None),
        (b"GET /health HTTP/1.1\r\n\r\n", 400, None),
        (b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n", 400, None),
        (b"hello\r\n\r\n", 400, None),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400, None),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 501, "not_implemented"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 300_000 + b"\r\n\r\n", 431, "headers_too_large"),
    ],
    ids=["two lengths", "no host", "bad path", "no HTTP", "bad chunk", "unknown encoding", "long header"],
)
async def test_what_is_no_http_gets_the_error_object(
    intake: ScriptedIntake, raw: bytes, status: int, code: str | None
) -> None:
    """All of it is read: a reset would make some systems throw away the answer that lies unread."""
    async with serving(intake) as served:
        client = await served.raw(raw)
        line, error = await error_of(client)
    assert int(line.split()[1]) == status
    assert error["code"] == code
    assert error["message"]


async def test_the_answer_to_head_has_no_body(intake: ScriptedIntake) -> None:
    async with serving(intake) as served:
        client = await served.raw(b"HEAD / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
        assert (await receive_until(client, b"\r\n\r\n")).endswith(b"\r\n\r\n")
        assert await client.receive_some() == b""


FORM = b'--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--b--\r\n'


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/batches", "/v1/messages", "/tokenize", "/v1/files"])
@pytest.mark.parametrize("coding", ["gzip", "br, identity", "Zstd"])
async def test_a_compressed_body_is_refused(intake: ScriptedIntake, path: str, coding: str) -> None:
    kind = "multipart/form-data; boundary=b" if path == "/v1/files" else "application/json"
    headers = {"Content-Type": kind, "Content-Encoding": coding}
    async with serving(intake) as served:
        response = await served.http.post(path, content=gzip.compress(FORM), headers=headers)
        assert response.status_code == 415
        error = response.json()["error"]
        assert "Content-Encoding" in error["message"]
        assert (await served.http.get("/health", headers=headers)).status_code == 200


@pytest.mark.parametrize("coding", ["identity", " Identity ", ""])
async def test_a_body_that_says_it_is_not_compressed_is_read(intake: ScriptedIntake, coding: str) -> None:
    async with serving(intake) as served:
        client = await served.raw(post(chat_body(), extra=f"Content-Encoding: {coding}\r\n"))
        assert b'"content":"Hello"' in (await answer(client))[1]


async def leave(served: Served, intake: ScriptedIntake, raw: bytes) -> None:
    """Ask for a stream without end and be gone."""
    client = await served.raw(raw)
    await receive_until(client, b'"content":"a"')
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    await client.aclose()
    await intake.all_left.wait()


@pytest.mark.parametrize("wish", [b"", WEBSOCKET], ids=["pipelined", "upgrade"])
async def test_who_leaves_with_a_request_behind_his_stream_gives_his_place_free(
    intake: ScriptedIntake, wish: bytes
) -> None:
    """Nothing more is read from him meanwhile: only a write shows that he is gone."""
    intake.script = lambda _: [*([(0, Delta(text="a"))] * 10_000), (0, finish())]
    async with serving(intake, max_connections=1, keep_alive_s=0.01) as served:
        await leave(served, intake, post(chat_body(stream=True), extra=wish.decode()) + (b"" if wish else GET))
        line = b"503"
        while b"503" in line:
            async with await served.raw(GET) as other:
                line, _ = await answer(other)
