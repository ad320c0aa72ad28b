"""Tables of comma-separated values, and other small texts, from files that people wrote."""

from __future__ import annotations

import csv
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING

from attrs import Factory, frozen

from reame.batch.line import BOM, MAX_LINE
from reame.config_rules import printable
from reame.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

DELIMITERS = "\t;|,"
"""The rarest in a text first."""
_SAMPLE = 64
"""Rows by which the delimiter is guessed."""


@frozen(kw_only=True)
class Table:
    """A file with a header and rows. `name`: what to call it, where `path` is a copy of it."""

    path: Path
    delimiter: str
    name: Path = Factory(lambda self: self.path, takes_self=True)

    @contextmanager
    def rows(self) -> Iterator[Iterator[list[str]]]:
        """The header, then the rows; blank lines are none. Raises ConfigError for what is no table."""
        try:
            file = self.path.open(encoding="utf-8-sig", newline="")
        except OSError as error:
            raise unreadable(self.name, error) from None
        with file:
            yield self._told(file)

    def style(self) -> tuple[str, str]:
        """The encoding, and the end of a line, as its beginning and its header's line have them."""
        with self.path.open("rb") as raw:
            encoding = "utf-8-sig" if raw.read(len(BOM)) == BOM else "utf-8"
        with self.path.open(encoding=encoding, newline="") as file:
            reader = csv.reader(file, delimiter=self.delimiter)
            any(reader)  # up to the first row that is not blank
            file.seek(0)
            *_, last = islice(file, reader.line_num)
        return encoding, "\r\n" if last.endswith("\r\n") else "\n"

    def _told(self, lines: Iterator[str]) -> Iterator[list[str]]:
        reader = csv.reader(lines, delimiter=self.delimiter, strict=True)
        found = (row for row in reader if row)
        try:
            header = next(found, [])
            if not header or len(set(header)) != len(header) or not all(header):
                raise ConfigError(f"{printable(self.name)}: the first line must name each column, all names different")
            yield header
            yield from found
        except UnicodeDecodeError as error:
            raise ConfigError(f"{printable(self.name)}: not UTF-8 text ({error.reason}): convert it first") from None
        except csv.Error as error:
            where = f"{printable(self.name)}: line {reader.line_num}"
            raise ConfigError(f"{where} is not of a table of separated values: {error}") from None
        except OSError as error:
            raise unreadable(self.name, error) from None


def table_of(path: Path, delimiter: str) -> Table:
    """`delimiter` empty: the one with which most rows have as many fields as the header, and then most fields; a comma
    where the header has one field with each."""
    csv.field_size_limit(MAX_LINE)
    try:
        if not S_ISREG(path.stat().st_mode):
            raise ConfigError(f"{printable(path)}: not a file: a table is read twice, write it into one")
    except OSError as error:
        raise unreadable(path, error) from None
    return Table(path=path, delimiter=delimiter or _guessed(path))


def _guessed(path: Path) -> str:
    fits = {one: _fit(path, one) for one in DELIMITERS}
    best = max(fits, key=lambda one: fits[one])
    return best if any(fits[best]) else ","


def _fit(path: Path, delimiter: str) -> tuple[float, int]:
    """Share of the first rows that have the header's number of fields, when there is more than one; and that number."""
    try:
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            found = [row for row in islice(csv.reader(file, delimiter=delimiter), _SAMPLE) if row]
    except (csv.Error, OSError):
        return 0.0, 0
    if not found or len(found[0]) < 2:
        return 0.0, 0
    return sum(len(row) == len(found[0]) for row in found) / len(found), len(found[0])


def text_of(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None


def unreadable(path: Path, error: Exception) -> ConfigError:
    if isinstance(error, UnicodeDecodeError):
        return ConfigError(f"{printable(path)}: not UTF-8 text (byte {error.start + 1})")
    reason = (error.strerror if isinstance(error, OSError) else None) or "not a path"
    return ConfigError(f"{printable(path)}: cannot be read: {reason.lower()}")
