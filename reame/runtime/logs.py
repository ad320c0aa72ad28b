"""Structured logs on standard error: one line a record, `key=value` or JSON. Prompts, answers and keys never go in.

    2026-11-29T18:00:00Z INFO request id=cmpl-7 tokens=128 cached=0 tok_s=41.2

What comes from outside cannot forge lines or send terminal codes: all that is not printable is escaped. Under systemd
the journal gets priorities (`<4>`), which it strips, and no time, since it has its own.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import time
from typing import Any, TextIO

_PRIORITY = {"DEBUG": 7, "INFO": 6, "WARNING": 4, "ERROR": 3, "CRITICAL": 2}
_BARE = re.compile(r'[^\s"=]+')


def configure(level: str, format: str) -> None:
    """Send all records to standard error. `level` as in the config, for Reame's own; libraries speak from warning on.

    `format` is "text" or "json". A second call replaces the first. For the start of a process, before other threads.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter(as_json=format == "json", journal=_is_journal(sys.stderr)))
    root = logging.getLogger()
    for old in [old for old in root.handlers if isinstance(old.formatter, _Formatter)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    set_level(level)


def set_level(level: str) -> None:
    """Another level for Reame's own records from now on. At any time, any thread."""
    logging.getLogger("reame").setLevel(level.upper())


def event(logger: logging.Logger, name: str, /, **fields: object) -> None:
    """One line at info: `name`, then the fields in this order. None leaves a field out."""
    if logger.isEnabledFor(logging.INFO):
        logger.info("%s", name, extra={"fields": {key: value for key, value in fields.items() if value is not None}})


class _Formatter(logging.Formatter):
    def __init__(self, *, as_json: bool, journal: bool) -> None:
        super().__init__()
        self._as_json = as_json
        self._journal = journal

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = getattr(record, "fields", {})
        trace = self.formatException(record.exc_info) if record.exc_info and record.exc_info[0] else ""
        lines = [self._json(record, fields, trace)] if self._as_json else self._text(record, fields, trace)
        if self._journal:
            lines = [f"<{_PRIORITY.get(record.levelname, 6)}>{line}" for line in lines]
        return "\n".join(lines)

    def _text(self, record: logging.LogRecord, fields: dict[str, Any], trace: str) -> list[str]:
        """The record's line and, indented, those of a traceback."""
        parts = [record.levelname, _printable(record.getMessage())]
        parts += [f"{key}={_value(value)}" for key, value in fields.items()]
        if not self._journal:
            parts.insert(0, _utc(record.created))
        return [" ".join(parts), *(f"  {_printable(line)}" for line in trace.split("\n") if line)]

    def _json(self, record: logging.LogRecord, fields: dict[str, Any], trace: str) -> str:
        """ASCII, so that no collector can stumble over it."""
        own = {
            "time": _utc(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if trace:
            own["traceback"] = trace
        return json.dumps({**own, **{key: fields[key] for key in fields if key not in own}}, default=str)


def _utc(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if text.isprintable() and _BARE.fullmatch(text) else json.dumps(text)


def _printable(text: str) -> str:
    return text if text.isprintable() else json.dumps(text)[1:-1]


def _is_journal(stream: TextIO) -> bool:
    """Whether `stream` is the one that systemd connected to the journal (see JOURNAL_STREAM in systemd.exec)."""
    try:
        there = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{there.st_dev}:{there.st_ino}"
