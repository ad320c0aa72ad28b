"""How many more threads this process may start.

Asked before C code starts some: libgomp ends the process when it does not get one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from reame.host.cgroup import folders
from reame.host.reading import ROOT, number, read

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def thread_room(root: Path = ROOT) -> int | None:
    """At least so many, by the limits of the cgroup, its parents and the user, as long as nobody else takes them.
    None: no limit is known."""
    return min((max(0, room) for room in (*_group_rooms(root), *_user_room(root))), default=None)


def _group_rooms(root: Path) -> Iterator[int]:
    for folder in folders(root, "pids"):
        if (limit := number(read(root, folder / "pids.max"))) is not None:
            yield limit - (number(read(root, folder / "pids.current")) or 0)


def _user_room(root: Path) -> Iterator[int]:
    """RLIMIT_NPROC counts all threads of the user, also those in other containers, which cannot be seen. All threads of
    the machine are no fewer."""
    limit = re.search(r"^Max processes\s+(\d+)", read(root, "proc/self/limits"), re.MULTILINE)
    tasks = re.search(r"\d/(\d+)", read(root, "proc/loadavg"))
    if limit and tasks:
        yield int(limit[1]) - int(tasks[1])
