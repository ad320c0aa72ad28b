"""Limits of this process's cgroup, v1 and v2: the tightest from its own up to the top of what is mounted."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from attrs import frozen

from reame.host.reading import ROOT, number, read

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_NO_LIMIT = 1 << 60
"""v1 writes "no limit" as a number near 2**63."""


@frozen
class MemoryLimit:
    """Bytes that the group may hold, and those that it holds now and that are not page cache."""

    limit: int
    used: int

    @property
    def room(self) -> int:
        return max(0, self.limit - self.used)


def cpu_quota(root: Path = ROOT) -> float | None:
    """In CPUs: 1.5 is one and a half. None: no limit."""
    limits = (_cpu_limit(root, folder) for folder in folders(root, "cpu"))
    return min((limit for limit in limits if limit is not None), default=None)


def memory_limits(root: Path = ROOT) -> list[MemoryLimit]:
    """All that hold: the tightest of them need not be the one that leaves the least room."""
    return [
        MemoryLimit(limit, _memory_used(root, folder))
        for folder in folders(root, "memory")
        for name in ("memory.max", "memory.high", "memory.limit_in_bytes")
        if (limit := number(read(root, folder / name))) is not None and limit < _NO_LIMIT
    ]


def swap_limit(root: Path = ROOT) -> MemoryLimit | None:
    """What the group may have swapped out, and has."""
    found = (_swap(root, folder) for folder in folders(root, "memory"))
    return min((each for each in found if each), key=lambda found: found.limit - found.used, default=None)


def throttled(root: Path = ROOT) -> float:
    """Share of the quota's periods in which the group was stopped, since it began; 0 when there is no quota."""
    for folder in folders(root, "cpu"):
        counts = dict(re.findall(r"^(nr_\w+) (\d+)$", read(root, folder / "cpu.stat"), re.MULTILINE))
        if periods := int(counts.get("nr_periods", 0)):
            return int(counts.get("nr_throttled", 0)) / periods
    return 0.0


def folders(root: Path, controller: str) -> Iterator[PurePosixPath]:
    """Where limits of this process may stand, innermost first, below `root`: in v2, and for `controller` in v1."""
    mounts = list(_mounts(root, controller))
    for line in read(root, "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        version = 1 if controller in controllers.split(",") else 2 if not controllers else None
        for kind, top, point in mounts:
            if kind != version:
                continue
            inside = path[len(top) :] if path == top or path.startswith(top.rstrip("/") + "/") else ""
            folder = PurePosixPath(point.lstrip("/")) / inside.lstrip("/")
            yield from (parent for parent in (folder, *folder.parents) if parent.is_relative_to(point.lstrip("/")))


def _swap(root: Path, folder: PurePosixPath) -> MemoryLimit | None:
    """v1 limits RAM and swap together: the swap is what that leaves beyond RAM."""

    def bytes_of(name: str) -> int | None:
        return number(read(root, folder / f"memory.{name}"))

    if (limit := bytes_of("swap.max")) is not None:
        return MemoryLimit(limit, bytes_of("swap.current") or 0)
    both, alone = bytes_of("memsw.limit_in_bytes"), bytes_of("limit_in_bytes")
    if both is None or alone is None or both >= _NO_LIMIT:
        return None
    used = (bytes_of("memsw.usage_in_bytes") or 0) - (bytes_of("usage_in_bytes") or 0)
    return MemoryLimit(max(0, both - alone), max(0, used))


def _mounts(root: Path, controller: str) -> Iterator[tuple[int, str, str]]:
    """(version, the cgroup that is mounted, where) for each hierarchy that can limit `controller`."""
    for line in read(root, "proc/self/mountinfo").splitlines():
        mount, _, source = line.partition(" - ")
        fields, kind = mount.split(), source.split()
        if len(fields) < 5 or len(kind) < 3:
            continue
        if kind[0] == "cgroup2":
            yield 2, fields[3], fields[4]
        elif kind[0] == "cgroup" and controller in kind[2].split(","):
            yield 1, fields[3], fields[4]


def _cpu_limit(root: Path, folder: PurePosixPath) -> float | None:
    quota, _, period = read(root, folder / "cpu.max").partition(" ")
    if not quota:
        quota, period = read(root, folder / "cpu.cfs_quota_us"), read(root, folder / "cpu.cfs_period_us")
    time, length = number(quota), number(period)
    return time / length if time and length and time > 0 else None


def _memory_used(root: Path, folder: PurePosixPath) -> int:
    used = number(read(root, folder / "memory.current")) or number(read(root, folder / "memory.usage_in_bytes")) or 0
    cached = re.findall(r"^(?:total_)?(?:in)?active_file (\d+)$", read(root, folder / "memory.stat"), re.MULTILINE)
    return max(0, used - sum(map(int, cached[-2:])))
