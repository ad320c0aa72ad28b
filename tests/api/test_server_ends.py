"""How a server ends, and where it listens: grace, cancellation, Unix sockets, ports and addresses."""

from __future__ import annotations

import socket as sockets
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import trio
from scripted import PATIENCE_S, NoMetrics, ScriptedIntake, chat_body, finish, serving
from wire import GET, answer, is_over, post, receive_until

from reame.api import app, server
from reame.api.listen import listen, notice_vanished_clients
from reame.config import Config, ServerConfig
from reame.core.events import Delta
from reame.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

FOREVER_S = 1000.0


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
