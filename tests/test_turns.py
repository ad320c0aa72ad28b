"""Who runs beside whom, with threads in the place of workers."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
import uuid
from pathlib import Path
from threading import Barrier, Thread
from typing import TYPE_CHECKING

import pytest
from turns import turn, unheard

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(autouse=True)
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTEST_XDIST_TESTRUNUID", uuid.uuid4().hex)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def started(function: Callable[[], None]) -> Thread:
    thread = Thread(target=function, daemon=True)
    thread.start()
    return thread


def until_somebody_waits(folder: Path) -> None:
    """At the door, for the room: whoever waits holds it."""
    deadline = time.monotonic() + 30
    with next(folder.glob("*-door")).open("w") as door:
        while time.monotonic() < deadline:
            try:
                fcntl.flock(door, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            fcntl.flock(door, fcntl.LOCK_UN)
    raise AssertionError("nobody waits")


def test_others_run_side_by_side() -> None:
    both = Barrier(2)

    def other() -> None:
        with turn(alone=False):
            both.wait(30)

    threads = [started(other), started(other)]
    for thread in threads:
        thread.join(60)
    assert not both.broken


def test_nobody_comes_in_beside_one_who_is_alone(tmp_path: Path) -> None:
    seen = []

    def other() -> None:
        with turn(alone=False):
            seen.append("other")

    with turn(alone=True):
        thread = started(other)
        until_somebody_waits(tmp_path)
        seen.append("alone")
    thread.join(60)
    assert seen == ["alone", "other"]


def test_who_wants_to_be_alone_waits_for_the_others_and_is_not_overtaken(tmp_path: Path) -> None:
    seen = []

    def enter(name: str, *, alone: bool) -> Callable[[], None]:
        def enter_and_tell() -> None:
            with turn(alone=alone):
                seen.append(name)

        return enter_and_tell

    with turn(alone=False):
        waiting = started(enter("alone", alone=True))
        until_somebody_waits(tmp_path)
        late = started(enter("late", alone=False))
        seen.append("first")
    waiting.join(60)
    late.join(60)
    assert seen == ["first", "alone", "late"]


def test_what_a_test_starts_waits_for_no_turn(tmp_path: Path) -> None:
    """Else it waits, beside one who wants to be alone, for the one that started it."""
    command = [sys.executable, "-c", "import turns\nwith turns.turn(alone=True): print('in')"]
    with turn(alone=False), unheard():
        environ = os.environ | {"TMPDIR": str(tmp_path)}
        done = subprocess.run(
            command, cwd=Path(__file__).parent, env=environ, capture_output=True, text=True, timeout=60, check=True
        )
    assert done.stdout == "in\n"
