"""Bad luck of the memory's disk, against the real daemon: it is killed (SIGKILL) at random moments, single bytes of its
files change while it runs, and a disk of 64 MiB (a tmpfs, which needs root) fills up.

Always the right answer, never an error; only whole files are left, and no more of them than fit.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import trio
from _drill import WORDS, arguments, scratch, start, verdict
from talking import COMPLETIONS, ask, connect, readings, text_of, until, until_idle

from reame.memory import upkeep
from reame.memory.answers import AnswerStore
from reame.memory.block_directory import BlockDirectory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from daemon_process import Readings
    from httpx2 import AsyncClient

TMPFS_MB = 64
ENGINE: dict[str, object] = {"slots": 2, "context": 512}
LONG, SHORT = 300, 60
"""Words of a prompt."""


def prompt_of(number: int, words: int) -> str:
    return " ".join(random.Random(number).choices(WORDS, k=words))


async def said(client: AsyncClient, number: int, words: int = SHORT) -> str:
    return await text_of(client, COMPLETIONS, ask(prompt_of(number, words), 8))


async def killed(count: int) -> list[str]:
    """Prompts are computed and written all the time, some of them known from before, and then there is no more time."""
    chance, faults = random.Random(), []
    known: dict[int, str] = {}
    with scratch() as folder:
        for number in range(count):
            daemon = start(folder, {"engine": ENGINE}).wait_ready()
            async with connect(daemon) as client:
                for place in random.sample(sorted(known), min(3, len(known))):
                    if (text := await said(client, place)) != known[place]:
                        faults.append(f"round {number}: {text!r} instead of {known[place]!r}")
                known[number] = await said(client, number)
                with trio.move_on_after(chance.uniform(0, 1.0)):
                    for new in range(1000):
                        await said(client, 1000 * (number + 1) + new)
            daemon.send(signal.SIGKILL)
            daemon.wait_exit()
            faults += [f"round {number}: {fault}" for fault in left_behind(folder / "memory")]
        print(f"{count} kills: {len(list((folder / 'memory').rglob('*.kv')))} blocks, {len(known)} answers known")
    return faults


def left_behind(memory: Path) -> list[str]:
    """What is damaged of the blocks and of the old answers."""
    checked = upkeep.verify(BlockDirectory(memory / "blocks", budget_bytes=1 << 40))
    answers = AnswerStore(memory / "answers.sqlite", budget_bytes=1 << 40)
    _, num_damaged = answers.verify()
    answers.close()
    return [f"{file}: {why}" for file, why in checked.damaged] + [f"{num_damaged} old answers"] * bool(num_damaged)


async def flipped(count: int) -> list[str]:
    """Two prompts take turns in cells that hold one: each time the other's blocks are read from the disk."""
    chance, faults = random.Random(), []
    tables = {
        "engine": {"slots": 1, "residents": 0, "context": 256, "cells": 256},
        "memory": {"answers": False},
    }
    with scratch() as folder, start(folder, tables).wait_ready() as daemon:
        async with connect(daemon) as client:
            right = [await said(client, number) for number in range(2)]
            for number in range(count):
                await until_written(client)
                flip(chance, chance.choice(sorted((folder / "memory" / "blocks").rglob("*.kv"))))
                if (text := await said(client, number % 2)) != right[number % 2]:
                    faults.append(f"flip {number}: {text!r} instead of {right[number % 2]!r}")
            seen = await readings(client)
    corrupt, hits = (int(seen[event_of(name)]) for name in ("corrupt", "hits"))
    print(f"{count} bytes changed: {corrupt} blocks refused, {hits} read")
    return faults + ["none was noticed"] * (corrupt == 0) + ["none was read"] * (hits == 0)


def flip(chance: random.Random, file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    file.write_bytes(data)


async def until_written(client: AsyncClient) -> None:
    """Idle, and nothing new on the disk between two looks."""
    before, stored = -1.0, 0.0
    while stored != before:
        before, stored = stored, (await until_idle(client))[event_of("stored")]
        await trio.sleep(0.05)


def event_of(name: str) -> str:
    return f'disk_block_events_total{{event="{name}"}}'


async def filled(count: int) -> list[str]:
    """First the daemon fills its disk alone, then somebody else takes what is left, then gives it back."""
    with scratch() as folder, small_disk(folder / "disk") as disk:
        tables = {"engine": ENGINE, "memory": {"path": str(disk / "memory"), "answers": False}}
        with start(folder, tables).wait_ready() as daemon:
            async with connect(daemon) as client:
                right = await said(client, 0)
                alone = await asked_of_all(client, count)
                with (disk / "others").open("wb") as other:
                    take_all(other.fileno())
                full = await asked_of_all(client, count + 5)
                (disk / "others").unlink()
                faults = [] if await said(client, 0) == right else ["another text on a full disk"]
        warnings = [line for line in daemon.lines if " WARNING " in line or " ERROR " in line]
        print(f"a full disk: {int(alone)} blocks evicted, {int(full)} dropped when others had filled it; {warnings}")
        faults += [f"too many lines: {warnings}"] if len(warnings) > 6 else []
        return faults + (["the disk never was full"] if count >= 20 and not (alone and full) else [])


async def asked_of_all(client: AsyncClient, count: int) -> float:
    """Long prompts, one after the other; what had to go, or could not be kept, for want of room."""
    for number in range(1, count + 1):
        await said(client, 10_000 + number + count, LONG)
        await until_written(client)
    seen: Readings = await until(client, lambda seen: not seen["running_sequences"])
    return seen[event_of("evicted")] + seen[event_of("dropped")]


def take_all(file: int) -> None:
    chunk = bytes(1 << 20)
    try:
        while True:
            os.write(file, chunk)
    except OSError:
        return


@contextmanager
def small_disk(path: Path) -> Iterator[Path]:
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={TMPFS_MB}m", "tmpfs", str(path)], check=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


async def main() -> int:
    options = arguments(__doc__, kills=50, flips=200, prompts=25)
    faults = await killed(options.kills) + await flipped(options.flips)
    if options.prompts and os.geteuid():
        print("a full disk: left out, since only root can mount one")
    elif options.prompts:
        faults += await filled(options.prompts)
    return verdict(faults)


if __name__ == "__main__":
    sys.exit(trio.run(main))
