"""The unfinished file of a download: resumable, verified, and in place only when it is whole.

For a target `m.gguf` the bytes so far are in `m.gguf.part` and what they are a part of is in `m.gguf.part.json`.
`.m.gguf.lock` is held (flock) while one process works on them; the kernel releases it however that process ends. It
stays, and says later where the model came from (`catalog_origin`).
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from contextlib import ExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol, Self

import trio
from attrs import asdict, define, frozen

from reame.catalog_origin import lock_file
from reame.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from io import FileIO
    from pathlib import Path

SPARE_BYTES = 64 << 20  # left free on the disk, for the logs and caches of others
CHUNK_BYTES = 1 << 20
LOCK_POLL = 0.2  # seconds


class Progress(Protocol):
    """Who is told how a pull goes. Called in the Trio thread; must not block or raise."""

    def begin(self, name: str, *, total: int | None, done: int) -> None:
        """`name` has `done` bytes of `total` (None: not known); called again after a retry or for the next file."""

    def advance(self, count: int) -> None:
        """`count` more bytes."""

    def say(self, line: str) -> None:
        """One line for a person: a retry, a wait, a check."""


class Silent:
    """Progress for nobody."""

    def begin(self, name: str, *, total: int | None, done: int) -> None:
        pass

    def advance(self, count: int) -> None:
        pass

    def say(self, line: str) -> None:
        pass


def bytes_text(size: float) -> str:
    """A number of bytes for people, in decimal units: `1.12 GB`."""
    for unit, limit in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= limit:
            return f"{size / limit:.3g} {unit}" if size < 999 * limit else f"{size / limit:.0f} {unit}"
    return f"{size:.0f} bytes"


def check_room(directory: Path, needed: int, what: str) -> None:
    """ModelError with both numbers when `needed` more bytes (and a little to spare) do not fit on the disk."""
    free = shutil.disk_usage(directory).free
    if needed + SPARE_BYTES > free:
        raise ModelError(
            f"not enough disk for {what}: {bytes_text(needed + SPARE_BYTES)} needed, {bytes_text(free)} free in "
            f"{directory}: free some space, or set REAME_MODELS to a directory on another disk"
        )


@asynccontextmanager
async def only_one(target: Path, progress: Progress) -> AsyncIterator[bool]:
    """Hold the target's lock, waiting while another process has it; gives whether the target is (still) missing."""
    lock = os.open(lock_file(target), os.O_RDWR | os.O_CREAT, 0o644)
    try:
        told = False
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not told:
                    progress.say(f"another process is working on {target.name}: waiting for it")
                told = True
                await trio.sleep(LOCK_POLL)
        yield not await trio.Path(target).exists()
    finally:
        os.close(lock)


@frozen
class Identity:
    """Which bytes a part belongs to: size in bytes, strong ETag with its quotes, SHA-256 in hex; None = not known."""

    size: int | None = None
    etag: str | None = None
    sha256: str | None = None

    def same_file(self, other: Identity) -> bool:
        """True when both are provably the same bytes: equal checksums, or equal ETags when one has no checksum."""
        if self.sha256 and other.sha256:
            return self.sha256 == other.sha256
        return self.etag is not None and self.etag == other.etag

    @classmethod
    def read(cls, path: Path) -> Identity | None:
        """What was noted, or None when nothing was or it is damaged (then the part is worth nothing)."""
        try:
            noted: Any = json.loads(path.read_bytes())
            return cls(size=noted["size"], etag=noted["etag"], sha256=noted["sha256"])
        except (OSError, ValueError, KeyError, TypeError):
            return None


@define(kw_only=True)
class Part:
    """The bytes so far. All methods block on the disk, `open` for as long as hashing them takes: minutes for a large
    model on a slow disk.
    """

    target: Path
    identity: Identity | None
    size: int
    _file: FileIO
    _digest: Any

    @classmethod
    def open(
        cls,
        target: Path,
        *,
        told: Callable[[int], object] = lambda size: None,
        go_on: Callable[[], object] = lambda: None,
    ) -> Part:
        """Take up what an earlier process left, or begin with nothing. OSError as from `open`.

        `told` hears how many bytes there are to hash, when there are any; `go_on` is called after each chunk, and what
        it raises ends this and leaves everything as it is.
        """
        with ExitStack() as failed:
            descriptor = os.open(_part(target), os.O_RDWR | os.O_CREAT, 0o644)
            file = failed.enter_context(os.fdopen(descriptor, "r+b", buffering=0))
            part = cls(target=target, identity=Identity.read(_note(target)), size=0, file=file, digest=hashlib.sha256())
            if part.identity is None:
                file.truncate(0)
            if size := os.fstat(descriptor).st_size:
                told(size)
            while chunk := file.read(CHUNK_BYTES):
                part._digest.update(chunk)
                part.size += len(chunk)
                go_on()
            failed.pop_all()
        return part

    def restart(self, identity: Identity) -> None:
        """Forget the bytes; what is written from now on belongs to `identity`."""
        self._file.seek(0)
        self._file.truncate(0)
        _note(self.target).write_text(json.dumps(asdict(identity)))
        self.identity, self.size, self._digest = identity, 0, hashlib.sha256()

    def write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[self._file.write(left) :]
        self._digest.update(data)
        self.size += len(data)

    def commit(self, sha256: str | None) -> None:
        """Put the file in place, durably. With a wrong checksum (hex): delete it and raise ModelError."""
        actual = self._digest.hexdigest()
        if sha256 is not None and actual != sha256:
            self.discard()
            raise ModelError(
                f"{self.target.name} arrived damaged (SHA-256 {actual[:12]}..., expected {sha256[:12]}...) and was "
                "deleted: run the same command again; if it happens again, a proxy or mirror is changing the file"
            )
        os.fsync(self._file.fileno())
        _part(self.target).replace(self.target)
        _note(self.target).unlink(missing_ok=True)
        directory = os.open(self.target.parent, os.O_RDONLY)
        with suppress(OSError):  # some network file systems cannot sync a directory
            os.fsync(directory)
        os.close(directory)

    def discard(self) -> None:
        """Delete the bytes and the note; the object is of no more use than to be closed."""
        for leftover in leftovers(self.target):
            leftover.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        if not self.size:
            self.discard()


def leftovers(target: Path) -> list[Path]:
    """The files of an unfinished pull of `target` that exist."""
    return [path for path in (_part(target), _note(target)) if path.exists()]


def _part(target: Path) -> Path:
    return target.with_name(f"{target.name}.part")


def _note(target: Path) -> Path:
    return target.with_name(f"{target.name}.part.json")
