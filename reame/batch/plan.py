"""What is to be done, and in which order. Owner of a private database on disk, gone when it is closed.

Memory is bounded whatever the input's length: of each line there are a few hundred bytes in the database, and of that
at most `CACHE_KB` in memory. Lines are read again from the input when their turn comes.
"""

from __future__ import annotations

import os
import sqlite3
from itertools import groupby, islice, pairwise
from stat import S_ISREG
from typing import TYPE_CHECKING, Any, BinaryIO

from attrs import frozen

from reame.batch.line import MAX_LINE, Fault, Record, fault, place_of, read_line, same_as
from reame.batch.result import fault_line, refusal
from reame.config_rules import printable
from reame.errors import ConfigError, RequestError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from reame.batch.journal import Journal

CACHE_KB = 16_384
MOST_ALIKE = 256
"""Identical records that are written at once; more of them come again as a group of their own."""
FAULTS_AT_ONCE = 64

_TABLES = """
CREATE TABLE lines (
    number INTEGER PRIMARY KEY, id TEXT UNIQUE, at INTEGER, size INTEGER, custom TEXT UNIQUE, place BLOB, same BLOB,
    code TEXT, fault BLOB
);
CREATE TABLE results (id TEXT PRIMARY KEY, at INTEGER, size INTEGER, custom TEXT, is_good INTEGER) WITHOUT ROWID;
"""
_UNDONE = "id NOT IN (SELECT id FROM results)"
_DONE = "FROM results WHERE id IN (SELECT id FROM lines)"


@frozen(kw_only=True)
class Counts:
    """Lines of the input; those that had a result already, and those of them that had failed."""

    lines: int
    done: int
    failed: int


