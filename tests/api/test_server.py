"""Connections: their bound, their end, and what odd clients do to them. Over real sockets."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from scripted import ScriptedIntake, chat_body, serving
from wire import GET, answer, cannot_send, is_over, post, receive_until

from reame.api import connection

if TYPE_CHECKING:

    import trio
    from scripted import Served


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
