"""The budget of a directory of blocks, of whatever models and namespaces, and who has to go when it is full.

Several processes may do all of this at once: what vanishes under one's hands was another's work.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

from attrs import frozen

from reame.memory import ledger as ledgers
from reame.memory.folders import PAGE, Found, opened, remove, remove_empty, scan

if TYPE_CHECKING:
    from pathlib import Path

    from reame.memory.ledger import Ledger

NAME = "blocks"
"""The directory of blocks in that of the memory."""
KEPT = 0.9
"""Share of the budget that a pruning leaves, so that not every write prunes."""
SPARE = 256 << 20
"""Bytes of the disk, or a twentieth of a small one, that are left to others: blocks go before the disk is full."""
STALE_S = 3600.0
"""A temporary file this old was left by a writer that was killed."""
GONE = "gone-"
"""Folders that were taken out of the way to be deleted begin so."""


@frozen(kw_only=True)
class Removed:
    """What a deletion took away: blocks, and the bytes of budget that they cost."""

    blocks: int = 0
    bytes: int = 0


class BlockDirectory:
    """See `folders` for what lies where. `budget_bytes` is for all models and namespaces together."""

    def __init__(self, path: Path, *, budget_bytes: int) -> None:
        self.path = path
        self.budget_bytes = budget_bytes
        self.num_evicted = 0

    def prune(self) -> Removed:
        """Count all, delete what killed writers left, and when the budget is passed the least recently used.

        Reads the whole directory: a second for 100,000 blocks. OSError when the directory cannot be worked on.
        """
        with suppress(FileNotFoundError), opened(self.path) as root, ledgers.locked(root) as ledger:
            return self._prune(root, ledger, room=0)
        return Removed()

    def take_room(self, root: int, size: int) -> bool:
        """Whether the budget has room for a block of `size` bytes, which is then counted. Prunes when it must.

        BlockingIOError when another process holds the ledger for seconds; OSError when there can be none, or when the
        disk is full of other things.
        """
        with ledgers.locked(root) as ledger:
            if not ledger.known or ledger.bytes + size > self._limit(root, ledger.bytes):
                self._prune(root, ledger, room=size)
            if ledger.bytes + size > self.budget_bytes:
                return False
            if ledger.bytes + size > self._limit(root, ledger.bytes):
                raise OSError(errno.ENOSPC, "too little room is left on the disk")
            ledger.add(size, 1)
            return True

    def count(self, root: int, size: int, blocks: int) -> None:
        """So many bytes more, or fewer, are held than was thought."""
        with suppress(OSError), ledgers.locked(root) as ledger:
            ledger.add(size, blocks)

    def glance(self) -> Ledger:
        """What the directory holds, as far as anybody has counted; no scan."""
        with suppress(OSError), opened(self.path) as root:
            return ledgers.glance(root)
        return ledgers.Ledger()

    def _limit(self, root: int, held: int) -> int:
        """What may be held now that `held` bytes are: the budget, or less where the disk has less."""
        disk = os.fstatvfs(root)
        spare = min(SPARE, disk.f_blocks * disk.f_frsize // 20)
        return max(0, min(self.budget_bytes, held + disk.f_bavail * disk.f_frsize - spare))

    def _prune(self, root: int, ledger: Ledger, *, room: int) -> Removed:
        delete_gone(root)
        found = []
        stale = time.time_ns() - int(STALE_S * 1e9)
        for each in scan(root):
            if each.is_temporary and each.mtime_ns < stale:
                remove(root, each.place)
            else:
                found.append(each)
        pages = PAGE * (1 + remove_empty(root))  # the ledger's own, and the folders'
        held = pages + sum(each.charge for each in found)
        removed, freed = Removed(), 0
        limit = self._limit(root, held)
        if held + room > limit:
            target = min(int(KEPT * limit), limit - room)
            removed, freed = _evict(root, found, held - target)
            self.num_evicted += removed.blocks
        ledger.known = True
        ledger.bytes = held - freed
        ledger.blocks = sum(not each.is_temporary for each in found) - removed.blocks
        return removed


def _evict(root: int, found: list[Found], excess: int) -> tuple[Removed, int]:
    """Delete the oldest blocks until so many bytes are free. What went, and the bytes with those of empty folders.

    A file that is gone already counts as deleted: what others delete makes room too.
    """
    residents = Counter(each.place.folders for each in found)
    blocks = size = freed = 0
    for each in sorted((each for each in found if not each.is_temporary), key=lambda each: each.mtime_ns):
        if freed >= excess:
            break
        remove(root, each.place)
        blocks, size, freed = blocks + 1, size + each.charge, freed + each.charge
        residents[each.place.folders] -= 1
        if not residents[each.place.folders]:
            freed += PAGE
    remove_empty(root)
    return Removed(blocks=blocks, bytes=size), freed


def take_away(root: int, *folders: str) -> None:
    """Delete a folder with all in it; nobody finds it from the first moment on. OSError when that is refused."""
    with suppress(FileNotFoundError), opened(root, *folders[:-1]) as parent:
        os.rename(folders[-1], f"{GONE}{secrets.token_hex(8)}", src_dir_fd=parent, dst_dir_fd=root)
    empty_away(root)


def empty_away(root: int) -> None:
    """Delete what was taken out of the way, also by who was killed then. OSError when that is refused."""
    if delete_gone(root) and delete_gone(root):
        raise OSError("not all files could be deleted")


def delete_gone(root: int) -> bool:
    """Delete what was taken out of the way. Whether something resisted, such as the file of a writer in that moment."""
    for name in os.listdir(root):
        if name.startswith(GONE):
            shutil.rmtree(name, ignore_errors=True, dir_fd=root)
    return any(name.startswith(GONE) for name in os.listdir(root))
