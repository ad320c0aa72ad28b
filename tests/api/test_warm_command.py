"""`reame warm` against a server of this process: what it sends, what it shows, what it says when it cannot."""

from __future__ import annotations

import json
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from scripted import serving
from warming import WarmingIntake, computed

from reame import cli
from reame.commands.warm import warm
from reame.commands.warm_progress import shown
from reame.core.events import Delta, Finish, Usage
from reame.core.request import Call, Chat
from reame.errors import ConfigError, RequestError

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from scripted import Step

FAILED = Usage(prompt_tokens=5, cached_tokens=0, completion_tokens=0)


def failing(status: int, code: str, message: str) -> list[Step]:
    error = RequestError(message, status=status, code=code)
    return [(0, Delta(num_computed=1)), (0, Finish(reason=None, usage=FAILED, error=error))]


@pytest.fixture
def intake() -> WarmingIntake:
    return WarmingIntake(lambda _: computed(1, 3, 4))


async def test_a_file_is_warmed_and_accounted_for(
    intake: WarmingIntake, note: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with serving(intake) as served:
        assert await warm(note, url=served.url) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"{note}: 5 tokens, 2 computed, ")
    assert out.endswith(" s\n")
    assert out.count("\n") == 1
    assert err.splitlines() == [f"{note}: 1 of 5 tokens", f"{note}: 3 of 5 tokens"]
    assert intake.call == Call(prompts=("Once upon a time\n",), warm=True)
    assert intake.pins == []


async def test_several_files_pinned(
    intake: WarmingIntake, note: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.txt"
    other.write_bytes("\ufeffZw\u00f6lf".encode())
    async with serving(intake) as served:
        assert await warm(note, other, pin=True, ttl=60, url=f"{served.url}/v1/") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0] for line in lines[:2]] == [f"{note}: 5 tokens", f"{other}: 5 tokens"]
    assert lines[2].startswith("2 of 2 files are warm: 10 tokens, 4 computed, ")
    assert lines[3].startswith("pinned until 20")
    assert [call.prompts for call, _, _ in intake.opened] == [("Once upon a time\n",), ("Zw\u00f6lf",)]
    assert len(intake.pins) == 2


async def test_a_daemon_without_a_disk_says_that_nothing_is_pinned(
    intake: WarmingIntake, note: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    intake.keeps = False
    async with serving(intake) as served:
        assert await warm(note, pin=True, url=served.url) == 0
    assert capsys.readouterr().err.splitlines()[-1].startswith("reame: nothing is pinned")


TURNS = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]


@pytest.mark.parametrize("value", [TURNS, {"model": "another", "messages": TURNS, "temperature": 0}])
async def test_messages(intake: WarmingIntake, tmp_path: Path, value: object) -> None:
    file = tmp_path / "chat.json"
    file.write_text(json.dumps(value))
    async with serving(intake) as served:
        assert await warm(file, messages=True, url=served.url) == 0
    assert intake.call.prompts == (Chat(messages=tuple(TURNS)),)


async def test_a_system_message_has_an_empty_turn_behind_it(intake: WarmingIntake, note: Path) -> None:
    async with serving(intake) as served:
        assert await warm(note, system=True, url=served.url) == 0
    system, user = {"role": "system", "content": "Once upon a time\n"}, {"role": "user", "content": ""}
    assert intake.call.prompts == (Chat(messages=(system, user)),)


