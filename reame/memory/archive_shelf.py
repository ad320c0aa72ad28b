"""The segments of one namespace, the newest of which is written: what the writing thread does with them."""

from __future__ import annotations

import os
import secrets
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from attrs import define, frozen

from reame.memory.archive_files import ASIDE, Room, segment_names
from reame.memory.archive_format import FRAME, LARGEST, SMALLEST, Header, file_size
from reame.memory.archive_segment import Segment, create, open_segment, set_aside, take
from reame.memory.folders import ensure, ensure_root, opened
from reame.memory.format import Damaged, Foreign

if TYPE_CHECKING:
    from collections.abc import Callable

    from reame.memory.archive_index import Words

GROWTH = 4
"""A namespace's first segment is small, and each one larger by this than the largest before, up to a share of all."""
SHARE = 8
"""Segments that the budget holds at least."""
TICK_NS = 20_000_000
"""A directory that was changed so shortly ago might be changed again within the same tick of its clock."""


@frozen
class Owner:
    """Whose segments they are: the tokenizer (32 bytes), and the folder of the namespace (32 hex digits)."""

    fingerprint: bytes
    tag: str

    @property
    def folders(self) -> tuple[str, str]:
        return self.fingerprint.hex()[:16], self.tag


@define
class Counts:
    """Since the start. `damaged`: segments; `dropped`: generations; `appended`: tokens."""

    appended: int = 0
    dropped: int = 0
    damaged: int = 0
    foreign: int = 0
    unreadable: int = 0


