"""`POST /v1/messages`, Anthropic's: its body becomes a body of the chat endpoint, which reads and checks it on. Pure.

Blocks of text, tool calls and tool results are taken over; earlier thinking is left out, as Anthropic itself does.
"""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from attrs import frozen

from reame.api.schema_chat import read_chat
from reame.api.schema_fields import Fields, kind, parse_object
from reame.api.schema_format import FORM_FIELDS
from reame.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from reame.api.schema import Limits, Wanted

FAILED = "The tool failed."
"""Before the text of a result with `is_error`, for a model that is shown nothing else of it."""
PLAIN = (
    *("model", "temperature", "top_p", "top_k", "min_p", "seed", "repeat_penalty", "repetition_penalty"),
    *("repeat_last_n", "presence_penalty", "frequency_penalty", "logit_bias", "chat_template_kwargs"),
    *("stream", "best_of", "reame", *FORM_FIELDS),
)
"""Fields that mean the same in chats and in protocols that become one; other servers' and Reame's own among them."""
_ELSEWHERE = {
    "stop": "stop_sequences", "max_completion_tokens": "max_tokens", "response_format": "output_config.format",
}  # fmt: skip
MESSAGES_NAMES = {
    r"stop": "stop_sequences",
    r"response_format(\.json_schema)?": "output_config.format",
    r"(tools\[\d+\])\.function\.parameters": r"\1.input_schema",
    r"(tools\[\d+\]|tool_choice)\.function": r"\1",
}
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}
_THINKING = ("thinking", "redacted_thinking")


@frozen(kw_only=True)
class MessagesWanted:
    """A body of `/v1/messages`, checked, as the chat endpoint would want it."""

    wanted: Wanted
    model: str = ""


def read_anthropic(raw: bytes, limits: Limits) -> MessagesWanted:
    """Raises RequestError (400) with the field at fault, by Anthropic's name of it."""
    fields = Fields(parse_object(raw))
    if fields.get("max_tokens") is None:
        raise fields.fault("max_tokens", "is required.")
    refuse_names_of_chats(fields, _ELSEWHERE)
    return _wanted(_chat_body(fields), limits)


def read_count_tokens(raw: bytes, limits: Limits) -> MessagesWanted:
    """The same for `/v1/messages/count_tokens`, where nothing is generated."""
    fields = Fields(parse_object(raw))
    return _wanted(_chat_body(fields) | {"max_tokens": 1, "stream": False}, limits)


def _wanted(body: dict[str, Any], limits: Limits) -> MessagesWanted:
    with named(MESSAGES_NAMES):
        wanted = read_chat(json.dumps(body).encode(), limits)
    return MessagesWanted(wanted=wanted, model=wanted.model)


@contextmanager
def named(names: dict[str, str]) -> Iterator[None]:
    """Errors from here name fields as the protocol that is spoken does. `names`: from the beginning of a name in chats,
    as a regular expression, to that of its own."""
    try:
        yield
    except RequestError as error:
        raise _renamed(error, names) from None


def refuse_names_of_chats(fields: Fields, names: Mapping[str, str]) -> None:
    """Fields that chats have, by what they are called here: an answer that heeds them not would look as if it did.
    Raises RequestError (400)."""
    for name, own in names.items():
        if fields.get(name) is not None:
            raise fields.fault(name, f"is a field of chats: here it is `{own}`.")
    fields.whole("n", 1, 1)


def _renamed(error: RequestError, names: dict[str, str]) -> RequestError:
    for chat, own in names.items():
        param, found = re.subn(rf"^{chat}(?![^.\[])", own, error.param or "")
        if found:
            message = error.message.replace(str(error.param), param, 1)
            return RequestError(message, status=error.status, param=param, code=error.code)
    return error


def _chat_body(fields: Fields) -> dict[str, Any]:
    body = {name: fields.get(name) for name in (*PLAIN, "max_tokens")}
    body["stop"] = fields.texts("stop_sequences")
    body["messages"] = [*_system(fields), *_messages(fields)]
    body["stream_options"] = {"include_usage": True}
    tools = fields.array("tools")
    if tools:
        body["tools"] = [_tool(fields, index, tool) for index, tool in enumerate(tools)]
    body |= _tool_choice(fields)
    options = fields.record("output_config")
    shape = fields.record("output_format") or (options.record("format") if options else None)
    if shape is not None:
        body["response_format"] = _response_format(shape)
    return body


def _response_format(shape: Fields) -> dict[str, Any]:
    if shape.text("type") != "json_schema" or shape.record("schema") is None:
        raise shape.fault("type", 'must be "json_schema", beside a schema.')
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": shape.get("schema"), "strict": True}}


