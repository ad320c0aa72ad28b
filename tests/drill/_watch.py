"""A look now and then at a daemon under load: is it healthy, does it grow?"""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING

import trio
from attrs import define, field, frozen
from daemon_process import status_fields

if TYPE_CHECKING:
    from collections.abc import Callable

    from daemon_process import DaemonProcess
    from httpx2 import AsyncClient

FIRST = 200
"""Served requests after which memory must be flat."""
MOST_GROWTH_KB = 10.0
"""A served request, as a mean."""


@define
class Watch:
    """Looks at the process and at /health from time to time."""

    daemon: DaemonProcess
    client: AsyncClient
    faults: list[str] = field(factory=list)
    looks: list[tuple[int, dict[str, int]]] = field(factory=list)
    slowest: float = 0.0

    async def look(self, num_served: Callable[[], int]) -> None:
        """Until it is cancelled."""
        while True:
            started = time.monotonic()
            response = await self.client.get("/health")
            self.slowest = max(self.slowest, time.monotonic() - started)
            if response.status_code != 200:
                self.faults.append(f"health: {response.status_code} {response.text}")
            self.looks.append((num_served(), status_fields(self.daemon.process.pid)))
            await trio.sleep(0.5)

    def growth(self) -> list[str]:
        """Between the medians of the two halves of what came after the `FIRST` requests."""
        looks = [look for look in self.looks if look[0] >= FIRST]
        print(f"slowest /health {self.slowest:.2f} s")
        if len(looks) < 4:
            print(f"fewer than {FIRST} requests were served: too few to judge the memory")
            return []
        early, late = Means.of(looks[: len(looks) // 2]), Means.of(looks[len(looks) // 2 :])
        requests = late.requests - early.requests
        slope = (late.memory_kb - early.memory_kb) / max(1, requests)
        memory = f"{early.memory_kb:.0f} -> {late.memory_kb:.0f} kB"
        print(f"RssAnon+VmSwap {memory} in {requests:.0f} served requests: {slope:.2f} kB each")
        faults = [f"memory grows by {slope:.1f} kB a request"] if slope > MOST_GROWTH_KB and requests > FIRST else []
        return faults + ([f"threads: {early} -> {late}"] if late.threads > early.threads + 2 else [])


@frozen
class Means:
    """Medians over several looks."""

    requests: float
    memory_kb: float
    threads: float

    @classmethod
    def of(cls, looks: list[tuple[int, dict[str, int]]]) -> Means:
        return cls(
            median(number for number, _ in looks),
            median(status["RssAnon"] + status["VmSwap"] for _, status in looks),
            median(status["Threads"] for _, status in looks),
        )
