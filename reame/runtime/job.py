"""What the intake hands to the decode loop: a request, and where its events go.

Bound: a reply channel holds `REPLY_EVENTS` events for each sequence, about 200 bytes each; a reader that lets it fill
is a slow client and loses its request.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from attrs import frozen

if TYPE_CHECKING:
    import trio

    from reame.core.events import Event
    from reame.core.request import Request

REPLY_EVENTS = 1024


class Reply(Protocol):
    """Where a job's events go: a memory channel's sender, or what does for one."""

    def send_nowait(self, value: tuple[int, Event], /) -> None: ...

    def statistics(self) -> trio.MemoryChannelStatistics: ...

    def close(self) -> None: ...


@frozen
class Job:
    """A request, and where its events go: (index of the choice, event). The client is gone when nobody receives.

    The disk has the blocks of the first `num_on_disk` tokens of its prompt. It came at `arrived`, None: now.
    `traceless`: its call began before its API key was forgotten, so nothing of it is kept.
    """

    request: Request
    index: int
    reply: Reply
    num_on_disk: int = 0
    arrived: float | None = None
    traceless: bool = False


HandOver = Callable[[list[Job]], None]
"""Gives jobs to the loop. Raises RequestError when there is no room."""
