"""The chat in the terminal: a loop of lines from a person and answers of the model, and a few commands with a slash."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

import trio

from reame.commands.answer import NO_TEMPLATE, Answer, account, fills_context, ready_model, show
from reame.commands.election import told
from reame.commands.front import unless_interrupted
from reame.commands.keyboard import Line
from reame.commands.screen import repaired
from reame.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from reame.commands.answer import Manner, Message
    from reame.commands.keyboard import LineReader
    from reame.commands.screen import Screen
    from reame.runtime.intake import Intake

PROMPT, PROMPT_INSIDE = ">>> ", "... "
BYE = ("bye", "exit", "quit")
QUOTES = '"""'
REFLEX_S = 0.5
"""A Ctrl-C this soon after the prompt appeared was meant for the answer that has just ended: it ends nothing more."""
HELP = f"""\
/clear            forget the conversation
/set              show the settings
/set NAME VALUE   change one for the answers to come, such as /set temperature 0, /set seed 7, /set system Be brief.
/help             show this
/bye              end; so do Ctrl-D, and Ctrl-C on an empty line
{QUOTES}               begins and ends a message of several lines
Ctrl-C            while an answer comes: stop it; what has come stays part of the conversation"""

_COMMAND = re.compile(r"/(?P<name>\w+)(?:\s+(?P<rest>.*))?", re.DOTALL)


class Chatting:
    """Owns the conversation. `talk` is a front's `Talk`."""

    def __init__(self, intake: Intake, screen: Screen, keyboard: LineReader, manner: Manner) -> None:
        self._intake = intake
        self._screen = screen
        self._keyboard = keyboard
        self._manner = manner
        self._messages: list[Message] = []

    async def talk(self, interrupts: AsyncIterator[int]) -> int:
        """Until the person ends it; always 0."""
        model = ready_model(self._intake)
        self._screen.say(f"{model.id}, {model.context} tokens of context. /help shows the commands, Ctrl-D ends.")
        if model.template is None:
            self._screen.note(NO_TEMPLATE)
        while (text := await self._next_line(interrupts)) is not None:
            message: str | None = text
            if text.startswith(QUOTES):
                message = await self._rest_of(text, interrupts)
            elif command := _COMMAND.fullmatch(text):
                message = None if command["name"] in BYE else self._obey(command["name"], command["rest"] or "")
            if message is None:
                break
            if message:
                await self._answer(message, interrupts)
        return 0

    async def _next_line(self, interrupts: AsyncIterator[int]) -> str | None:
        """What the person typed, "" when it was thrown away; None at the end."""
        asked = trio.current_time()
        line = await self._read(PROMPT, interrupts)
        if line.end == "ctrl-d":
            self._screen.say("")
            return None
        if line.end == "ctrl-c":
            if line.text or trio.current_time() < asked + REFLEX_S:
                return ""
            self._screen.say("Ended, as by Ctrl-D or /bye. (While an answer comes, Ctrl-C stops only the answer.)")
            return None
        return repaired(line.text).strip()

    async def _rest_of(self, text: str, interrupts: AsyncIterator[int]) -> str | None:
        """The message that begins with quotes, up to those that end it."""
        text = text.removeprefix(QUOTES)
        while not text.endswith(QUOTES):
            line = await self._read(PROMPT_INSIDE, interrupts)
            if line.end != "enter":
                return "" if line.end == "ctrl-c" else None
            text += f"\n{repaired(line.text).rstrip()}"
        return text.removesuffix(QUOTES).strip()

    async def _read(self, prompt: str, interrupts: AsyncIterator[int]) -> Line:
        """A line; a signal from elsewhere (or where Ctrl-C cannot be a key) is a Ctrl-C on an empty one."""
        lines = [Line("", "ctrl-c")]

        async def read() -> None:
            lines.append(await self._keyboard.read(prompt))

        await unless_interrupted(interrupts, read, deaf_s=REFLEX_S)
        return lines[-1]

    async def _answer(self, message: str, interrupts: AsyncIterator[int]) -> None:
        """Show the answer; the exchange becomes part of the conversation unless nothing came."""
        messages = [*self._messages, {"role": "user", "content": message}]
        answer = Answer()
        call = self._manner.call(ready_model(self._intake), messages)
        done = await unless_interrupted(interrupts, partial(show, self._intake, self._screen, call, answer))
        if answer.text or not answer.error:
            self._screen.end_answer()
        if answer.text:
            self._messages = [*messages, {"role": "assistant", "content": answer.text}]
        self._comment(answer, stopped=not done)

    def _comment(self, answer: Answer, *, stopped: bool) -> None:
        """What the person should know about an answer."""
        model = ready_model(self._intake)
        if answer.error:
            self._screen.note(f"({self._advice(answer.error.code) or answer.error})")
        elif stopped:
            self._screen.note("(stopped)")
        elif answer.finish and answer.finish.verdict:
            self._screen.note(told(answer.finish.verdict))
        elif answer.finish and fills_context(answer.finish, model):
            self._screen.note(f"(cut: the context of {model.context} tokens is full. /clear forgets the conversation)")
        if answer.finish and self._manner.stats:
            self._screen.note(account(answer.finish))

    def _advice(self, code: str | None) -> str | None:
        if code != "context_length_exceeded":
            return None
        where = f"the context of {ready_model(self._intake).context} tokens (--context)"
        if self._messages:
            return f"with this the conversation no longer fits {where}. /clear forgets it; until then nothing is lost"
        return f"this alone does not fit {where}: shorten it"

    def _obey(self, name: str, rest: str) -> str:
        """Do what a command says. It leaves nothing to be answered: ""."""
        if name == "clear":
            self._messages = []
            self._screen.say("The conversation is forgotten.")
        elif name == "set":
            self._set(rest.strip())
        elif name in ("help", "h"):
            self._screen.say(HELP)
        else:
            self._screen.note(f"(there is no /{name}; /help shows the commands)")
        return ""

    def _set(self, rest: str) -> None:
        name, _, value = rest.partition(" ")
        settings = self._manner.settings()
        if not name:
            for known, current in settings.items():
                self._screen.say(f"{known} = {'none' if current is None else current}")
        elif name not in settings:
            self._screen.note(f"(there is no setting {name}; /set shows them)")
        else:
            try:
                self._manner = self._manner.with_setting(name, value.strip())
            except ConfigError as error:
                self._screen.note(f"({error})")
