"""How many tokens each key may use on a day (UTC), prompts and answers together, cached ones included.

Bound: one number for each key that asked today. It is not kept on disk: a restart begins the day anew.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from attrs import define, field

from reame.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Callable

DAY_S = 86_400


@define
class DailyTokens:
    """`limit` 0: none. A request that begins below it is answered whole. `clock`: Unix time, seconds."""

    limit: int = 0
    clock: Callable[[], float] = time.time
    _day: int = 0
    _used: dict[str, int] = field(factory=dict)

    def check(self, key: str) -> None:
        """Raises RequestError (429) when the key has used up its day."""
        if self.limit and self._today().get(key, 0) >= self.limit:
            wait_s = math.ceil((self._day + 1) * DAY_S - self.clock())
            raise RequestError(
                f"This key has used its {self.limit} tokens of today; the next day begins in {wait_s} s (UTC).",
                status=429,
                code="daily_tokens_exceeded",
                retry_after=wait_s,
            )

    def spend(self, key: str, tokens: int) -> None:
        if self.limit:
            used = self._today()
            used[key] = used.get(key, 0) + tokens

    def _today(self) -> dict[str, int]:
        day = int(self.clock() // DAY_S)
        if day != self._day:
            self._day, self._used = day, {}
        return self._used
