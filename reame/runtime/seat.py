"""The reply channel of one job among several that have the same receiver: it can be left alone, and the job ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio
from attrs import evolve

if TYPE_CHECKING:
    from reame.core.events import Event


class Seat:
    """To the decode loop what a send channel is to it. `vacate`: nobody receives from this one any more."""

    def __init__(self, send: trio.MemorySendChannel[tuple[int, Event]]) -> None:
        self._send = send
        self._is_vacant = False
        self.is_closed = False
        """The loop has nothing more to say."""

    def vacate(self) -> None:
        self._is_vacant = True

    def send_nowait(self, value: tuple[int, Event]) -> None:
        """As a channel does: BrokenResourceError when nobody receives, WouldBlock when it is full."""
        if self._is_vacant:
            raise trio.BrokenResourceError
        self._send.send_nowait(value)

    def statistics(self) -> trio.MemoryChannelStatistics:
        statistics = self._send.statistics()
        return evolve(statistics, open_receive_channels=0) if self._is_vacant else statistics

    def close(self) -> None:
        self.is_closed = True
        self._send.close()
