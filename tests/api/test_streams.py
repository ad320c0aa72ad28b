"""Streams, and clients that leave, over real sockets."""

from __future__ import annotations

import json
import socket
import struct
from typing import TYPE_CHECKING, Any

import pytest
import trio
from scripted import PATIENCE_S, NoMetrics, ScriptedIntake, chat_body, finish, serving
from wire import CHAT, post, receive_until

from reame.api import server
from reame.api.app import create_app
from reame.config import Config
from reame.core.events import Delta, Finish, Usage
from reame.errors import RequestError

if TYPE_CHECKING:
    from scripted import Step

    from reame.core.request import Call


async def test_a_stream_has_its_headers(intake: ScriptedIntake) -> None:
    async with serving(intake) as served:
        response = await served.http.post(CHAT, json=chat_body(stream=True))
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert response.headers["cache-control"] == "no-cache"
    assert response.headers["x-accel-buffering"] == "no"
    assert response.text.endswith("data: [DONE]\n\n")
    assert intake.left == 1


async def test_headers_come_at_once_and_then_comments_until_the_first_token(intake: ScriptedIntake) -> None:
    prefilled = trio.Event()
    intake.script = lambda _: [prefilled, (0, Delta(text="late")), (0, finish())]
    async with (
        serving(intake, keep_alive_s=0.01) as served,
        served.http.stream("POST", CHAT, json=chat_body(stream=True)) as response,
    ):
        assert response.status_code == 200
        lines = []
        async for line in response.aiter_lines():
            lines.append(line)
            if lines.count(": keep-alive") == 3:
                prefilled.set()
    data = [line for line in lines if line.startswith("data: ")]
    assert '"content":"late"' in data[1]
    assert data[-1] == "data: [DONE]"
    assert all(line in ("", ": keep-alive") or line.startswith("data: ") for line in lines)


async def test_line_separators_do_not_break_lines(intake: ScriptedIntake) -> None:
    text = "a\u2028b\u0085c\u2029d\r\ne\n\n日本👩\u200d👧"
    intake.script = lambda _: [*((0, Delta(text=letter)) for letter in text), (0, finish())]
    async with serving(intake) as served:
        response = await served.http.post(CHAT, json=chat_body(stream=True))
    assert response.content.isascii()
    lines = [line for line in response.text.splitlines() if line]
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks) == text


def failing(error: RequestError) -> Finish:
    return Finish(reason=None, usage=Usage(prompt_tokens=1, cached_tokens=0, completion_tokens=0), error=error)


@pytest.mark.parametrize("broken", [failing(RequestError("too slow", status=408, code="slow")), RuntimeError("secret")])
async def test_a_failure_after_the_headers_is_an_error_event(
    intake: ScriptedIntake, broken: Finish | Exception, caplog: pytest.LogCaptureFixture
) -> None:
    step: Step = broken if isinstance(broken, Exception) else (1, broken)
    intake.script = lambda _: [(0, Delta(text="a")), step]
    async with serving(intake) as served:
        response = await served.http.post(CHAT, json=chat_body(stream=True, n=2))
    *_, name, data, empty = response.text.split("\n")[:-1]
    assert (name, empty) == ("event: error", "")
    error = json.loads(data.removeprefix("data: "))["error"]
    assert error["code"] == ("slow" if isinstance(broken, Finish) else "internal_error")
    assert "[DONE]" not in response.text
    assert "secret" not in response.text
    assert len(caplog.records) == isinstance(broken, Exception)
    assert intake.left == 1


def never_ending(text: str, asked: trio.Event) -> Any:
    def script(_: Call) -> list[Step]:
        asked.set()
        return [*([(0, Delta(text=text))] if text else []), trio.Event()]

    return script


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("text", ["", "a"])
@pytest.mark.parametrize("reset", [True, False])
async def test_a_client_that_leaves_ends_its_call(intake: ScriptedIntake, stream: bool, text: str, reset: bool) -> None:
    """In prefill and in decode, by FIN and by RST."""
    asked = trio.Event()
    intake.script = never_ending(text, asked)
    async with serving(intake) as served:
        client = await served.raw(post(chat_body(stream=stream)))
        await asked.wait()
        if stream:
            await receive_until(client, b'"content":"a"' if text else b"\r\n\r\n")
        if reset:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await client.aclose()
        await intake.all_left.wait()
        assert (await served.http.get("/health")).status_code == 200


@pytest.mark.parametrize("kernel_helps", [True, False])
async def test_a_client_that_reads_nothing_is_cut_off(
    intake: ScriptedIntake, monkeypatch: pytest.MonkeyPatch, kernel_helps: bool
) -> None:
    """By TCP_USER_TIMEOUT, and also where there is none, as on unix sockets."""
    if not kernel_helps:
        monkeypatch.setattr(server, "notice_vanished_clients", lambda *_: None)
    intake.script = lambda _: [*((0, Delta(text="x" * 65536)) for _ in range(1000)), trio.Event()]
    async with serving(intake, write_timeout_s=0.2) as served:
        await served.raw(post(chat_body(stream=True)))
        await intake.all_left.wait()


async def test_a_client_that_reads_slowly_gets_everything(intake: ScriptedIntake) -> None:
    """A long answer takes many writes; the time limit is for each, not for all."""
    text = "x" * 4_000_000
    intake.script = lambda _: [(0, Delta(text=text)), (0, finish())]
    async with serving(intake, write_timeout_s=20) as served:
        client = await served.raw(post(chat_body()))
        got = 0
        while got < len(text):
            got += len(await client.receive_some(50_000))


async def test_a_client_that_leaves_before_the_first_byte_ends_its_call(intake: ScriptedIntake) -> None:
    """The intake is open and the response is made, but its head cannot be sent any more."""
    app = create_app(Config(), intake, NoMetrics(), ())
    body = json.dumps(chat_body(stream=True)).encode()
    intake.script = lambda _: [trio.Event()]
    sending = trio.Event()
    scope: Any = {
        "type": "http",
        "method": "POST",
        "scheme": "http",
        "path": CHAT,
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
        "http_version": "1.1",
        "asgi": {},
    }
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        if messages:
            return messages.pop()
        await sending.wait()
        return {"type": "http.disconnect"}

    async def send(_: Any) -> None:
        sending.set()
        await trio.sleep_forever()

    with trio.fail_after(PATIENCE_S):
        await app(scope, receive, send)
    assert len(intake.opened) == intake.left == 1
