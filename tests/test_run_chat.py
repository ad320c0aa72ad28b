"""The chat against a scripted intake and a scripted person, in virtual time."""

from __future__ import annotations

import pytest
import trio
from attrs import evolve
from scripted_chat import CTRL_C, CTRL_D, MODEL, TOO_LONG, Terminal, says

from reame.commands.answer import NO_TEMPLATE, Manner
from reame.commands.chat import HELP, REFLEX_S
from reame.commands.keyboard import Line
from reame.config import Config, SamplingConfig
from reame.core.events import Delta
from reame.errors import RequestError


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