async def test_one_file_that_fails_does_not_stop_the_others(
    intake: WarmingIntake, note: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    late, long = tmp_path / "late.txt", tmp_path / "long.txt"
    late.write_text("late")
    long.write_text("long")
    scripts = {
        "late": failing(408, "request_timeout", "took too long"),
        "long": failing(400, "context_length_exceeded", "the prompt is too long"),
    }
    intake.script = lambda call: scripts.get(str(call.prompts[0]), computed(4))
    async with serving(intake) as served:
        assert await warm(late, long, note, url=served.url) == 1
    out, err = capsys.readouterr()
    assert out.splitlines()[0].startswith(f"{note}: 5 tokens")
    assert out.splitlines()[1].startswith("1 of 3 files are warm: 5 tokens")
    assert f"reame: {late}: took too long" in err.splitlines()
    assert f"reame: {long}: the prompt is too long" in err.splitlines()


async def test_it_waits_for_room_and_for_a_model_that_loads(note: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Busy(WarmingIntake):
        tries = 0

        def open(self, call: Call, *, key: str, namespace: str) -> AbstractAsyncContextManager[Any]:
            self.tries += 1
            code = {1: "server_loading", 2: "server_loading", 3: "queue_full"}.get(self.tries)
            message = "not yet" if code == "server_loading" else "no room"
            status = 503 if code == "server_loading" else 429
            self.refusal = RequestError(message, status=status, code=code, retry_after=0) if code else None
            return super().open(call, key=key, namespace=namespace)

    async with serving(Busy(lambda _: computed(4))) as served:
        assert await warm(note, url=served.url) == 0
    assert capsys.readouterr().err.splitlines() == [
        f"{served.url}: not yet; waiting",
        f"{served.url}: no room; waiting",
    ]


@pytest.mark.parametrize(
    ("options", "content", "said"),
    [
        ({"pin": False, "ttl": 5.0}, b"x", "add --pin"),
        ({"pin": True, "ttl": -1.0}, b"x", "--ttl is a number of seconds above 0"),
        ({"pin": True, "ttl": float("nan")}, b"x", "--ttl is a number of seconds above 0"),
        ({"system": True, "messages": True}, b"[]", "leave one out"),
        ({"messages": True}, b"Once", "not JSON (Expecting value in line 1)"),
        ({"messages": True}, b'{"prompt": "x"}', 'neither a list of messages nor an object with "messages"'),
        ({}, b"\xff", "not UTF-8 text (byte 1)"),
        ({}, None, "cannot be read: no such file"),
        ({"url": "localhost:8080"}, b"x", "--url is not an address"),
        ({"url": "http://"}, b"x", "--url is not an address"),
        ({"key_file": "none"}, b"x", "none: cannot be read"),
    ],
)
async def test_mistakes_are_said_before_anything_is_sent(
    intake: WarmingIntake, note: Path, tmp_path: Path, options: dict[str, Any], content: bytes | None, said: str
) -> None:
    bad = tmp_path / "bad"
    if content is not None:
        bad.write_bytes(content)
    if "key_file" in options:
        options = options | {"key_file": tmp_path / options["key_file"]}
    async with serving(intake) as served:
        with pytest.raises(ConfigError) as raised:
            await warm(bad, note, **({"url": served.url} | options))
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)
    assert not intake.opened


@pytest.mark.parametrize("text", ["", "# none\n", "ann:\n", "a key with spaces\n", "k\u00e9y"])
async def test_a_file_without_a_key(note: Path, tmp_path: Path, text: str) -> None:
    file = tmp_path / "key"
    file.write_text(text, "utf-8")
    with pytest.raises(ConfigError, match="no key in its first line"):
        await warm(note, key_file=file)


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.status_of(["warm"]) == 2
    assert capsys.readouterr().err == "reame: FILE is missing\nsee reame warm --help\n"
    assert cli.status_of(["warm", str(tmp_path / "none.txt")]) == 1
    assert capsys.readouterr().err == f"reame: {tmp_path}/none.txt: cannot be read: no such file or directory\n"


def test_the_config_on_the_command_line_and_in_the_environment(
    note: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "reame.toml"
    file.write_text("[server]\nport = 1\n")
    nobody = "reame: nothing answers at http://127.0.0.1:1: start the daemon"
    assert cli.status_of(["warm", str(note), "--config", str(file)]) == 1
    assert capsys.readouterr().err.startswith(nobody)
    assert cli.status_of(["warm", str(note), "--set", "server.port=1"]) == 1
    assert capsys.readouterr().err.startswith(nobody)
    monkeypatch.setenv("REAME_CONFIG", str(file))
    assert cli.status_of(["warm", str(note)]) == 1
    assert capsys.readouterr().err.startswith(nobody)


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_on_a_terminal_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    with shown("[red]notes.txt", stream) as show:
        show.progress(0, 1234)
        show.say("[b] said")
        show.progress(600, 1234)
    told = stream.getvalue()
    assert "[red]notes.txt" in told
    assert "[b] said" in told
    assert "600/1234" in told
    assert told.endswith("\x1b[2K")


def test_lines_in_a_log() -> None:
    stream = StringIO()
    with shown("a.txt", stream) as show:
        for done in (0, 50, 100, 199, 900, 998, 999, 1000):
            show.progress(done, 1000)
    assert stream.getvalue().splitlines() == [f"a.txt: {count} of 1,000 tokens" for count in (100, 900)]
