"""What this machine, and the cgroups that this process is in (v1 and v2), leave for a build. Standard library only.

`root` is where /proc and /sys are mounted. What is missing or strange there is "not known"; nothing here raises.
`reame/host/` reads the same for the daemon, but it needs packages that are not there before the set-up.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path("/")
CGROUPS = PurePosixPath("sys/fs/cgroup")
NO_LIMIT = 1 << 60  # v1 writes "no limit" as a number near 2**63


def free_memory(root: Path = ROOT) -> int | None:
    """Bytes that can be had without swapping, by the machine and by each limit; None: not known."""
    found = re.search(r"^MemAvailable:\s*(\d+) kB", read(root / "proc/meminfo"), re.MULTILINE)
    rooms = [int(found[1]) << 10] if found else []
    for group in groups(root, "memory"):
        limits = (read(group / f"memory.{name}") for name in ("max", "high", "limit_in_bytes"))
        rooms += [max(0, int(limit) - used(group)) for limit in limits if limit.isdecimal() and int(limit) < NO_LIMIT]
    return min(rooms, default=None)


def cpu_quota(root: Path = ROOT) -> float | None:
    """CPUs that the tightest limit allows, 1.5 is one and a half; None: no limit, or not known."""
    quotas = []
    for group in groups(root, "cpu"):
        time, _, period = read(group / "cpu.max").partition(" ")
        if not time:
            time, period = read(group / "cpu.cfs_quota_us"), read(group / "cpu.cfs_period_us")
        if time.isdecimal() and period.isdecimal() and int(period):
            quotas.append(int(time) / int(period))
    return min(quotas, default=None)


def groups(root: Path, controller: str) -> Iterator[Path]:
    """Folders in which limits of this process may stand: its own group's, and all above.

    In a container the path may be the host's, of which only the top is mounted: the rest is looked for in vain.
    """
    for line in read(root / "proc/self/cgroup").splitlines():
        names, _, path = line.partition(":")[2].partition(":")
        if names and controller not in names.split(","):
            continue
        for top in {CGROUPS / names, CGROUPS / controller} if names else {CGROUPS}:
            folder = top / path.lstrip("/")
            yield from (root / each for each in (folder, *folder.parents) if each.is_relative_to(top))


def used(group: Path) -> int:
    """Bytes that the group holds and that are not page cache, which gives way."""
    total = read(group / "memory.current") or read(group / "memory.usage_in_bytes")
    cached = re.findall(r"^(?:total_)?(?:in)?active_file (\d+)$", read(group / "memory.stat"), re.MULTILINE)
    return max(0, int(total) - sum(map(int, cached[-2:]))) if total.isdecimal() else 0


def read(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
