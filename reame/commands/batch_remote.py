"""The records of a batch, answered by a daemon over HTTP, as background work."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx2
import trio

from reame.batch.result import Outcome
from reame.errors import ConfigError

if TYPE_CHECKING:
    from reame.batch.line import Record
    from reame.commands.warm_work import Daemon

FIND_S = 2.0
"""Seconds in which a daemon on this machine says that it is there."""
PATIENCE_S = 120.0
"""Seconds in which it cannot be reached, after which a daemon that restarts counts as gone."""
WAITED_FOR = frozenset({408, 429, 500, 502, 503, 504})
"""Statuses that pass: of the daemon, and of a proxy in front of it."""
LOOK_S = 5.0
"""Between two looks at how many requests at once are fastest."""
TRIES = 3
"""Of a record on which the daemon fails."""


async def health(daemon: Daemon) -> dict[str, Any] | None:
    """What the daemon says of itself; None when nothing that is Reame answers there."""
    try:
        async with daemon.session() as session:
            response = await session.get(f"{daemon.url}/health", timeout=FIND_S)
            value = response.json()
    except (httpx2.HTTPError, ValueError):
        return None
    is_ours = isinstance(value, dict) and {"status", "model", "slots"} <= set(value)
    return value if is_ours else None


class RemoteSolver:
    """See `reame.runtime.batch_run.Solver`. Waits while the daemon is full, loads its model or restarts."""

    def __init__(self, daemon: Daemon, session: httpx2.AsyncClient, slots: dict[str, Any]) -> None:
        self._daemon = daemon
        self._session = session
        self._width, self._most = _width(slots), int(slots.get("total") or 1)
        self._looked = trio.current_time()
        self._missed: float | None = None
        """When it could first not be reached; None since it answered."""

    def width(self) -> int:
        return self._width

    def most(self) -> int:
        return self._most

    async def solve(self, record: Record) -> Outcome:
        own = record.body.get("reame")
        body = {**record.body, "reame": {**(own if isinstance(own, dict) else {}), "background": True}}
        if own is not None and not isinstance(own, dict):
            body["reame"] = own  # wrong as it is: the daemon says so
        num_left = TRIES
        await self._look()
        while True:
            response = await self._post(record.url, body)
            if response is not None and response.status_code not in WAITED_FOR:
                return self._outcome(response)
            if response is not None and response.status_code == 500:
                num_left -= 1
                if not num_left:
                    return self._outcome(response)
            await trio.sleep(_pause(response))

    async def _post(self, path: str, body: dict[str, Any]) -> httpx2.Response | None:
        """None when the daemon could not be reached, or broke off."""
        try:
            response = await self._session.post(f"{self._daemon.url}{path}", json=body)
        except httpx2.ReadTimeout:
            return None  # it computes for others
        except httpx2.TransportError:
            self._miss()
            return None
        if response.status_code == 502:
            self._miss()
        else:
            self._missed = None
        return response

    def _miss(self) -> None:
        now = trio.current_time()
        self._missed = now if self._missed is None else self._missed
        if now - self._missed > PATIENCE_S:
            raise ConfigError(f"{self._daemon.url} does not answer any more: when it is back, the same command goes on")

    def _outcome(self, response: httpx2.Response) -> Outcome:
        try:
            body = json.loads(response.content)
        except ValueError:
            body = None
        if response.status_code == 401:
            raise self._daemon.refusal(401, {})
        if not isinstance(body, dict):
            raise ConfigError(f"{self._daemon.url} does not answer as a Reame daemon does: correct --url")
        return Outcome(
            status=response.status_code, request_id=response.headers.get("X-Request-Id", ""), body=body
        )

    async def _look(self) -> None:
        if trio.current_time() - self._looked < LOOK_S:
            return
        self._looked = trio.current_time()
        try:
            response = await self._session.get(f"{self._daemon.url}/health", timeout=FIND_S)
            self._width = _width(response.json()["slots"])
        except (httpx2.HTTPError, ValueError, KeyError, TypeError):
            return


def _width(slots: dict[str, Any]) -> int:
    """Of a daemon that is older than this command: all its slots."""
    return int(slots.get("background") or slots.get("total") or 1)


def _pause(response: httpx2.Response | None) -> float:
    wait = "" if response is None else response.headers.get("Retry-After", "")
    return min(float(wait), 30.0) if wait.isdecimal() else 1.0
