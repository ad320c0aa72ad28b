"""The stopwatch's rules, and the machine's own numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from reame.doctor.clock import Clock, fastest
from reame.doctor.hardware import bandwidth, disk_speed


def test_the_fastest_run_counts() -> None:
    times = iter((3.0, 1.0, 2.0))
    assert fastest(lambda: next(times), seconds=60, most=3) == 1.0


def test_it_runs_once_in_any_case_and_not_again_when_there_is_no_time() -> None:
    times = iter((3.0, 1.0))
    assert fastest(lambda: next(times), seconds=0.5) == 3.0
    assert next(times) == 1.0


def test_a_clock_runs_down() -> None:
    clock = Clock(0.0 + 1e-9)
    assert clock.left == 0
    assert clock.share == 1
    assert Clock(1000).left > 900


def test_memory_is_faster_than_a_modem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reame.doctor.hardware.MOST_BYTES", 16 << 20)
    assert bandwidth(2, seconds=0) > 100e6


def test_a_disk_is_written_and_read_and_left_as_it_was(tmp_path: Path) -> None:
    write, read = disk_speed(tmp_path / "new" / "folder", seconds=0.2)
    assert write > 100e3
    assert read > 100e3
    assert list((tmp_path / "new" / "folder").iterdir()) == []


def test_a_disk_that_cannot_be_written_says_so() -> None:
    with pytest.raises(OSError, match=r"proc|permitted|such"):
        disk_speed(Path("/proc/nowhere"), seconds=0.1)
