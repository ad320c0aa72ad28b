"""Tables of comma-separated values, and other small texts, from files that people wrote."""

from __future__ import annotations

import csv
from contextlib import contextmanager
from typing import TYPE_CHECKING

from reame.batch.line import MAX_LINE
from reame.config_rules import printable
from reame.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DELIMITERS = ",;\t|"


@contextmanager
def rows(path: Path) -> Iterator[Iterator[list[str]]]:
    """The header, then the rows; blank lines are none. Raises ConfigError for what is no table."""
    csv.field_size_limit(MAX_LINE)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            found = (row for row in csv.reader(file, delimiter=delimiter(path), strict=True) if row)
            yield _told(path, found)
    except OSError as error:
        raise unreadable(path, error) from None


def _told(path: Path, found: Iterator[list[str]]) -> Iterator[list[str]]:
    try:
        header = next(found, [])
        if not header or len(set(header)) != len(header) or not all(header):
            raise ConfigError(f"{printable(path)}: the first line must name each column, all names different")
        yield header
        yield from found
    except UnicodeDecodeError as error:
        raise ConfigError(f"{printable(path)}: not UTF-8 text ({error.reason}): convert it first") from None
    except csv.Error as error:
        raise ConfigError(f"{printable(path)}: not a table of comma-separated values: {error}") from None


def delimiter(path: Path) -> str:
    """The one that the header has most of."""
    with path.open("rb") as file:
        header = file.readline(MAX_LINE).decode("utf-8-sig", "replace")
    return max(DELIMITERS, key=header.count)


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
