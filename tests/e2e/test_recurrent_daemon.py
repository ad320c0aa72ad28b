"""A model with a state that cannot be cut, on the real program: every feature but drafts, and a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tiny_models
import trio
from talking import COMPLETIONS, answer, ask, connect, readings, until_idle

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Launch
    from daemon_process import DaemonProcess

LAYERS = 8
"""Enough that reading a state pays."""
TEXT = "".join(f"The number of item {number} is {number * 37}. " for number in range(1, 12))
QUESTION, OTHER = ask(TEXT + "The first item", 24), ask(TEXT + "What comes last", 24)
SHAPE = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"enum": ["north", "south"]}}}


def start(launch: Launch, folder: Path, model: Path) -> DaemonProcess:
    return launch(
        model={"path": str(model)},
        memory={"path": str(folder)},
        engine={"slots": 4, "residents": 12, "context": 1024, "threads": 1, "canary": False},
    )


def computed(got: dict[str, Any]) -> int:
    count: int = got["usage"]["prompt_tokens"] - got["usage"]["prompt_tokens_details"]["cached_tokens"]
    return count


async def test_beginnings_are_shared_and_survive_a_restart(launch: Launch, tmp_path: Path) -> None:
    model = tiny_models.write_jamba(tmp_path / "jamba.gguf", layers=LAYERS)
    with start(launch, tmp_path / "memory", model) as daemon:
        async with connect(daemon.wait_ready()) as client:
            cold = await answer(client, COMPLETIONS, QUESTION)
            warm = await answer(client, COMPLETIONS, QUESTION)
            first, second = [await answer(client, COMPLETIONS, OTHER | {"seed": seed}) for seed in (1, 2)]
            crowd: dict[int, Any] = {}

            async def put(number: int) -> None:
                crowd[number] = await answer(client, COMPLETIONS, OTHER if number % 2 else QUESTION)

            async with trio.open_nursery() as nursery:
                for number in range(5):
                    nursery.start_soon(put, number)
            elected = await answer(client, COMPLETIONS, QUESTION | {"best_of": 3, "response_format": SHAPE})
            assert (await readings(client))["draft_tokens_total"] == 0
            await until_idle(client)
        assert "speculation off: this model has a recurrent state" in daemon.log
    assert (computed(cold), computed(warm) <= 16) == (cold["usage"]["prompt_tokens"], True)
    assert computed(second) <= 32 < computed(first), "where the second text left the first no state was kept yet"
    texts = [each["choices"] for each in (cold, first)]
    assert texts == [each["choices"] for each in (warm, second)]
    assert [crowd[number]["choices"] for number in range(5)] == [texts[number % 2] for number in range(5)]
    assert elected["choices"][0]["text"] in ('"north"', '"south"')
    with start(launch, tmp_path / "memory", model) as daemon:
        async with connect(daemon.wait_ready()) as client:
            again = [await answer(client, COMPLETIONS, body) for body in (QUESTION, OTHER)]
    assert [each["choices"] for each in again] == texts
    assert again[0]["reame"]["disk_tokens"] + 16 >= again[0]["usage"]["prompt_tokens"]
