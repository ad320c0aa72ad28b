"""The messages of a conversation, checked and brought to the form that chat templates read. Pure.

Out come dicts with `role` and `content` (always text), and where they were given with `name`, `reasoning_content`,
`tool_calls` and `tool_call_id`. The role `developer` has become `system`. A history with tool calls is fine, a broken
one is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reame.api.schema_fields import Fields, kind

if TYPE_CHECKING:
    from collections.abc import Mapping

_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}


def read_messages(fields: Fields) -> tuple[Mapping[str, Any], ...]:
    """Raises RequestError (400) whose `param` is like `messages[2].content`."""
    messages = fields.array("messages")
    if messages is None:
        raise fields.fault("messages", "is required.")
    if not messages:
        raise fields.fault("messages", "must not be empty.")
    read = tuple(_read_message(fields, index, message) for index, message in enumerate(messages))
    if "tool_calls" in read[-1]:
        raise fields.fault("messages", "end with tool calls: add the tool messages that answer them.")
    return read


def _read_message(fields: Fields, index: int, message: Any) -> dict[str, Any]:
    name = f"messages[{index}]"
    if not isinstance(message, dict):
        raise fields.fault(name, f"must be an object, not {kind(message)}.")
    inner = Fields(message, name)
    role = _ROLES.get(inner.text("role") or "")
    if role is None:
        raise inner.fault("role", f"must be one of {', '.join(_ROLES)}.")
    if inner.get("function_call") is not None:
        raise inner.fault("function_call", "is not supported: send it as tool_calls.")
    calls = _read_tool_calls(inner)
    refusal = (inner.text("refusal") or "") if role == "assistant" else ""
    may_lack_text = role == "assistant" and bool(calls or refusal)
    out: dict[str, Any] = {"role": role, "content": _read_content(inner, optional=may_lack_text) or refusal}
    if calls and role == "assistant":
        out["tool_calls"] = calls
    if role == "tool":
        out["tool_call_id"] = _required(inner, "tool_call_id")
    for extra in ("name", "reasoning_content"):
        text = inner.text(extra)
        if text is not None:
            out[extra] = text
    return out


def _read_content(message: Fields, *, optional: bool) -> str:
    """Text as it is; parts of text joined by line ends, as other servers do it."""
    value = message.get("content")
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(_read_part(message, index, part) for index, part in enumerate(value))
    if value is None and optional:
        return ""
    raise message.wrong("content", "a string or a list of text parts")


def _read_part(message: Fields, index: int, part: Any) -> str:
    name = f"content[{index}]"
    if not isinstance(part, dict):
        raise message.fault(name, f"must be an object, not {kind(part)}.")
    inner = Fields(part, message.param(name))
    key = inner.text("type")
    if key not in ("text", "refusal"):
        raise inner.fault("type", 'must be "text": this server reads text only.')
    return _required(inner, key, empty=True)


def _read_tool_calls(message: Fields) -> list[dict[str, Any]]:
    calls = message.array("tool_calls") or []
    return [_read_tool_call(message, index, call) for index, call in enumerate(calls)]


def _read_tool_call(message: Fields, index: int, call: Any) -> dict[str, Any]:
    name = f"tool_calls[{index}]"
    if not isinstance(call, dict):
        raise message.fault(name, f"must be an object, not {kind(call)}.")
    inner = Fields(call, message.param(name))
    if inner.get("type") not in (None, "function"):
        raise inner.fault("type", 'must be "function".')
    function = inner.record("function")
    if function is None:
        raise inner.fault("function", "is required.")
    return {
        "id": _required(inner, "id"),
        "type": "function",
        "function": {"name": _required(function, "name"), "arguments": read_arguments(function)},
    }


def read_arguments(function: Fields) -> Any:
    """As they came: JSON in a string, as OpenAI has it, or the object itself, as some clients do; "" means none.

    Those of a call that was cut are no whole JSON, and come back so in every later turn.
    """
    value = function.get("arguments")
    return value if isinstance(value, dict) else _required(function, "arguments", empty=True) or "{}"


def _required(fields: Fields, name: str, *, empty: bool = False) -> str:
    value = fields.text(name)
    if value is None or (value == "" and not empty):
        raise fields.fault(name, "is required." if value is None else "must not be empty.")
    return value
