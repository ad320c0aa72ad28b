"""Several processes on one directory, and processes that are killed in the middle."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from chains import block_files, new_store, total_bytes

from reame.memory import upkeep

if TYPE_CHECKING:
    from collections.abc import Iterator

PAYLOAD = 50_000
BUDGET = 40 * PAYLOAD


@contextmanager
def scribbling(directory: Path, seed: int) -> Iterator[subprocess.Popen[str]]:
    """It is killed at the end."""
    program = Path(__file__).with_name("scribbler.py")
    command = [sys.executable, str(program), str(directory), str(BUDGET), str(PAYLOAD), str(seed)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    with process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def stopped(*processes: subprocess.Popen[str]) -> Iterator[None]:
    """So that nothing comes or goes while one counts."""
    for process in processes:
        process.send_signal(signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)
    yield
    for process in processes:
        process.send_signal(signal.SIGCONT)


def lines(process: subprocess.Popen[str], count: int) -> list[str]:
    assert process.stdout
    return [process.stdout.readline() for _ in range(count)]


def test_two_writers_keep_one_budget(tmp_path: Path) -> None:
    """Both run all the time; each counts what the other writes. Two files may be in the making."""
    with scribbling(tmp_path, 1) as one, scribbling(tmp_path, 2) as other:
        for _ in range(25):
            said = lines(one, 2) + lines(other, 2)
            assert set(said) == {"right stored\n"}
            with stopped(one, other):
                assert total_bytes(tmp_path) <= BUDGET + 2 * PAYLOAD
    assert len(block_files(tmp_path)) > 20
    assert upkeep.verify(new_store(tmp_path, BUDGET).directory).damaged == ()


def test_a_writer_that_is_killed_leaves_only_whole_blocks(tmp_path: Path) -> None:
    chance = random.Random(5)
    directory = tmp_path / "blocks"
    for seed in range(6):
        with scribbling(directory, seed) as process:
            said = lines(process, chance.randint(1, 12))
        assert "WRONG" not in "".join(said)
        store = new_store(directory, BUDGET)
        checked = upkeep.verify(store.directory)
        assert checked.damaged == ()
        assert checked.blocks > 0
        store.prune()
        assert total_bytes(directory) <= BUDGET
