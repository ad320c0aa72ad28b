"""The sqlite file behind the old answers: how it is opened, shared, and set aside when it is damaged."""

from __future__ import annotations

import logging
import os
import sqlite3
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

from reame.memory.folders import ensure_root

if TYPE_CHECKING:
    from pathlib import Path

VERSION = 1
BUSY_S = 1.0
"""How long another process's write is waited for."""
NOT_OURS = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_ERROR}
"""Damaged; or (SQLITE_ERROR) without the tables that ours has."""
BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_PRAGMAS = ("journal_mode = WAL", "synchronous = NORMAL", "journal_size_limit = 4194304")
_SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS answers (
    key BLOB PRIMARY KEY, namespace TEXT NOT NULL, used REAL NOT NULL, size INTEGER NOT NULL, body BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS by_use ON answers (used, size);
CREATE INDEX IF NOT EXISTS by_namespace ON answers (namespace);
CREATE TABLE IF NOT EXISTS held (answers INTEGER NOT NULL, bytes INTEGER NOT NULL);
INSERT INTO held SELECT 0, 0 WHERE NOT EXISTS (SELECT * FROM held);
CREATE TRIGGER IF NOT EXISTS more AFTER INSERT ON answers
    BEGIN UPDATE held SET answers = answers + 1, bytes = bytes + new.size; END;
CREATE TRIGGER IF NOT EXISTS fewer AFTER DELETE ON answers
    BEGIN UPDATE held SET answers = answers - 1, bytes = bytes - old.size; END;
PRAGMA user_version = {VERSION};
COMMIT;
"""

log = logging.getLogger(__name__)


class Database:
    """One connection, for one thread at a time. `num_damaged` files were set aside by it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.aside = path.with_name(f"{path.name}.damaged")
        self.num_damaged = 0
        self._connection: sqlite3.Connection | None = None
        self._inode = 0

    def open(self) -> sqlite3.Connection:
        """The connection, a new one when the file is another than before. sqlite3.Error, OSError."""
        if self._connection is not None:
            with suppress(FileNotFoundError):
                if self.path.lstat().st_ino == self._inode:
                    return self._connection
            self.close()
        ensure_root(self.path.parent)
        with suppress(FileExistsError):
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))  # sqlite would ask the umask
        facts = self.path.lstat()
        self._inode = facts.st_ino
        if not stat.S_ISREG(facts.st_mode):
            self.set_aside()
            return self.open()
        database = sqlite3.connect(self.path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
        try:
            _prepare(database)
        except BaseException:
            database.close()
            raise
        self._connection = database
        return database

    def close(self) -> None:
        """It opens again when it is used again."""
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def set_aside(self) -> None:
        """Nobody reads the file again, but a person may want to. Another process may have done so already. OSError."""
        self.close()
        self.num_damaged += 1
        if self.path.lstat().st_ino == self._inode:
            os.replace(self.path, self.aside)
            for journal in ("-wal", "-shm"):
                with suppress(FileNotFoundError):
                    os.unlink(f"{self.path}{journal}")
            log.warning("old answers: %s was damaged: set aside as %s", self.path, self.aside.name)


def _prepare(database: sqlite3.Connection) -> None:
    for pragma in _PRAGMAS:
        database.execute(f"PRAGMA {pragma}")
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if version == 0:
        database.executescript(_SCHEMA)
    elif version != VERSION:
        raise not_ours(f"version {version}")


def not_ours(why: str) -> sqlite3.Error:
    """An error as sqlite itself would raise for a file that is none of ours."""
    error = sqlite3.DatabaseError(why)
    error.sqlite_errorcode = sqlite3.SQLITE_NOTADB
    return error


def code_of(error: Exception) -> int:
    """sqlite's primary result code; 0 when the error is not sqlite's own."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
