"""Conversations to text, by the model's own chat template, run in a sandbox as Hugging Face transformers runs it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment

from reame.core import strict_json
from reame.core.strict_json import JsonFault
from reame.core.tools import in_general_words, knows_tools
from reame.errors import ModelError, RequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime

    from jinja2.parser import Parser

    from reame.core.request import Chat

_Message = dict[str, Any]

_MAX_CHARS = 1 << 24
"""Of a rendered conversation; far above any context, it stops a template that prints without end."""
_MAX_STEPS = 1_000_000
"""Of all `range` loops of one rendering together."""
_CUT = "ReameCutsHere"
"""Put at the end of a text to be continued; what the template prints after its last appearance is left out."""


class ChatTemplate:
    """The Jinja template of a model file. Rendering is a pure function of the conversation and `now`. Where it knows no
    tools, or writes their calls in another way than ours, the conversation tells of them in general words.

    A template that raises, or that leaves a system text out, gets the same conversation in other shapes, in this
    order: each system text in front of the next user message (Gemma, Mistral 7B); neighbours of the same role joined
    (templates whose roles must alternate); both; and all of these without the arguments of calls that were cut. The
    parts are joined by an empty line. The text may begin with `bos_text`, so who tokenises it must see to it that there
    is one BOS and not two.
    """

    def __init__(self, source: str, *, bos_text: str = "", eos_text: str = "") -> None:
        """Raises ModelError for a source that is not a Jinja template."""
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", _Generation]
        )
        environment.filters["tojson"] = _to_json
        environment.globals.update(raise_exception=_refuse, bos_token=bos_text, eos_token=eos_text)
        try:
            self._template = environment.from_string(source)
        except TemplateError as error:
            where = f" in line {error.lineno}" if hasattr(error, "lineno") else ""
            raise ModelError(f"the model's chat template is broken{where}: {_one_line(error)}") from error
        except (RecursionError, MemoryError, SyntaxError) as error:
            raise ModelError("the model's chat template is broken: it is nested too deeply") from error
        self._knows_tools = knows_tools(source, self._tried)

    def render(self, chat: Chat, *, now: datetime | None = None) -> str:
        """The text to be completed: it ends with the opening of the assistant's answer.

        With `chat.continue_last` it ends with the content of the last message, which must be the assistant's.
        `now` is what the template's `strftime_now` shows; without it a template that asks finds no such function.
        Raises RequestError (400) when the template refuses or fails.
        """
        messages = [_plain(message) for message in chat.messages]
        variables: dict[str, Any] = {"documents": None, **chat.variables, "tools": list(chat.tools) or None}
        if not self._knows_tools:
            messages, variables["tools"] = in_general_words(messages, chat.tools), None
        if now is not None:
            variables["strftime_now"] = now.strftime
        if not chat.continue_last:
            return self._best(messages, {**variables, "add_generation_prompt": True})
        if not messages or messages[-1]["role"] != "assistant":
            raise RequestError("only a last message of the assistant can be continued", param="messages")
        messages[-1]["content"] += _CUT
        text, found, _ = self._best(messages, {**variables, "add_generation_prompt": False}).rpartition(_CUT)
        if not found:
            raise RequestError("this model's chat template cannot continue the assistant's message", param="messages")
        return text

    def _best(self, messages: list[_Message], variables: Mapping[str, Any]) -> str:
        """The first shape that renders with every system text in it, else the first that renders."""
        texts = [message["content"].strip() for message in messages if message["role"] == "system"]
        incomplete: list[str] = []
        refusals: list[RequestError] = []
        for shape in _shapes(messages):
            try:
                rendered = self._run({**variables, "messages": shape, "range": _bounded_range()})
            except RequestError as error:
                refusals.append(error)
                continue
            if all(text in rendered for text in texts):
                return rendered
            incomplete.append(rendered)
        if incomplete:
            return incomplete[0]
        raise refusals[0]

    def _tried(self, variables: Mapping[str, Any]) -> str:
        """What comes of a conversation that nobody had; "" when the template refuses or fails."""
        try:
            own = {"documents": None, "strftime_now": lambda form: ""}
            return self._best([_plain(message) for message in variables["messages"]], {**own, **variables})
        except RequestError:
            return ""

    def _run(self, variables: Mapping[str, Any]) -> str:
        try:
            return _joined(self._template.generate(variables))
        except _RefusedError as error:
            reason = f"refuses these messages: {_one_line(error)}"
        except Exception as error:  # whatever a foreign template does wrong is the fault of this request only
            reason = f"fails on these messages: {type(error).__name__}: {_one_line(error)}"
        raise RequestError(f"this model's chat template {reason}", param="messages")


def _plain(message: Mapping[str, Any]) -> _Message:
    """A message as templates expect it: no nulls, `content` a text, system for developer, tool arguments parsed."""
    plain = {key: value for key, value in message.items() if value is not None}
    plain.setdefault("content", "")
    if plain["role"] == "developer":
        plain["role"] = "system"
    if "tool_calls" in plain:
        plain["tool_calls"] = [_parsed_call(call) for call in plain["tool_calls"]]
    return plain


def _parsed_call(call: Mapping[str, Any]) -> _Message:
    """OpenAI sends the arguments as JSON in a string; templates apply `tojson` to an object. What is none (the call
    was cut) stays a text."""
    function = dict(call.get("function", {}))
    try:
        arguments = strict_json.parse(function["arguments"])
    except (KeyError, TypeError, JsonFault):
        return dict(call)
    return {**call, "function": {**function, "arguments": arguments}} if isinstance(arguments, dict) else dict(call)


def _shapes(messages: list[_Message]) -> Iterator[list[_Message]]:
    """The conversation as it is and, where they differ from it, the other ways of saying the same."""
    shapes: list[list[_Message]] = []
    for calls in (messages, _without_texts_for_arguments(messages)):
        for other in (calls, folded := _fold_system(calls), _join_neighbours(calls), _join_neighbours(folded)):
            if other not in shapes:
                shapes.append(other)
                yield other


def _without_texts_for_arguments(messages: list[_Message]) -> list[_Message]:
    """Calls have an object for arguments, an empty one where they have a text: some templates look into it."""
    return [
        {**message, "tool_calls": [_with_object(call) for call in message["tool_calls"]]}
        if "tool_calls" in message
        else message
        for message in messages
    ]


def _with_object(call: _Message) -> _Message:
    function = call.get("function", {})
    return {**call, "function": {**function, "arguments": {}}} if isinstance(function.get("arguments"), str) else call


def _fold_system(messages: list[_Message]) -> list[_Message]:
    """Each system text in front of the next user message. When none follows, as one: at the end, but in front of an
    assistant's message there, which may be one to be continued."""
    folded: list[_Message] = []
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "system":
            waiting.append(message["content"])
        elif message["role"] == "user" and waiting:
            folded.append({**message, "content": "\n\n".join([*waiting, message["content"]])})
            waiting = []
        else:
            folded.append(message)
    if waiting:
        place = len(folded) - (messages[-1]["role"] == "assistant")
        folded.insert(place, {"role": "user", "content": "\n\n".join(waiting)})
    return folded


