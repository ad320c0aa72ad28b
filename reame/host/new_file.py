"""A file that is put where none is."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def put(part: Path, target: Path) -> None:
    """`target` becomes what `part` is. Raises FileExistsError when something is there, OSError when it cannot be."""
    try:
        os.link(part, target)
    except FileExistsError:
        raise
    except OSError:  # exFAT, and folders that a virtual machine shares, have no hard links
        _copy(part, target)


def _copy(part: Path, target: Path) -> None:
    """Less than a link: until it is written, others see the beginning."""
    data = part.read_bytes()
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, part.stat().st_mode & 0o777)
    try:
        with open(descriptor, "wb", buffering=0) as file:
            while data:
                data = data[file.write(data) :]
    except OSError:
        target.unlink(missing_ok=True)
        raise
