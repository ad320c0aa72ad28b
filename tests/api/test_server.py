"""Connections: their bound, their end, and what odd clients do to them. Over real sockets."""

from __future__ import annotations

import json
import socket as sockets
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import trio
from scripted import PATIENCE_S, NoMetrics, ScriptedIntake, chat_body, finish, serving
from test_streams import post, receive_until

from reame.api import app, connection, server
from reame.api.listen import listen, notice_vanished_clients
from reame.config import Config, ServerConfig
from reame.core.events import Delta
from reame.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from scripted import Served

GET = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
FOREVER_S = 1000.0


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


async def test_a_connection_serves_many_requests(intake: ScriptedIntake) -> None:
    async with serving(intake) as served:
        client = await served.raw(b"")
        for _ in range(3):
            await client.send_all(post(chat_body()))
            assert (await answer(client))[0] == b"HTTP/1.1 200 "
            await client.send_all(post(chat_body(stream=True)))
            await receive_until(client, b"0\r\n\r\n")
            await client.send_all(post({}, "/nope"))
            assert (await answer(client))[0] == b"HTTP/1.1 404 "


async def test_pipelined_requests_are_answered_in_order(intake: ScriptedIntake) -> None:
    async with serving(intake) as served:
        client = await served.raw(GET + post(chat_body()) + GET)
        got = b""
        while got.count(b"HTTP/1.1 200") < 3 or not got.endswith(b"}}"):
            got += await client.receive_some()
        assert got.count(b'"object":"chat.completion"') == 1


@pytest.mark.parametrize(
    "raw",
    [
        b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
        b'\r\n5\r\n{"pro\r\na\r\nmpt":"x" }\r\n0\r\n\r\n',
        post({"prompt": "x"}, "/v1/completions", extra="Expect: 100-continue\r\n"),
        post({"prompt": "x"}, "http://x/v1/completions"),
        post({"prompt": "x"}, "/v1/completions?a=b"),
        post({"prompt": "x"}, "/v1/completions").replace(b"HTTP/1.1", b"HTTP/1.0"),
    ],
    ids=["chunked", "100-continue", "whole URL", "query", "HTTP/1.0"],
)
async def test_ways_to_send_a_request(intake: ScriptedIntake, raw: bytes) -> None:
    async with serving(intake) as served:
        client = await served.raw(raw)
        assert b'"text":"Hello"' in await receive_until(client, b'"text":"Hello"')


