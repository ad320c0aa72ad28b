"""No room for temporary files: one sentence that says what to do, on the command line and in a batch of the API."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import pytest
from lines import line_of

from reame.batch import scratch
from reame.batch.plan import Plan
from reame.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


def test_a_plan_that_finds_no_room_says_where_to_make_some(tmp_path: Path) -> None:
    """SQLite has one answer to a full disk and to a file at its greatest size."""
    source = tmp_path / "in.jsonl"
    source.write_bytes(b"\n".join(line_of(f"record {number}") for number in range(500)))
    plan = Plan(source)
    plan._base.execute("PRAGMA max_page_count = 8")
    with pytest.raises(ConfigError, match=r"temporary file .*full.*: make room .* TMPDIR"), scratch.told():
        plan.scan({})
    plan.close()


def test_what_is_no_fault_of_a_disk_is_not_told_as_one() -> None:
    with pytest.raises(ValueError, match="no"), scratch.told():
        raise ValueError("no")
    assert "disk I/O error" not in str(scratch.no_room(OSError(28, "No space left on device")))
    assert "disk i/o error" in str(scratch.no_room(sqlite3.OperationalError("disk I/O error")))
