"""Old answers to requests whose result is fixed, in an sqlite database that several processes share.

Owner of its connection, which one thread at a time uses. Whatever is wrong with the database or the disk is a miss; a
damaged database is set aside (the last one is kept, as `<name>.damaged`) and a new one begun.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import stat
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from attrs import asdict, define, frozen

from reame.memory.answer_format import Answer, pack, unpack
from reame.memory.folders import ensure_root, namespace_tag
from reame.memory.format import Damaged
from reame.memory.outage import Outage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

VERSION = 1
ROW_BYTES = 256
"""What a row costs beside its body: key, tag, numbers, and its entries in the indices."""
KEPT = 0.9
"""Share of the budget that stays when it was passed."""
FRESH_S = 60.0
"""A use is written down at most this often, so that a hit need not write."""
BUSY_S = 1.0
"""How long another process's write is waited for."""
_NOT_OURS = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_ERROR}
"""Damaged; or (SQLITE_ERROR) without the tables that ours has."""
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_PRAGMAS = ("journal_mode = WAL", "synchronous = NORMAL", "journal_size_limit = 4194304", "secure_delete = ON")
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

T = TypeVar("T")


@frozen(kw_only=True)
class AnswerStats:
    """`answers` and `bytes` are in the database now. The others count since the start: found, not found, damaged (an
    answer or the whole database), not written for want of room or of a working disk, evicted by this process."""

    answers: int
    bytes: int
    hits: int
    misses: int
    corrupt: int
    dropped: int
    evicted: int


@define
class _Counts:
    hits: int = 0
    misses: int = 0
    corrupt: int = 0
    dropped: int = 0
    evicted: int = 0


