"""What else the machine did while a run was measured.

Sources: `/proc/stat` (all CPU time, steal), the CPU times of this process and its descendants (ours: servers, peers, a
busy neighbour that a scenario wants), `/proc/pressure/cpu` (time in which some task waited for a core). The kernel
counts in ticks of 10 ms, so figures below 0.02 cores on runs of a second mean nothing.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from time import perf_counter, sleep
from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

TICKS = os.sysconf("SC_CLK_TCK")

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
    def taken(self) -> float:
        """Cores that were not ours to use."""
        return self.others + self.steal

    @property
    def is_quiet(self) -> bool:
        return self.taken <= QUIET_CORES


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
        at = perf_counter()
        busy, steal = cpu_seconds(Path("/proc/stat").read_text(), TICKS)
        own = os.times()
        ours = family_seconds(_all_stats(), os.getpid(), TICKS)
        return cls(at, busy, steal, ours, own.user + own.system, pressure_seconds())

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


def cpu_seconds(stat: str, ticks: int) -> tuple[float, float]:
    """Seconds since boot, over all cores, spent working and stolen by the hypervisor; `stat` is /proc/stat's text."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = (int(field) for field in stat.split()[1:9])
    return (user + nice + system + irq + softirq) / ticks, steal / ticks


def family_seconds(stats: Iterable[str], root: int, ticks: int) -> float:
    """CPU seconds of process `root` and all its descendants, living and reaped; `stats`: texts of /proc/PID/stat."""
    children: dict[int, list[int]] = {}
    used: dict[int, int] = {}
    for stat in stats:
        pid = int(stat.partition(" ")[0])
        fields = stat.rpartition(")")[2].split()  # what stands before is a name that may hold anything
        children.setdefault(int(fields[1]), []).append(pid)
        used[pid] = sum(int(field) for field in fields[11:15])  # utime, stime, and those of reaped children
    total, family = 0, [root]
    while family:
        member = family.pop()
        total += used.get(member, 0)
        family += children.get(member, [])
    return total / ticks


def _all_stats() -> Iterator[str]:
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it ended meanwhile
            yield path.read_text(errors="replace")
