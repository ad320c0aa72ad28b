"""Builds llama-cpp-python once per recipe, into a wheel directory of our own.

    <cache>/wheels/<key>/      the wheel, and recipe.json: what the key was made of. It appears whole or not at all
    <cache>/wheels/<key>.log   what the build printed
    <cache>/wheels/.building-* a build that runs, or was killed: removed by the next build

The lock of <cache>/wheels lets one set-up at a time build: a second one waits, and then finds the wheel.
"""

from __future__ import annotations

import fcntl
import math
import os
import re
import shutil
import tempfile
import time
import zipfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pip_call
import room
from console import Refusal, duration, say, time_left
from recipe import INSTALL_A_COMPILER, Recipe, compiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

PACKAGE = "llama-cpp-python"
PIP_WHEEL = ("-v", "wheel", "--no-deps", "--no-cache-dir", "--no-binary", PACKAGE)
BUILD_CPU_SECONDS = 460.0  # measured: 4 min 14 s on 2 cores, gcc 12
COMPILER_BYTES = 1 << 30  # memory for one compiler process; measured: 0.66 GiB at most
DISK_BYTES = 1_000_000_000  # measured: 0.4 GB at the worst moment
DOING = "building llama.cpp"
STEP = re.compile(r"^\s*\[(\d+)/(\d+)\]")
PHASES = (
    (re.compile(r"^\s*Collecting llama"), f"{DOING}: fetching its source, 77 MB"),
    (re.compile(r"^\s*Installing build dependencies"), f"{DOING}: fetching the build tools"),
    (re.compile(r"\*\*\* Configuring CMake"), f"{DOING}: looking at this machine"),
    (re.compile(r"\*\*\* Making wheel"), f"{DOING}: packing the wheel"),
)


def obstacles(recipe: Recipe, wheels: Path) -> list[str]:
    """What would make a build fail, found in well under a second."""
    found = [
        f"`{command}` cannot build a program (no C library headers?): {INSTALL_A_COMPILER}"
        for command, language in ((recipe.c, "c"), (recipe.cxx, "c++"))
        if not compiles(command, language)
    ]
    return found + lack_of_disk(wheels, DISK_BYTES, DOING)


def lack_of_disk(folder: Path, needed: int, purpose: str) -> list[str]:
    """One line when the disk of `folder` (which need not exist yet) has less than `needed` bytes free."""
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    free = shutil.disk_usage(there).free
    if free >= needed:
        return []
    return [f"not enough disk in {folder}: {purpose} needs {needed / 1e9:.1f} GB, {free / 1e9:.1f} GB are free"]


def find(recipe: Recipe, wheels: Path) -> Path | None:
    """The finished wheel, or None; a damaged one counts as none."""
    return next((wheel for wheel in (wheels / recipe.key).glob("*.whl") if zipfile.is_zipfile(wheel)), None)


@contextmanager
def locked(folder: Path, purpose: str) -> Iterator[None]:
    """Holds the lock of `folder`: on the directory itself, so no file stays behind and a dead holder holds nothing."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another set-up that {purpose}")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def obtain(recipe: Recipe, wheels: Path, *, python: Path, environ: Mapping[str, str]) -> Path:
    """The wheel for `recipe`, found or built with the pip of `python`. Refusal when it cannot be built."""
    wheels.mkdir(parents=True, exist_ok=True)
    with locked(wheels, "builds llama.cpp"):
        if found := find(recipe, wheels):
            return found
        for left_by_a_kill in wheels.glob(".building-*"):
            shutil.rmtree(left_by_a_kill)
        with tempfile.TemporaryDirectory(prefix=".building-", dir=wheels, ignore_cleanup_errors=True) as scratch:
            return build(recipe, wheels, Path(scratch), python=python, environ=environ)


def build(recipe: Recipe, wheels: Path, scratch: Path, *, python: Path, environ: Mapping[str, str]) -> Path:
    """Builds in `scratch`, which holds pip's temporary files too, and renames the result into place."""
    asked = environ.get("CMAKE_BUILD_PARALLEL_LEVEL", "")
    jobs = int(asked) if asked.isdigit() and int(asked) else build_jobs()
    log = wheels / f"{recipe.key}.log"
    out, temporary, place = scratch / "out", scratch / "tmp", wheels / recipe.key
    temporary.mkdir()
    minutes = max(1, round(BUILD_CPU_SECONDS / jobs / 60))
    say(f"{DOING} for this CPU, once: about {minutes} min with {jobs} compiler processes (log: {log})")
    seconds = pip_call.call(
        python,
        [*PIP_WHEEL, "--wheel-dir", str(out), f"{PACKAGE}=={recipe.version}"],
        log=log,
        doing=DOING,
        status=build_status(time.monotonic),
        cwd=scratch,
        environ=dict(environ)
        | {"CC": recipe.c, "CXX": recipe.cxx, "CMAKE_ARGS": recipe.cmake_args}
        | {"CMAKE_BUILD_PARALLEL_LEVEL": str(jobs), "TMPDIR": str(temporary)},
    )
    (out / "recipe.json").write_text(recipe.as_json() + "\n")
    shutil.rmtree(place, ignore_errors=True)
    out.rename(place)
    if (wheel := find(recipe, wheels)) is None:
        raise Refusal(f"{DOING} gave no wheel (log: {log})")
    say(f"llama.cpp built in {duration(seconds)}, kept in {place}")
    return wheel


def build_jobs(root: Path = room.ROOT, cores: int | None = None) -> int:
    """How many compilers may run at once: one per core (None: those of this process), as far as the CPU quota and the
    memory go that `room` finds below `root`."""
    jobs = cores or len(os.sched_getaffinity(0))
    if (quota := room.cpu_quota(root)) is not None:
        jobs = min(jobs, math.ceil(quota))
    if (free := room.free_memory(root)) is not None:
        jobs = min(jobs, free // COMPILER_BYTES)
    return max(1, jobs)


def build_status(clock: Callable[[], float]) -> Callable[[str], str | None]:
    """Maps a line of `pip -v wheel` to progress: the phases, then ninja's `[n/N]` and the time that its pace leaves.

    The long steps come late: measured, the first n of N take about (n/N)**1.5 of the time.
    """
    begun: float | None = None

    def status(line: str) -> str | None:
        nonlocal begun
        if (step := STEP.match(line)) is None:
            return next((text for pattern, text in PHASES if pattern.search(line)), None)
        done, total = int(step[1]), int(step[2])
        begun = clock() if begun is None else begun
        if done < total / 20:
            return f"{DOING} {done}/{total}"
        share = (done / total) ** 1.5
        return f"{DOING} {done}/{total}, {time_left((clock() - begun) * (1 - share) / share)}"

    return status
