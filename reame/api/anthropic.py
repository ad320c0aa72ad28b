"""An answer in Anthropic's words: a message, or the events of one. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from reame.api.voice import RetoldLines, named_event

if TYPE_CHECKING:
    from reame.api.sse import Lines
    from reame.errors import RequestError

_REASONS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}
_KINDS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    503: "overloaded_error",
}


def anthropic_error(error: RequestError) -> dict[str, Any]:
    """`{"type": "error", "error": {"type", "message"}}`."""
    kind = _KINDS.get(error.status, "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": error.message}}


class AnthropicVoice:
    """See `reame.api.voice.Voice`."""

    def whole(self, reply: dict[str, Any]) -> dict[str, Any]:
        (choice,) = reply["choices"]
        message = choice["message"]
        content: list[dict[str, Any]] = []
        if message.get("content"):
            content.append({"type": "text", "text": message["content"]})
        content += [_tool_use(call) for call in message.get("tool_calls") or ()]
        head = _message(reply, content or [{"type": "text", "text": ""}], _usage(reply["usage"]))
        return head | _end(choice) | {"reame": reply["reame"]}

    def lines(self, chunks: Lines, *, prompt_tokens: int) -> Lines:
        return RetoldLines(chunks, MessageEvents(prompt_tokens))

    def tell_error(self, error: RequestError) -> bytes:
        return named_event("error", anthropic_error(error))


class MessageEvents:
    """The events of a streamed message: its start, its blocks one after the other, its end."""

    def __init__(self, prompt_tokens: int) -> None:
        self._prompt_tokens = prompt_tokens
        self._num_blocks = 0
        self._open: tuple[str, int] | None = None
        self._ended: dict[str, Any] = {}
        self._has_begun = False
        self._end: dict[str, Any] = {}

    def take(self, chunk: dict[str, Any]) -> bytes:
        lines = b"" if self._has_begun else self._begin(chunk)
        for choice in chunk["choices"]:
            lines += self._delta(choice["delta"])
            if choice["finish_reason"]:
                self._ended = _end(choice)
        self._end |= {name: chunk[name] for name in ("usage", "reame") if chunk.get(name) is not None}
        return lines

    def end(self) -> bytes:
        told = {"delta": self._ended, "usage": _usage(self._end["usage"]), "reame": self._end["reame"]}
        lines = b"" if self._num_blocks else self._block("text", 0, {"type": "text", "text": ""})
        return lines + self._close() + _event("message_delta", told) + _event("message_stop", {})

    def _begin(self, chunk: dict[str, Any]) -> bytes:
        self._has_begun = True
        usage = _usage({"prompt_tokens": self._prompt_tokens, "completion_tokens": 0})
        return _event("message_start", {"message": _message(chunk, [], usage)})

    def _delta(self, delta: dict[str, Any]) -> bytes:
        lines = b""
        if delta.get("content"):
            lines += self._block("text", 0, {"type": "text", "text": ""})
            lines += self._piece({"type": "text_delta", "text": delta["content"]})
        for call in delta.get("tool_calls") or ():
            function = call.get("function", {})
            block = {"type": "tool_use", "id": call.get("id"), "name": function.get("name"), "input": {}}
            lines += self._block("tool_use", call["index"], block)
            if function.get("arguments"):
                lines += self._piece({"type": "input_json_delta", "partial_json": function["arguments"]})
        return lines

    def _block(self, kind: str, number: int, block: dict[str, Any]) -> bytes:
        """Open this block, unless it is the one that is open."""
        if self._open == (kind, number):
            return b""
        lines = self._close()
        self._open = kind, number
        self._num_blocks += 1
        return lines + _event("content_block_start", {"index": self._num_blocks - 1, "content_block": block})

    def _piece(self, delta: dict[str, Any]) -> bytes:
        return _event("content_block_delta", {"index": self._num_blocks - 1, "delta": delta})

    def _close(self) -> bytes:
        if self._open is None:
            return b""
        self._open = None
        return _event("content_block_stop", {"index": self._num_blocks - 1})


def _event(name: str, body: dict[str, Any]) -> bytes:
    return named_event(name, {"type": name} | body)


def _message(head: dict[str, Any], content: list[dict[str, Any]], usage: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": "msg_" + head["id"].removeprefix("chatcmpl-"),
        "type": "message",
        "role": "assistant",
        "model": head["model"],
        "content": content,
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }


def _end(choice: dict[str, Any]) -> dict[str, Any]:
    """Why it ended. The chat endpoint tells the stop string as `stop_reason`."""
    stop = choice.get("stop_reason")
    return {"stop_reason": "stop_sequence" if stop else _REASONS[choice["finish_reason"]], "stop_sequence": stop}


def _usage(usage: dict[str, Any]) -> dict[str, Any]:
    """Anthropic counts a prompt's cached tokens apart from the others."""
    cached = usage.get("prompt_tokens_details", {}).get("cached_tokens", 0)
    return {
        "input_tokens": usage["prompt_tokens"] - cached,
        "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": 0,
        "output_tokens": usage["completion_tokens"],
    }


def _tool_use(call: dict[str, Any]) -> dict[str, Any]:
    """A call that `max_tokens` cut has no whole arguments: then the input is empty, and the stop reason says why."""
    function = call["function"]
    try:
        given = json.loads(function["arguments"])
    except ValueError:
        given = {}
    return {"type": "tool_use", "id": call["id"], "name": function["name"], "input": given}