class Plan:
    """`scan`, `resume`, then `faults` and `groups`, and `in_order` at the end. For any thread, one at a time. All raise
    sqlite3.Error when there is no room for the database."""

    def __init__(self, path: Path, *, url: str | None = None, is_table: bool = False) -> None:
        """`url`: that of all lines, where it was said before. `is_table`: a line's `custom_id` says what is asked,
        however long the answer may be; one that was cut has failed. Raises ConfigError when the input cannot be read.
        """
        self._path = path
        self._url = url
        self._is_table = is_table
        try:
            self._file = path.open("rb")
        except (OSError, ValueError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or "not a path"
            raise ConfigError(f"{printable(path)}: cannot be read: {reason.lower()}") from None
        if not S_ISREG(os.fstat(self._file.fileno()).st_mode):
            self._file.close()
            raise ConfigError(f"{printable(path)}: not a file: the input is read twice, write it into one")
        self._base = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        for name, value in (("cache_size", -CACHE_KB), ("journal_mode", "OFF"), ("synchronous", "OFF")):
            self._base.execute(f"PRAGMA {name} = {value}")
        self._base.executescript(_TABLES)

    def close(self) -> None:
        self._base.close()
        self._file.close()

    def scan(self, known: Mapping[int, str]) -> None:
        """Read every line once; blank ones at the end are none. `known`: by number, what is wrong with lines that they
        cannot tell themselves."""
        last = 0
        self._base.execute("BEGIN")
        for number, (start, size, raw) in enumerate(_lines(self._file), 1):
            if number in known:
                self._add_fault(fault(raw, number, RequestError(known[number], code="invalid_line"), None), start, size)
            else:
                self._add(self._read(raw, number), raw, start, size)
            last = number if raw.strip() else last
        self._base.execute("DELETE FROM lines WHERE number > ?", (last,))
        self._base.execute("COMMIT")

    def resume(self, journal: Journal, *, retry: bool) -> Counts:
        """Take in what was done before. Failed results that belong to no line any more are dropped, with `retry` all
        failed ones. Raises ConfigError for an output with answers to other requests; of a table, which loses rows from
        day to day, for one with answers to nothing else: they stay where they are.
        """
        self.take_in(journal)
        stale = "FROM results WHERE id NOT IN (SELECT id FROM lines)"
        num_others, example = self._base.execute(f"SELECT count(*), min(custom) {stale} AND is_good").fetchone()
        if num_others and not (self._is_table and self._number(f"{_DONE} AND is_good")):
            raise ConfigError(
                f"the output has {num_others:,} answers to requests that the input does not have, such as the one with "
                f"custom_id {printable(example)}: name another output, or remove this one"
            )
        dropped = "FROM results WHERE NOT is_good" if retry else f"{stale} AND NOT is_good"
        if self._number(dropped):
            self._base.execute(f"DELETE {dropped}")
            journal.rewrite(self._base.execute("SELECT at, size FROM results ORDER BY at"))
        return Counts(
            lines=self._number("FROM lines"),
            done=self._number(_DONE),
            failed=self._number(f"{_DONE} AND NOT is_good"),
        )

    def faults(self) -> Iterator[list[tuple[str, bytes]]]:
        """(code, output line) of the lines that ask for nothing that can be done, a few at a time."""
        rows = self._base.execute(f"SELECT code, fault FROM lines WHERE fault NOTNULL AND {_UNDONE} ORDER BY number")
        while some := rows.fetchmany(FAULTS_AT_ONCE):
            yield some

    def groups(self) -> Iterator[tuple[Record, ...]]:
        """What is to be computed, along the tree of the prompts. The records of a group have one answer."""
        rows = self._base.execute(
            f"SELECT number, at, size, id, same FROM lines WHERE fault IS NULL AND {_UNDONE} "
            "ORDER BY place, same, number"
        )
        for same, alike in groupby(rows, key=lambda row: row[4]):
            while some := list(islice(alike, 1 if same is None else MOST_ALIKE)):
                yield tuple(self._record(*row[:4]) for row in some)

    def in_order(self, journal: Journal) -> Iterator[tuple[int, int, int]]:
        """(number of the line, offset, length) of all results in the journal as it is now, in the input's order."""
        self.take_in(journal)
        return self._base.execute("SELECT number, r.at, r.size FROM lines JOIN results r USING (id) ORDER BY number")

    def sort(self, journal: Journal) -> None:
        """Put the results into the input's order, unless they are."""
        starts = (start for _, start, _ in self.in_order(journal))
        if any(later < earlier for earlier, later in pairwise(starts)):
            journal.rewrite((start, size) for _, start, size in self.in_order(journal))

    def take_in(self, journal: Journal) -> None:
        """What has a result in the journal by now is done."""
        self._base.execute("BEGIN")
        rows = (
            (r.id, start, size, r.custom_id, r.is_good and not (self._is_table and r.is_cut))
            for start, size, r in journal.results()
        )
        self._base.executemany("INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?, ?)", rows)
        self._base.execute("COMMIT")

    def _read(self, raw: bytes, number: int) -> Record | Fault:
        return read_line(raw, number, by_name=self._is_table)

    def _number(self, what: str) -> int:
        value: int = self._base.execute(f"SELECT count(*) {what}").fetchone()[0]
        return value

    def _add(self, line: Record | Fault, raw: bytes, start: int, size: int) -> None:
        if isinstance(line, Record) and self._url not in (None, line.url):
            error = RequestError(f"url must be {self._url}, as the batch says", param="url", code="invalid_url")
            line = fault(raw, line.number, error, line.custom_id)
        if isinstance(line, Record):
            where = place_of(line.url, line.body), same_as(line.url, line.body)
            row = (line.number, line.id, start, size, line.custom_id, *where)
            if self._base.execute("INSERT OR IGNORE INTO lines VALUES (?, ?, ?, ?, ?, ?, ?, NULL, NULL)", row).rowcount:
                return
            line = self._duplicate(line, raw)
        self._add_fault(line, start, size)

    def _add_fault(self, line: Fault, start: int, size: int) -> None:
        row: tuple[Any, ...] = (line.number, line.id, start, size, refusal(line.error).code, fault_line(line))
        self._base.execute("INSERT INTO lines VALUES (?, ?, ?, ?, NULL, NULL, NULL, ?, ?)", row)

    def _duplicate(self, line: Record, raw: bytes) -> Fault:
        query = "SELECT number FROM lines WHERE custom = ?"
        (first,) = self._base.execute(query, (line.custom_id,)).fetchone()
        error = RequestError(
            f"line {first} has this custom_id already", param="custom_id", code="duplicate_custom_id"
        )
        return fault(raw, line.number, error, line.custom_id)

    def _record(self, number: int, start: int, size: int, name: str) -> Record:
        line = self._read(os.pread(self._file.fileno(), size, start), number)
        if isinstance(line, Fault) or line.id != name:
            raise ConfigError(f"{printable(self._path)}: line {number} is no longer what it was: leave the file alone")
        return line


def _lines(file: BinaryIO) -> Iterator[tuple[int, int, bytes]]:
    """(offset, length, text) of each line with its end. Of one that is too long, the text is only its beginning."""
    start = 0
    file.seek(0)
    while raw := file.readline(MAX_LINE + 8):
        size, last = len(raw), raw
        while not last.endswith(b"\n") and (last := file.readline(MAX_LINE)):
            size += len(last)
        yield start, size, raw
        start += size
