"""Is there room: how many sequences are open, and how many there may be.

Bound: `engine.slots + scheduler.queue` sequences; the next one gets 429 at once. Of several API keys each has three
quarters of them at most, or a single call, so that none locks the others out. Prompts to be warmed and background
work are let in only while less than half of that is taken. As many again may be short questions at forks of labels,
which are never a reason to turn anybody away.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from reame.core.labels import labels_of
from reame.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Callable

    from reame.config import Config
    from reame.core.request import Call


class Room:
    """Owner of the count of open sequences. What was taken is to be given back."""

    def __init__(self, config: Config) -> None:
        self.capacity = config.engine.slots + config.scheduler.queue
        self._slots = config.engine.slots
        self._open: Counter[str] = Counter()
        self._num_spare = 0
        self.has_several_keys: Callable[[], bool] = lambda: False

    def take(self, call: Call, key: str = "") -> int:
        """The places taken. What gives way fills half of them at most, so that it never turns others away. Raises
        RequestError: 429 when it is full, 400 when the call would never fit."""
        number = len(call.prompts) * call.width
        gives_way = call.warm or call.background
        own = self.capacity - self.capacity // 4 if self.has_several_keys() else self.capacity
        room = max(1, self.capacity // 2) if gives_way else self.capacity
        if number > room:
            share = "half of " if gives_way else ""
            raise RequestError(
                f"{number} {'prompts' if call.warm else 'choices'} in one request; this server takes {room} ({share}"
                "engine.slots + scheduler.queue) at once",
                param="prompt" if call.warm else "best_of" if call.conclave else "n",
            )
        if self._open.total() + number > room or (self._open[key] and self._open[key] + number > own):
            raise full()
        self._open[key] += number
        return number

    def take_spare(self, call: Call) -> int:
        """Places for the forks of the labels, as far as others have not taken them; without any, one fork at a time is
        asked when the answers are there."""
        labels = len(labels_of(call.constraint)) * len(call.prompts) if call.confidence else 0
        number = min(labels, self._slots, self.capacity - self._num_spare)
        self._num_spare += number
        return number

    def give_back(self, number: int, num_spare: int, key: str = "") -> None:
        self._open[key] -= number
        if not self._open[key]:
            del self._open[key]
        self._num_spare -= num_spare


def full() -> RequestError:
    return RequestError("the queue is full; try again in a moment", status=429, code="queue_full", retry_after=2)
