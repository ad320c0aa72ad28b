"""The one-shot against a scripted intake, and what both it and the chat show on a screen."""

from __future__ import annotations

import io

import pytest
import trio
from attrs import evolve
from scripted_chat import CTRL_C, MODEL, TOO_LONG, Script, Terminal, says

from reame.commands.answer import NO_TEMPLATE, Manner
from reame.commands.screen import Screen
from reame.config import Config
from reame.core.events import Delta
from reame.errors import ConfigError, RequestError


async def test_one_shot_without_template() -> None:
    terminal = Terminal([], [says(" upon a time\n")], evolve(MODEL, template=None))
    assert await terminal.ask("Once") == 0
    assert terminal.intake.calls[0].prompts == ("Once",)
    assert (terminal.out.getvalue(), terminal.err.getvalue()) == (" upon a time\n", f"{NO_TEMPLATE}\n")


@pytest.mark.parametrize("script", [[TOO_LONG], says(reason=None, error=TOO_LONG)])
async def test_one_shot_without_an_answer_is_an_error_and_prints_nothing(script: Script) -> None:
    terminal = Terminal([], [script])
    with pytest.raises(RequestError, match="context is 64"):
        await terminal.ask("hi")
    assert terminal.out.getvalue() == ""


async def test_one_shot_interrupted(autojump_clock: trio.testing.MockClock) -> None:
    terminal = Terminal([], [[Delta(text="half"), CTRL_C]])
    assert await terminal.ask("hi") == 130
    assert terminal.out.getvalue() == "half\n"
    assert terminal.intake.inside == 0


def test_a_seed_out_of_range_is_refused() -> None:
    with pytest.raises(ConfigError, match="64 bits"):
        Manner(config=Config(), seed=-(2**63) - 1)


class TerminalText(io.StringIO):
    def isatty(self) -> bool:
        return True


async def test_a_long_wait_shows_on_a_terminal_and_leaves_no_trace(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    ready = trio.Event()
    terminal = Terminal([], [[ready, *says("a")]], err=TerminalText())

    async def prefill() -> None:
        await trio.sleep(3)
        ready.set()

    nursery.start_soon(prefill)
    await terminal.ask("hi")
    shown = terminal.err.getvalue().split("\r\x1b[K")
    assert "- reading 5 tokens, 1 s" in shown
    assert (shown[0], shown[-1]) == ("", "")


def test_a_model_cannot_command_the_terminal() -> None:
    text = "\x1b]0;owned\x07a\tb\r\x9b2Jc\n\nd\n"
    shown, piped = TerminalText(), io.StringIO()
    for out in (shown, piped):
        screen = Screen(out, io.StringIO())
        screen.answer(text)
        screen.end_answer()
    assert shown.getvalue() == "]0;owneda\tb2Jc\n\nd\n"
    assert piped.getvalue() == text


def test_no_status_where_it_cannot_be_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    for err in (TerminalText(), io.StringIO()):
        Screen(io.StringIO(), err).status("loading")
        assert err.getvalue() == ""
