"""The drills of tests/drill in a few seconds each: they run, and hold. Their long forms are for `./scripts/drill`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from daemon_process import PATIENCE_S

DRILLS = Path(__file__).resolve().parents[1] / "drill"


@pytest.mark.parametrize(
    "words",
    [
        "oracle --count 20",
        "lossless --count 8",
        "structure --count 1 --each 1 --room 24 --step 150",
        "disk_luck --kills 0 --flips 12 --prompts 0",
        "mixed --minutes 0.05 --clients 12",
        "neighbour --count 1 --tokens 8 --at-most 1e9",
        "ends --count 2",
        "fuzz --count 100 --seconds 0",
        "threads --count 1 --at-least 0 --patience 0",
        "batch_kill --kills 1 --records 6 --lines 60",
        "batch_beside --count 1 --tokens 24 --least 0",
        "archive --tokens 50000 --kills 2 --append-us 1e9 --query-us 1e9 --miss-us 1e9 --start-s 1e9 --rss-mb 1e9",
    ],
)
def test_a_drill_in_short(words: str, model_path: Path) -> None:
    name, *options = words.split()
    command = [sys.executable, str(DRILLS / f"{name}.py"), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=5 * PATIENCE_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "held" in done.stdout
