"""When a disk does not take what it is given: say it once, try again later, say when it is over."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)

RETRY_S = 30.0
SELDOM_S = 3600.0


class Outage:
    """One line when it begins and one when it ends, however many writes fail meanwhile. `clock` in seconds."""

    def __init__(self, what: str, clock: Callable[[], float]) -> None:
        self._what = what
        self._clock = clock
        self._since: float | None = None
        self._retry_at = 0.0

    def holds(self) -> bool:
        """Whether it is too early to try again."""
        return self._since is not None and self._clock() < self._retry_at

    def begin(self, why: object) -> None:
        """It failed, perhaps not for the first time."""
        now = self._clock()
        if self._since is None:
            self._since = now
            log.warning("%s: %s; going on without, trying again every %.0f s", self._what, why, RETRY_S)
        self._retry_at = now + RETRY_S

    def end(self) -> None:
        """It worked."""
        if self._since is not None:
            log.info("%s: works again after %.0f s", self._what, self._clock() - self._since)
            self._since = None


class Seldom:
    """Lets one line through in an hour."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._next = float("-inf")

    def warn(self, text: str, *values: object) -> None:
        now = self._clock()
        if now >= self._next:
            self._next = now + SELDOM_S
            log.warning(text, *values)
