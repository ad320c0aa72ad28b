"""How much a directory holds, counted by all processes that write there together: two numbers in a file, and its lock.

Room is taken before a file is written, so that the sum never passes the budget; what a killed process took and did not
use comes back with the next scan.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from attrs import define
from xxhash import xxh3_64_intdigest

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE = "usage"
PATIENCE_S = 2.0
"""A scan of 100,000 files by another process takes a second."""
_PAUSE_S = 0.005
_RECORD = struct.Struct("<QQQ")


@define
class Ledger:
    """`known` False: nobody has counted yet, or what was written down is not to be read."""

    known: bool = False
    bytes: int = 0
    blocks: int = 0

    def add(self, size: int, blocks: int = 0) -> None:
        """Negative numbers take away."""
        self.bytes = max(0, self.bytes + size)
        self.blocks = max(0, self.blocks + blocks)


@contextmanager
def locked(root: int) -> Iterator[Ledger]:
    """The ledger of the directory open as `root`, which is written back at the end.

    BlockingIOError when another process holds it for longer than `PATIENCE_S`; OSError when it cannot be kept.
    """
    file = _open(root)
    try:
        _lock(file)
        ledger = _parse(os.pread(file, _RECORD.size, 0))
        before = (ledger.bytes, ledger.blocks)
        try:
            yield ledger
        finally:
            if ledger.known and (ledger.bytes, ledger.blocks) != before:
                numbers = struct.pack("<QQ", ledger.bytes, ledger.blocks)
                os.pwrite(file, numbers + struct.pack("<Q", xxh3_64_intdigest(numbers)), 0)
    finally:
        os.close(file)


def glance(root: int) -> Ledger:
    """The numbers as they are now, without waiting for anybody."""
    try:
        file = os.open(FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=root)
    except OSError:
        return Ledger()
    try:
        return _parse(os.pread(file, _RECORD.size, 0))
    except OSError:
        return Ledger()
    finally:
        os.close(file)


def _open(root: int) -> int:
    """The file, made anew when something else has its name."""
    with suppress(FileNotFoundError):
        kind = os.stat(FILE, dir_fd=root, follow_symlinks=False).st_mode
        if stat.S_ISDIR(kind):
            os.rmdir(FILE, dir_fd=root)
        elif not stat.S_ISREG(kind):
            os.unlink(FILE, dir_fd=root)
    return os.open(FILE, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600, dir_fd=root)


def _parse(data: bytes) -> Ledger:
    if len(data) != _RECORD.size:
        return Ledger()
    size, blocks, check = _RECORD.unpack(data)
    return Ledger(True, size, blocks) if check == xxh3_64_intdigest(data[:16]) else Ledger()


def _lock(file: int) -> None:
    """flock has no time-out of its own, and the process that holds it may be stopped."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
                raise
            return None  # a file system without locks: each process counts as if it were alone
        time.sleep(_PAUSE_S)
