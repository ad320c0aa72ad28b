"""Who else wants this CPU: time stolen by the hypervisor, time used by others, pressure as the kernel measures it."""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING

from attrs import frozen

from reame.host.reading import ROOT, read

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from reame.host.cpu import CpuShare

_STEAL = 7
_IDLE, _WAIT = 3, 4
_COUNTED = 8
"""Fields of a cpu line of /proc/stat up to `steal`; guest time behind it is in `user` already."""
_NOISE_CPUS, _NOISE_STOLEN = 0.3, 0.05


@frozen(kw_only=True)
class Pressure:
    """Share of the last ten seconds in which somebody waited, 0 to 1. None: the kernel does not measure it."""

    cpu: float | None
    memory: float | None
    io: float | None


@frozen
class CpuTimes:
    """Ticks since the machine started, of all CPUs together."""

    total: int
    stolen: int
    busy: int


@frozen(kw_only=True)
class Contention:
    """`stolen`: share of CPU time that the hypervisor took. `others`: CPUs that other processes used."""

    stolen: float
    others: float

    @property
    def is_noise(self) -> bool:
        """So much that a measurement of threads compares badly."""
        return self.others > _NOISE_CPUS or self.stolen > _NOISE_STOLEN


def pressure(root: Path = ROOT) -> Pressure:
    return Pressure(cpu=_some(root, "cpu"), memory=_some(root, "memory"), io=_some(root, "io"))


def cpu_times(root: Path = ROOT, cpus: Collection[int] = ()) -> CpuTimes:
    """Of these logical CPUs, or of all. Zero when /proc/stat does not tell.

    lxcfs numbers a container's CPUs anew, there and not in the affinity: as many as are asked for are these.
    """
    lines = re.findall(r"^cpu(\d*) +([\d ]+)$", read(root, "proc/stat"), re.MULTILINE)
    wanted, there = {str(cpu) for cpu in cpus} or {""}, {name for name, _ in lines if name}
    if cpus and not wanted <= there:
        wanted = {""} if len(there) == len(wanted) else set()
    rows = [[int(tick) for tick in ticks.split()][:_COUNTED] for name, ticks in lines if name in wanted]
    ticks = [sum(column) for column in zip(*rows, strict=False)]
    if len(ticks) < _COUNTED:
        return CpuTimes(0, 0, 0)
    return CpuTimes(sum(ticks), ticks[_STEAL], sum(ticks) - ticks[_IDLE] - ticks[_WAIT] - ticks[_STEAL])


class Watch:
    """Measures from its making to each look who else used the CPUs of this process, its ended children excepted."""

    def __init__(self, share: CpuShare) -> None:
        self._share = share
        self._started, self._times, self._own = time.monotonic(), cpu_times(cpus=share.cpus), _own_seconds()

    def look(self) -> Contention:
        """A neighbour counts when it takes what this process could use: a quota leaves CPUs that are not missed."""
        seconds = max(1e-3, time.monotonic() - self._started)
        then = cpu_times(cpus=self._share.cpus)
        ticks = max(1, then.total - self._times.total)
        busy = (then.busy - self._times.busy) / ticks * len(self._share.cpus)
        spare = len(self._share.cpus) - self._share.usable
        others = busy - (_own_seconds() - self._own) / seconds - spare
        return Contention(stolen=(then.stolen - self._times.stolen) / ticks, others=max(0.0, others))


def _own_seconds() -> float:
    return sum(os.times()[:4])


def _some(root: Path, kind: str) -> float | None:
    found = re.search(r"^some avg10=([\d.]+)", read(root, f"proc/pressure/{kind}"), re.MULTILINE)
    return float(found[1]) / 100 if found else None
