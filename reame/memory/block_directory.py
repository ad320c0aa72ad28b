"""Everything that concerns all blocks of a directory, of whatever model and namespace: the budget, and looking after it.

Several processes may do all of this at once: what vanishes under one's hands was another's work.
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from attrs import frozen

from reame.core.blocks import block_keys
from reame.memory import ledger as ledgers
from reame.memory.folders import (
    PAGE,
    Found,
    Unusable,
    ensure_root,
    files,
    folders,
    namespace_tag,
    opened,
    opened_file,
    read_all,
    remove,
)
from reame.memory.format import SMALLEST, Damaged, check, read_header, tokens_of, unpack

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from reame.memory.folders import Place
    from reame.memory.ledger import Ledger

KEPT = 0.9
"""Share of the budget that a pruning leaves, so that not every write prunes."""
STALE_S = 3600.0
"""A temporary file this old was left by a writer that was killed."""
_GONE = "gone-"
"""Folders that were taken out of the way to be deleted begin so."""


@frozen(kw_only=True)
class Entry:
    """One block as `ls` shows it. `size` bytes of file, `age` seconds since it was last used: negative when pinned."""

    model: str
    namespace: str
    key: str
    depth: int
    num_tokens: int
    size: int
    age: float


@frozen(kw_only=True)
class Removed:
    """What a deletion took away: files and bytes."""

    blocks: int = 0
    bytes: int = 0


@frozen(kw_only=True)
class Verified:
    """Sound blocks and their bytes; the damaged, by path below the directory with the reason. They are deleted."""

    blocks: int
    bytes: int
    damaged: tuple[tuple[str, str], ...]


class BlockDirectory:
    """See `folders` for what lies where. `budget_bytes` is for all models and namespaces together."""

    def __init__(self, path: Path, *, budget_bytes: int) -> None:
        self.path = path
        self.budget_bytes = budget_bytes

    def scan(self) -> Iterator[Found]:
        """All files of blocks, temporary ones too, in no order. Nothing when there is no directory."""
        with suppress(OSError), opened(self.path) as root:
            yield from _scan(root)

    def entries(self) -> Iterator[Entry]:
        """The blocks whose headers can be read, those of a chain not together."""
        now = time.time()
        with suppress(OSError), opened(self.path) as root:
            for found in _scan(root):
                with suppress(OSError, Damaged):
                    header = read_header(_read(root, found.place, SMALLEST))
                    yield Entry(
                        model=found.place.model,
                        namespace=found.place.namespace,
                        key=header.key.hex(),
                        depth=header.depth,
                        num_tokens=header.num_tokens,
                        size=found.size,
                        age=now - found.mtime_ns / 1e9,
                    )

    def prune(self) -> Removed:
        """Count all, delete what killed writers left, and when the budget is passed the least recently used.

        Reads the whole directory: half a second for 100,000 blocks. OSError when the directory cannot be worked on.
        """
        with suppress(FileNotFoundError), opened(self.path) as root, ledgers.locked(root) as ledger:
            return self._prune(root, ledger)
        return Removed()

    def take_room(self, root: int, size: int, blocks: int = 1) -> bool:
        """Whether the budget has room for `size` more bytes, which are then counted. Prunes when it must.

        BlockingIOError when another process holds the ledger for seconds; OSError when there can be none.
        """
        if size > self.budget_bytes:
            return False
        with ledgers.locked(root) as ledger:
            if not ledger.known or ledger.bytes + size > self.budget_bytes:
                self._prune(root, ledger, room=size)
            if ledger.bytes + size > self.budget_bytes:
                return False
            ledger.add(size, blocks)
            return True

    def give_back(self, root: int, size: int, blocks: int = 1) -> None:
        """Room that was taken is not used after all."""
        with suppress(OSError), ledgers.locked(root) as ledger:
            ledger.add(-size, -blocks)

    def glance(self) -> Ledger:
        """What the directory holds, as far as anybody has counted; no scan."""
        with suppress(OSError), opened(self.path) as root:
            return ledgers.glance(root)
        return ledgers.Ledger()

    def verify(self) -> Verified:
        """Read every block and delete the damaged."""
        blocks = size = 0
        damaged = []
        with suppress(FileNotFoundError), opened(self.path) as root:
            for found in _scan(root):
                if found.is_temporary:
                    continue
                try:
                    _check(root, found)
                except FileNotFoundError:
                    continue
                except (Damaged, OSError) as error:
                    damaged.append((str(found.place), getattr(error, "strerror", None) or str(error)))
                    remove(root, found.place)
                else:
                    blocks, size = blocks + 1, size + found.size
        return Verified(blocks=blocks, bytes=size, damaged=tuple(damaged))

    def forget(self, namespace: str) -> Removed:
        """Delete all blocks of a namespace, of every model. OSError when that is refused."""
        return self._drop(namespace_tag(namespace))

    def clear(self) -> Removed:
        """Delete all blocks. OSError when that is refused."""
        return self._drop(None)

    def _drop(self, tag: str | None) -> Removed:
        """Move folders out of the way, where nobody finds them any more, then delete them."""
        dropped: list[Found] = []
        with suppress(FileNotFoundError), opened(self.path) as root:
            for model in list(folders(root)):
                names = [tag] if tag else list(folders(root, model))
                for namespace in names:
                    dropped += (each for each in _files_below(root, model, namespace) if not each.is_temporary)
                    with suppress(FileNotFoundError), opened(root, model) as parent:
                        os.rename(namespace, f"{_GONE}{secrets.token_hex(8)}", src_dir_fd=parent, dst_dir_fd=root)
                with suppress(OSError):
                    os.rmdir(model, dir_fd=root)
            _delete_gone(root)
        self.prune()
        return Removed(blocks=len(dropped), bytes=sum(each.size for each in dropped))

    def _prune(self, root: int, ledger: Ledger, room: int = 0) -> Removed:
        _delete_gone(root)
        total = 0
        kept: list[Found] = []
        stale = time.time_ns() - int(STALE_S * 1e9)
        for found in _scan(root, tidy=True):
            if found.is_temporary and found.mtime_ns < stale:
                remove(root, found.place)
                continue
            total += found.charge
            if not found.is_temporary:
                kept.append(found)
        total += PAGE * sum(1 for _ in _all_folders(root))
        blocks, size = self._evict(root, kept, total, room=room) if total + room > self.budget_bytes else (0, 0)
        ledger.known = True
        ledger.bytes, ledger.blocks = max(0, total - size), len(kept) - blocks
        return Removed(blocks=blocks, bytes=size)

    def _evict(self, root: int, kept: list[Found], total: int, *, room: int) -> tuple[int, int]:
        """Delete the oldest until there is room. How many, and their bytes of budget."""
        target = min(int(KEPT * self.budget_bytes), self.budget_bytes - room)
        blocks = size = 0
        for found in sorted(kept, key=lambda each: each.mtime_ns):
            if total - size <= target:
                break
            if remove(root, found.place):
                blocks += 1
            size += found.charge
        return blocks, size


def _scan(root: int, *, tidy: bool = False) -> Iterator[Found]:
    """`tidy` removes folders that are empty; a writer that wanted one makes it again."""
    for names in _all_folders(root, tidy=tidy):
        if len(names) == 3:
            yield from files(root, *names)


def _files_below(root: int, model: str, namespace: str) -> Iterator[Found]:
    for folder in folders(root, model, namespace):
        yield from files(root, model, namespace, folder)
