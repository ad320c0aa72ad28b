"""From where a file of the models directory was pulled: a line in its lock file, which stays behind the download.

The line is of use only while the file's time of change is the noted one. So a file that somebody else put there has
none, as has one that was pulled before there were such lines.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from reame.catalog_types import HubFile, WheelFile


def lock_file(target: Path) -> Path:
    return target.with_name(f".{target.name}.lock")


def note_origin(target: Path, source: HubFile | WheelFile) -> None:
    """For the holder of the lock, once the file is in place. Nothing when it cannot be written."""
    with suppress(OSError):
        lock_file(target).write_text(f"{source} {target.stat().st_mtime_ns}\n")


def origin(target: Path) -> str | None:
    """The source in words, as `HubFile` and `WheelFile` write themselves; None: not known."""
    try:
        source, _, changed = lock_file(target).read_text().strip().rpartition(" ")
        return source if source and changed == str(target.stat().st_mtime_ns) else None
    except (OSError, ValueError):
        return None
