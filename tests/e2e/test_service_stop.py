"""SIGTERM at the worst moments: with twenty in the queue, and while blocks are being written to the disk."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

import pytest
import trio
from streams import streaming
from talking import COMPLETIONS, ENDLESS, answer, ask, connect, readings, tokens, until_busy

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Launch
    from httpx2 import AsyncClient

QUEUED = 20


@pytest.mark.parametrize("grace_s", [120.0, 0.0])
async def test_with_twenty_in_the_queue(launch: Launch, grace_s: float) -> None:
    """Who has come in is answered if there is time, in the order of coming; without, everyone is told, and at once."""
    got: dict[int, dict[str, Any]] = {}

    async def send(client: AsyncClient, number: int) -> None:
        response = await client.post(COMPLETIONS, json=ask(tokens(3, salt=number), 2, logit_bias=ENDLESS))
        got[number] = {"status": response.status_code} | response.json()

    story = ask("Once upon a time", 150 if grace_s else 400, logit_bias=ENDLESS)
    with launch(engine={"slots": 1, "context": 512}, server={"grace_s": grace_s}) as daemon:
        async with (
            connect(daemon.wait_ready()) as client,
            trio.open_nursery() as nursery,
            streaming(client, COMPLETIONS, story) as running,
        ):
            assert await running.piece()
            for number in range(QUEUED):
                nursery.start_soon(send, client, number)
            await until_busy(client, running=1, waiting=QUEUED)
            daemon.send(signal.SIGTERM)
            told = await running.rest()
        assert daemon.wait_exit() == 0
    assert "Traceback" not in daemon.log
    assert len(got) == QUEUED
    if grace_s:
        assert (told.reasons, told.is_done) == ({0: "length"}, True)
        assert {(each["status"], each["usage"]["completion_tokens"]) for each in got.values()} == {(200, 2)}
    else:
        assert told.error is not None
        assert told.error["code"] == "server_stopping"
        assert {(each["status"], each["error"]["code"]) for each in got.values()} == {(503, "server_stopping")}


SLOW_DISK = """
import reame.memory.block_store as disk
store, gates = disk.BlockStore.store, [{gate!r}]
def held(*arguments, **keywords):
    if gates:
        open(gates.pop()).read()
    return store(*arguments, **keywords)
disk.BlockStore.store = held
"""


async def test_while_blocks_are_written(launch: Launch, tmp_path: Path) -> None:
    """The first of them hangs when the signal comes. What was computed is all there for the next daemon."""
    gate, size = tmp_path / "gate", 4
    os.mkfifo(gate)
    (tmp_path / "sitecustomize.py").write_text(SLOW_DISK.format(gate=str(gate)))
    tables: dict[str, dict[str, object]] = {
        "engine": {"slots": 2, "context": 512},
        "memory": {"path": str(tmp_path / "memory"), "block_tokens": size},
    }
    prompt = [81 + number % 26 + number // 26 for number in range(200)]
    with launch({"PYTHONPATH": str(tmp_path)}, **tables) as daemon:
        async with connect(daemon.wait_ready()) as client:
            await answer(client, COMPLETIONS, ask(prompt, 1, logit_bias=ENDLESS))
        with await trio.to_thread.run_sync(gate.open, "w"):  # opens when the first block has come to the gate
            daemon.send(signal.SIGTERM)
            daemon.wait_for("SIGTERM: finishing what runs")
            assert daemon.process.poll() is None
        assert daemon.wait_exit() == 0
    assert "Traceback" not in daemon.log
    assert "WARNING" not in daemon.log
    with launch(**tables) as again:
        async with connect(again.wait_ready()) as client:
            found = await answer(client, COMPLETIONS, ask(prompt, 1, logit_bias=ENDLESS))
            assert found["reame"]["disk_tokens"] == len(prompt) - size, "all whole blocks before the last token"
            assert (await readings(client))['disk_block_events_total{event="corrupt"}'] == 0
