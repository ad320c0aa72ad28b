"""`reame run` with a question or with --serve: what it makes of its options, and the real thing on the real model."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio
from httpx2 import Client
from hub_server import HubServer

from reame.api.listen import listen
from reame.catalog import Named
from reame.commands.front import INTERRUPTED, TERMINATED, TerminalFront
from reame.commands.launch import LONGEST_S, Wanted, config_for, launch
from reame.commands.screen import Screen
from reame.config import Config
from reame.config_load import load_config
from reame.config_text import default_text
from reame.errors import ConfigError, ModelError
from reame.runtime.intake import Intake
from reame.runtime.metrics import Metrics

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

NAMED = Named("tiny", Path("models/tiny.gguf"), None)
QUICK = ("--context", "256", "--temperature", "0", "--max-tokens", "8")


@pytest.fixture(autouse=True)
def no_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REAME_CONFIG", raising=False)


def configured(text: str = "", *, sets: tuple[str, ...] = (), model: str = "tiny", **other: Any) -> Config:
    Path("c.toml").write_text(text)
    wanted = Wanted(model=model, sets=sets, **({"flags": {}} | other))
    return config_for(wanted, NAMED, load_config("c.toml", sets=sets))


@pytest.mark.parametrize("text", ["", default_text()])
def test_the_defaults_suit_one_person(text: str) -> None:
    config = configured(text)
    assert (config.model.path, config.model.id) == ("models/tiny.gguf", "tiny")
    assert (config.engine.cells, config.engine.context) == (8192, 8192)
    assert config.scheduler.request_timeout_s == LONGEST_S
    assert config.log.level == "warning"


def test_flags_win_over_the_file_and_what_is_configured_stays() -> None:
    text = "[engine]\ncells = 9999\n[scheduler]\nrequest_timeout_s = 5\n[log]\nlevel = 'info'\n"
    config = configured(text, flags={"engine.context": 100, "sampling.temperature": 0.25})
    assert (config.engine.context, config.engine.cells) == (100, 9999)
    assert config.sampling.temperature == 0.25
    assert config.scheduler.request_timeout_s == 5
    assert config.log.level == "warning"
    assert configured(sets=("log.level=debug",)).log.level == "debug"


def test_what_the_file_says_of_another_model_does_not_hold() -> None:
    text = "[model]\npath = 'other'\nid = 'Other'\nchat_template = 'other.jinja'\n"
    assert configured(text).model.chat_template == ""
    assert configured(text).model.id == "tiny"
    same = configured(text, model="other").model
    assert (same.id, same.chat_template, same.path) == ("Other", "other.jinja", "models/tiny.gguf")
    assert configured(text, sets=("model.chat_template=mine.jinja",)).model.chat_template == "mine.jinja"


def test_served_it_is_the_daemon_of_the_file() -> None:
    config = configured(serve=True)
    default = Config()
    assert (config.engine, config.scheduler, config.log) == (default.engine, default.scheduler, default.log)


async def test_all_wrong_options_are_named_before_anything_is_pulled() -> None:
    flags = {"sampling.temperature": 3.0, "engine.context": 0}
    with pytest.raises(ConfigError) as raised:
        await launch(Wanted(model="smollm2-135m", question="hi", flags=flags))
    assert str(raised.value).splitlines()[0] == "the options: 2 mistakes"


async def test_an_unknown_model_is_said_at_once() -> None:
    with pytest.raises(ModelError, match="did you mean"):
        await launch(Wanted(model="smollm3-135m", question="hi", flags={}))


@pytest.mark.parametrize("other", [{"question": "hi"}, {"stdin": True}, {"system": "x"}, {"seed": 0}, {"stats": True}])
async def test_serve_refuses_what_it_would_ignore(other: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="--serve answers clients"):
        await launch(Wanted(model="smollm2-135m", serve=True, flags={}, **other))


async def stays_silent(interrupts: AsyncIterator[int]) -> int:
    raise AssertionError("nobody talks before the model is ready")


def waiting_front() -> TerminalFront:
    """A front whose model is never ready."""
    intake = Intake(Config(), "tiny", Metrics())
    return TerminalFront(intake, Screen(io.StringIO(), io.StringIO()), stays_silent)


async def test_ctrl_c_while_the_model_loads() -> None:
    front = waiting_front()
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            await nursery.start(partial(front, shutdown_trigger=trio.sleep_forever))
            os.kill(os.getpid(), signal.SIGINT)
    assert front.status == INTERRUPTED == 130


async def test_a_shutdown_ends_the_front() -> None:
    front, stop = waiting_front(), trio.Event()
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            await nursery.start(partial(front, shutdown_trigger=stop.wait))
            stop.set()
    assert front.status == TERMINATED == 143


# From here on the real model, each time in a process of its own.


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "reame", "run", *words]


def ask(*words: str, standard_input: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*words), input=standard_input, capture_output=True, text=True, check=False, timeout=120
    )


@pytest.mark.model
def test_argument_standard_input_or_both_are_one_question(model_path: Path) -> None:
    """By temperature 0 the same text, and nothing else on either stream."""
    argument = ask(str(model_path), *QUICK, "Name", "an\n\nanimal.")
    both = ask(str(model_path), *QUICK, "Name an", standard_input="animal.\n")
    piped = ask(str(model_path), *QUICK, "-", "--stats", standard_input="Name an\n\nanimal.\n")
    assert argument.returncode == both.returncode == piped.returncode == 0
    assert argument.stdout == both.stdout == piped.stdout
    assert re.fullmatch(r"[^\n].*[^\n]\n", argument.stdout, re.DOTALL)
    assert argument.stderr == both.stderr == ""
    assert re.fullmatch(r"\(the answer of [1-8] tokens was known from before\)\n", piped.stderr)
    forgetful = ("--set", "memory.answers=false")
    anew = ask(str(model_path), *QUICK, "-", "--stats", *forgetful, standard_input="Name an animal.")
    assert re.fullmatch(r"\(prompt: \d+ tokens.*; answer: [1-8] tokens, .*\)\n", anew.stderr)


@pytest.mark.model
def test_too_long_for_the_context_is_one_line_and_status_1(model_path: Path) -> None:
    done = ask(str(model_path), "--context", "64", standard_input="word " * 500)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(r"reame: .*context is 64 tokens.*\n", done.stderr)


@pytest.mark.model
def test_a_reader_that_leaves_ends_it_quietly(model_path: Path) -> None:
    words = command(str(model_path), "--max-tokens", "200", "--seed", "1", "Tell me a long story.")
    with subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(1)
        process.stdout.close()
        assert process.wait(timeout=60) == 0
        assert process.stderr.read() == b""


@pytest.mark.model
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_the_answer(number: signal.Signals, status: int, model_path: Path) -> None:
    words = command(str(model_path), "--max-tokens", "2000", "--seed", "1", "Tell me a very long story.")
    with subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(1)
        process.send_signal(number)
        assert process.wait(timeout=60) == status
        assert process.stderr.read() == b""


@pytest.mark.model
def test_a_missing_model_is_pulled_first(model_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REAME_MODELS", str(tmp_path / "models"))
    monkeypatch.setenv("NO_PROXY", "*")
    for hub in HubServer(files={"me/small-GGUF/small.gguf": model_path.read_bytes()}).running():
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        done = ask("hf:me/small-GGUF/small.gguf", *QUICK, "Name an animal.")
        missing = ask("hf:me/small-GGUF/other.gguf", *QUICK, "Name an animal.")
    assert (done.returncode, done.stdout.count("\n")) == (0, 1)
    assert "small.gguf: 100% of 98.4 MB" in done.stderr
    assert (missing.returncode, missing.stdout) == (1, "")
    assert re.fullmatch(r"reame: .*\n", missing.stderr)


@pytest.mark.model
def test_serve_is_the_daemon_with_this_model(model_path: Path) -> None:
    (free,) = listen("127.0.0.1", 0)
    port = free.getsockname()[1]
    free.close()
    words = command(str(model_path), "--serve", "--context", "256", "--set", f"server.port={port}")
    with (
        subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process,
        Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as http,
    ):
        assert process.stderr is not None
        assert any("INFO ready: " in line for line in process.stderr)
        (model,) = http.get("/v1/models").json()["data"]
        assert model["id"] == model_path.stem
        process.terminate()
        process.stderr.read()
        assert process.wait(timeout=60) == 0
