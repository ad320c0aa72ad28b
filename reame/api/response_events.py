"""The numbered events of one streamed response of OpenAI's Responses API. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import define, field

from reame.api.response_object import bare_id, call_item, ended, message_item, skeleton, text_part
from reame.api.voice import named_event

if TYPE_CHECKING:
    from collections.abc import Callable

Event = tuple[str, dict[str, Any]]
"""The type of an event, and what is in it."""


@define
class TextItem:
    """The message of a response, as far as it has come. `place` is its index in the output."""

    name: str
    place: int = 0
    text: list[str] = field(factory=list)
    logprobs: list[dict[str, Any]] = field(factory=list)

    def whole(self, status: str) -> dict[str, Any]:
        return message_item(self.name, None if status == "in_progress" else self._part(), status=status)

    def take(self, text: str, logprobs: list[dict[str, Any]]) -> Event:
        self.text.append(text)
        self.logprobs += logprobs
        return "response.output_text.delta", self._where() | {"delta": text, "logprobs": logprobs}

    def opening(self) -> list[Event]:
        return [("response.content_part.added", self._where() | {"part": text_part("", [])})]

    def closing(self) -> list[Event]:
        part = self._part()
        told = {"text": part["text"], "logprobs": self.logprobs}
        return [
            ("response.output_text.done", self._where() | told),
            ("response.content_part.done", self._where() | {"part": part}),
        ]

    def _part(self) -> dict[str, Any]:
        return text_part("".join(self.text), self.logprobs)

    def _where(self) -> dict[str, Any]:
        return {"item_id": f"msg_{self.name}", "output_index": self.place, "content_index": 0}


@define
class CallItem:
    """A function call of a response, as far as it has come. `number` is its index among the calls."""

    name: str
    number: int
    call_id: str
    function: str
    place: int = 0
    arguments: str = ""

    def whole(self, status: str) -> dict[str, Any]:
        return call_item(self.name, self.call_id, self.function, self.arguments, status=status)

    def take(self, arguments: str) -> Event:
        self.arguments += arguments
        return "response.function_call_arguments.delta", self._where() | {"delta": arguments}

    def opening(self) -> list[Event]:
        return []

    def closing(self) -> list[Event]:
        told = {"name": self.function, "arguments": self.arguments}
        return [("response.function_call_arguments.done", self._where() | told)]

    def _where(self) -> dict[str, Any]:
        return {"item_id": f"fc_{self.name}", "output_index": self.place}


class ResponseEvents:
    """The events of one streamed response: its beginning, its output items one after the other, its end."""

    def __init__(self, echo: dict[str, Any], keep: Callable[[dict[str, Any]], None]) -> None:
        self._echo = echo
        self._keep = keep
        self.number = 0
        self._begun: dict[str, Any] = {}
        self._output: list[dict[str, Any]] = []
        self._open: TextItem | CallItem | None = None
        self._end: dict[str, Any] = {}
        self._untold: list[dict[str, Any]] = []
        """Logprobs of tokens before there is a text that they belong to."""

    def take(self, chunk: dict[str, Any]) -> bytes:
        lines = b"" if self._begun else self._begin(chunk)
        for choice in chunk["choices"]:
            lines += self._delta(choice["delta"], choice.get("logprobs"))
            if choice["finish_reason"]:
                self._end["finish_reason"] = choice["finish_reason"]
        self._end |= {name: chunk[name] for name in ("usage", "reame") if chunk.get(name) is not None}
        return lines

    def end(self) -> bytes:
        lines = b"" if self._output or self._open else self._switch(TextItem(bare_id(self._begun)))
        status = "incomplete" if self._end["finish_reason"] == "length" else "completed"
        lines += self._close(status)
        response = ended(self._begun, self._output, self._end)
        self._keep(response)
        return lines + self._tell(f"response.{status}", response=response)

    def _begin(self, chunk: dict[str, Any]) -> bytes:
        self._begun = skeleton(chunk, self._echo)
        return b"".join(self._tell(f"response.{name}", response=self._begun) for name in ("created", "in_progress"))

    def _delta(self, delta: dict[str, Any], logprobs: dict[str, Any] | None) -> bytes:
        lines = b""
        self._untold += (logprobs or {}).get("content") or []
        if delta.get("content") or isinstance(self._open, TextItem):
            if not isinstance(self._open, TextItem):
                lines += self._switch(TextItem(bare_id(self._begun)))
            assert isinstance(self._open, TextItem)
            if delta.get("content") or self._untold:
                lines += self._piece(self._open.take(delta.get("content") or "", self._untold))
            self._untold = []
        for call in delta.get("tool_calls") or ():
            function = call.get("function", {})
            if not isinstance(self._open, CallItem) or self._open.number != call["index"]:
                name = f"{bare_id(self._begun)}_{call['index']}"
                lines += self._switch(CallItem(name, call["index"], call["id"], function["name"]))
            assert isinstance(self._open, CallItem)
            if function.get("arguments"):
                lines += self._piece(self._open.take(function["arguments"]))
        return lines

    def _switch(self, item: TextItem | CallItem) -> bytes:
        """Begin this item; the one before it is complete."""
        lines = self._close("completed")
        item.place = len(self._output)
        self._open = item
        lines += self._tell("response.output_item.added", output_index=item.place, item=item.whole("in_progress"))
        return lines + b"".join(self._tell(name, **body) for name, body in item.opening())

    def _close(self, status: str) -> bytes:
        item, self._open = self._open, None
        if item is None:
            return b""
        whole = item.whole(status)
        self._output.append(whole)
        lines = b"".join(self._tell(name, **body) for name, body in item.closing())
        return lines + self._tell("response.output_item.done", output_index=item.place, item=whole)

    def _piece(self, piece: tuple[str, dict[str, Any]]) -> bytes:
        name, body = piece
        return self._tell(name, **body)

    def _tell(self, name: str, /, **body: Any) -> bytes:
        line = named_event(name, {"type": name, "sequence_number": self.number, **body})
        self.number += 1
        return line