class AnswerStore:
    """At most `budget_bytes` of answers in the database at `path`, which is opened at the first use.

    `clock` in seconds is for the pause after a failed write.
    """

    def __init__(self, path: Path, *, budget_bytes: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.path = path
        self.budget_bytes = budget_bytes
        self._database: sqlite3.Connection | None = None
        self._inode = 0
        self._counts = _Counts()
        self._turn = threading.RLock()
        self._outage = Outage(f"old answers ({path})", clock)

    def get(self, key: bytes) -> Answer | None:
        """The answer that was put under this key."""
        with self._turn:
            answer = self._safely(lambda database: self._get(database, key))
            self._counts.hits += answer is not None
            self._counts.misses += answer is None
            return answer

    def put(self, key: bytes, answer: Answer, *, namespace: str) -> bool:
        """Whether the database has it now. False, and counted as dropped: no room, or the disk takes nothing."""
        body = pack(key, answer)
        with self._turn:
            done = not self._outage.holds() and self._safely(lambda database: self._put(database, key, body, namespace))
            self._counts.dropped += not done
            return bool(done)

    def forget(self, namespace: str) -> int:
        """Delete all answers of a namespace, bytes too. How many. OSError when that is not possible."""
        return self._delete("DELETE FROM answers WHERE namespace = ?", namespace_tag(namespace))

    def clear(self) -> int:
        """Delete all answers. How many. OSError when that is not possible."""
        return self._delete("DELETE FROM answers")

    def stats(self) -> AnswerStats:
        """Reads one row."""
        with self._turn:
            there = self._safely(_held) if self.path.exists() else None
            answers, size = there or (0, 0)
            return AnswerStats(answers=answers, bytes=size, **asdict(self._counts))

    def close(self) -> None:
        """It opens again when it is used again."""
        with self._turn:
            if self._database is not None:
                with suppress(sqlite3.Error):
                    self._database.close()
                self._database = None

    def _get(self, database: sqlite3.Connection, key: bytes) -> Answer | None:
        row = database.execute("SELECT body, used FROM answers WHERE key = ?", (key,)).fetchone()
        if row is None:
            return None
        body, used = row
        now = time.time()
        try:
            answer = unpack(key, body)
        except Damaged:
            self._counts.corrupt += 1
            database.execute("DELETE FROM answers WHERE key = ?", (key,))
            return None
        if not 0 <= now - used < FRESH_S:
            with suppress(sqlite3.OperationalError):  # a disk that takes nothing can still be read
                database.execute("UPDATE answers SET used = ? WHERE key = ?", (now, key))
        return answer

    def _put(self, database: sqlite3.Connection, key: bytes, body: bytes, namespace: str) -> bool:
        size = len(body) + ROW_BYTES
        if size > self.budget_bytes:
            return False
        row = (key, namespace_tag(namespace), time.time(), size, body)
        database.execute("BEGIN IMMEDIATE")
        try:
            database.execute(
                "INSERT INTO answers VALUES (?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET used = excluded.used", row
            )
            evicted = self._make_room(database)
            database.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                database.execute("ROLLBACK")
            raise
        self._counts.evicted += evicted
        self._outage.end()
        return True

    def _make_room(self, database: sqlite3.Connection) -> int:
        """Delete the least recently used answers when the budget is passed. How many."""
        _, size = _held(database)
        if size <= self.budget_bytes:
            return 0
        old = []
        for key, each in database.execute("SELECT key, size FROM answers ORDER BY used"):
            if size <= KEPT * self.budget_bytes:
                break
            old.append((key,))
            size -= each
        database.executemany("DELETE FROM answers WHERE key = ?", old)
        return len(old)

    def _delete(self, statement: str, *values: str) -> int:
        with self._turn:
            if not os.path.lexists(self.path):
                return 0
            try:
                database = self._open()
                count = database.execute(statement, values).rowcount
            except sqlite3.Error as error:
                if _code(error) in _NOT_OURS:
                    self._set_aside()
                raise OSError(f"{self.path}: {error}") from None
            with suppress(sqlite3.OperationalError):  # others are reading: what was deleted is overwritten already
                database.execute("VACUUM")
                database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            return count

    def _safely(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """The result of `work`, or None when database or disk are not in order."""
        try:
            return work(self._open())
        except (sqlite3.Error, OSError) as error:
            code = _code(error)
            if code in _NOT_OURS:
                self._set_aside()
            elif code not in _BUSY:
                self._outage.begin(error)
            return None

    def _open(self) -> sqlite3.Connection:
        """The connection, a new one when the file is another than before. sqlite3.Error, OSError."""
        if self._database is not None:
            with suppress(FileNotFoundError):
                if self.path.lstat().st_ino == self._inode:
                    return self._database
            self.close()
        ensure_root(self.path.parent)
        with suppress(FileExistsError):
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))  # sqlite would ask the umask
        facts = self.path.lstat()
        self._inode = facts.st_ino
        if not stat.S_ISREG(facts.st_mode):
            self._set_aside()
            raise sqlite3.OperationalError("not a file")
        database = sqlite3.connect(self.path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
        try:
            _prepare(database)
        except BaseException:
            database.close()
            raise
        self._database = database
        return database

    def _set_aside(self) -> None:
        """Nobody reads it again, but a person may want to. Another process may have done so already."""
        self.close()
        self._counts.corrupt += 1
        try:
            if self.path.lstat().st_ino == self._inode:
                os.replace(self.path, f"{self.path}.damaged")
                for journal in ("-wal", "-shm"):
                    with suppress(FileNotFoundError):
                        os.unlink(f"{self.path}{journal}")
                log.warning("old answers: %s was damaged: set aside as %s.damaged", self.path, self.path.name)
        except OSError as error:
            self._outage.begin(error)


def _prepare(database: sqlite3.Connection) -> None:
    for pragma in _PRAGMAS:
        database.execute(f"PRAGMA {pragma}")
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if version == 0:
        database.executescript(_SCHEMA)
    elif version != VERSION:
        error = sqlite3.DatabaseError(f"version {version}")
        error.sqlite_errorcode = sqlite3.SQLITE_NOTADB
        raise error


def _held(database: sqlite3.Connection) -> tuple[int, int]:
    """Answers and their bytes."""
    answers, size = database.execute("SELECT answers, bytes FROM held").fetchone()
    return answers, size


def _code(error: Exception) -> int:
    """sqlite's primary result code; 0 when the error is not sqlite's own."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
