"""A daemon with one slot and two places to wait: who leaves costs no further step, who comes too much is told so."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio
from streams import stream, streaming
from talking import COMPLETIONS, ENDLESS, answer, ask, connect, health, readings, tokens, until, until_busy, until_idle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from conftest import Launch
    from daemon_process import DaemonProcess
    from httpx2 import AsyncClient, Response

CHUNK = 64
LONG = ask("Once upon a time", 3000, logit_bias=ENDLESS)
"""More tokens than any test waits for."""


@pytest.fixture(scope="module")
def daemon(launch: Launch) -> Iterator[DaemonProcess]:
    with launch(
        engine={"slots": 1, "context": 4096, "batch_rows": CHUNK}, scheduler={"queue": 2}
    ) as started:
        yield started.wait_ready()


@pytest.fixture
async def client(daemon: DaemonProcess) -> AsyncIterator[AsyncClient]:
    async with connect(daemon) as opened:
        yield opened


class TestLeaving:
    """After the line in the log that says it left, at most the step that was being computed is counted; then nothing
    is: the next client's rows are exactly its own."""

    @pytest.fixture(autouse=True)
    async def next_one_is_served_at_once(self, daemon: DaemonProcess, client: AsyncClient) -> AsyncIterator[None]:
        before = await until_idle(client)
        num_left = before.outcomes().get("cancelled", 0)
        yield
        await trio.to_thread.run_sync(partial(daemon.wait_for, "INFO request .*outcome=cancelled", num_left + 1))
        told = await readings(client)
        idle = await until_idle(client)
        assert idle["rows_total"] - told["rows_total"] <= CHUNK
        assert idle["generated_tokens_total"] - told["generated_tokens_total"] <= 1
        await answer(client, COMPLETIONS, ask(tokens(5, salt=25), 3) | {"logit_bias": ENDLESS})
        after = await until_idle(client)
        assert after["generated_tokens_total"] - idle["generated_tokens_total"] == 3
        assert after["rows_total"] - idle["rows_total"] in (5 + 2, 1 + 2), "5 or, cached, 1 of the prompt; 2 of the answer"
        assert after.outcomes() == before.outcomes() | {"cancelled": num_left + 1, "ok": before.outcomes().get("ok", 0) + 1}

    async def test_while_it_decodes(self, client: AsyncClient) -> None:
        async with streaming(client, COMPLETIONS, LONG) as running:
            for _ in range(3):
                assert await running.piece()

    async def test_while_it_decodes_unstreamed(self, client: AsyncClient) -> None:
        drawn = (await readings(client))["generated_tokens_total"]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(client.post, COMPLETIONS, json=LONG))
            await until(client, lambda seen: seen["generated_tokens_total"] >= drawn + 3)
            nursery.cancel_scope.cancel()

    @pytest.mark.parametrize("streamed", [True, False])
    async def test_while_its_prompt_is_read(self, client: AsyncClient, streamed: bool) -> None:
        prompt = tokens(2000, salt=streamed)
        start = await readings(client)
        async with trio.open_nursery() as nursery:
            ask_it = partial(stream, client, COMPLETIONS) if streamed else partial(answer, client, COMPLETIONS)
            nursery.start_soon(ask_it, ask(prompt, 1))
            await until(client, lambda seen: seen["rows_total"] > start["rows_total"])
            nursery.cancel_scope.cancel()
        end = await until_idle(client)
        assert end["rows_total"] - start["rows_total"] < len(prompt)
        assert end["generated_tokens_total"] == start["generated_tokens_total"]

    async def test_while_it_waits(self, client: AsyncClient) -> None:
        async with streaming(client, COMPLETIONS, ask("Two and", 60, logit_bias=ENDLESS)) as running:
            assert await running.piece()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(partial(client.post, COMPLETIONS, json=ask(tokens(500, salt=7), 1)))
                await until_busy(client, 1, waiting=1)
                rows = (await readings(client))["rows_total"]
                nursery.cancel_scope.cancel()
            told = await running.rest()
        assert told.is_done
        assert (await until_idle(client))["rows_total"] - rows <= 60


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

    before = (await until_idle(client)).outcomes()
    async with trio.open_nursery() as waiting:
        async with streaming(client, COMPLETIONS, LONG) as running:
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
    after = (await until_idle(client)).outcomes()
    assert {name: after[name] - before.get(name, 0) for name in after} == {"cancelled": 1, "ok": 2, "refused": 7}
    told = await stream(client, COMPLETIONS, ask("Now there is room", 4))
    assert told.is_done
