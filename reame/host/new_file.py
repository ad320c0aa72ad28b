"""A file that is put where none is."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def put(part: Path, target: Path) -> None:
    """`target` becomes what `part` is, all at once. Raises FileExistsError when something is there, OSError when it
    cannot be. Of two at the same moment both may succeed where there are no hard links: the later one stays."""
    try:
        os.link(part, target)
    except FileExistsError:
        raise
    except OSError:  # exFAT, and folders that a virtual machine shares, have no hard links
        if os.path.lexists(target):
            raise FileExistsError(target) from None
        os.replace(part, target)
