"""Tools: how a conversation tells a model of them, and how a model writes that it calls one. Pure.

A call is written the way that Hermes and Qwen models were taught, whatever the model:

    <tool_call>
    {"name": "weather", "arguments": {"city": "Rome"}}
    </tool_call>

A template that writes calls this way gets the tools and the calls of the history as they are. For all others the
conversation is put into general words first: a system text that explains the tools, calls as the assistant's text,
results as a message of the user.
"""

from __future__ import annotations

import json
from itertools import groupby
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

OPEN, CLOSE = "<tool_call>", "</tool_call>"
MOST_CALLS = 16
"""In one answer."""

_HOW = """You may call functions to help with the request. These are the functions, each with the JSON Schema of its \
arguments:
<tools>
{tools}
</tools>
To call one, write a JSON object with its name and arguments inside of <tool_call></tool_call>:
<tool_call>
{{"name": "a name from above", "arguments": {{"argument": "value"}}}}
</tool_call>
The results come back inside of <tool_response></tool_response>."""


_OTHER_FORMS = ("<function=", "<arg_key>")
"""Of Qwen3-Coder and its successors, and of GLM: between the same marks, but no JSON."""


_TOOL, _CALL = "reame_shows_this", "reame_calls_this"
_TRIED: dict[str, Any] = {
    "messages": [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "", "tool_calls": [
            {"id": "call_0000", "type": "function", "function": {"name": _CALL, "arguments": {"b": "c"}}},
        ]},
        {"role": "tool", "tool_call_id": "call_0000", "name": "of_a_result", "content": "d"},
    ],
    "tools": [{"type": "function", "function": {
        "name": _TOOL, "description": "e", "parameters": {"type": "object", "properties": {"b": {"type": "string"}}},
    }}],
    "add_generation_prompt": True,
}  # fmt: skip


def knows_tools(template: str, rendered: Callable[[Mapping[str, Any]], str]) -> bool:
    """Whether a chat template shows tools to its model, and writes calls the way they are read here. `rendered` is what
    it makes of variables; some name tools and mean others, such as SmolLM3's."""
    if OPEN not in template or any(form in template for form in _OTHER_FORMS):
        return False
    text = rendered(_TRIED)
    return _TOOL in text and _CALL in text


def in_general_words(messages: Sequence[Mapping[str, Any]], tools: Sequence[Any]) -> list[dict[str, Any]]:
    """The conversation for a template that knows no tools: only system, user and assistant, and only text."""
    told: list[dict[str, Any]] = []
    for is_result, group in groupby(messages, lambda message: message["role"] == "tool"):
        if is_result:
            told.append({"role": "user", "content": "\n".join(map(_result, group))})
        else:
            told.extend(map(_without_calls, group))
    return _explained(told, tools) if tools else told


def written(call: Mapping[str, Any]) -> str:
    """One call as text, from its OpenAI object; the arguments may be an object or the JSON text of one."""
    function = call["function"]
    arguments = function["arguments"]
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    name = json.dumps(function["name"], ensure_ascii=False)
    return f'{OPEN}\n{{"name": {name}, "arguments": {arguments}}}\n{CLOSE}'


def _explained(messages: list[dict[str, Any]], tools: Sequence[Any]) -> list[dict[str, Any]]:
    text = _HOW.format(tools="\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools))
    if messages and messages[0]["role"] == "system":
        first = {**messages[0], "content": f"{messages[0]['content']}\n\n{text}"}
        return [first, *messages[1:]]
    return [{"role": "system", "content": text}, *messages]


def _without_calls(message: Mapping[str, Any]) -> dict[str, Any]:
    calls = message.get("tool_calls") or ()
    texts = [message.get("content") or "", *map(written, calls)]
    plain = {key: value for key, value in message.items() if key != "tool_calls"}
    return {**plain, "content": "\n".join(filter(None, texts))} if calls else plain


def _result(message: Mapping[str, Any]) -> str:
    return f"<tool_response>\n{message['content']}\n</tool_response>"