@pytest.mark.parametrize(
    "raw",
    [
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"hello\r\n\r\n",
        b"GET /health HTTP/1.1\r\n\r\n",
        b"GET \xff HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET * HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET ?x HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /%ff%00 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{",
        b"GET /health HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nnonsense",
        b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)
async def test_odd_clients_end_nothing_but_their_connection(intake: ScriptedIntake, raw: bytes) -> None:
    async with serving(intake) as served:
        client = await served.raw(raw)
        await client.send_eof()
        assert await is_over(client)
        assert (await served.http.get("/health")).status_code == 200


async def test_a_fault_in_a_connection_is_logged_and_the_next_one_served(
    intake: ScriptedIntake, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def break_down(_: object) -> None:
        raise RuntimeError("planted")

    async with serving(intake) as served:
        with monkeypatch.context() as patch:
            patch.setattr(connection.Connection, "_read_data", break_down)
            assert await is_over(await served.raw(GET))
        assert (await served.http.get("/health")).status_code == 200
    assert "planted" in caplog.text


async def test_a_body_above_the_limit_is_refused_while_it_is_sent(intake: ScriptedIntake) -> None:
    async with serving(intake, max_body_mb=1) as served:
        body = b'{"prompt":"' + b"x" * (20 << 20) + b'"}'
        headers = {"Content-Type": "application/json"}
        response = await served.http.post("/v1/completions", content=body, headers=headers)
        assert response.status_code == 413
        assert response.json()["error"]["code"] == "request_too_large"


async def test_who_is_answered_while_he_sends_is_told_that_the_connection_ends(intake: ScriptedIntake) -> None:
    """His next request might be sent into it else. Who has sent all of a wrong body keeps it."""
    async with serving(intake, max_body_mb=1) as served:
        head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        for rest, told in (
            (b"Content-Length: 50000000\r\n\r\n" + b" " * 10_000, True),
            (b"Content-Length: 2\r\n\r\n[]", False),
        ):
            client = await served.raw(head + rest)
            reply = (await receive_until(client, b"\r\n\r\n")).lower()
            assert reply.startswith(b"http/1.1 4")
            assert (b"connection: close" in reply) is told


async def post_too_much(served: Served) -> trio.SocketStream:
    """A client that has been told 413 in the middle of its body."""
    head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    client = await served.raw(head + b"Content-Length: 50000000\r\n\r\n" + b" " * 10_000)
    assert b"413" in (await answer(client))[0]
    return client


async def test_a_refused_client_is_not_reset_while_it_sends(intake: ScriptedIntake) -> None:
    """A reset would make some systems throw away the answer that lies unread."""
    async with serving(intake, max_body_mb=1) as served:
        client = await post_too_much(served)
        for _ in range(20):
            await client.send_all(b" " * 100_000)
        assert await client.receive_some() == b""


async def test_a_refused_client_that_never_stops_is_cut_off(
    intake: ScriptedIntake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "LINGER_S", 0.01)
    async with serving(intake, max_body_mb=1) as served:
        assert await cannot_send(await post_too_much(served))


async def test_a_body_that_does_not_arrive(intake: ScriptedIntake) -> None:
    async with serving(intake, body_timeout_s=0.01) as served:
        client = await served.raw(post(chat_body())[:-1])
        status, body = await answer(client)
        assert b"408" in status
        assert json.loads(body)["error"]["code"] == "request_timeout"
        assert not intake.opened


async def test_too_many_connections(intake: ScriptedIntake) -> None:
    async with serving(intake, max_connections=2) as served:
        first, second = [await served.raw(GET) for _ in range(2)]
        for client in (first, second):
            assert b"200" in (await answer(client))[0]
        third = await served.raw(GET)
        status, body = await answer(third)
        assert b"503" in status
        assert "connections" in json.loads(body)["error"]["message"]
        assert await is_over(third)
        await first.aclose()
        while b"503" in (await answer(await served.raw(GET)))[0]:
            pass


async def test_shutdown_does_not_wait_for_idle_connections(intake: ScriptedIntake) -> None:
    async with serving(intake, grace_s=FOREVER_S) as served:
        used, fresh = await served.raw(GET), await served.raw(b"")
        await answer(used)
        streamed = await served.raw(post(chat_body(stream=True)))
        await receive_until(streamed, b"0\r\n\r\n")
        served.stop.set()
        for client in (used, fresh, streamed):
            assert await is_over(client)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_running_answer_may_finish_and_nobody_new_comes_in(intake: ScriptedIntake, stream: bool) -> None:
    asked, go = trio.Event(), trio.Event()

    def script(_: object) -> Any:
        asked.set()
        return [(0, Delta(text="a")), go, (0, Delta(text="b")), (0, finish())]

    intake.script = script
    async with serving(intake, grace_s=FOREVER_S) as served:
        client, idle = await served.raw(post(chat_body(stream=stream))), await served.raw(GET)
        await answer(idle)
        await asked.wait()
        served.stop.set()
        assert await is_over(idle)
        with pytest.raises(OSError, match=r"failed|refused"):
            await served.raw(GET)
        go.set()
        await receive_until(client, b"[DONE]" if stream else b'"content":"ab"')
        assert await is_over(client)


@pytest.mark.parametrize("deaf", [True, False])
async def test_after_the_grace_period_the_rest_is_cut(
    intake: ScriptedIntake, monkeypatch: pytest.MonkeyPatch, deaf: bool
) -> None:
    """Also when the client reads nothing, and the write that it blocks is shielded."""
    monkeypatch.setattr(server, "LAST_WORDS_S", 0)
    text = "x" * (20 << 20) if deaf else "a"
    intake.script = lambda _: [(0, Delta(text=text)), trio.Event()]
    async with serving(intake, grace_s=0, write_timeout_s=FOREVER_S) as served:
        client = await served.raw(post(chat_body(stream=True)))
        await receive_until(client, b"\r\n\r\n")
        served.stop.set()
        await intake.all_left.wait()
    await client.aclose()


async def test_cancelling_ends_everything_at_once(intake: ScriptedIntake) -> None:
    intake.script = lambda _: [(0, Delta(text="x" * (20 << 20))), trio.Event()]
    async with serving(intake, grace_s=FOREVER_S, write_timeout_s=FOREVER_S, cancel_at_end=True) as served:
        client = await served.raw(post(chat_body(stream=True)))
        await receive_until(client, b"\r\n\r\n")
    await client.aclose()
    assert intake.left == 1


async def test_a_unix_socket(intake: ScriptedIntake, tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    listening = sockets.socket(sockets.AF_UNIX)
    listening.bind(path)
    listening.listen()
    config, stop = Config(), trio.Event()
    application = app.create_app(config, intake, NoMetrics(), ())
    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            run = partial(server.serve, application, config, shutdown_trigger=stop.wait, sockets=[listening])
            assert await nursery.start(run) == [f"unix:{path}"]
            async with await trio.open_unix_socket(path) as client:
                await client.send_all(post(chat_body()))
                assert b'"content":"Hello"' in (await answer(client))[1]
            stop.set()


def test_connections_notice_a_client_that_vanished() -> None:
    with listen("127.0.0.1", 0)[0] as listening:
        notice_vanished_clients(listening, 12.5)
        with sockets.create_connection(listening.getsockname()), listening.accept()[0] as accepted:
            assert accepted.getsockopt(sockets.IPPROTO_TCP, sockets.TCP_USER_TIMEOUT) == 12_500
            assert accepted.getsockopt(sockets.SOL_SOCKET, sockets.SO_KEEPALIVE) == 1


def bound(listening: list[sockets.socket]) -> list[int]:
    """The ports; closes the sockets."""
    ports = [each.getsockname()[1] for each in listening]
    for each in listening:
        each.close()
    return ports


def test_a_free_port_is_the_same_on_every_address() -> None:
    assert len(set(bound(listen("localhost", 0)))) == 1


def test_a_port_in_use_is_one_clear_line() -> None:
    taken = listen("127.0.0.1", 0)
    port = taken[0].getsockname()[1]
    with pytest.raises(ConfigError) as caught:
        listen("127.0.0.1", port)
    assert str(caught.value) == f"port {port} of 127.0.0.1 is in use: stop what listens there, or set server.port"
    bound(taken)


def test_an_address_of_another_machine_is_one_clear_line() -> None:
    with pytest.raises(ConfigError, match=r"^cannot listen on 192\.0\.2\.1, port 0 \(.+\): set server\.host"):
        listen("192.0.2.1", 0)


def test_by_default_only_this_machine_can_connect() -> None:
    assert ServerConfig().host == "127.0.0.1"
