"""The end of a daemon: what is inside may finish, for a while; nobody else comes in; a second signal is the end."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import h11
import pytest
import trio
from daemon_process import PATIENCE_S
from streams import stream, streaming
from talking import COMPLETIONS, ENDLESS, ask, connect, tokens, until_busy

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Launch
    from daemon_process import DaemonProcess
    from httpx2 import AsyncClient, Response

ENGINE: dict[str, object] = {"slots": 2, "context": 1024, "batch_rows": 16}
STORY = ask("Once upon a time", 1000, logit_bias=ENDLESS)


async def until_refused(daemon: DaemonProcess) -> None:
    """Knocks until nobody opens any more; whoever was let in before that is told to go."""
    with trio.fail_after(PATIENCE_S):
        while True:
            try:
                wire = await trio.open_tcp_stream("127.0.0.1", daemon.port)
            except OSError:
                return
            await wire.aclose()


async def test_all_that_is_inside_is_finished(launch: Launch) -> None:
    """A stream, a prompt that is being read, and a request that waits for a slot."""
    late: list[Response] = []

    async def wait_for_a_slot(client: AsyncClient) -> None:
        late.append(await client.post(COMPLETIONS, json=ask("Two and", 4, logit_bias=ENDLESS)))

    with launch(engine=ENGINE, server={"grace_s": PATIENCE_S}) as daemon:
        async with (
            connect(daemon.wait_ready()) as client,
            trio.open_nursery() as nursery,
            streaming(client, COMPLETIONS, STORY | {"max_tokens": 150}) as running,
            streaming(client, COMPLETIONS, ask(tokens(200), 5, logit_bias=ENDLESS)) as reading,
        ):
            assert await running.piece()
            await until_busy(client, running=2)
            nursery.start_soon(wait_for_a_slot, client)
            await until_busy(client, running=2, waiting=1)
            daemon.send(signal.SIGTERM)
            await until_refused(daemon)
            assert daemon.process.poll() is None, "it refuses newcomers, and still works"
            told = [await running.rest(), await reading.rest()]
        assert daemon.wait_exit() == 0
    assert [(each.reasons, each.is_done, each.error) for each in told] == [({0: "length"}, True, None)] * 2
    assert [(each.status_code, each.json()["usage"]["completion_tokens"]) for each in late] == [(200, 4)]
    assert {fields["outcome"] for fields in daemon.requests(3)} == {"ok"}
    assert daemon.lines[-1].endswith("INFO stopped")
    assert "Traceback" not in daemon.log


async def test_who_takes_longer_than_the_grace_is_told_so(launch: Launch) -> None:
    """By an error event in a stream, by the status where nothing was sent yet; then it ends, and well."""
    refused: list[Response] = []

    async def send(client: AsyncClient, body: dict[str, Any]) -> None:
        refused.append(await client.post(COMPLETIONS, json=body))

    with launch(engine=ENGINE, server={"grace_s": 0.2}) as daemon:
        async with (
            connect(daemon.wait_ready()) as client,
            trio.open_nursery() as nursery,
            streaming(client, COMPLETIONS, STORY) as running,
        ):
            assert await running.piece()
            nursery.start_soon(send, client, STORY)
            await until_busy(client, running=2)
            nursery.start_soon(send, client, STORY)
            await until_busy(client, running=2, waiting=1)
            daemon.send(signal.SIGINT)
            told = await running.rest()
        assert daemon.wait_exit() == 0
    assert told.error is not None
    assert (told.error["code"], told.is_done) == ("server_stopping", False)
    assert [(each.status_code, each.json()["error"]["code"]) for each in refused] == [(503, "server_stopping")] * 2
    assert {fields["outcome"] for fields in daemon.requests(3)} == {"server_stopping"}
    assert "Traceback" not in daemon.log


async def test_a_second_signal_ends_it_at_once(launch: Launch) -> None:
    with launch(engine=ENGINE) as daemon:
        async with connect(daemon.wait_ready()) as client, streaming(client, COMPLETIONS, STORY) as running:
            assert await running.piece()
            daemon.send(signal.SIGTERM)
            await trio.to_thread.run_sync(daemon.wait_for, "SIGTERM: finishing what runs")
            daemon.send(signal.SIGTERM)
            assert await trio.to_thread.run_sync(daemon.wait_exit) == 1
            with pytest.raises((h11.RemoteProtocolError, trio.BrokenResourceError)):
                await running.rest()
    assert daemon.lines[-1].endswith("SIGTERM again: stopping at once")


async def test_after_a_kill_another_one_takes_its_place(launch: Launch, tmp_path: Path) -> None:
    """Killed in the middle of a stream; the next one has the same port and the same memory."""
    memory: dict[str, object] = {"path": str(tmp_path)}
    text = ""
    with launch(engine=ENGINE, memory=memory) as daemon:
        async with connect(daemon.wait_ready()) as client, streaming(client, COMPLETIONS, STORY) as running:
            while len(text) < 40:
                assert await running.piece()
                text = running.told.texts[0]
            daemon.send(signal.SIGKILL)
            assert await trio.to_thread.run_sync(daemon.wait_exit) == -signal.SIGKILL
    with launch(engine=ENGINE, memory=memory, server={"port": daemon.port}) as again:
        async with connect(again.wait_ready()) as client:
            told = await stream(client, COMPLETIONS, STORY | {"max_tokens": 30})
    assert told.texts[0].startswith(text[:40])
