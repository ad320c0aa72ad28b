"""`reame batch` as a person runs it: by itself and through a daemon, killed, stopped, and on a full disk."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import trio
from attrs import frozen
from daemon_process import PATIENCE_S, REAME, free_port
from talking import CHAT, connect, say, until

from reame.cli import status_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from daemon_process import DaemonProcess

COUNT = 16
RULES = " ".join(f"Rule {i}: things of kind {i} belong to group {i % 7}." for i in range(8))


def line_of(name: str, text: str, **more: Any) -> str:
    body = say(text, 8, **more)
    body["messages"].insert(0, {"role": "system", "content": RULES})
    return json.dumps({"custom_id": name, "method": "POST", "url": CHAT, "body": body})


LINES = [line_of(f"n{i}", f"Which group has the thing number {i // 2 * 7}?") for i in range(COUNT)]
"""Each question twice."""
BAD = ['{"custom_id": "x", ', "", line_of("n0", "again"), line_of("far", "far " * 9000), line_of("hot", "x", top_p=7)]


@frozen
class Files:
    """Where the command reads and writes."""

    source: Path
    output: Path

    def words(self, *options: str) -> list[str]:
        return [str(REAME), "batch", str(self.source), "-o", str(self.output), *options]

    def answers(self) -> dict[str, Any]:
        """The answer of each `custom_id`, or the code of its error. Every line must be whole, none there twice."""
        data = self.output.read_bytes()
        assert not data or data.endswith(b"\n")
        lines = [json.loads(line) for line in data.splitlines()]
        assert len({line["id"] for line in lines}) == len(lines)
        found = {}
        for line in lines:
            body = line["response"]["body"]
            if line["error"]:
                found[f"{line['custom_id']} bad"] = line["error"]["code"]
            else:
                choice = body["choices"][0]
                found[line["custom_id"]] = (choice["message"]["content"], choice["finish_reason"])
        return found


@pytest.fixture
def files(tmp_path: Path) -> Files:
    (tmp_path / "in.jsonl").write_text("\r\n".join(["\ufeff" + LINES[0], *LINES[1:], *BAD]), "utf-8")
    return Files(tmp_path / "in.jsonl", tmp_path / "out.jsonl")


@pytest.fixture(scope="module")
def here(model_path: Path, cache: Path) -> list[str]:
    """Options for a process of its own, which gives no old answers: they are to be computed."""
    more = ("memory.answers=false", "engine.slots=4", "engine.context=2048")
    return ["--model", str(model_path), *(word for each in more for word in ("--set", each))]


@pytest.fixture(scope="module")
def undisturbed(here: list[str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("undisturbed")
    files = Files(folder / "in.jsonl", folder / "out.jsonl")
    files.source.write_text("\n".join([*LINES, *BAD]), "utf-8")
    done = run(files.words(*here, "--ordered", "--price", "0.5"))
    assert done.returncode == 3, done.stderr
    assert "8 of them as another line's equal, 5 failed" in done.stdout
    assert "failed: 1 invalid_line, 1 blank_line, 1 duplicate_custom_id, 1 " in done.stdout
    assert "records 2 to 8:" in done.stdout
    assert "at 0.5 a million tokens" in done.stdout
    lines = [json.loads(line) for line in files.output.read_bytes().splitlines()]
    assert [line["custom_id"] for line in lines] == [*(f"n{i}" for i in range(COUNT)), None, None, "n0", "far", "hot"]
    assert files.answers()["far bad"] == "context_length_exceeded"
    return files.answers()


def run(words: list[str], prepare: Callable[[], None] | None = None) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if name == "REAME_CACHE" or "REAME" not in name}
    return subprocess.run(
        words, capture_output=True, text=True, timeout=PATIENCE_S, env=environ, check=False, preexec_fn=prepare
    )


def run_until(files: Files, words: list[str], more: int, number: signal.Signals) -> int:
    """Send a signal when the output has so many lines more; the exit status."""

    def num_lines() -> int:
        return files.output.read_bytes().count(b"\n") if files.output.exists() else 0

    wanted = num_lines() + more
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        while process.poll() is None:
            if num_lines() >= wanted:
                process.send_signal(number)
                break
        process.communicate(timeout=PATIENCE_S)
        return process.returncode


def test_killed_and_stopped_it_gives_what_it_would_have_given(
    files: Files, here: list[str], undisturbed: dict[str, Any]
) -> None:
    assert run_until(files, files.words(*here), 7, signal.SIGKILL) == -signal.SIGKILL
    with files.output.open("ab") as file:
        file.write(b'{"id":"batch_req_torn')
    assert run_until(files, files.words(*here), 1, signal.SIGTERM) == 128 + signal.SIGTERM
    done = run(files.words(*here))
    assert done.returncode == 3, done.stderr
    assert "were done before" in done.stdout
    assert files.answers() == undisturbed
    before = files.output.read_bytes()
    again = run(files.words(*here))
    assert (again.returncode, files.output.read_bytes()) == (3, before)


def test_a_full_disk_is_said_and_nothing_is_lost(
    files: Files, here: list[str], undisturbed: dict[str, Any]
) -> None:
    def little_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (7000, 7000))

    words = files.words(*here, "--set", "memory.enabled=false")
    full = run(words, little_room)
    assert full.returncode == 1
    assert "cannot be written (file too large) with" in full.stderr
    assert "make room, and the same command goes on from here" in full.stderr
    assert "Traceback" not in full.stderr
    assert 0 < len(files.answers()) < len(undisturbed)
    assert run(words).returncode == 3
    assert files.answers() == undisturbed


async def test_through_a_daemon_it_waits_for_people_and_gives_the_same(
    files: Files, daemon: DaemonProcess, undisturbed: dict[str, Any]
) -> None:
    words = files.words("--url", daemon.url)
    with trio.fail_after(PATIENCE_S):
        async with connect(daemon) as client, trio.open_nursery() as nursery:
            ended = trio.Event()
            statuses: list[int] = []

            async def batch() -> None:
                done = await trio.run_process(words, capture_stdout=True, capture_stderr=True, check=False)
                statuses.append(done.returncode)
                ended.set()

            nursery.start_soon(batch)
            await until(client, lambda seen: seen["running_sequences"] > 0)  # how many at once is T(rows)' to say
            answer = await client.post(CHAT, json=say("hello", 4))
            assert answer.status_code == 200
            assert not ended.is_set()
            await ended.wait()
    assert statuses == [3]
    found = files.answers()
    assert found.pop("far bad") == "context_length_exceeded"
    expected = dict(undisturbed)
    del expected["far bad"]
    assert found == expected


def test_what_cannot_be_done_at_all_is_one_line(
    files: Files, daemon: DaemonProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command in this process: what it says has nothing to do with a process of its own."""

    def said(*words: str) -> str:
        assert status_of(words) == 1
        return capsys.readouterr().err

    nowhere = f"http://127.0.0.1:{free_port()}"
    for options, words in (
        (["--url", nowhere], "nothing answers at"),
        (["--url", daemon.url, "--model", "x"], "leave one out"),
        (["--price", "-1"], "--price is a number"),
        (["--config", "/nonexistent"], "cannot be read"),
    ):
        line = said(*files.words(*options)[1:])
        assert words in line
        assert line.startswith("reame: ")
        assert line.count("\n") == 1
    assert "the output is the input" in said(*Files(files.source, files.source).words("--url", daemon.url)[1:])
