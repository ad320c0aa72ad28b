"""Fifty writers of blocks are killed (SIGKILL) at random moments: only whole blocks are left, within the budget."""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MEMORY_TESTS = Path(__file__).resolve().parents[1] / "memory"
sys.path.insert(0, str(MEMORY_TESTS))

from chains import new_store, total_bytes  # noqa: E402

from reame.memory import upkeep  # noqa: E402

ROUNDS = 50
PAYLOAD = 1_000_000
"""Large enough that many are killed in the middle of a write."""
BUDGET = 100 * PAYLOAD


def kill_one(directory: Path, seed: int, seconds: float) -> str:
    """What it said until then."""
    scribbler = str(MEMORY_TESTS / "scribbler.py")
    command = [sys.executable, scribbler, str(directory), str(BUDGET), str(PAYLOAD), str(seed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        first = process.stdout.readline()
        time.sleep(seconds)
        process.kill()
        return first + process.stdout.read()


def main() -> int:
    chance = random.Random()
    num_temporary = 0
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch) / "blocks"
        store = new_store(directory, BUDGET)
        for number in range(ROUNDS):
            said = kill_one(directory, number, chance.uniform(0, 0.3))
            checked = upkeep.verify(store.directory)
            store.prune()
            num_temporary = len(list(directory.rglob("*.tmp")))
            size = total_bytes(directory)
            print(f"round {number + 1}: {said.count('stored')} chains written, {checked.blocks} blocks, {size} bytes")
            if "WRONG" in said or "stored" not in said or checked.damaged or size > BUDGET:
                print(f"FAILED: {checked.damaged}, {size} of {BUDGET} bytes")
                return 1
        print(f"{num_temporary} unfinished files wait for their hour to be over; {store.stats()}")
    return int(num_temporary > ROUNDS)


if __name__ == "__main__":
    sys.exit(main())
