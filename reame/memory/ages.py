"""Who has to go first: the order of eviction is that of the files' mtime.

A block is always a little older than the one before it, so a chain loses its end first: a block without its beginning
is of no use. A block whose mtime lies in the future is pinned until then: the last to go.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from reame.memory.folders import Place, Unusable, opened, opened_file, place_of, read_all, remove
from reame.memory.format import SMALLEST, Damaged, read_header

if TYPE_CHECKING:
    from reame.core.blocks import Block

STEP_NS = 1000
"""How much older than the block before it a block is."""
RECENT_NS = 60 * 10**9
"""Blocks used within this time are not made younger again for the sake of a new one behind them."""


def age_for(root: int, place: Place, block: Block) -> int:
    """The mtime (ns) that puts a new block right behind the one before it, after making its ancestors younger where
    their last use was long ago."""
    newest = time.time_ns()
    recent = newest - RECENT_NS
    line: list[Place] = []
    key = block.parent
    while len(line) < block.depth:
        above = place_of(key, model=place.model, namespace=place.namespace)
        try:
            mtime, key = _glimpse(root, above)
        except (Damaged, OSError):
            break
        if mtime > recent:
            newest = min(newest, mtime)
            break
        line.append(above)
    for above in reversed(line):
        newest -= STEP_NS
        with suppress(OSError):
            make_younger(root, above, newest)
    return newest - STEP_NS


def make_younger(root: int, place: Place, mtime_ns: int) -> bool:
    """Whether there is such a file; it is then at least that young. Unusable when a folder is in its place."""
    try:
        with opened(root, *place.folders) as folder, opened_file(folder, place.name) as (file, facts):
            if facts.st_size < SMALLEST:
                return False
            with suppress(PermissionError):
                set_age(file, facts, mtime_ns)
            return True
    except Unusable:
        if not remove(root, place):
            raise
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        pass
    return False


def set_age(file: int, facts: os.stat_result, mtime_ns: int) -> None:
    """Never back in time: a block may be pinned. OSError."""
    if facts.st_mtime_ns < mtime_ns:
        os.utime(file, ns=(mtime_ns, mtime_ns))


def _glimpse(root: int, place: Place) -> tuple[int, bytes]:
    """When a block was last used, and the key of the one before it. Damaged or OSError when it cannot be told."""
    with opened(root, *place.folders) as folder, opened_file(folder, place.name) as (file, facts):
        return facts.st_mtime_ns, read_header(read_all(file, SMALLEST)).parent
