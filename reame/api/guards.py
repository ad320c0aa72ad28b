"""How often each key may ask: a bucket of requests that fills again all the time.

Bound: one bucket for each key that has asked. Without keys everyone shares one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import trio
from attrs import define, field

from reame.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Callable

MINUTE_S = 60.0


@define
class RequestRate:
    """At most `per_minute` requests at once, and as many a minute on the long run; 0: no limit. `clock` in seconds."""

    per_minute: int
    clock: Callable[[], float] = trio.current_time
    _buckets: dict[str, tuple[float, float]] = field(factory=dict)
    """Of each key: requests left, and when that was."""

    def take(self, key: str) -> None:
        """Count a request. Raises RequestError (429) when none is left; that one is not counted."""
        if not self.per_minute:
            return
        now = self.clock()
        left, since = self._buckets.get(key, (float(self.per_minute), now))
        left = min(self.per_minute, left + (now - since) * self.per_minute / MINUTE_S)
        if left < 1:
            wait_s = math.ceil((1 - left) * MINUTE_S / self.per_minute)
            raise RequestError(
                f"This key has used its {self.per_minute} requests a minute; the next one is free in {wait_s} s.",
                status=429,
                code="rate_limit_exceeded",
                retry_after=wait_s,
            )
        self._buckets[key] = left - 1, now
