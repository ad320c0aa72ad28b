"""Events that have come by the time a stream is written go out together, in order, and none is lost."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import pytest
import trio

from reame.api.sse import EventStream
from reame.core.events import Delta, Finish, Usage
from reame.errors import RequestError

if TYPE_CHECKING:
    from reame.core.events import Event

USAGE = Usage(prompt_tokens=1, cached_tokens=0, completion_tokens=1)


class Plain:
    """Says each event's text; an error is raised, as by the real ones."""

    is_over = False

    def take(self, index: int, event: Event) -> bytes:
        if isinstance(event, Delta):
            return event.text.encode()
        if event.error:
            raise event.error
        self.is_over = True
        return b"."


class Grouped:
    """Replies of which all are there at once."""

    def __init__(self, events: list[Event]) -> None:
        self._events = deque(events)

    async def __anext__(self) -> tuple[int, Event]:
        await trio.lowlevel.checkpoint()
        return 0, self._events.popleft()

    def ready(self) -> tuple[int, Event] | None:
        return (0, self._events.popleft()) if self._events else None


async def written(*events: Event) -> list[bytes]:
    return [lines async for lines in EventStream(Grouped(list(events)), Plain(), keep_alive_s=60)]


async def test_what_is_there_goes_out_together() -> None:
    end = Finish(reason="stop", usage=USAGE)
    assert await written(Delta(text="a"), Delta(text="b"), Delta(text="c"), end) == [b"abc."]


@pytest.mark.parametrize("before", [[], [Delta(text="a")], [Delta(text="a"), Delta(text="b")]])
async def test_a_failure_comes_after_what_was_said_before_it(before: list[Event]) -> None:
    failed = Finish(reason=None, usage=USAGE, error=RequestError("too slow", status=408))
    *texts, last = await written(*before, failed)
    assert b"".join(texts) == b"ab"[: len(before)]
    assert last.startswith(b"event: error")
