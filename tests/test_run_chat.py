"""The chat and the one-shot against a scripted intake and a scripted person, in virtual time."""

from __future__ import annotations

import io
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

import pytest
import trio
from attrs import define, evolve, field

from reame.commands.answer import NO_TEMPLATE, Manner, ask_once
from reame.commands.chat import HELP, REFLEX_S, Chatting
from reame.commands.keyboard import Line
from reame.commands.screen import Screen
from reame.config import Config, SamplingConfig
from reame.core.chat import ChatTemplate
from reame.core.events import Delta, Finish, Timings, Usage
from reame.core.request import Chat
from reame.engine.fake import FakeEngine
from reame.errors import ConfigError, RequestError
from reame.runtime.prompts import ServedModel

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from reame.core.events import Event, FinishReason
    from reame.core.request import Call
    from reame.runtime.intake import Intake

ENGINE = FakeEngine()
TEMPLATE = ChatTemplate("{% for m in messages %}{{ m.content }}{% endfor %}")
MODEL = ServedModel(
    id="tiny", context=64, info=ENGINE.info, fingerprint="fp", vocabulary=ENGINE.vocabulary, template=TEMPLATE
)
CTRL_C, CTRL_D = Line("", "ctrl-c"), Line("", "ctrl-d")
TOO_LONG = RequestError("this server's context is 64 tokens", code="context_length_exceeded")

Script = list["Event | RequestError | trio.Event | Line"]
"""What an answer does: tells events, refuses, waits for something, or has Ctrl-C pressed and goes on for ever."""


def finish(reason: FinishReason | None = "stop", *, prompt: int = 5, completion: int = 2, **other: Any) -> Finish:
    usage = Usage(prompt_tokens=prompt, cached_tokens=3, completion_tokens=completion)
    return Finish(reason=reason, usage=usage, timings=Timings(prefill_ms=500, decode_ms=250), **other)


def says(*texts: str, **ending: Any) -> Script:
    return [*(Delta(text=text) for text in texts), finish(**ending)]


@define
class Replies:
    script: Script
    press: Callable[[], None]
    prompt_tokens: int = 5

    async def __aiter__(self) -> AsyncIterator[tuple[int, Event]]:
        for step in self.script:
            await trio.lowlevel.checkpoint()
            if isinstance(step, trio.Event):
                await step.wait()
            elif step is CTRL_C:
                self.press()
                await trio.sleep_forever()
            elif not isinstance(step, RequestError | Line):
                yield 0, step


@define
class ScriptedIntake:
    """Plays one script for each call; an error at the head of a script is a refusal. `inside`: answers not left."""

    scripts: list[Script]
    press: Callable[[], None]
    model: ServedModel = MODEL
    calls: list[Call] = field(factory=list)
    inside: int = 0

    @asynccontextmanager
    async def open(self, call: Call, *, key: str, namespace: str) -> AsyncIterator[Replies]:
        self.calls.append(call)
        script = self.scripts.pop(0)
        if isinstance(script[0], RequestError):
            raise script[0]
        self.inside += 1
        try:
            yield Replies(script, self.press)
        finally:
            self.inside -= 1

    def messages(self, number: int = -1) -> list[tuple[str, str]]:
        """Role and content of all that a call brought."""
        (chat,) = self.calls[number].prompts
        assert isinstance(chat, Chat)
        return [(message["role"], message["content"]) for message in chat.messages]


@define
class Person:
    """Types one line after the other, a second for each, and then Ctrl-D."""

    lines: list[str | Line]
    seconds: float = 1.0
    prompts: list[str] = field(factory=list)

    async def read(self, prompt: str) -> Line:
        self.prompts.append(prompt)
        await trio.sleep(self.seconds)
        line = self.lines.pop(0) if self.lines else CTRL_D
        return Line(line) if isinstance(line, str) else line


@define(slots=False)
class Terminal:
    """A chat with `lines` typed and `scripts` answered."""

    lines: Sequence[str | Line]
    scripts: Sequence[Script] = ()
    model: ServedModel = MODEL
    manner: Manner = field(factory=lambda: Manner(config=Config()))
    seconds: float = 1.0
    out: io.StringIO = field(factory=io.StringIO)
    err: io.StringIO = field(factory=io.StringIO)

    def __attrs_post_init__(self) -> None:
        self.send, self.interrupts = trio.open_memory_channel[int](10)
        self.intake = ScriptedIntake(list(self.scripts), self.interrupt, self.model)
        self.person = Person(list(self.lines), self.seconds)
        self.screen = Screen(self.out, self.err)

    def interrupt(self) -> None:
        """Ctrl-C as a signal."""
        self.send.send_nowait(2)

    @property
    def _intake(self) -> Intake:
        return cast("Intake", self.intake)

    async def chat(self) -> str:
        """What was said on standard output after the greeting, until the end."""
        chatting = Chatting(self._intake, self.screen, self.person, self.manner)
        with trio.fail_after(1000):
            assert await chatting.talk(self.interrupts) == 0
        assert self.intake.inside == 0
        greeting, said = self.out.getvalue().split("\n", 1)
        assert greeting.startswith("tiny, 64 tokens of context.")
        return said

    async def ask(self, question: str) -> int:
        return await ask_once(self._intake, self.screen, self.manner, question, self.interrupts)