def _join_neighbours(messages: list[_Message]) -> list[_Message]:
    """Neighbours of one role become one message, except what carries or answers tool calls."""
    joined: list[_Message] = []
    for message in messages:
        before: _Message = joined[-1] if joined else {"role": None}
        if message["role"] != before["role"] or message["role"] == "tool" or "tool_calls" in before | message:
            joined.append(message)
        else:
            joined[-1] = {**before, "content": before["content"] + "\n\n" + message["content"]}
    return joined


def _joined(parts: Iterator[str]) -> str:
    texts, size = [], 0
    for part in parts:
        size += len(part)
        if size > _MAX_CHARS:
            raise OverflowError(f"more than {_MAX_CHARS} characters")
        texts.append(part)
    return "".join(texts)


def _bounded_range() -> Callable[..., range]:
    left = _MAX_STEPS

    def bounded(*args: int) -> range:
        nonlocal left
        steps = range(*args)
        left -= len(steps)
        if left < 0:
            raise OverflowError(f"more than {_MAX_STEPS} steps")
        return steps

    return bounded


class _RefusedError(TemplateError):
    """The template called `raise_exception`."""


def _refuse(message: str) -> None:
    raise _RefusedError(message)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """As in transformers: without Jinja's HTML escapes, which would reach the model as noise."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


class _Generation(Extension):
    """`{% generation %}...{% endgeneration %}` marks what the assistant said, for training; here it is its body."""

    tags = {"generation"}  # noqa: RUF012  (the base class declares it so)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
