"""A daemon with one slot and two places to wait: who leaves costs no further step, who comes too much is told so."""

from __future__ import annotations

from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio
from streams import stream, streaming
from talking import COMPLETIONS, ENDLESS, answer, ask, connect, health, readings, tokens, until, until_busy, until_idle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from conftest import Launch
    from daemon_process import DaemonProcess, Readings
    from httpx2 import AsyncClient, Response

CHUNK = 16
LONG = ask("Once upon a time", 1000, logit_bias=ENDLESS)
"""More tokens than any test waits for."""


@pytest.fixture(scope="module")
def daemon(launch: Launch) -> Iterator[DaemonProcess]:
    with launch(
        engine={"slots": 1, "context": 1024, "batch_rows": CHUNK}, scheduler={"queue": 2}
    ) as started:
        yield started.wait_ready()


@pytest.fixture
async def client(daemon: DaemonProcess) -> AsyncIterator[AsyncClient]:
    async with connect(daemon) as opened:
        yield opened


@asynccontextmanager
async def one_leaves(daemon: DaemonProcess, client: AsyncClient) -> AsyncIterator[Readings]:
    """Inside the block a client goes away; at its start nothing runs, as the readings say.

    After the line in the log that tells of it, at most the step being computed is counted. Then nothing is, and the
    next client is served: the rows from there on are exactly its own.
    """
    before = await until_idle(client)
    outcomes = Counter(before.outcomes())
    yield before
    await trio.to_thread.run_sync(daemon.wait_for, "INFO request .*outcome=cancelled", outcomes["cancelled"] + 1)
    told = await readings(client)
    idle = await until_idle(client)
    assert idle["rows_total"] - told["rows_total"] <= CHUNK
    assert idle["generated_tokens_total"] - told["generated_tokens_total"] <= 1
    counts = (await answer(client, COMPLETIONS, ask(tokens(5, salt=25), 3, logit_bias=ENDLESS)))["usage"]
    after = await until_idle(client)
    assert after["generated_tokens_total"] - idle["generated_tokens_total"] == 3
    assert after["rows_total"] - idle["rows_total"] == 5 - counts["prompt_tokens_details"]["cached_tokens"] + 2
    assert Counter(after.outcomes()) - outcomes >= Counter(cancelled=1, ok=1)


class TestLeaving:
    async def test_while_it_decodes(self, daemon: DaemonProcess, client: AsyncClient) -> None:
        async with one_leaves(daemon, client), streaming(client, COMPLETIONS, LONG) as running:
            for _ in range(3):
                assert await running.piece()

    async def test_while_it_decodes_unstreamed(self, daemon: DaemonProcess, client: AsyncClient) -> None:
        async with one_leaves(daemon, client) as start, trio.open_nursery() as nursery:
            nursery.start_soon(answer, client, COMPLETIONS, LONG)
            await until(client, lambda seen: seen["generated_tokens_total"] >= start["generated_tokens_total"] + 3)
            nursery.cancel_scope.cancel()

    @pytest.mark.parametrize("way", [stream, answer])
    async def test_while_its_prompt_is_read(
        self, daemon: DaemonProcess, client: AsyncClient, way: Callable[..., Awaitable[object]]
    ) -> None:
        prompt = tokens(800, salt=way is stream)
        async with one_leaves(daemon, client) as start:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(way, client, COMPLETIONS, ask(prompt, 1))
                await until(client, lambda seen: seen["rows_total"] > start["rows_total"])
                nursery.cancel_scope.cancel()
            end = await until_idle(client)
            assert end["rows_total"] - start["rows_total"] < len(prompt)
            assert end["generated_tokens_total"] == start["generated_tokens_total"]

    async def test_while_it_waits(self, daemon: DaemonProcess, client: AsyncClient) -> None:
        async with one_leaves(daemon, client) as start:
            async with streaming(client, COMPLETIONS, ask("Two and", 40, logit_bias=ENDLESS)) as running:
                assert await running.piece()
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(answer, client, COMPLETIONS, ask(tokens(300, salt=7), 1))
                    await until_busy(client, 1, waiting=1)
                    nursery.cancel_scope.cancel()
                assert (await running.rest()).is_done
            end = await until_idle(client)
            assert end["generated_tokens_total"] - start["generated_tokens_total"] == 40
            assert end["rows_total"] - start["rows_total"] < 50


async def test_a_full_queue_refuses_at_once(client: AsyncClient) -> None:
    """Ten at the same time: one runs, two wait, seven are refused before the first has ended. Who waits is served in
    the order of coming."""
    refused: list[Response] = []
    served: list[str] = []

    async def wait(prompt: str) -> None:
        await answer(client, COMPLETIONS, ask(prompt, 4))
        served.append(prompt)

    async def knock(number: int) -> None:
        body = ask(f"Number {number}", 4, stream=bool(number % 2))
        refused.append(await client.post(COMPLETIONS, json=body))

    before = Counter((await until_idle(client)).outcomes())
    async with trio.open_nursery() as waiting, streaming(client, COMPLETIONS, LONG) as running:
        assert await running.piece()
        waiting.start_soon(wait, "first")
        await until_busy(client, 1, waiting=1)
        waiting.start_soon(wait, "second")
        await until_busy(client, 1, waiting=2)
        async with trio.open_nursery() as knocking:
            for number in range(7):
                knocking.start_soon(knock, number)
        assert await running.piece(), "the first one still runs"
        assert served == []
        assert (await health(client))["queue"]["depth"] == 2
    assert served == ["first", "second"]
    assert [response.status_code for response in refused] == [429] * 7
    assert all(int(response.headers["Retry-After"]) > 0 for response in refused)
    assert {response.json()["error"]["code"] for response in refused} == {"queue_full"}
    after = Counter((await until_idle(client)).outcomes())
    assert after - before == Counter(cancelled=1, ok=2, refused=7)
    told = await stream(client, COMPLETIONS, ask("Now there is room", 4))
    assert told.is_done
