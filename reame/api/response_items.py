"""What a response was an answer to, as items of OpenAI's Responses API, made of the chat's messages. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reame.api.chunks import dumps
from reame.api.response_object import call_item

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Item = dict[str, Any]


def input_items(messages: Iterable[dict[str, Any]], name: str) -> list[Item]:
    """In the order in which they were said. `name` is the response's bare id, which theirs are made of."""
    return [item for number, message in enumerate(messages) for item in _items(message, f"{name}_in{number}")]


def _items(message: dict[str, Any], name: str) -> Iterator[Item]:
    role, content = message["role"], message["content"]
    if role == "tool":
        output = content if isinstance(content, str) else _parts(content, "input_text")
        call_id = message["tool_call_id"]
        yield _item("function_call_output", f"fco_{name}", call_id=call_id, output=output)
        return
    if content or role != "assistant":
        parts = _parts(content, "output_text" if role == "assistant" else "input_text")
        yield _item("message", f"msg_{name}", role=role, content=parts)
    for number, call in enumerate(message.get("tool_calls") or ()):
        function = call["function"]
        arguments = function["arguments"]  # some clients send the object itself
        said = arguments if isinstance(arguments, str) else dumps(arguments)
        yield call_item(f"{name}_{number}", call["id"], function["name"], said)


def _item(kind: str, name: str, **more: Any) -> Item:
    return {"type": kind, "id": name, "status": "completed", **more}


def _parts(content: Any, kind: str) -> list[Item]:
    extra: Item = {"annotations": [], "logprobs": []} if kind == "output_text" else {}
    if isinstance(content, str):
        return [{"type": kind, "text": content, **extra}]
    return [
        part if part["type"] == "refusal" else {"type": kind, "text": part["text"], **extra} for part in content
    ]
