"""Small readers for /proc and /sys. `root` is where these are mounted; what is missing or strange is "not known".

Containers, old kernels and other machines leave out any of them, so nothing here raises.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import PurePosixPath

ROOT = Path("/")


def read(root: Path, path: str | PurePosixPath) -> str:
    """The text without white space around it; empty when there is none."""
    try:
        return (root / path).read_text(errors="replace").strip()
    except OSError:
        return ""


def number(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None


def kilobytes(text: str, key: str) -> int | None:
    """Bytes of the line `key:   123 kB`, as /proc/meminfo and others write it."""
    found = re.search(rf"^{re.escape(key)}:\s*(\d+) kB", text, re.MULTILINE)
    return int(found[1]) << 10 if found else None


def cpu_list(text: str) -> list[int]:
    """`0-3,8` as numbers."""
    ranges = re.findall(r"(\d+)(?:-(\d+))?", text)
    return [cpu for first, last in ranges for cpu in range(int(first), int(last or first) + 1)]
