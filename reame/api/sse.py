"""The body of a streamed answer: events become `data:` lines, silence becomes comments.

No scope is open across two items: each `__anext__` is whole in itself. The call ends with its request (`exchange.py`).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

import trio
from quart.wrappers.response import ResponseBody

from reame.api.chunks import KEEP_ALIVE, error_event
from reame.api.errors import from_status
from reame.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from reame.core.events import Event

HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",
}
_log = logging.getLogger(__name__)


class Replies(Protocol):
    """What a stream needs of the runtime: events as they come. A wait that is cancelled loses none; `ready` does not
    wait."""

    async def __anext__(self) -> tuple[int, Event]: ...

    def ready(self) -> tuple[int, Event] | None: ...


class Lines(Protocol):
    """What is said of each event, in whole lines, b"" for nothing; `is_over` once the end mark is said."""

    def take(self, index: int, event: Event) -> bytes: ...

    @property
    def is_over(self) -> bool: ...


class EventStream(ResponseBody):
    """Sends a comment after each `keep_alive_s` seconds without data. After an error event nothing more comes;
    `tell_error` makes it, in the words of the protocol."""

    def __init__(
        self,
        replies: Replies,
        lines: Lines,
        *,
        keep_alive_s: float,
        tell_error: Callable[[RequestError], bytes] = error_event,
    ) -> None:
        self._replies = replies
        self._said = lines
        self._keep_alive_s = keep_alive_s
        self._tell_error = tell_error
        self._over = False
        self._failure: RequestError | None = None

    async def __aenter__(self) -> EventStream:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, tb: TracebackType | None
    ) -> None:
        pass

    def __aiter__(self) -> EventStream:
        return self

    async def __anext__(self) -> bytes:
        if self._over:
            raise StopAsyncIteration
        try:
            # A scope by hand: this runs for every token, and move_on_after costs as much as all the rest of it.
            with trio.CancelScope(deadline=trio.current_time() + self._keep_alive_s):
                return await self._next_lines()
            return KEEP_ALIVE
        except RequestError as error:
            failure = error
        except Exception:
            _log.exception("a stream broke off")
            failure = from_status(500)
        self._over = True
        return self._tell_error(failure)

    async def _next_lines(self) -> bytes:
        """What the next event says, and all that have come by then: one write for a group of tokens or users."""
        if self._failure is not None:
            raise self._failure
        lines = b""
        while not lines:
            index, event = await self._replies.__anext__()
            lines = self._said.take(index, event)
        while not self._said.is_over and (more := self._replies.ready()) is not None:
            try:
                lines += self._said.take(*more)
            except RequestError as failure:
                self._failure = failure
                break
        self._over = self._said.is_over
        return lines
