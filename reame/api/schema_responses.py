"""`POST /v1/responses`: its body becomes a body of the chat endpoint, which reads and checks it on. Pure.

Two steps, because a conversation that goes on (`previous_response_id`) has to be fetched in between.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from reame.api.schema_anthropic import PLAIN, named, refuse_names_of_chats
from reame.api.schema_chat import read_chat
from reame.api.schema_fields import Fields, kind, parse_object
from reame.api.schema_messages import read_arguments

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reame.api.schema import Limits, Wanted

Message = dict[str, Any]
_ELSEWHERE = {
    "max_tokens": "max_output_tokens", "max_completion_tokens": "max_output_tokens", "messages": "input",
    "response_format": "text.format",
}  # fmt: skip
RESPONSES_NAMES = {
    r"max_tokens": "max_output_tokens",
    r"response_format(\.json_schema)?": "text.format",
    r"messages": "input",
    r"(tools\[\d+\]|tool_choice)\.function": r"\1",
}
_LOGPROBS = "message.output_text.logprobs"
_TEXT_PARTS = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}
_ROLES = ("system", "developer", "user", "assistant")
_LEFT_OUT = ("reasoning",)
REFERENCE = "item_reference"


@frozen(kw_only=True)
class ResponsesWanted:
    """A body of `/v1/responses`, read as far as it goes without what was said before.

    `messages` are those of its `input`; `echo` are the fields that the answer repeats. `previous` "" for none.
    """

    chat: dict[str, Any]
    instructions: str | None
    messages: list[Message]
    echo: dict[str, Any]
    model: str = ""
    previous: str = ""
    store: bool = True
    fields: Fields
    referred: tuple[str, ...] = ()
    """Ids of items that were said before, whose places in `messages` are empty yet."""

    def with_items(self, items: Mapping[str, dict[str, Any]]) -> ResponsesWanted:
        """The same with these items in their places."""
        return evolve(self, messages=_input(self.fields, items), referred=())

    def after(self, history: Sequence[Message], limits: Limits) -> Wanted:
        """What is wanted of the model behind these messages. Raises RequestError (400) with the field at fault."""
        system = [] if self.instructions is None else [{"role": "system", "content": self.instructions}]
        body = self.chat | {"messages": [*system, *history, *self.messages]}
        with named(RESPONSES_NAMES):
            return read_chat(json.dumps(body).encode(), limits)


def read_responses(raw: bytes, limits: Limits) -> ResponsesWanted:
    """Raises RequestError (400) with the field at fault."""
    fields = Fields(parse_object(raw))
    for name in ("background", "conversation", "prompt"):
        if fields.get(name) not in (None, False):
            raise fields.fault(name, "is not supported by this server: leave it out.")
    refuse_names_of_chats(fields, _ELSEWHERE)
    previous = fields.text("previous_response_id") or ""
    asked = ResponsesWanted(
        chat=_chat_body(fields),
        instructions=fields.text("instructions"),
        messages=_input(fields, {}),
        echo=_echo(fields),
        model=fields.text("model") or "",
        previous=previous,
        store=fields.get("store") is None or fields.flag("store"),
        fields=fields,
        referred=_referred(fields),
    )
    if not previous and not asked.referred:
        asked.after((), limits)
    return asked


def _chat_body(fields: Fields) -> dict[str, Any]:
    body = {name: fields.get(name) for name in (*PLAIN, "parallel_tool_calls", "stop")}
    body["max_tokens"] = fields.get("max_output_tokens")
    body["stream_options"] = {"include_usage": True}
    if _LOGPROBS in (fields.texts("include") or ()) or fields.get("top_logprobs") is not None:
        body |= {"logprobs": True, "top_logprobs": fields.get("top_logprobs")}
    tools = fields.array("tools")
    if tools:
        body["tools"] = [_tool(fields, index, tool) for index, tool in enumerate(tools)]
    body["tool_choice"] = _tool_choice(fields)
    options = fields.record("text")
    shape = options.record("format") if options else None
    if shape is not None:
        body["response_format"] = _response_format(shape)
    return body


def _echo(fields: Fields) -> dict[str, Any]:
    """What an answer repeats of its request, with OpenAI's defaults."""
    given = fields.values
    metadata = fields.record("metadata")
    tools = [{"description": None, "strict": None, **tool} for tool in fields.array("tools") or ()]
    return {
        "instructions": fields.text("instructions"),
        "max_output_tokens": given.get("max_output_tokens"),
        "metadata": metadata.values if metadata else {},
        "parallel_tool_calls": given.get("parallel_tool_calls") is not False,
        "previous_response_id": given.get("previous_response_id"),
        "temperature": given.get("temperature"),
        "text": given.get("text") or {"format": {"type": "text"}},
        "tool_choice": given.get("tool_choice") or "auto",
        "tools": tools,
        "top_p": given.get("top_p"),
        "truncation": "disabled",
    }


