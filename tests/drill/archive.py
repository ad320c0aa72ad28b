"""The archive of generations at its full size: what a query, an append and a start cost, and what a SIGKILL loses.

Queries and appends are counted in the processor's time, so that who else works here matters less.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import psutil
from _drill import arguments, scratch, verdict

MEMORY_TESTS = Path(__file__).resolve().parents[1] / "memory"
sys.path.insert(0, str(MEMORY_TESTS))

from generations import Writing, new_archive  # noqa: E402

from reame.speculation.palimpsest import likeliest_path  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

    from reame.memory.archive import Archive

MOST = 64
"""Tokens that a step might draft."""


def fill(archive: Archive, writing: Writing, count: int) -> float:
    """Append `count` tokens in generations of a few to a thousand. Microseconds a token."""
    spent, done = 0.0, 0
    while done < count:
        tokens = writing.generation()
        started = time.thread_time()
        archive.append(tokens, namespace="")
        spent += time.thread_time() - started
        done += len(tokens)
    return 1e6 * spent / done


def ask(archive: Archive, tails: list[list[int]]) -> tuple[list[float], int]:
    """Microseconds that each query took, the path included, and how many found something."""
    times, found = [], 0
    for tail in tails:
        started = time.thread_time()
        path, _ = likeliest_path(archive.continuations(tail, namespace="", most=MOST), MOST)
        times.append(1e6 * (time.thread_time() - started))
        found += bool(path)
    return times, found


def told(name: str, value: float, most: float) -> list[str]:
    """Says what was measured; a fault when it is more than allowed."""
    print(f"{name}: {value:.4g} (at most {most:g})")
    return [f"{name} is {value:.4g}"] if value > most else []


def measured(folder: Path, options: Callable[[str], float], count: int) -> list[str]:
    writing = Writing(1)
    archive = new_archive(folder, budget=64 * count + (64 << 20))
    faults = told("append, us a token", fill(archive, writing, count), options("append_us"))
    held = archive.stats().tokens
    starts = []
    for _ in range(3):
        archive.close()
        started = time.perf_counter()
        archive = new_archive(folder, budget=64 * count + (64 << 20))
        archive.prepare(namespace="")
        starts.append(time.perf_counter() - started)
    faults += told("start, seconds (best of three)", min(starts), options("start_s"))
    if archive.stats().tokens != held:
        faults.append(f"{archive.stats().tokens} tokens after the start, not {held}")
    kinds = {
        "in known texts": ([writing.tail() for _ in range(2000)], options("query_us")),
        "in common phrases": ([writing.phrase_tail() for _ in range(2000)], options("query_us")),
        "where nothing matches": ([writing.unheard() for _ in range(2000)], options("miss_us")),
    }
    for kind, (tails, most) in kinds.items():
        times, found = ask(archive, tails)
        print(f"{found} of {len(tails)} queries {kind} found something, p99 {np.percentile(times, 99):.4g} us")
        faults += told(f"query {kind}, us (median)", float(np.median(times)), most)
        if found == 0 and kind != "where nothing matches":
            faults.append(f"nothing was found {kind}")
    rss = psutil.Process().memory_info().rss / (1 << 20)
    return faults + told("resident memory, MiB", rss, options("rss_mb"))


def killed(folder: Path, rounds: int) -> list[str]:
    """What a writer had said to have appended is there after its SIGKILL, and it goes on where the last one ended."""
    chance = random.Random(3)
    faults: list[str] = []
    expected = 0
    for number in range(rounds):
        command = [sys.executable, str(MEMORY_TESTS / "archivist.py"), str(folder), str(number)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            said = process.stdout.readline()
            time.sleep(chance.uniform(0, 0.2))
            process.kill()
            said += process.stdout.read()
        expected += sum(int(line) for line in said.split("\n")[:-1])
        archive = new_archive(folder)
        archive.prepare(namespace="")
        stats = archive.stats()
        if stats.damaged or stats.tokens < expected:
            faults.append(f"round {number}: {stats}, {expected} tokens expected")
        expected = stats.tokens  # with the one that was whole, though nobody could say so any more
        archive.close()
    print(f"{rounds} writers killed, {expected} tokens kept")
    return faults


def main() -> int:
    options = vars(
        arguments(
            __doc__, tokens=10_000_000, append_us=5.0, start_s=1.0, query_us=300.0, miss_us=60.0, rss_mb=150.0, kills=50
        )
    )
    with scratch() as folder:
        faults = measured(folder / "full", lambda name: float(options[name]), int(options["tokens"]))
        faults += killed(folder / "killed", int(options["kills"]))
    return verdict(faults)


if __name__ == "__main__":
    sys.exit(main())
