"""Where the segments of the archive lie, who has to go when it is full, and what is there.

    <directory>/<tokenizer: 16 hex>/<namespace: 32 hex>/<time: 16 hex>-<number: 16 hex>.seg

A segment that was found damaged has `.damaged` behind its name; it counts as any other, and goes when it is the oldest.
Directories 0700, files 0600. Several processes may do all of this at once.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from contextlib import suppress
from hashlib import blake2b
from typing import TYPE_CHECKING

from attrs import frozen

from reame.memory.archive_format import LARGEST, file_size
from reame.memory.block_directory import SPARE, STALE_S, delete_gone
from reame.memory.folders import charge, folders, opened

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAME = "archive"
"""The directory of the archive in that of the memory."""
ASIDE = ".damaged"
_SEGMENT = re.compile(r"[0-9a-f]{16}-[0-9a-f]{16}\.seg")
_OURS = re.compile(r"[0-9a-f]{16}-[0-9a-f]{16}\.seg(\.damaged|\.[0-9a-f]{16}\.tmp)?")


@frozen
class SegmentFile:
    """A file of the archive. `charge`: bytes of budget; a larger file than ours can be is not one that we made."""

    tokenizer: str
    tag: str
    name: str
    charge: int
    mtime_ns: int

    @property
    def is_aside(self) -> bool:
        return self.name.endswith(ASIDE)

    @property
    def is_temporary(self) -> bool:
        return self.name.endswith(".tmp")

    def __str__(self) -> str:
        return "/".join((self.tokenizer, self.tag, self.name))


def archive_tag(namespace: str, salt: bytes) -> str:
    """The folder of a namespace: never its name."""
    return blake2b(namespace.encode(), digest_size=16, key=salt[:64], person=b"reame.archive").hexdigest()


def segment_names(folder: int) -> list[str]:
    """Oldest first. OSError."""
    return sorted(name for name in os.listdir(folder) if _SEGMENT.fullmatch(name))


def segment_files(root: int) -> Iterator[SegmentFile]:
    """All files of ours below `root`, in no order; what vanishes meanwhile is left out."""
    for tokenizer in folders(root):
        for tag in folders(root, tokenizer):
            with suppress(OSError), opened(root, tokenizer, tag) as folder:
                for name in os.listdir(folder):
                    with suppress(OSError):
                        facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
                        if _OURS.fullmatch(name) and stat.S_ISREG(facts.st_mode):
                            size = charge(min(facts.st_size, file_size(LARGEST)))
                            yield SegmentFile(tokenizer, tag, name, size, facts.st_mtime_ns)


class Room:
    """The budget of the directory, for all tokenizers, namespaces and processes together. `held`: bytes at the last
    look, `num_evicted`: segments."""

    def __init__(self, directory: Path, budget_bytes: int) -> None:
        self.directory = directory
        self.budget_bytes = budget_bytes
        self.held = 0
        self.num_evicted = 0

    def make(self, root: int, size: int = 0) -> None:
        """Let the oldest go until there is room for `size` bytes more, and what others, killed, left to be deleted.
        OSError when there cannot be."""
        delete_gone(root)
        if charge(size) > self.budget_bytes:
            raise OSError(errno.ENOSPC, f"{size} bytes are more than memory.archive_mb allows")
        files = sorted(segment_files(root), key=lambda file: file.mtime_ns)
        held = sum(file.charge for file in files)
        stale = time.time_ns() - int(STALE_S * 1e9)
        for file in files:
            if held + charge(size) > self.budget_bytes or (file.is_temporary and file.mtime_ns < stale):
                _unlink(root, file)
                held -= file.charge
                self.num_evicted += not file.is_temporary
        self.held = held + charge(size)
        disk = os.fstatvfs(root)
        spare = min(SPARE, disk.f_blocks * disk.f_frsize // 20)
        if size and disk.f_bavail * disk.f_frsize < size + spare:
            raise OSError(errno.ENOSPC, "too little room is left on the disk")


def _unlink(root: int, file: SegmentFile) -> None:
    """Gone already is gone."""
    with suppress(OSError), opened(root, file.tokenizer, file.tag) as folder:
        os.unlink(file.name, dir_fd=folder)
