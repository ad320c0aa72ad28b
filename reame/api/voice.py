"""How an answer is told: in OpenAI's own words, or put into those of another protocol.

Other protocols are translations of the chat endpoint: their bodies become chat bodies, and its answers, whole or chunk
by chunk, become theirs. So whatever the chat endpoint learns, they have.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol

from reame.api.chunks import dumps, error_event

if TYPE_CHECKING:
    from reame.api.sse import Lines
    from reame.core.events import Event
    from reame.errors import RequestError

_MARK = b"data: "
_END = b"[DONE]"


class Voice(Protocol):
    """The words of one answer."""

    def whole(self, reply: dict[str, Any]) -> dict[str, Any]:
        """From the chat endpoint's object for a finished answer."""
        ...

    def lines(self, chunks: Lines, *, prompt_tokens: int) -> Lines:
        """From its chunks. The last but one of them has the usage."""
        ...

    def tell_error(self, error: RequestError) -> bytes:
        """The lines of an error in the middle of a stream."""
        ...


class OpenAIVoice:
    """Nothing is put otherwise."""

    def whole(self, reply: dict[str, Any]) -> dict[str, Any]:
        return reply

    def lines(self, chunks: Lines, *, prompt_tokens: int) -> Lines:
        return chunks

    def tell_error(self, error: RequestError) -> bytes:
        return error_event(error)


class Retold(Protocol):
    """The chunks of a chat with one choice, put otherwise."""

    def take(self, chunk: dict[str, Any]) -> bytes: ...

    def end(self) -> bytes: ...


class RetoldLines:
    """The lines of a stream in another protocol's words."""

    def __init__(self, chunks: Lines, retold: Retold) -> None:
        self._chunks = chunks
        self._retold = retold

    def take(self, index: int, event: Event) -> bytes:
        lines = b"".join(map(self._put_otherwise, self._chunks.take(index, event).splitlines()))
        return lines + self._retold.end() if self._chunks.is_over else lines

    @property
    def is_over(self) -> bool:
        return self._chunks.is_over

    def _put_otherwise(self, line: bytes) -> bytes:
        """Comments stay as they are."""
        if line.startswith(b":"):
            return line + b"\n\n"
        is_chunk = line.startswith(_MARK) and not line.endswith(_END)
        return self._retold.take(json.loads(line.removeprefix(_MARK))) if is_chunk else b""


def named_event(name: str, body: dict[str, Any]) -> bytes:
    """A server-sent event with a name."""
    return f"event: {name}\ndata: {dumps(body)}\n\n".encode()
