"""A terminal with a scripted intake behind it and a scripted person in front of it."""

from __future__ import annotations

import io
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

import trio
from attrs import define, field

from reame.commands.answer import Manner, ask_once
from reame.commands.chat import Chatting
from reame.commands.keyboard import Line
from reame.commands.screen import Screen
from reame.config import Config
from reame.core.chat import ChatTemplate
from reame.core.events import Delta, Finish, Timings, Usage
from reame.core.request import Chat
from reame.engine.fake import FakeEngine
from reame.errors import RequestError
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
TOO_LONG = RequestError("prompt is too long: 70 tokens, this server's context is 64", code="context_length_exceeded")

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