async def test_a_conversation_grows(autojump_clock: trio.testing.MockClock) -> None:
    manner = Manner(config=Config(sampling=SamplingConfig(temperature=0.5, max_tokens=9)), seed=7, system="Be brief.")
    terminal = Terminal(["", "one", "  two ", "/bye"], [says("Hel", "lo\n\n"), says("a\n", "b")], manner=manner)
    assert await terminal.chat() == "Hello\na\nb\n"
    assert terminal.intake.messages() == [
        ("system", "Be brief."), ("user", "one"), ("assistant", "Hello\n\n"), ("user", "two"),
    ]  # fmt: skip
    call = terminal.intake.calls[0]
    assert (call.sampling.temperature, call.sampling.top_k, call.sampling.seed, call.max_tokens) == (0.5, 40, 7, 9)
    assert set(terminal.person.prompts) == {">>> "}
    assert terminal.err.getvalue() == ""


async def test_a_message_of_several_lines(autojump_clock: trio.testing.MockClock) -> None:
    terminal = Terminal(
        ['"""one', "  two", 'three"""', '"""single"""', '"""', "/bye", '"""'], [says("a"), says("b"), says("c")]
    )
    assert await terminal.chat() == "a\nb\nc\n\n"
    asked = [content for role, content in terminal.intake.messages() if role == "user"]
    assert asked == ["one\n  two\nthree", "single", "/bye"]
    assert terminal.person.prompts == [">>> ", "... ", "... ", ">>> ", ">>> ", "... ", "... ", ">>> "]


@pytest.mark.parametrize(("key", "asked"), [(CTRL_C, [("user", "next")]), (CTRL_D, None)])
async def test_leaving_a_message_of_several_lines(
    key: Line, asked: list[tuple[str, str]] | None, autojump_clock: trio.testing.MockClock
) -> None:
    terminal = Terminal(['"""lost', key, "next"], [says("a")])
    await terminal.chat()
    assert (terminal.intake.messages() if terminal.intake.calls else None) == asked


async def test_clear_forgets(autojump_clock: trio.testing.MockClock) -> None:
    terminal = Terminal(["one", "/clear", "two"], [says("a"), says("b")])
    assert await terminal.chat() == "a\nThe conversation is forgotten.\nb\n\n"
    assert terminal.intake.messages() == [("user", "two")]


async def test_set_changes_the_answers_to_come(autojump_clock: trio.testing.MockClock) -> None:
    lines = ["/set temperature 0", "/set seed 42", "/set system Talk like a pirate.", "/set max_tokens 3", "/set", "hi"]
    terminal = Terminal(lines, [says("arr")])
    shown = (await terminal.chat()).splitlines()
    assert shown[:-2] == [
        "temperature = 0.0", "top_k = 40", "top_p = 0.95", "min_p = 0.05", "repeat_penalty = 1.0",
        "repeat_last_n = 64", "presence_penalty = 0.0", "frequency_penalty = 0.0", "max_tokens = 3",
        "seed = 42", "system = Talk like a pirate.",
    ]  # fmt: skip
    call = terminal.intake.calls[0]
    assert (call.sampling.temperature, call.sampling.seed, call.max_tokens) == (0.0, 42, 3)
    assert terminal.intake.messages()[0] == ("system", "Talk like a pirate.")


async def test_a_wrong_setting_or_command_changes_nothing_and_says_why(
    autojump_clock: trio.testing.MockClock,
) -> None:
    lines = ["/set temperature 9", "/set seed x", "/set seed 99999999999999999999", "/set heat 1", "/foo", "hi"]
    terminal = Terminal(lines, [says("a")])
    await terminal.chat()
    assert terminal.err.getvalue().splitlines() == [
        "(/set: sampling.temperature: expected a number from 0 to 2, got 9)",
        "(seed: expected an integer or none, got x)",
        "(seed: expected an integer of at most 64 bits, got 99999999999999999999)",
        "(there is no setting heat; /set shows them)",
        "(there is no /foo; /help shows the commands)",
    ]
    assert terminal.intake.calls[0].sampling.temperature == SamplingConfig().temperature


async def test_help_and_what_only_looks_like_a_command(autojump_clock: trio.testing.MockClock) -> None:
    terminal = Terminal(["/help", "/usr/bin/env is what?"], [says("a")])
    assert (await terminal.chat()).startswith(f"{HELP}\n")
    assert terminal.intake.messages() == [("user", "/usr/bin/env is what?")]


