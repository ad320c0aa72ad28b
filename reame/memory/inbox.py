"""How a command tells the daemons that run on a directory to forget something, and learns that they have.

    <memory>/daemons/<16 hex>/lock              locked by the daemon for as long as it may write
    <memory>/daemons/<16 hex>/<16 hex>.forget   an order: the name of a namespace. The daemon deletes it when it is done

Whoever may write there may order; directories are 0700. Folders of daemons that were killed go when somebody looks.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAME = "daemons"
"""The directory of the inboxes in that of the memory."""
LOCK = "lock"
SUFFIX = ".forget"
LONGEST = 4096
"""Bytes of an order at most."""
_FOLDER = re.compile(r"[0-9a-f]{16}")
_PAUSE_S = 0.05


@frozen
class Order:
    """A namespace to be forgotten."""

    file: Path
    namespace: str


class Inbox:
    """A daemon's own. The descriptor holds the lock until `close`, or until the process ends in whatever way."""

    def __init__(self, directory: Path) -> None:
        """OSError when it cannot be made."""
        self.directory = directory
        self._open()

    def _open(self) -> None:
        parent = self.directory / NAME
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        list(_running(parent))
        made = parent / f".{secrets.token_hex(8)}"
        made.mkdir(mode=0o700)
        lock = -1
        try:
            lock = os.open(made / LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            os.write(lock, str(os.getpid()).encode())
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.folder = made.rename(parent / made.name[1:])
        except OSError:
            if lock >= 0:
                os.close(lock)
            shutil.rmtree(made, ignore_errors=True)
            raise
        self._lock = lock

    @property
    def is_gone(self) -> bool:
        """Somebody has emptied the directory: no order can come. A disk that fails is no such thing."""
        try:
            os.stat(self.folder / LOCK)
        except (FileNotFoundError, NotADirectoryError):
            return True
        except OSError:
            pass
        return False

    def reopen(self) -> None:
        """Make it anew, where it is gone. OSError."""
        before = self._lock
        self._open()
        os.close(before)

    def orders(self) -> list[Order]:
        """Those that are not done. What cannot be read is none."""
        found = []
        with suppress(OSError):
            for name in sorted(os.listdir(self.folder)):
                if name.endswith(SUFFIX):
                    with suppress(OSError, UnicodeDecodeError):
                        data = (self.folder / name).read_bytes()[:LONGEST]
                        found.append(Order(self.folder / name, data.decode()))
        return found

    def done(self, order: Order) -> None:
        with suppress(OSError):
            order.file.unlink(missing_ok=True)

    def close(self) -> None:
        """It will not write any more."""
        shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self._lock)


def order(directory: Path, namespace: str) -> list[Path]:
    """Tell all daemons that run on this directory to forget a namespace: the files that go when they have. OSError."""
    files = []
    for folder in _running(directory / NAME):
        name = secrets.token_hex(8)
        part = folder / f".{name}"
        try:
            with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(namespace.encode())
                _give(file.fileno(), folder.stat())
            files.append(part.rename(folder / (name + SUFFIX)))
        except FileNotFoundError:
            continue  # it ends at this moment
    return files


def _give(file: int, to: os.stat_result) -> None:
    """To the daemon's user, when root orders something of a service; nobody else can or needs to."""
    with suppress(PermissionError):
        os.fchown(file, to.st_uid, to.st_gid)


def wait_done(files: list[Path], *, patience_s: float) -> list[Path]:
    """Until all orders are carried out, or their daemons have ended. Those for which neither came in time."""
    deadline = time.monotonic() + patience_s
    while (left := [file for file in files if file.exists() and _is_locked(file.parent)]) and (
        time.monotonic() < deadline
    ):
        time.sleep(_PAUSE_S)
    return left


def pid_of(file: Path) -> str:
    """The process that an order went to, in digits; "?" when it cannot be told."""
    with suppress(OSError, UnicodeDecodeError):
        return (file.parent / LOCK).read_text("utf-8") or "?"
    return "?"


def _running(parent: Path) -> Iterator[Path]:
    """The folders of daemons that run. Those of others are deleted."""
    names: list[str] = []
    with suppress(FileNotFoundError, NotADirectoryError):
        names = os.listdir(parent)
    for name in names:
        folder = parent / name
        if _FOLDER.fullmatch(name):
            if _is_locked(folder):
                yield folder
            else:
                shutil.rmtree(folder, ignore_errors=True)


def _is_locked(folder: Path) -> bool:
    """Whether its daemon runs. Taking the lock to find out takes it from nobody: a daemon locks its own before anybody
    can see it."""
    try:
        file = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return True  # a file system without locks: better to wait in vain than to miss one
    finally:
        os.close(file)
    return False
