"""The parts of a response object of OpenAI's Responses API, made of the chat endpoint's answer. Pure."""

from __future__ import annotations

import re
from typing import Any

PREFIX = "resp_"


def skeleton(head: dict[str, Any], echo: dict[str, Any]) -> dict[str, Any]:
    """A response that has just begun. `head`: any chunk, or the answer, of the chat endpoint."""
    return {
        "id": PREFIX + bare_id(head),
        "object": "response",
        "created_at": head["created"],
        "status": "in_progress",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "model": head["model"],
        "output": [],
        "reasoning": {"effort": None, "summary": None},
        "service_tier": "default",
        "usage": None,
        "user": None,
        **echo,
    }


def ended(begun: dict[str, Any], output: list[dict[str, Any]], end: dict[str, Any]) -> dict[str, Any]:
    """The response when all is said. `end`: the chat's `finish_reason`, `usage` and `reame`."""
    was_cut = end["finish_reason"] == "length"
    return begun | {
        "status": _status(end["finish_reason"]),
        "incomplete_details": {"reason": "max_output_tokens"} if was_cut else None,
        "output": output,
        "usage": _usage(end["usage"]),
        "reame": end["reame"],
    }


def finished(reply: dict[str, Any], echo: dict[str, Any]) -> dict[str, Any]:
    """The response of a whole answer of the chat endpoint."""
    (choice,) = reply["choices"]
    message, name = choice["message"], bare_id(reply)
    calls = message.get("tool_calls") or ()
    output = []
    if message.get("content") or not calls:
        logprobs = (choice.get("logprobs") or {}).get("content") or []
        part = text_part(message.get("content") or "", logprobs)
        output.append(message_item(name, part, status=_status(choice["finish_reason"])))
    for number, call in enumerate(calls):
        function, is_last = call["function"], number == len(calls) - 1
        status = _status(choice["finish_reason"]) if is_last else "completed"
        item = call_item(f"{name}_{number}", call["id"], function["name"], function["arguments"], status=status)
        output.append(item)
    return ended(skeleton(reply, echo), output, reply | {"finish_reason": choice["finish_reason"]})


def text_part(text: str, logprobs: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs}


def message_item(name: str, part: dict[str, Any] | None, *, status: str) -> dict[str, Any]:
    content = [] if part is None else [part]
    return {"type": "message", "id": f"msg_{name}", "status": status, "role": "assistant", "content": content}


def call_item(
    name: str, call_id: str, function: str, arguments: str, *, status: str = "completed"
) -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": f"fc_{name}",
        "call_id": call_id,
        "name": function,
        "arguments": arguments,
        "status": status,
    }


def said(response: dict[str, Any]) -> dict[str, Any]:
    """The assistant's message of a finished response, for the next turn. A call that was cut is none."""
    texts = [part["text"] for item in response["output"] if item["type"] == "message" for part in item["content"]]
    calls = [
        {
            "id": item["call_id"],
            "type": "function",
            "function": {"name": item["name"], "arguments": item["arguments"]},
        }
        for item in response["output"]
        if item["type"] == "function_call" and item["status"] == "completed"
    ]
    return {"role": "assistant", "content": "".join(texts)} | ({"tool_calls": calls} if calls else {})


def bare_id(head: dict[str, Any]) -> str:
    """The id without what says of which kind it is."""
    return str(head["id"]).removeprefix("chatcmpl-").removeprefix(PREFIX)


def response_of_item(name: str) -> str:
    """The id of the response that an output item of this id is of; "" when it is none of ours."""
    found = re.fullmatch(r"(?:msg_(\w+)|fc_(\w+)_\d+)", name, re.ASCII)
    return PREFIX + (found[1] or found[2]) if found else ""


def _status(reason: str) -> str:
    return "incomplete" if reason == "length" else "completed"


def _usage(usage: dict[str, Any]) -> dict[str, Any]:
    cached = usage["prompt_tokens_details"]["cached_tokens"]
    return {
        "input_tokens": usage["prompt_tokens"],
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
        "output_tokens": usage["completion_tokens"],
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage["total_tokens"],
    }