def _response_format(shape: Fields) -> dict[str, Any]:
    """Flat here, nested in chats."""
    if shape.text("type") != "json_schema":
        return shape.values
    inner = {name: value for name, value in shape.values.items() if name != "type"}
    return {"type": "json_schema", "json_schema": inner}


def _tool(fields: Fields, index: int, value: Any) -> dict[str, Any]:
    inner = _object(fields, f"tools[{index}]", value)
    if inner.text("type") != "function":
        raise inner.fault("type", 'must be "function": this server has no tools of its own.')
    function = {name: inner.get(name) for name in ("name", "description", "parameters", "strict")}
    return {"type": "function", "function": {name: each for name, each in function.items() if each is not None}}


def _tool_choice(fields: Fields) -> Any:
    value = fields.get("tool_choice")
    if isinstance(value, dict) and value.get("type") == "function":
        return {"type": "function", "function": {"name": value.get("name")}}
    return value


def _referred(fields: Fields) -> tuple[str, ...]:
    if isinstance(fields.get("input"), str):
        return ()
    items = [_object(fields, f"input[{index}]", item) for index, item in enumerate(fields.array("input") or ())]
    return tuple(_required(inner, "id") for inner in items if inner.get("type") == REFERENCE)


def _input(fields: Fields, items_by_id: Mapping[str, dict[str, Any]]) -> list[Message]:
    """`items_by_id`: those of earlier responses that it may refer to."""
    value = fields.get("input")
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    items = fields.array("input")
    if not items:
        raise fields.fault("input", "is required." if items is None else "must not be empty.")
    messages: list[Message] = []
    for index, item in enumerate(items):
        inner = _object(fields, f"input[{index}]", item)
        if inner.get("type") != REFERENCE:
            _add_item(messages, inner)
        elif known := items_by_id.get(_required(inner, "id")):
            _add_item(messages, Fields(known, f"input[{index}]"))
    return messages


def _add_item(messages: list[Message], inner: Fields) -> None:
    """Calls that follow each other, or a text of the assistant's, are one message in a chat."""
    name = "message" if inner.get("type") is None else inner.text("type")
    if name == "message":
        if inner.text("role") not in _ROLES:
            raise inner.fault("role", f"must be one of {', '.join(_ROLES)}.")
        messages.append({"role": inner.text("role"), "content": _content(inner)})
    elif name == "function_call":
        if not messages or messages[-1]["role"] != "assistant":
            messages.append({"role": "assistant", "content": None})
        messages[-1].setdefault("tool_calls", []).append(_call(inner))
    elif name == "function_call_output":
        content = _content(inner, "output")
        messages.append({"role": "tool", "tool_call_id": _required(inner, "call_id"), "content": content})
    elif name not in _LEFT_OUT:
        raise inner.fault("type", 'must be "message", "function_call", "function_call_output" or "item_reference".')


def _call(inner: Fields) -> dict[str, Any]:
    arguments = "" if inner.get("arguments") is None else read_arguments(inner)
    function = {"name": _required(inner, "name"), "arguments": arguments}
    return {"id": _required(inner, "call_id"), "type": "function", "function": function}


def _content(inner: Fields, name: str = "content") -> Any:
    if isinstance(inner.get(name), str):
        return inner.get(name)
    parts = inner.array(name)
    if parts is None:
        raise inner.fault(name, "is required: a string or a list of parts.")
    return [_part(_object(inner, f"{name}[{index}]", part)) for index, part in enumerate(parts)]


def _part(inner: Fields) -> dict[str, Any]:
    key = _TEXT_PARTS.get(inner.text("type") or "")
    if key is None:
        raise inner.fault("type", 'must be "input_text" or "output_text": this server reads text only.')
    if inner.text(key) is None:
        raise inner.fault(key, "is required.")
    return {"type": key, key: inner.text(key)}


def _required(inner: Fields, name: str) -> str:
    value = inner.text(name)
    if not value:
        raise inner.fault(name, "is required.")
    return value


def _object(fields: Fields, name: str, value: Any) -> Fields:
    if not isinstance(value, dict):
        raise fields.fault(name, f"must be an object, not {kind(value)}.")
    return Fields(value, fields.param(name))
