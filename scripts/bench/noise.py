"""What else the machine did while a run was measured.

Sources: `/proc/stat` (all CPU time, steal), the CPU times of this process and its descendants (ours: servers, peers, a
busy neighbour that a scenario wants), `/proc/pressure/cpu` (time in which some task waited for a core). The kernel
counts in ticks of 10 ms, so figures below 0.02 cores on runs of a second mean nothing.
"""

from __future__ import annotations

import os
from pathlib import Path
from time import perf_counter, sleep

import psutil
from attrs import frozen

QUIET_CORES = 0.1
"""Runs beside which others used more than this are reported as noisy (measured: spinning threads then suffer)."""


@frozen(kw_only=True)
class Noise:
    """Shares in cores (1.0 = one core busy all the time), over `seconds`.

    `others`: everything that is not this harness and its descendants. `pressure`: share of the time in which some task
    of the machine, ours too, waited for a core; None where the kernel does not tell.
    """

    seconds: float
    others: float
    steal: float
    client: float
    pressure: float | None

    @property
    def is_quiet(self) -> bool:
        return self.others + self.steal <= QUIET_CORES


@frozen
class Meter:
    """A reading of the counters; `noise()` is what happened since."""

    at: float
    busy: float
    steal: float
    ours: float
    client: float
    waited: float | None

    @classmethod
    def now(cls) -> Meter:
        times = psutil.cpu_times()
        client, ours = _our_seconds()
        busy = times.user + times.nice + times.system + times.irq + times.softirq
        return cls(perf_counter(), busy, times.steal, ours, client, pressure_seconds())

    def noise(self) -> Noise:
        end = Meter.now()
        seconds = max(end.at - self.at, 1e-3)
        waited = None if end.waited is None or self.waited is None else (end.waited - self.waited) / seconds
        return Noise(
            seconds=seconds,
            others=max(0.0, (end.busy - self.busy) - (end.ours - self.ours)) / seconds,
            steal=(end.steal - self.steal) / seconds,
            client=(end.client - self.client) / seconds,
            pressure=waited,
        )


def wait_for_quiet(limit_s: float) -> bool:
    """Wait until others leave the machine alone for half a second, at most `limit_s`; whether it became quiet."""
    give_up = perf_counter() + limit_s
    while perf_counter() < give_up:
        meter = Meter.now()
        sleep(0.5)
        if meter.noise().is_quiet:
            return True
    return False


def pressure_seconds(path: Path = Path("/proc/pressure/cpu")) -> float | None:
    """Seconds since boot in which some task waited for a core; None where the file does not exist."""
    try:
        some = path.read_text().splitlines()[0]
    except OSError:
        return None
    return int(some.rpartition("total=")[2]) / 1e6


def _our_seconds() -> tuple[float, float]:
    """CPU seconds of this process; and of it with all its descendants, living and reaped."""
    own = os.times()
    client = own.user + own.system
    ours = client + own.children_user + own.children_system
    for child in psutil.Process().children(recursive=True):
        try:
            times = child.cpu_times()
        except psutil.NoSuchProcess:
            continue
        ours += times.user + times.system + times.children_user + times.children_system
    return client, ours
