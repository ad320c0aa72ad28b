"""What is remembered, on the real program: restarts, SIGKILL, damaged files, old answers, and whose memory it is."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest
import trio
from daemon_process import REAME
from talking import COMPLETIONS, answer, ask, connect, readings, until_idle

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Launch
    from daemon_process import DaemonProcess

BLOCK = 16
TEXT = " ".join(f"The number of item {number} is {number * 37}." for number in range(1, 13))
QUESTION = ask(TEXT + " The first item", 8)


def start(launch: Launch, folder: Path, **tables: dict[str, object]) -> DaemonProcess:
    return launch(
        engine={"slots": 2, "context": 1024} | tables.pop("engine", {}),
        memory={"path": str(folder), "block_tokens": BLOCK} | tables.pop("memory", {}),
        **tables,
    )


async def reply(daemon: DaemonProcess, body: dict[str, Any] = QUESTION) -> dict[str, Any]:
    async with connect(daemon) as client:
        got: dict[str, Any] = await answer(client, COMPLETIONS, body)
        await until_idle(client)
        return got


@pytest.fixture(scope="module")
def remembered(launch: Launch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A memory that a daemon has filled and left in an orderly way."""
    return tmp_path_factory.mktemp("remembered") / "memory"


@pytest.fixture
async def first(launch: Launch, remembered: Path) -> dict[str, Any]:
    """The answer to the question, from whatever the memory holds."""
    with start(launch, remembered) as daemon:
        return await reply(daemon.wait_ready())


async def test_a_restart_and_a_kill_lose_nothing_that_was_written(launch: Launch, remembered: Path) -> None:
    with start(launch, remembered) as daemon:
        cold = await reply(daemon.wait_ready())
        assert cold["reame"]["disk_tokens"] == 0
    size = (cold["usage"]["prompt_tokens"] - 1) // BLOCK * BLOCK
    assert size > 100
    daemon = start(launch, remembered)
    warm = await reply(daemon.wait_ready())
    assert (warm["choices"], warm["reame"]["disk_tokens"]) == (cold["choices"], size)
    assert warm["usage"]["prompt_tokens_details"]["cached_tokens"] == size
    daemon.process.send_signal(signal.SIGKILL)
    daemon.wait_exit()
    with start(launch, remembered) as daemon:
        again = await reply(daemon.wait_ready())
        assert (again["choices"], again["reame"]["disk_tokens"]) == (cold["choices"], size)


async def test_damaged_emptied_and_strange_files_are_misses(launch: Launch, remembered: Path, first: Any) -> None:
    blocks = sorted((remembered / "blocks").rglob("*.kv"))
    assert len(blocks) > 6
    for number, path in enumerate(blocks):
        data = bytearray(path.read_bytes())
        data[(number * 7919) % len(data)] ^= 1 << (number % 8)
        kind = number % 4
        path.unlink()
        if kind == 0:
            path.write_bytes(data)
        elif kind == 1:
            path.write_bytes(data[: len(data) // 3])
        elif kind == 2:
            path.mkdir()
        else:
            path.symlink_to("/nowhere")
    with start(launch, remembered) as daemon:
        got = await reply(daemon.wait_ready())
        assert (got["choices"], got["reame"]["disk_tokens"]) == (first["choices"], 0)
        assert (await reply(daemon))["choices"] == first["choices"]


async def test_other_kv_types_do_not_read_each_others_blocks(launch: Launch, remembered: Path, first: Any) -> None:
    with start(launch, remembered, engine={"kv_type": "f16"}) as daemon:
        assert (await reply(daemon.wait_ready()))["reame"]["disk_tokens"] == 0
    with start(launch, remembered, engine={"threads": 1, "context": 512}) as daemon:
        got = await reply(daemon.wait_ready())
        assert got["choices"] == first["choices"]
        assert got["reame"]["disk_tokens"] > 0


async def test_an_old_answer_is_the_same_answer_and_says_so(launch: Launch, tmp_path: Path) -> None:
    with start(launch, tmp_path / "memory", memory={"answers": True}) as daemon:
        daemon.wait_ready()
        new, old = await reply(daemon), await reply(daemon)
        assert (new["reame"]["stored_answers"], old["reame"]["stored_answers"]) == (0, 1)
        assert old["choices"] == new["choices"]
        assert old["usage"]["completion_tokens"] == new["usage"]["completion_tokens"]
        anew = await reply(daemon, QUESTION | {"reame": {"answers": False}})
        assert (anew["reame"]["stored_answers"], anew["choices"]) == (0, new["choices"])
        free = QUESTION | {"temperature": 1.0}
        assert [(await reply(daemon, free))["reame"]["stored_answers"] for _ in range(2)] == [0, 0]
    with start(launch, tmp_path / "memory", memory={"answers": True}) as daemon:
        assert (await reply(daemon.wait_ready()))["reame"]["stored_answers"] == 1


@pytest.mark.parametrize("share", ["key", "all"])
async def test_keys_share_only_if_the_config_says_so(launch: Launch, tmp_path: Path, share: str) -> None:
    keys = tmp_path / "keys"
    keys.write_text("anna:secret-of-anna-1\nbert:secret-of-bert-2\n")
    keys.chmod(0o600)
    memory = {"answers": True, "share": share}
    with start(launch, tmp_path / "memory", memory=memory, server={"api_keys_file": str(keys)}) as daemon:
        daemon.wait_ready()
        cached = []
        for secret in ("secret-of-anna-1", "secret-of-bert-2", "secret-of-anna-1"):
            async with connect(daemon) as client:
                client.headers["Authorization"] = f"Bearer {secret}"
                got = await answer(client, COMPLETIONS, QUESTION)
                cached.append(got["usage"]["prompt_tokens_details"]["cached_tokens"] > 0)
                await until_idle(client)
        assert cached == ([False, False, True] if share == "key" else [False, True, True])
        if share == "key":
            await anna_is_forgotten(daemon)


async def anna_is_forgotten(daemon: DaemonProcess) -> None:
    """While it runs: her cells too; not Bert's."""
    command = [REAME, "cache", "forget", "--key", "anna", "--config", daemon.config]
    done = await trio.run_process(command, capture_stdout=True)
    assert done.stdout.splitlines()[-1] == b"1 running daemon forgot it too, live cells included"
    for secret, is_there in (("secret-of-anna-1", False), ("secret-of-bert-2", True)):
        async with connect(daemon, secret) as client:
            got = (await answer(client, COMPLETIONS, QUESTION))["reame"]
            assert (got["live_tokens"] + got["disk_tokens"] + got["stored_answers"] > 0) == is_there


async def test_a_memory_that_cannot_be_written_costs_nobody_an_answer(launch: Launch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    daemon = start(launch, tmp_path / "file" / "memory")
    daemon.wait_ready()
    got = await reply(daemon)
    assert got["choices"][0]["text"]
    async with connect(daemon) as client:
        assert (await readings(client))["rows_total"] > 0
    daemon.process.send_signal(signal.SIGTERM)
    assert daemon.wait_exit() == 0
    assert any("nothing is kept on disk" in line for line in daemon.lines)
