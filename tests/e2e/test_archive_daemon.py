"""Palimpsest on the real program: what was generated speeds up what comes again, and never changes it."""

from __future__ import annotations

import json
import shutil
import signal
import sys
from typing import TYPE_CHECKING, Any

import pytest
import trio
from talking import COMPLETIONS, ENDLESS, answer, ask, connect, readings, until

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Launch
    from daemon_process import DaemonProcess

pytestmark = pytest.mark.alone
PROMPT = "The sun was low when the old man closed his shop and"
LENGTH = 64
QUESTION = ask(PROMPT, LENGTH, logit_bias=ENDLESS)


def start(launch: Launch, memory: Path) -> DaemonProcess:
    return launch(engine={"slots": 2, "context": 1024}, memory={"path": str(memory)}).wait_ready()


def segments(memory: Path) -> list[Path]:
    return sorted((memory / "archive").glob("*/*/*.seg"))


async def reply(daemon: DaemonProcess, body: dict[str, Any] = QUESTION) -> tuple[Any, int]:
    """The choices, and how many drafted tokens came true; once the generation is kept."""
    async with connect(daemon) as client:
        before = (await readings(client))['archive_events_total{event="appended"}']
        got = await answer(client, COMPLETIONS, body)
        await until(client, lambda seen: seen['archive_events_total{event="appended"}'] > before)
        return got["choices"], got["reame"]["accepted_tokens"]


@pytest.fixture(scope="module")
def cold(launch: Launch, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A memory with one answer in its archive, and that answer."""
    memory = tmp_path_factory.mktemp("palimpsest") / "memory"
    with start(launch, memory) as daemon:
        choices, accepted = trio.run(reply, daemon)
        assert accepted < 0.65 * LENGTH, "it repeats itself in part only"
    assert len(segments(memory)) == 1
    return memory, choices


async def test_the_same_text_is_drafted_after_a_restart_and_stays_whatever_happens_to_the_files(
    launch: Launch, cold: tuple[Path, Any]
) -> None:
    """A restart; truncated and deleted while it runs; a SIGKILL."""
    memory, text = cold
    with start(launch, memory) as daemon:
        choices, accepted = await reply(daemon)
        assert choices == text
        assert accepted > 0.75 * LENGTH
        segments(memory)[0].write_bytes(b"")
        assert (await reply(daemon))[0] == text
        shutil.rmtree(memory / "archive")
        assert (await reply(daemon))[0] == text
        assert len(segments(memory)) == 1
        daemon.process.send_signal(signal.SIGKILL)
        daemon.wait_exit()


async def test_what_a_damaged_file_still_holds_and_what_is_imported_is_drafted_from(
    launch: Launch, cold: tuple[Path, Any]
) -> None:
    memory, text = cold
    file = segments(memory)[0]
    damaged = bytearray(file.read_bytes())
    damaged[5] ^= 1
    file.write_bytes(damaged)
    with start(launch, memory) as daemon:
        choices, rescued = await reply(daemon)
        assert choices == text
        assert rescued > 0.75 * LENGTH
        assert file.with_name(f"{file.name}.damaged").read_bytes() == bytes(damaged)
        await reame(memory, "clear")
        yesterday = memory.parent / "yesterday.jsonl"
        yesterday.write_text(json.dumps({"text": PROMPT + text[0]["text"]}) + "\n")
        assert (await reame(memory, "import", str(yesterday))).startswith("1 texts, ")
        choices, imported = await reply(daemon)
        assert choices == text
        assert imported > 0.75 * LENGTH
        assert "archive: 2 texts, " in await reame(memory, "stats")


async def reame(memory: Path, *words: str) -> str:
    """`reame archive`, as another process."""
    command = [sys.executable, "-m", "reame", "archive", *words, "--set", f"memory.path={memory}"]
    done = await trio.run_process(command, capture_stdout=True, capture_stderr=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()
