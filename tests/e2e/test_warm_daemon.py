"""Warming on the real model: who asks begins with it, twice is free, a restart keeps it, and others go first."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import trio
from daemon_process import PATIENCE_S, REAME
from talking import CHAT, COMPLETIONS, answer, ask, connect, readings, say, tokens, until_idle

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Launch
    from daemon_process import DaemonProcess
    from httpx2 import AsyncClient

WARM = "/v1/warm"
RULES = " ".join(f"Rule {number}: every answer about item {number} is short." for number in range(1, 9))
FRESH = {"reame": {"answers": False}}
BLOCK = 16


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("warm")


@pytest.fixture(scope="module")
def start(launch: Launch, folder: Path) -> Any:
    """Starts a daemon whose memory outlives it."""

    def started() -> DaemonProcess:
        return launch(
            engine={"slots": 2, "context": 2048, "batch_rows": 64},
            memory={"path": str(folder / "memory"), "block_tokens": BLOCK},
        )

    return started


def reame_warm(daemon: DaemonProcess, *words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [REAME, "warm", *words, "--url", daemon.url],
        capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip


def cached(reply: dict[str, Any]) -> int:
    count: int = reply["usage"]["prompt_tokens_details"]["cached_tokens"]
    return count


async def question(client: AsyncClient) -> dict[str, Any]:
    return await answer(client, COMPLETIONS, ask(RULES + " Answer:", 6) | FRESH)


async def conversation(client: AsyncClient) -> dict[str, Any]:
    body = say("Which rule is the third?", 6)
    return await answer(
        client, CHAT, body | FRESH | {"messages": [{"role": "system", "content": RULES}, *body["messages"]]}
    )


async def test_what_is_warm_is_not_computed_again_not_even_after_a_restart(start: Any, folder: Path) -> None:
    rules = folder / "rules.txt"
    rules.write_text(RULES)
    with start() as daemon:
        daemon.wait_ready()
        async with connect(daemon) as client:
            first = await answer(client, WARM, {"prompt": RULES})
            size = first["prompt_tokens"]
            assert size > 5 * BLOCK
            assert (first["cached_tokens"], first["computed_tokens"]) == (0, size - 1)
            asked = await question(client)
            assert cached(asked) >= size - 2
            before = (await readings(client))["rows_total"]
            assert (await answer(client, WARM, {"prompt": RULES}))["computed_tokens"] == 0
            assert (await until_idle(client))["rows_total"] == before
            told = reame_warm(daemon, "--system", rules, "--pin", "--ttl", "3600")
            assert (told.returncode, told.stdout.count("\n")) == (0, 2), told.stderr
            assert "\npinned until 2" in told.stdout
            assert cached(await conversation(client)) > size  # and the template's words around it
            told = reame_warm(daemon, rules)
            assert told.stdout.startswith(f"{rules}: {size} tokens, 0 computed, "), told.stderr
    with start() as daemon:
        daemon.wait_ready()
        async with connect(daemon) as client:
            again = await answer(client, WARM, {"prompt": RULES})
            assert again["reame"]["disk_tokens"] == (size - 1) // BLOCK * BLOCK
            assert again["computed_tokens"] == (size - 1) % BLOCK
            same = await question(client)
            assert same["choices"] == asked["choices"]
            assert cached(same) >= size - 2
            assert cached(await conversation(client)) >= size // BLOCK * BLOCK


async def follow(client: AsyncClient, body: dict[str, Any], seen: trio.MemorySendChannel[dict[str, Any]]) -> None:
    """The events of a streamed call, as they come."""
    async with seen, client.stream("POST", WARM, json=body | {"stream": True}) as response:
        assert response.status_code == 200
        async for line in response.aiter_lines():
            if line.startswith("data: {"):
                await seen.send(json.loads(line.removeprefix("data: ")))


async def test_others_go_first_and_who_leaves_stops_it(start: Any) -> None:
    with start() as daemon:
        daemon.wait_ready()
        async with connect(daemon) as client:
            send, seen = trio.open_memory_channel[dict[str, Any]](100)
            async with seen, trio.open_nursery() as nursery:
                nursery.start_soon(follow, client, {"prompt": tokens(1500, salt=3)}, send)
                assert (await seen.receive())["computed_tokens"] == 0
                begun = await seen.receive()
                assert 0 < begun["computed_tokens"] <= 64
                assert begun["prompt_tokens"] == 1500
                assert len((await answer(client, COMPLETIONS, ask("Once", 2)))["choices"]) == 1
                then = await seen.receive()
                assert then["object"] == "warm.progress"
                assert begun["computed_tokens"] < then["computed_tokens"] < 1499
                nursery.cancel_scope.cancel()
            idle = await until_idle(client)
            assert idle["rows_total"] < 1500
            assert idle.outcomes()["cancelled"] == 1
            rest = await answer(client, WARM, {"prompt": tokens(200, salt=3)})
            assert rest["cached_tokens"] >= min(199, then["computed_tokens"])