def _system(fields: Fields) -> list[dict[str, Any]]:
    value = fields.get("system")
    if value is None or value == "" or value == []:
        return []
    return [{"role": "system", "content": _text(fields, "system")}]


def _messages(fields: Fields) -> list[dict[str, Any]]:
    messages = fields.array("messages")
    if not messages:
        raise fields.fault("messages", "is required." if messages is None else "must not be empty.")
    return [part for index, message in enumerate(messages) for part in _message(fields, index, message)]


def _message(fields: Fields, index: int, value: Any) -> list[dict[str, Any]]:
    message = _object(fields, f"messages[{index}]", value)
    role = message.text("role")
    if role not in ("user", "assistant"):
        raise message.fault("role", 'must be "user" or "assistant"; the system text goes into `system`.')
    if isinstance(message.get("content"), str):
        return [{"role": role, "content": message.get("content")}]
    blocks = message.array("content")
    if blocks is None:
        raise message.wrong("content", "a string or a list of blocks")
    read = [_object(message, f"content[{number}]", block) for number, block in enumerate(blocks)]
    return _user_blocks(read) if role == "user" else _assistant_blocks(read)


def _user_blocks(blocks: list[Fields]) -> list[dict[str, Any]]:
    """Tool results first, as the chat endpoint wants them right behind the calls."""
    results, parts = [], []
    for inner in blocks:
        if inner.text("type") == "tool_result":
            results.append({"role": "tool", "tool_call_id": inner.text("tool_use_id"), "content": _result(inner)})
        else:
            parts.append(_text_part(inner))
    return [*results, *([{"role": "user", "content": parts}] if parts or not results else [])]


def _assistant_blocks(blocks: list[Fields]) -> list[dict[str, Any]]:
    parts, calls = [], []
    for inner in blocks:
        if inner.text("type") == "tool_use":
            calls.append(_tool_call(inner))
        elif inner.text("type") not in _THINKING:
            parts.append(_text_part(inner))
    message: dict[str, Any] = {"role": "assistant", "content": parts}
    return [message | ({"tool_calls": calls} if calls else {})]


def _text_part(inner: Fields) -> dict[str, Any]:
    if inner.text("type") != "text":
        raise inner.fault("type", 'must be "text", "tool_use" or "tool_result": this server reads text only.')
    if inner.text("text") is None:
        raise inner.fault("text", "is required.")
    return {"type": "text", "text": inner.text("text")}


def _result(inner: Fields) -> Any:
    if inner.text("tool_use_id") is None:
        raise inner.fault("tool_use_id", "is required.")
    text = "" if inner.get("content") is None else _text(inner, "content")
    if not inner.flag("is_error"):
        return text
    return f"{FAILED} {text}".strip() if isinstance(text, str) else [{"type": "text", "text": FAILED}, *text]


def _text(fields: Fields, name: str) -> Any:
    """A string, or blocks of text."""
    if isinstance(fields.get(name), str):
        return fields.get(name)
    blocks = fields.array(name) or []
    return [_text_part(_object(fields, f"{name}[{number}]", block)) for number, block in enumerate(blocks)]


def _tool_call(inner: Fields) -> dict[str, Any]:
    for name in ("id", "name"):
        if not inner.text(name):
            raise inner.fault(name, "is required.")
    arguments = inner.record("input")
    function = {"name": inner.text("name"), "arguments": arguments.values if arguments else {}}
    return {"id": inner.text("id"), "type": "function", "function": function}


def _tool(fields: Fields, index: int, value: Any) -> dict[str, Any]:
    inner = _object(fields, f"tools[{index}]", value)
    if inner.text("type") not in (None, "custom"):
        raise inner.fault("type", 'must be "custom": this server has no tools of its own.')
    if not inner.text("name"):
        raise inner.fault("name", "is required.")
    schema = inner.record("input_schema")
    function = {
        "name": inner.text("name"),
        "description": inner.text("description") or "",
        "parameters": schema.values if schema else {"type": "object", "properties": {}},
        "strict": inner.flag("strict"),
    }
    return {"type": "function", "function": function}


def _tool_choice(fields: Fields) -> dict[str, Any]:
    choice = fields.record("tool_choice")
    if choice is None:
        return {}
    name = choice.text("type")
    only = choice.text("name")
    single = {"parallel_tool_calls": False} if choice.flag("disable_parallel_tool_use") else {}
    if name == "tool":
        return {"tool_choice": {"type": "function", "function": {"name": only}}} | single
    if name not in _CHOICES:
        raise choice.fault("type", 'must be "auto", "any", "tool" or "none".')
    return {"tool_choice": _CHOICES[name]} | single


def _object(fields: Fields, name: str, value: Any) -> Fields:
    if not isinstance(value, dict):
        raise fields.fault(name, f"must be an object, not {kind(value)}.")
    return Fields(value, fields.param(name))
