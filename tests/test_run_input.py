"""What `reame run` reads before anything is loaded: the question, and a model that is not here yet."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING

import pytest
import trio
from hub_server import HubServer, gguf
from trio.testing import wait_all_tasks_blocked

from reame.catalog import entry, identify
from reame.commands import launch
from reame.commands.launch import Wanted, fetch, read_question
from reame.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def piped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[io.BufferedRandom]:
    """Standard input: what the test writes here and rewinds."""
    with open(tmp_path / "stdin", "w+b") as file:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(file))
        yield file


@pytest.mark.parametrize(
    ("argument", "standard_input", "question"),
    [
        ("one", b"", "one"),
        ("", b"two\n", "two"),
        ("one", b"two\nthree\n\n", "one\n\ntwo\nthree"),
        ("one", b" \n", "one"),
        ("", b"\xef\xbb\xbftwo", "two"),
        ("\udcff\udcc3\udca9", b"", "\ufffdé"),
    ],
)
async def test_the_question_is_the_argument_then_what_is_piped(
    argument: str, standard_input: bytes, question: str, piped: io.BufferedRandom
) -> None:
    piped.write(standard_input)
    piped.seek(0)
    assert await read_question(Wanted(model="m", question=argument, flags={})) == question


@pytest.mark.parametrize(
    ("standard_input", "said"),
    [
        (b"", "there is no question"),
        (b" \n", "there is no question"),
        (b"caf\xe9", r"not UTF-8 text \(byte 4\)"),
        (b"a" * (1 << 24) + b"a", "larger than 16 MiB"),
    ],
)
async def test_no_question(standard_input: bytes, said: str, piped: io.BufferedRandom) -> None:
    piped.write(standard_input)
    piped.seek(0)
    with pytest.raises(ConfigError, match=said):
        await read_question(Wanted(model="m", flags={}))


class Told(io.StringIO):
    """Standard error that says when something was written."""

    def __init__(self) -> None:
        super().__init__()
        self.something = trio.Event()

    def write(self, text: str) -> int:
        self.something.set()
        return super().write(text)


def listening(monkeypatch: pytest.MonkeyPatch, *, patience_s: float) -> Told:
    """In the test itself: pytest puts a standard error of its own in the place of a fixture's."""
    monkeypatch.setattr(launch, "INPUT_PATIENCE_S", patience_s)
    monkeypatch.setattr(sys, "stderr", told := Told())
    return told


@pytest.fixture
def writer(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.FileIO]:
    """The end of a real pipe to write to; the other one is standard input."""
    reader, end = os.pipe()
    with os.fdopen(reader) as standard_input, io.FileIO(end, "w") as file:
        monkeypatch.setattr(sys, "stdin", standard_input)
        yield file


async def test_a_pipe_without_an_end_is_named_once_and_waited_for(
    writer: io.FileIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = listening(monkeypatch, patience_s=0.0)

    async def end_it() -> None:
        await told.something.wait()
        writer.write(b"two\n")
        writer.close()

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(end_it)
            assert await read_question(Wanted(model="m", question="one", flags={})) == "one\n\ntwo"
    assert told.getvalue() == "also reading standard input up to its end; `< /dev/null` if there is none\n"


@pytest.mark.parametrize(
    ("question", "stdin", "patience_s"), [("", False, 0.0), ("one", True, 0.0), ("one", False, 60.0)]
)
async def test_who_pipes_on_purpose_or_in_time_is_told_nothing(
    question: str, stdin: bool, patience_s: float, writer: io.FileIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = listening(monkeypatch, patience_s=patience_s)

    async def end_it() -> None:
        await wait_all_tasks_blocked()
        writer.write(b"two\n")
        writer.close()

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(end_it)
            await read_question(Wanted(model="m", question=question, stdin=stdin, flags={}))
    assert told.getvalue() == ""


@pytest.mark.parametrize(("name", "licence"), [("llama-3.2-1b", "Llama 3.2"), ("qwen3-0.6b", "")])
async def test_a_licence_that_asks_something_is_named_when_its_model_is_pulled(
    name: str, licence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("REAME_MODELS", str(tmp_path))
    monkeypatch.setenv("NO_PROXY", "*")
    known = entry(name)
    assert known is not None
    for hub in HubServer(files={str(known.source).removeprefix("hf:"): gguf(1000)}).running():
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        await fetch(identify(name, tmp_path), name)
    first = capsys.readouterr()
    assert ("the licence of" in first.err, first.out) == (bool(licence), "")
    assert first.err.endswith(f"the licence of {name}: {licence}\n" if licence else "")
    await fetch(identify(name, tmp_path), name)
    assert capsys.readouterr().err == "", "it is here already"
