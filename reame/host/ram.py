"""Memory as this process may use it: RAM, the cgroup's limit, swap, huge pages, what may be locked."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from attrs import frozen

from reame.host.cgroup import memory_limits, swap_limit
from reame.host.reading import ROOT, kilobytes, number, read

if TYPE_CHECKING:
    from pathlib import Path


@frozen(kw_only=True)
class Ram:
    """Bytes. `limit` is the tightest cgroup limit (None: no limit), `total` the machine's or container's RAM."""

    total: int
    available: int
    """What could be had now without swapping: of the machine, and below the limit."""
    limit: int | None
    swap_total: int
    """As much of the machine's as the cgroup may use."""
    swap_used: int
    """Of that, by the cgroup where it has a limit."""
    swap_free: int
    swappiness: int | None
    memlock: int | None
    """What this process may lock; None: no limit."""
    huge_pages: str
    """Transparent huge pages: always, madvise, never, or empty when not known."""

    @property
    def most(self) -> int:
        """All that this process could ever have."""
        return min(self.total, self.limit or self.total)


def ram(root: Path = ROOT) -> Ram:
    info = read(root, "proc/meminfo")
    total = kilobytes(info, "MemTotal") or 0
    free = kilobytes(info, "MemAvailable") or kilobytes(info, "MemFree") or total
    swap, swap_free = kilobytes(info, "SwapTotal") or 0, kilobytes(info, "SwapFree") or 0
    groups, swapped = memory_limits(root), swap_limit(root)
    limit = min((group.limit for group in groups), default=total)
    huge = re.search(r"\[(\w+)\]", read(root, "sys/kernel/mm/transparent_hugepage/enabled"))
    return Ram(
        total=total,
        available=min([free, *(group.room for group in groups)]),
        limit=limit if limit < total else None,
        swap_total=min(swap, swapped.limit) if swapped else swap,
        swap_used=min(swap, swapped.used) if swapped else swap - swap_free,
        swap_free=min(swap_free, swapped.room) if swapped else swap_free,
        swappiness=number(read(root, "proc/sys/vm/swappiness")),
        memlock=_memlock(read(root, "proc/self/limits")),
        huge_pages=huge[1] if huge else "",
    )


def _memlock(limits: str) -> int | None:
    found = re.search(r"^Max locked memory\s+(\d+)", limits, re.MULTILINE)
    return int(found[1]) if found else None