class Shelf:
    """`segments`: the oldest first; replaced as a whole, so that another thread may read it at any time."""

    def __init__(self, owner: Owner, room: Room, counts: Counts, warn: Callable[[str, object], None]) -> None:
        self.segments: tuple[Segment, ...] = ()
        self._owner = owner
        self._room = room
        self._counts = counts
        self._warn = warn
        self._own: Segment | None = None
        self._refused: set[str] = set()
        self._seen_ns = 0

    def refresh(self) -> None:
        """See what came and went, by whoever's hand. Reads every byte of what is new here. OSError."""
        path = self._room.directory.joinpath(*self._owner.folders)
        try:
            changed_ns = os.stat(path, follow_symlinks=False).st_mtime_ns
            if changed_ns != self._seen_ns:
                with opened(self._room.directory) as root, opened(root, *self._owner.folders) as folder:
                    self._list(root, folder)
                self._seen_ns = changed_ns if changed_ns < time.time_ns() - TICK_NS else 0
        except FileNotFoundError:
            self._seen_ns, self._own, self.segments = 0, None, ()
        for segment in self.segments:
            if segment is not self._own:
                segment.follow()

    def append(self, tokens: Words) -> None:
        """One finished generation. OSError: part of it may be kept."""
        longest = self._largest() - FRAME - 1
        for start in range(0, len(tokens), longest):
            chunk = tokens[start : start + longest]
            self._writable(len(chunk) + FRAME).append([chunk])
            self._counts.appended += len(chunk)

    def _writable(self, need: int) -> Segment:
        """A segment of our own with room for so many words."""
        if self._own is not None and self._own.is_gone():
            self._seen_ns = 0
            self._own = None
            self.refresh()
        if self._own is not None and self._own.room < need:
            self._seal(self._own)
        if self._own is None:
            ensure_root(self._room.directory)
            with opened(self._room.directory) as root:
                ensure(root, *self._owner.folders)
                with opened(root, *self._owner.folders) as folder:
                    self._own = self._take(folder, need) or self._create(root, folder, need)
        return self._own

    def _seal(self, segment: Segment) -> None:
        self._replace(segment, segment.sealed())
        self._own = None

    def _replace(self, old: Segment | None, new: Segment) -> None:
        rest = [segment for segment in self.segments if segment is not old]
        self.segments = tuple(sorted((*rest, new), key=lambda segment: segment.name))

    def _take(self, folder: int, need: int) -> Segment | None:
        """Go on with what a process that has ended has begun."""
        for segment in reversed(self.segments):
            if segment.seal is not None:
                continue
            try:
                taken = take(folder, segment.name)
            except (Damaged, FileNotFoundError):
                self._seen_ns = 0  # the next look deals with it
                continue
            if taken is not None:
                self._replace(segment, taken)
                if taken.room >= need:
                    return taken
                self._seal(taken)
        return None

    def _create(self, root: int, folder: int, need: int) -> Segment:
        largest = max((segment.header.capacity for segment in self.segments), default=0)
        capacity = max(SMALLEST, GROWTH * largest)
        while capacity <= need:
            capacity *= 2
        header = self._header(min(capacity, self._largest()), time.time_ns())
        self._room.make(root, header.size)
        made = create(folder, header)
        self._replace(None, made)
        return made

    def _header(self, capacity: int, created_ns: int, number: int | None = None) -> Header:
        if number is None:
            number = int.from_bytes(secrets.token_bytes(8))
        return Header(capacity, created_ns, number, self._owner.fingerprint, bytes.fromhex(self._owner.tag))

    def _largest(self) -> int:
        """Cells of a segment at most."""
        capacity = LARGEST
        while capacity > SMALLEST and SHARE * file_size(capacity) > self._room.budget_bytes:
            capacity //= 2
        return capacity

    def _list(self, root: int, folder: int) -> None:
        known = {s.name: s for s in self.segments if s.seal is not None or s is self._own}
        names = segment_names(folder)
        self.segments = tuple(known[name] for name in names if name in known)
        if self._own is not None and self._own not in self.segments:
            self._own = None
        for name in names:
            if name not in known and name not in self._refused and (segment := self._open(root, folder, name)):
                self._replace(None, segment)

    def _open(self, root: int, folder: int, name: str) -> Segment | None:
        try:
            segment = open_segment(folder, name)
            header = segment.header
            if (header.fingerprint, header.tag.hex(), name) != (self._owner.fingerprint, self._owner.tag, header.name):
                raise Foreign("of another tokenizer, namespace or name")
            return segment
        except FileNotFoundError:
            return None
        except Foreign as error:
            self._counts.foreign += 1
            self._refuse(name, error)
        except Damaged as error:
            return self._rescue(root, folder, name, error)
        except OSError as error:
            self._counts.unreadable += 1
            self._refuse(name, error.strerror or error)
        return None

    def _refuse(self, name: str, why: object) -> None:
        """Left as it is, and not looked at again."""
        self._refused.add(name)
        self._warn("a segment of the archive is not used", f"{name}: {why}")

    def _rescue(self, root: int, folder: int, name: str, why: Damaged) -> Segment | None:
        """Set a damaged one aside; what is sound in it goes into a new one of the same age before. Without room for
        that it keeps its name, so that another start may still save it."""
        created_ns, number = (int(part, 16) for part in name.removesuffix(".seg").split("-"))
        saved: list[Segment] = []

        def save(generations: list[Words]) -> None:
            if generations:
                saved.append(self._copy(root, folder, generations, created_ns))

        try:
            if not set_aside(folder, self._header(LARGEST, created_ns, number), ASIDE, save):
                return None
        except FileNotFoundError:
            return None
        except OSError as error:
            self._counts.unreadable += 1
            self._refuse(name, f"{why}, and {error.strerror or error}")
            return None
        self._counts.damaged += 1
        self._warn("a damaged segment of the archive was set aside", f"{name}{ASIDE}: {why}")
        return saved[0] if saved else None

    def _copy(self, root: int, folder: int, generations: list[Words], created_ns: int) -> Segment:
        """A full segment of these. OSError: then it is not there."""
        capacity, size = SMALLEST, sum(len(tokens) + FRAME for tokens in generations) + 1
        while capacity < size:
            capacity *= 2
        header = self._header(capacity, created_ns)
        self._room.make(root, header.size)
        made = create(folder, header)
        try:
            made.append(generations)
            return made.sealed()
        except OSError:
            with suppress(OSError):
                os.unlink(made.name, dir_fd=folder)
            raise
