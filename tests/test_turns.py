"""Who runs beside whom, with threads in the place of workers."""

from __future__ import annotations

import uuid
from threading import Barrier, Thread
from typing import TYPE_CHECKING

import pytest
from turns import turn

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(autouse=True)
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setenv("PYTEST_XDIST_TESTRUNUID", uuid.uuid4().hex)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def started(function: Callable[[], None]) -> Thread:
    thread = Thread(target=function, daemon=True)
    thread.start()
    return thread


def test_others_run_side_by_side() -> None:
    both = Barrier(2)

    def other() -> None:
        with turn(alone=False):
            both.wait(30)

    threads = [started(other), started(other)]
    for thread in threads:
        thread.join(60)
    assert not both.broken


def test_nobody_comes_in_beside_one_who_is_alone() -> None:
    seen = []

    def other() -> None:
        with turn(alone=False):
            seen.append("other")

    with turn(alone=True):
        thread = started(other)
        thread.join(0.2)  # would have come in long ago
        seen.append("alone")
    thread.join(60)
    assert seen == ["alone", "other"]


def test_who_wants_to_be_alone_waits_for_the_others_and_is_not_overtaken() -> None:
    seen = []

    def enter(name: str, *, alone: bool) -> Callable[[], None]:
        def enter_and_tell() -> None:
            with turn(alone=alone):
                seen.append(name)

        return enter_and_tell

    with turn(alone=False):
        waiting = started(enter("alone", alone=True))
        waiting.join(0.2)
        late = started(enter("late", alone=False))
        late.join(0.2)
        seen.append("first")
    waiting.join(60)
    late.join(60)
    assert seen == ["first", "alone", "late"]
