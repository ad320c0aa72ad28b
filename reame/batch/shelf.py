"""Files and batches of API keys on disk: each key has a folder of its own, and sees nothing of others'. Synchronous.

A file is `ID.data`, and `ID.json` that tells of it, which comes last and goes first: data alone is nobody's. Bounds:
`room` bytes and `MOST` files and batches a key; all of it is deleted after `keep_s` seconds.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import time
from contextlib import suppress
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from reame.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MOST = 1000
Told = dict[str, Any]
"""What is told of a file or a batch, as OpenAI has it."""
_PREFIX = {"file": "file-", "batch": "batch_"}
_NAME = re.compile(r"(file-|batch_)[0-9a-f]{32}")
OPEN = ("validating", "in_progress", "finalizing", "cancelling")
"""States of a batch that is not over."""


def new_id(kind: str) -> str:
    """Ids of one kind sort by their time."""
    return f"{_PREFIX[kind]}{time.time_ns():016x}{secrets.token_hex(8)}"


class Shelf:
    """Owns `root`. Methods raise RequestError for what a client did wrong, OSError when the disk fails. Any thread, one
    at a time."""

    def __init__(self, root: Path, *, room: int, keep_s: float) -> None:
        self._root = root
        self.room = room
        self.keep_s = keep_s

    def begin(self, key: str) -> Path:
        """Where the data of a new file is written to. RequestError (400) when the key has no room for one."""
        folder = self._folder(key)
        if len(list(folder.glob("file-*.json"))) >= MOST:
            raise RequestError(f"this key has {MOST} files, no more are taken: delete some", code="no_room")
        self.check_room(key, 1)
        return folder / f"{new_id('file')}.data"

    def check_room(self, key: str, more: int) -> None:
        used = sum(map(_size, self._folder(key).glob("*.data")))
        if used + more > self.room:
            raise RequestError(
                f"this key's files take {used >> 20} of {self.room >> 20} MiB (batch.room_mb): delete some",
                code="no_room",
            )

    def add(self, data: Path, *, filename: str, purpose: str, keep_s: float | None = None) -> Told:
        """The data are whole: now it is a file."""
        _sync(data)
        now = int(time.time())
        told: Told = {
            "id": data.stem,
            "object": "file",
            "bytes": data.stat().st_size,
            "created_at": now,
            "expires_at": now + int(min(keep_s or self.keep_s, self.keep_s)),
            "filename": filename,
            "purpose": purpose,
            "status": "processed",
        }
        _write(data.with_suffix(".json"), told)
        return told

    def data_path(self, key: str, name: str) -> Path:
        """Of a file that is to be, or is."""
        return self._folder(key) / f"{name}.data"

    def file(self, key: str, name: str) -> Told:
        """RequestError (404) when the key has none of that name."""
        return self._told(key, "file", name)

    def files(self, key: str) -> list[Told]:
        """Newest first."""
        return list(self._all(key, "file"))

    def delete_file(self, key: str, name: str) -> None:
        self.file(key, name)
        for batch in self._all(key, "batch"):
            if batch["input_file_id"] == name and batch["status"] in OPEN:
                raise RequestError(f"batch {batch['id']} still needs this file: cancel it first", code="file_in_use")
        _remove(self._folder(key), name)

    def batch(self, key: str, name: str) -> Told:
        return self._told(key, "batch", name)

    def batches(self, key: str) -> list[Told]:
        """Newest first."""
        return list(self._all(key, "batch"))

    def add_batch(self, key: str, told: Told) -> None:
        if len(self.batches(key)) >= MOST:
            raise RequestError(f"this key has {MOST} batches, no more are taken until old ones expire", code="no_room")
        self.save_batch(key, told)

    def save_batch(self, key: str, told: Told) -> None:
        _write(self._folder(key) / f"{told['id']}.json", told)

    def journal_path(self, key: str, name: str) -> Path:
        """Where the results of a batch are gathered."""
        return self._folder(key) / f"{name}.results"

    def has_journal(self, key: str, name: str) -> bool:
        """Something has been gathered."""
        path = self.journal_path(key, name)
        return path.exists() and path.stat().st_size > 0

    def forget_journal(self, key: str, name: str) -> None:
        self.journal_path(key, name).unlink(missing_ok=True)

    def unfinished(self) -> Iterator[tuple[str, str]]:
        """(key, batch) of all that are to go on, oldest first of each key."""
        for key in self._keys():
            names = [batch["id"] for batch in self._all(key, "batch") if batch["status"] in OPEN]
            yield from ((key, name) for name in reversed(names))

    def expire(self, now: float) -> None:
        """Delete what has been kept for its time, and data that never became a file."""
        for key in self._keys():
            folder = self._folder(key)
            needed = {b["input_file_id"] for b in self._all(key, "batch") if b["status"] in OPEN}
            for told in list(self._all(key, "file")):
                if told["expires_at"] <= now and told["id"] not in needed:
                    _remove(folder, told["id"])
            for told in list(self._all(key, "batch")):
                if told["status"] not in OPEN and told["created_at"] + self.keep_s <= now:
                    _remove(folder, told["id"])
            for path in folder.iterdir():
                is_lost = path.suffix in (".data", ".tmp", ".results") and not path.with_suffix(".json").exists()
                with suppress(FileNotFoundError):  # others delete too
                    if is_lost and path.stat().st_mtime + 86_400 <= now:
                        path.unlink()

    def _keys(self) -> list[str]:
        """Of all folders that say whose they are. What a power cut left of such a file is written anew when its key
        comes again."""
        names = sorted(self._root.glob("*/key")) if self._root.is_dir() else []
        found = ((_named(name), name.parent.name) for name in names)
        return [key for key, folder in found if key is not None and _folder_of(key) == folder]

    def _folder(self, key: str) -> Path:
        folder = self._root / _folder_of(key)
        if _named(folder / "key") != key:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _replace(folder / "key", key.encode())
        return folder

    def _told(self, key: str, kind: str, name: str) -> Told:
        if _NAME.fullmatch(name) and name.startswith(_PREFIX[kind]):
            told = _read(self._folder(key) / f"{name}.json")
            if told is not None:
                return told
        raise RequestError(f"there is no such {kind} of this key", status=404, param="id", code=f"{kind}_not_found")

    def _all(self, key: str, kind: str) -> Iterator[Told]:
        for path in sorted(self._folder(key).glob(f"{_PREFIX[kind]}*.json"), reverse=True):
            told = _read(path)
            if told is not None:
                yield told


def _folder_of(key: str) -> str:
    return blake2b(key.encode(), digest_size=8).hexdigest()


def _named(path: Path) -> str | None:
    """The key that a folder belongs to, if it can be read."""
    try:
        return path.read_text("utf-8")
    except (OSError, ValueError):
        return None


def _size(path: Path) -> int:
    """0 when it has just been deleted."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _read(path: Path) -> Told | None:
    try:
        told = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return told if isinstance(told, dict) else None


def _write(path: Path, told: Told) -> None:
    _replace(path, json.dumps(told).encode())


def _replace(path: Path, data: bytes) -> None:
    """The old content or the new one, whatever ends the process or the power."""
    temporary = path.with_suffix(".tmp")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _remove(folder: Path, name: str) -> None:
    for suffix in (".json", ".data", ".results"):
        (folder / f"{name}{suffix}").unlink(missing_ok=True)
