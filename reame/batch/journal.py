"""The file of results: lines are appended whole and are on the disk before `append` returns.

Whatever ends the process, a SIGKILL or a full disk, leaves whole lines and at most one torn one behind them, which is
cut when the file is opened again. One process at a time has the file (flock).
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from reame.batch.result import read_result
from reame.config_rules import printable
from reame.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from reame.batch.result import Result

CHUNK = 1 << 16


class JournalBusyError(ConfigError):
    """Another process has the file."""


class Journal:
    """Owns the file at `path`, which is made when it is not there. Raises ConfigError for one that cannot be written,
    JournalBusyError for one that another process has."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except (OSError, ValueError) as error:
            raise _unwritable(path, error) from None
        _lock(self._descriptor, path)
        _sync_folder(path.resolve())
        self.size = os.fstat(self._descriptor).st_size

    def close(self) -> None:
        os.close(self._descriptor)

    def results(self) -> Iterator[tuple[int, int, Result]]:
        """(offset, length, result) of every line; a torn last line is cut off. Raises ConfigError for a file of
        something else, before anything is changed."""
        start = 0
        with open(self._descriptor, "rb", closefd=False) as file:
            file.seek(0)
            for number, raw in enumerate(file, 1):
                result = read_result(raw)
                if result is None or not raw.endswith(b"\n"):
                    if start + len(raw) < self.size or not (start or _looks_torn(raw)):
                        raise ConfigError(
                            f"{printable(self._path)}: line {number} is no result of a batch: name another file"
                        )
                    break
                yield start, len(raw), result
                start += len(raw)
        self._cut(start)

    def append(self, lines: bytes) -> None:
        """Raises OSError when the disk does not take them: then the file is as it was."""
        try:
            done = 0
            while done < len(lines):
                done += os.pwrite(self._descriptor, lines[done:], self.size + done)
            os.fsync(self._descriptor)
        except OSError:
            with suppress(OSError):
                self._cut(self.size)
            raise
        self.size += len(lines)

    def read(self, start: int, length: int) -> bytes:
        return os.pread(self._descriptor, length, start)

    def rewrite(self, parts: Iterable[tuple[int, int]]) -> None:
        """Keep these (offset, length), in this order. The old file stands until the new one is whole on the disk. A
        link stays a link, to the new file."""
        target = self._path.resolve()
        temporary = target.with_name(f"{target.name}.{os.getpid()}.tmp")
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC, os.fstat(self._descriptor).st_mode & 0o777)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with open(descriptor, "wb", closefd=False) as file:
                for start, length in parts:
                    file.write(self.read(start, length))
            os.fsync(descriptor)
            os.replace(temporary, target)
        except BaseException:
            os.close(descriptor)
            temporary.unlink(missing_ok=True)
            raise
        os.close(self._descriptor)
        self._descriptor, self.size = descriptor, os.fstat(descriptor).st_size
        _sync_folder(target)

    def _cut(self, size: int) -> None:
        if os.fstat(self._descriptor).st_size != size:
            os.ftruncate(self._descriptor, size)
        self.size = size


def _looks_torn(raw: bytes) -> bool:
    """A first line without an end may be ours or anybody's: only what begins as our lines do is cut."""
    ours = b'{"id":"batch_req_'
    return ours.startswith(raw[: len(ours)]) or not raw.strip(b"\0")


def _lock(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_ino == path.stat().st_ino:
            return
    except BlockingIOError:
        pass
    except OSError as error:
        os.close(descriptor)
        raise _unwritable(path, error) from None
    os.close(descriptor)
    raise JournalBusyError(f"{printable(path)}: another batch is writing it: wait for its end, or name another file")


def _unwritable(path: Path, error: Exception) -> ConfigError:
    reason = (error.strerror if isinstance(error, OSError) else None) or "not a path"
    return ConfigError(f"{printable(path)}: cannot be written: {reason.lower()}")


def _sync_folder(path: Path) -> None:
    """So that the file's name survives a power cut too; where folders cannot be read, or file systems sync none, it is
    as good as it gets."""
    with suppress(OSError):
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
