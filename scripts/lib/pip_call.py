"""Calls pip with its noise in a log file: progress while it runs, and one clear line when it fails."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
from contextlib import suppress
from typing import IO, TYPE_CHECKING

from console import LiveLine, Refusal, say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

NO_ANSWER = re.compile(
    r"Temporary failure in name resolution|Name or service not known|Connection refused|Network is unreachable"
    r"|No route to host|Connection reset|certificate verify failed|Tunnel connection failed[^'\")]*|timed out"
)
GAVE_UP = re.compile(r"No matching distribution found for (\S+)|Could not install packages due to an OSError")
CAUSES = (
    (r"No space left on device", "the disk is full"),
    (
        r"Killed signal|virtual memory exhausted|std::bad_alloc",
        "the compiler ran out of memory: set CMAKE_BUILD_PARALLEL_LEVEL=1 or add swap, then try again",
    ),
)
FAULT = re.compile(r"(^|[\s:])(fatal )?error:|^FAILED:|CMake Error|undefined reference", re.IGNORECASE)
WRAPPER = re.compile(r"^\[\d+/\d+\]|-exited-with-error|Failed (to build|building)|metadata-generation", re.IGNORECASE)
LINES_SHOWN, LINE_WIDTH = 6, 200


def call(
    python: Path,
    arguments: Sequence[str],
    *,
    log: Path,
    doing: str,
    status: Callable[[str], str | None],
    cwd: Path,
    environ: Mapping[str, str],
) -> float:
    """Runs `python -m pip arguments`, keeps all it prints in `log`, and returns how many seconds it took.

    `status` maps a line of pip's output to a new progress text, or to None to leave it as it is. A failure prints the
    lines of `log` that tell why and raises Refusal. However this ends, pip and all it started have ended before.
    """
    live = LiveLine()
    text = doing
    with log.open("w", encoding="utf-8", buffering=1) as kept:
        pip = subprocess.Popen(
            [str(python), "-m", "pip", *arguments],
            cwd=cwd,
            env=pip_environment(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
        assert pip.stdout is not None
        try:
            for line in lines_with_ticks(pip.stdout, tick=1.0):
                if line is not None:
                    kept.write(line + "\n")
                    text = status(line) or text
                    if "Retrying (" in line:
                        text = f"{doing}: no answer from the network, pip tries again"
                live.show(text)
            failed = pip.wait() != 0
        finally:
            live.clear()
            if pip.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(pip.pid, signal.SIGTERM)
                pip.stdout.read()  # ends when the last compiler that pip started has ended
                pip.wait()
            pip.stdout.close()
    if failed:
        report(log, doing)
    return live.elapsed


def pip_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """`environ` with its PIP_* untouched, without the variables that let foreign packages count as installed."""
    kept = {name: value for name, value in environ.items() if name not in {"PYTHONPATH", "PYTHONHOME"}}
    return {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"} | kept | {"LC_ALL": "C.UTF-8"}


def lines_with_ticks(stream: IO[bytes], *, tick: float) -> Iterator[str | None]:
    """The lines of a pipe as they come, and None whenever nothing came for `tick` seconds."""
    pending = b""
    while True:
        if not select.select([stream], [], [], tick)[0]:
            yield None
            continue
        chunk = os.read(stream.fileno(), 1 << 16)
        if not chunk:
            break
        *whole, pending = (pending + chunk).split(b"\n")
        yield from (line.decode(errors="replace") for line in whole)
    if pending:
        yield pending.decode(errors="replace")


def report(log: Path, doing: str) -> None:
    """Raises Refusal with the cause found in `log`; where it is none of the known ones, shows the lines that tell."""
    text = log.read_text(encoding="utf-8", errors="replace")
    for pattern, cause in CAUSES:
        if re.search(pattern, text):
            raise Refusal(f"{doing} failed: {cause} (log: {log})")
    if gave_up := GAVE_UP.search(text):
        if no_answer := NO_ANSWER.findall(text):
            raise Refusal(
                f"{doing} failed: pip cannot reach its package index ({no_answer[-1]}): check the network and "
                f"`pip config list`, then try again (log: {log})"
            )
        if gave_up[1]:
            raise Refusal(
                f"{doing} failed: pip's package index does not offer {gave_up[1]}, or does not answer: see "
                f"`pip config list` (log: {log})"
            )
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if FAULT.search(line) and not WRAPPER.search(line)] or lines
    for line in telling[-LINES_SHOWN:]:
        say(f"    {line[:LINE_WIDTH]}")
    raise Refusal(f"{doing} failed; the lines above say why, all of it is in {log}")
