"""The temporary files of a batch: the table of its lines, and the input that a table of rows becomes."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING

from reame.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator


def no_room(error: BaseException) -> ConfigError:
    reason = getattr(error, "strerror", None) or str(error)
    return ConfigError(
        f"a temporary file cannot be written ({reason.lower()}): make room where temporary files are, or name another "
        "folder for them with the environment variable TMPDIR"
    )


@contextmanager
def told() -> Iterator[None]:
    """What SQLite says of its file becomes a ConfigError."""
    try:
        yield
    except sqlite3.Error as error:
        raise no_room(error) from None
