"""Calls of tools as OpenAI tells them: whole in a message, or piece by piece in a stream. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reame.core.tool_calls import Arguments, CallBegins, CallReader, Said

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reame.core.tool_calls import Part


def call_id(request_id: str, index: int, number: int) -> str:
    """Of call `number` in choice `index`: no other call of this server has it."""
    return f"call_{request_id}_{index}_{number}"


def parts_of(text: str, *, must_call: bool = False, either: bool = False, was_cut: bool = False) -> list[Part]:
    """Of a whole answer; see `CallReader`."""
    reader = CallReader(must_call, either)
    return [*reader.take(text), *reader.end(was_cut=was_cut)]


def message_of(parts: Iterable[Part], request_id: str, index: int) -> dict[str, Any]:
    """`content` and `tool_calls` of the message that choice `index` is. Beside calls there may be no content: null."""
    said = ""
    calls: list[dict[str, Any]] = []
    for part in parts:
        match part:
            case Said(more):
                said += more
            case CallBegins(number, name):
                function = {"name": name, "arguments": ""}
                calls.append({"id": call_id(request_id, index, number), "type": "function", "function": function})
            case Arguments(number, more):
                calls[number]["function"]["arguments"] += more
    if not calls:
        return {"content": said}
    return {"content": said or None, "tool_calls": calls}


def deltas_of(parts: Iterable[Part], request_id: str, index: int) -> list[dict[str, Any]]:
    """The `delta`s of a stream in which choice `index` says these parts."""
    return [_delta(part, request_id, index) for part in parts]


def _delta(part: Part, request_id: str, index: int) -> dict[str, Any]:
    match part:
        case Said(text):
            return {"content": text}
        case CallBegins(number, name):
            function = {"name": name, "arguments": ""}
            begun = {"index": number, "id": call_id(request_id, index, number), "type": "function"}
            return {"tool_calls": [{**begun, "function": function}]}
        case Arguments(number, text):
            return {"tool_calls": [{"index": number, "function": {"arguments": text}}]}