async def test_ctrl_c_stops_the_answer_which_stays_in_the_conversation(
    autojump_clock: trio.testing.MockClock,
) -> None:
    terminal = Terminal(["one", "two"], [[Delta(text="half an ans"), CTRL_C], says("b")])
    assert await terminal.chat() == "half an ans\nb\n\n"
    assert terminal.err.getvalue() == "(stopped)\n"
    assert terminal.intake.messages() == [("user", "one"), ("assistant", "half an ans"), ("user", "two")]


async def test_a_question_stopped_before_its_answer_is_forgotten(
    autojump_clock: trio.testing.MockClock,
) -> None:
    terminal = Terminal(["one", "two"], [[CTRL_C], says("b")])
    await terminal.chat()
    assert terminal.intake.messages() == [("user", "two")]


async def test_ctrl_c_throws_a_line_away_and_ends_on_an_empty_one(autojump_clock: trio.testing.MockClock) -> None:
    terminal = Terminal([Line("not this", "ctrl-c"), CTRL_C, "never read"])
    assert (await terminal.chat()).startswith("Ended, as by Ctrl-D or /bye.")
    assert terminal.person.lines == ["never read"]
    assert terminal.intake.calls == []


async def test_ctrl_c_right_after_an_answer_was_meant_for_the_answer(autojump_clock: trio.testing.MockClock) -> None:
    terminal = Terminal([CTRL_C, CTRL_C, "/bye"], seconds=REFLEX_S / 2)
    assert await terminal.chat() == ""
    assert terminal.person.lines == []


@pytest.mark.parametrize(("delay", "ends"), [(REFLEX_S / 2, False), (REFLEX_S * 2, True)])
async def test_an_interrupt_that_is_no_key_ends_the_chat_too(
    delay: float, ends: bool, autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    terminal = Terminal(["hi"], [says("a")], seconds=10)

    async def signal_from_elsewhere() -> None:
        await trio.sleep(delay)
        terminal.interrupt()

    nursery.start_soon(signal_from_elsewhere)
    said = await terminal.chat()
    assert said.startswith("Ended") is ends
    assert len(terminal.intake.calls) == (not ends)


async def test_a_full_context_is_said_and_nothing_is_dropped(autojump_clock: trio.testing.MockClock) -> None:
    terminal = Terminal(["long", "one", "more", "again"], [[TOO_LONG], says("a"), [TOO_LONG], says("b")])
    assert await terminal.chat() == "a\nb\n\n"
    alone, together = terminal.err.getvalue().splitlines()
    assert alone == "(this alone does not fit the context of 64 tokens (--context): shorten it)"
    assert together == (
        "(with this the conversation no longer fits the context of 64 tokens (--context). "
        "/clear forgets it; until then nothing is lost)"
    )
    assert terminal.intake.messages() == [("user", "one"), ("assistant", "a"), ("user", "again")]


async def test_an_answer_cut_by_the_context_says_so(autojump_clock: trio.testing.MockClock) -> None:
    scripts = [says("a", reason="length", prompt=10, completion=9), says("b", reason="length", prompt=60, completion=4)]
    terminal = Terminal(["short by max_tokens", "long"], scripts)
    await terminal.chat()
    assert terminal.err.getvalue() == "(cut: the context of 64 tokens is full. /clear forgets the conversation)\n"


async def test_an_answer_that_breaks_off(autojump_clock: trio.testing.MockClock) -> None:
    fault = RequestError("llama_decode failed", status=500, code="engine_error")
    terminal = Terminal(["one", "two"], [says("half", reason=None, error=fault), says("b")])
    assert await terminal.chat() == "half\nb\n\n"
    assert terminal.err.getvalue() == "(llama_decode failed)\n"


async def test_stats_after_every_answer(autojump_clock: trio.testing.MockClock) -> None:
    terminal = Terminal(["one"], [says("a")], manner=Manner(config=Config(), stats=True))
    await terminal.chat()
    assert terminal.err.getvalue() == (
        "(prompt: 2 tokens and 3 cached, 0.50 s, 4.0 tok/s; answer: 2 tokens, 0.25 s, 4.0 tok/s)\n"
    )


async def test_a_model_without_template_continues_the_text(autojump_clock: trio.testing.MockClock) -> None:
    plain = evolve(MODEL, template=None)
    terminal = Terminal(["Once", "Then"], [says(" upon a time"), says(" it ended")], plain)
    await terminal.chat()
    assert terminal.err.getvalue() == f"{NO_TEMPLATE}\n"
    assert [call.prompts for call in terminal.intake.calls] == [("Once",), ("Once upon a time\nThen",)]


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
