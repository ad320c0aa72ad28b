"""`reame batch` is killed at random moments (SIGKILL), and its disk is full now and then: the results equal those of an
undisturbed run. So they do on a disk that is really full, again and again, where one may be mounted (root). Then very
many lines, for which it takes no more memory than for a few."""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from _drill import WORDS, arguments, scratch, serving, verdict
from daemon_process import REAME, status_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

INSTRUCTION = " ".join(f"Things of {word} belong to group {number}." for number, word in enumerate(WORDS * 3))
DISTINCT = 200
"""Different records among the very many lines."""
MOST_KB = 140_000
"""Memory of the command, whatever its input: half of it is the interpreter with what it imports."""


def line_of(name: str, text: str, max_tokens: int) -> str:
    messages = [{"role": "system", "content": INSTRUCTION}, {"role": "user", "content": text}]
    body = {"messages": messages, "temperature": 0, "max_tokens": max_tokens}
    return json.dumps({"custom_id": name, "method": "POST", "url": "/v1/chat/completions", "body": body})


def records(chance: random.Random, count: int) -> list[str]:
    """With some bad lines, and some that are the same."""
    lines = [line_of(f"r{i}", f"And the {' '.join(chance.choices(WORDS, k=3))}?", 8) for i in range(count)]
    for position in sorted(chance.sample(range(count), max(1, count // 20)), reverse=True):
        lines.insert(position, chance.choice(['{"custom_id":', "", lines[0], "x" * 100]))
    return lines


def answers(path: Path) -> dict[str, Any]:
    """What each line came to; raises for a line that is torn or there twice."""
    found: dict[str, Any] = {}
    for line in path.read_text("utf-8").splitlines():
        value = json.loads(line)
        if value["id"] in found:
            raise ValueError(f"{value['custom_id']} is there twice")
        body = value["response"]["body"]
        found[value["id"]] = value["error"] or (body["choices"][0]["message"]["content"], body["usage"]["total_tokens"])
    return found


class Command:
    """The command on these files."""

    def __init__(self, url: str, source: Path, output: Path) -> None:
        self.words = [str(REAME), "batch", str(source), "-o", str(output), "--ordered", "--url", url]
        self.output = output

    def run(self, prepare: Callable[[], None] | None = None) -> int:
        done = subprocess.run(self.words, capture_output=True, text=True, preexec_fn=prepare, check=False)
        if "Traceback" in done.stderr:
            raise ValueError(done.stderr)
        return done.returncode

    def run_and_kill(self, seconds: float) -> bool:
        """Whether it was still at it."""
        with subprocess.Popen(self.words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            time.sleep(seconds)
            is_running = process.poll() is None
            process.kill()
        return is_running

    def peak_kb(self) -> int:
        """Its memory at most, for a whole run."""
        peak = 0
        with subprocess.Popen(self.words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            while process.poll() is None:
                try:
                    peak = max(peak, int(status_fields(process.pid).get("VmHWM", 0)))
                except OSError:
                    break
                time.sleep(0.2)
        return peak


def limit_file(size: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def disturb(command: Command, chance: random.Random, expected: dict[str, Any], num_kills: int) -> list[str]:
    faults, killed, rounds = [], 0, 0
    while killed < num_kills:
        command.output.unlink(missing_ok=True)
        rounds += 1
        while command.run_and_kill(chance.uniform(0.3, 4.0)) and killed < num_kills:
            killed += 1
            if chance.random() < 0.2:
                size = command.output.stat().st_size if command.output.exists() else 0
                status = command.run(partial(limit_file, size + chance.randrange(3000)))
                if status not in (1, 3):
                    faults.append(f"exit status {status} on a full disk")
        status = command.run()
        try:
            is_same = answers(command.output) == expected
        except ValueError as error:
            faults.append(str(error))
            continue
        if status != 3 or not is_same:
            faults.append(f"after {killed} kills: status {status}, the same: {is_same}")
    print(f"{killed} kills in {rounds} rounds")
    return faults


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[Path]:
    """A disk of `size` bytes, in memory."""
    place = folder / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


def full_disk(command: Command, folder: Path, expected: dict[str, Any]) -> list[str]:
    """The command, on a disk that holds a third of the results, and a third more after each time that it gave up."""
    if os.geteuid():
        print("no full disk: only root may mount one")
        return []
    third = command.output.stat().st_size // 3
    with small_disk(folder, third) as place:
        there = Command(command.words[command.words.index("--url") + 1], folder / "in.jsonl", place / "out.jsonl")
        statuses = [there.run()]
        while statuses[-1] == 1 and len(statuses) < 20:
            size = third * (len(statuses) + 1)
            subprocess.run(["mount", "-o", f"remount,size={size}", place], check=True)
            statuses.append(there.run())
        is_same = answers(there.output) == expected
    print(f"a full disk: exit statuses {statuses}, the same: {is_same}")
    return [] if is_same and statuses[-1] == 3 and len(statuses) > 2 else ["a full disk changed the results"]


def many_lines(command: Command, source: Path, count: int) -> list[str]:
    with source.open("w", encoding="utf-8") as file:
        for number in range(count):
            file.write(line_of(f"r{number}", f"And {WORDS[number % 20]} {number % DISTINCT}?", 1) + "\n")
    started, peak = time.monotonic(), command.peak_kb()
    num_done = len(answers(command.output))
    print(f"{num_done:,} of {count:,} lines in {time.monotonic() - started:.0f} s, at most {peak:,} kB")
    return [] if num_done == count and peak < MOST_KB else [f"{num_done} of {count} lines, {peak} kB"]


def main() -> int:
    wanted = arguments(__doc__, kills=50, records=150, lines=100_000, seed=1)
    chance = random.Random(wanted.seed)
    os.environ.pop("REAME_CONFIG", None)
    with scratch() as folder, serving(memory={"answers": False}) as daemon:
        source = folder / "in.jsonl"
        source.write_text("\n".join(records(chance, wanted.records)), "utf-8")
        first = Command(daemon.url, source, folder / "first.jsonl")
        started = time.monotonic()
        status = first.run()
        expected = answers(first.output)
        print(f"undisturbed: {len(expected)} lines in {time.monotonic() - started:.0f} s, status {status}")
        faults = [] if status == 3 else [f"the undisturbed run gave {status}"]
        faults += disturb(Command(daemon.url, source, folder / "out.jsonl"), chance, expected, wanted.kills)
        faults += full_disk(first, folder, expected)
        faults += many_lines(Command(daemon.url, folder / "many", folder / "many.out"), folder / "many", wanted.lines)
    return verdict(faults)


if __name__ == "__main__":
    sys.exit(main())
