"""A long prompt comes in beside others: streams go on, short prompts overtake it, and the daemon answers all the while.

No clock is read. A step takes at most `CHUNK` rows, so that the prompt takes `PROMPT / CHUNK` steps at least, and what
must not stand still meanwhile is counted between the moment when the prompt has begun and its first token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio
from streams import streaming
from talking import COMPLETIONS, ENDLESS, answer, ask, connect, health, tokens, until, until_busy, until_idle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from conftest import Launch
    from daemon_process import DaemonProcess
    from httpx2 import AsyncClient

CHUNK, PROMPT = 16, 320
STEPS = PROMPT // CHUNK
STORY = ask("Once upon a time", 1000, logit_bias=ENDLESS)


@pytest.fixture(scope="module")
def daemon(launch: Launch) -> Iterator[DaemonProcess]:
    with launch(engine={"slots": 4, "context": 1024, "batch_rows": CHUNK}, server={"keep_alive_s": 0.05}) as started:
        yield started.wait_ready()


@pytest.fixture
async def client(daemon: DaemonProcess) -> AsyncIterator[AsyncClient]:
    async with connect(daemon) as opened:
        yield opened


async def test_a_stream_goes_on_while_the_prompt_is_read(client: AsyncClient) -> None:
    """A frozen stream would tell a token or two in this time, this one tells about one for each step. The long prompt's
    own stream is open from the start, and sends comments."""
    told_meanwhile = 0
    async with streaming(client, COMPLETIONS, STORY) as story, trio.open_nursery() as nursery:
        assert await story.piece()

        async def read_on() -> None:
            nonlocal told_meanwhile
            while await story.piece():
                told_meanwhile += 1

        async with streaming(client, COMPLETIONS, ask(tokens(PROMPT), 1, logit_bias=ENDLESS)) as long:
            await until_busy(client, running=2)
            nursery.start_soon(read_on)
            await trio.testing.wait_all_tasks_blocked()
            told_meanwhile = 0
            assert (await long.rest()).comments > 0, "proxies cut off who says nothing"
            assert told_meanwhile >= STEPS // 2
            nursery.cancel_scope.cancel()


async def test_a_short_prompt_overtakes_it(client: AsyncClient) -> None:
    order: list[str] = []
    async with trio.open_nursery() as nursery:

        async def read(name: str, prompt: list[int]) -> None:
            async with streaming(client, COMPLETIONS, ask(prompt, 2, logit_bias=ENDLESS)) as opened:
                await opened.piece()
                order.append(name)

        nursery.start_soon(read, "long", tokens(PROMPT, salt=1))
        await until_busy(client, running=1)
        nursery.start_soon(read, "short", tokens(20, salt=2))
    assert order == ["short", "long"]


async def test_health_and_metrics_answer_meanwhile(client: AsyncClient) -> None:
    """A server that answers between steps only, or not at all, gives a look or two; a live one at least one for a few
    steps, however busy the machine is. Each of them sees the prompt in its slot."""
    looks = 0
    start = await until_idle(client)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(answer, client, COMPLETIONS, ask(tokens(PROMPT, salt=3), 1, logit_bias=ENDLESS))
        await until_busy(client, running=1)
        while (await until(client, lambda seen: True))["generated_tokens_total"] == start["generated_tokens_total"]:
            looks += (await health(client))["slots"]["busy"] == 1
    assert looks >= max(3, STEPS // 4)
