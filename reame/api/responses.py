"""An answer as OpenAI's Responses API tells it: a response object, or the numbered events of one. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import define

from reame.api.response_events import ResponseEvents
from reame.api.response_object import finished
from reame.api.voice import RetoldLines, named_event

if TYPE_CHECKING:
    from collections.abc import Callable

    from reame.api.sse import Lines
    from reame.errors import RequestError


@define
class ResponsesVoice:
    """See `reame.api.voice.Voice`. `echo` is what the request said; `keep` is given the finished response."""

    echo: dict[str, Any]
    keep: Callable[[dict[str, Any]], None]
    _events: ResponseEvents | None = None

    def whole(self, reply: dict[str, Any]) -> dict[str, Any]:
        response = finished(reply, self.echo)
        self.keep(response)
        return response

    def lines(self, chunks: Lines, *, prompt_tokens: int) -> Lines:
        self._events = ResponseEvents(self.echo, self.keep)
        return RetoldLines(chunks, self._events)

    def tell_error(self, error: RequestError) -> bytes:
        what = {"code": error.code, "message": error.message, "param": error.param}
        number = self._events.number if self._events else 0
        return named_event("error", {"type": "error", "sequence_number": number} | what)
