"""Old answers to requests whose result is fixed, in an sqlite database that several processes share.

One thread at a time uses the connection. Whatever is wrong with the database or the disk is a miss; a damaged database
is set aside (the last one is kept, as `<name>.damaged`) and a new one begun.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

from attrs import asdict, define, frozen

from reame.memory.answer_database import BUSY, NOT_OURS, Database, code_of, not_ours
from reame.memory.answer_format import Answer, pack, unpack
from reame.memory.folders import namespace_tag
from reame.memory.format import Damaged
from reame.memory.outage import Outage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

NAME = "answers.sqlite"
"""The database in the directory of the memory."""
ROW_BYTES = 256
"""What a row costs beside its body: key, tag, numbers, and its entries in the indices."""
KEPT = 0.9
"""Share of the budget that stays when it was passed."""
PATIENCE_S = 0.25
"""Longest wait for the database before its answer counts as not there."""
FRESH_S = 60.0
"""A use is written down at most this often, so that a hit need not write."""
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
        self._database = Database(path)
        self._counts = _Counts()
        self._turn = threading.RLock()
        self._outage = Outage(f"old answers ({path})", clock)

    def get(self, key: bytes) -> Answer | None:
        """The answer that was put under this key. While something long is done to the database there is none."""
        if not self._turn.acquire(timeout=PATIENCE_S):
            return None
        try:
            answer = self._safely(lambda database: self._get(database, key))
            self._counts.hits += answer is not None
            self._counts.misses += answer is None
            return answer
        finally:
            self._turn.release()

    def put(self, key: bytes, answer: Answer, *, namespace: str) -> bool:
        """Whether the database has it now. False, and counted as dropped: no room, or the disk takes nothing."""
        body = pack(key, answer)
        with self._turn:
            done = not self._outage.holds() and self._safely(lambda database: self._put(database, key, body, namespace))
            self._counts.dropped += not done
            return bool(done)

    def drop(self, key: bytes) -> bool:
        """Delete the answer that was put under this key, bytes too where no other process reads just now. Whether there
        was one."""
        with self._turn:
            return bool(os.path.exists(self.path) and self._safely(lambda database: self._drop(database, key)))

    def forget(self, namespace: str) -> int:
        """Delete all answers of a namespace, bytes too. How many. OSError when that is not possible."""
        return self._delete("DELETE FROM answers WHERE namespace = ?", namespace_tag(namespace))

    def clear(self) -> int:
        """Delete all answers. How many. OSError when that is not possible."""
        return self._delete("DELETE FROM answers")

    def prune(self) -> int:
        """Bring the database within its budget, which may have become smaller. How many answers went."""
        with self._turn:
            return (self._safely(self._prune) if os.path.exists(self.path) else None) or 0

    def verify(self) -> tuple[int, int]:
        """Read every answer and delete the damaged. How many are sound; how many were not (a database: one)."""
        with self._turn:
            before = self._num_corrupt()
            sound = (self._safely(self._verify) if os.path.exists(self.path) else None) or 0
            return sound, self._num_corrupt() - before

    def stats(self) -> AnswerStats:
        """Reads one row."""
        with self._turn:
            there = self._safely(_held) if os.path.exists(self.path) else None
            answers, size = there or (0, 0)
            counts = asdict(self._counts) | {"corrupt": self._num_corrupt()}
            return AnswerStats(answers=answers, bytes=size, **counts)

    def close(self) -> None:
        """It opens again when it is used again."""
        with self._turn:
            self._database.close()

    def _num_corrupt(self) -> int:
        return self._counts.corrupt + self._database.num_damaged

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
        with _transaction(database):
            database.execute(
                "INSERT INTO answers VALUES (?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET used = excluded.used", row
            )
            evicted = self._make_room(database)
        self._counts.evicted += evicted
        self._outage.end()
        return True

    def _drop(self, database: sqlite3.Connection, key: bytes) -> bool:
        database.execute("PRAGMA secure_delete = ON")
        found = database.execute("DELETE FROM answers WHERE key = ?", (key,)).rowcount > 0
        database.execute("PRAGMA secure_delete = OFF")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return found

    def _prune(self, database: sqlite3.Connection) -> int:
        with _transaction(database):
            evicted = self._make_room(database)
        self._counts.evicted += evicted
        return evicted

    def _verify(self, database: sqlite3.Connection) -> int:
        """How many are sound."""
        (first_fault,) = database.execute("PRAGMA integrity_check(1)").fetchone()
        if first_fault != "ok":
            raise not_ours(first_fault)
        sound, bad = 0, []
        for key, body in database.execute("SELECT key, body FROM answers"):
            try:
                unpack(key, body)
                sound += 1
            except Damaged:
                bad.append((key,))
        database.executemany("DELETE FROM answers WHERE key = ?", bad)
        self._counts.corrupt += len(bad)
        return sound

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
            self._database.aside.unlink(missing_ok=True)
            if not os.path.lexists(self.path):
                return 0
            try:
                database = self._database.open()
                count = database.execute(statement, values).rowcount
                database.execute("VACUUM")  # what was deleted is still in free pages
                (blocked, *_) = database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            except sqlite3.Error as error:
                if code_of(error) not in NOT_OURS:
                    raise OSError(f"{self.path}: {error}") from None
                self._database.set_aside()  # what cannot be read must go as a whole
                self._database.aside.unlink()
                return 0
            if blocked:
                raise OSError(f"{self.path}: deleted, but not yet overwritten: another process reads it; try again")
            return count

    def _safely(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """The result of `work`, or None when database or disk are not in order."""
        try:
            try:
                return work(self._database.open())
            except sqlite3.Error as error:
                if code_of(error) not in NOT_OURS:
                    raise
                self._database.set_aside()
        except (sqlite3.Error, OSError) as error:
            if code_of(error) not in BUSY:
                self._outage.begin(error)
        return None


@contextmanager
def _transaction(database: sqlite3.Connection) -> Iterator[None]:
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            database.execute("ROLLBACK")
        raise


def _held(database: sqlite3.Connection) -> tuple[int, int]:
    """Answers and their bytes."""
    answers, size = database.execute("SELECT answers, bytes FROM held").fetchone()
    return answers, size
