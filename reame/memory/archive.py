"""Palimpsest's archive: what was generated, kept on disk, and asked what followed the last time a text ended like this.

Two threads at the same time: one I/O thread (`prepare`, `append`, `forget`; several take turns), and the decode
thread, which only calls `continuations`. A finished generation is in the page cache when `append` returns: a process
that is killed then loses nothing. Several processes may share a directory: each writes segments of its own, which it
holds locked, and reads all; with one that is no longer locked, whoever comes next goes on.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
from attrs import frozen

from reame.memory.archive_files import Room, archive_tag
from reame.memory.archive_index import GRAMS
from reame.memory.archive_search import Search
from reame.memory.archive_shelf import Counts, Owner, Shelf
from reame.memory.archive_upkeep import drop
from reame.memory.folders import opened
from reame.memory.outage import Outage, Seldom

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from reame.memory.archive_search import ArchivedPlace
    from reame.speculation.palimpsest import Site

PATIENCE_S = 0.05
"""Longest wait of a newcomer for the segments that somebody else opens."""
MOST_OPEN = 32
"""Namespaces whose segments are open; each has a file descriptor a segment, and RAM for the index of what it writes:
4 bytes a cell of its newest segment, 4 MB at most."""
SHORTEST = GRAMS[-1] + 1
"""Tokens below which nothing can be learned from a generation."""

log = logging.getLogger(__name__)


@frozen(kw_only=True)
class ArchiveStats:
    """`tokens` and `segments` of the namespaces that are open here, `bytes` of the whole directory at the last look.

    The others count since the start: `appended` tokens; `dropped` generations, for want of room or of a working disk;
    segments `damaged` (set aside), `foreign`, `unreadable` and `evicted`.
    """

    tokens: int
    segments: int
    bytes: int
    appended: int
    dropped: int
    damaged: int
    foreign: int
    unreadable: int
    evicted: int


class Archive:
    """Generations of the tokenizer with this fingerprint (32 bytes), whose ids are below `vocab_size`.

    Nothing is read or made before it is needed. `budget_bytes` is for the whole directory; `salt` goes into the names
    of folders; `clock` in seconds is for the pause after a failed write.
    """

    def __init__(
        self,
        directory: Path,
        *,
        fingerprint: bytes,
        vocab_size: int,
        budget_bytes: int,
        salt: bytes = b"",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.directory = directory
        self._fingerprint = fingerprint
        self._vocab_size = vocab_size
        self._salt = salt
        self._room = Room(directory, budget_bytes)
        self._counts = Counts()
        self._search = Search(vocab_size)
        self._shelves: OrderedDict[str, Shelf] = OrderedDict()
        self._turn = threading.RLock()
        self._outage = Outage(f"archive of generations ({directory})", clock)
        self._trouble = Seldom(clock)

    def prepare(self, *, namespace: str) -> None:
        """Before a sequence of this namespace decodes: open its segments, and see what others have written.

        The first time all of them are read and checked (a tenth of a second for ten million tokens that are in the page
        cache), then it takes microseconds. Until then `continuations` knows nothing, and does not for who comes while
        somebody else's are read. What cannot be read is a warning.
        """
        if self._turn.acquire(timeout=PATIENCE_S):
            try:
                self._refreshed(namespace)
            finally:
                self._turn.release()

    def append(self, tokens: Sequence[int], *, namespace: str) -> None:
        """Keep one finished generation. When that is not possible, it is dropped and counted, and said once."""
        with self._turn:
            if self._outage.holds():
                self._counts.dropped += 1
                return
            try:
                self.write(tokens, namespace=namespace)
                self._outage.end()
            except OSError as error:
                self._counts.dropped += 1
                self._outage.begin(error.strerror or error)

    def write(self, tokens: Sequence[int], *, namespace: str) -> None:
        """The same, but OSError when it is not possible. A few tokens teach nothing, and are not kept; ids that do not
        exist are dropped with all the generation."""
        if len(tokens) < SHORTEST:
            return
        words = np.array(tokens, np.int64)
        with self._turn:
            if words.min() < 0 or words.max() >= self._vocab_size:
                self._counts.dropped += 1
                return
            evicted = self._room.num_evicted
            self._refreshed(namespace).append(words.astype(np.uint32))
            if self._room.num_evicted != evicted:
                self._refresh_all()

    def continuations(self, tail: Sequence[int], *, namespace: str, most: int) -> list[Site]:
        """Where generations of this namespace had `tail`, the last tokens of a live sequence, and went on: at most 24
        places, the newest first, each with at most `most` tokens (64 and no more).

        For one thread. A namespace that is not prepared is like one that holds nothing.
        """
        shelf = self._shelves.get(namespace)
        return self._search.sites(shelf.segments, tail, most) if shelf else []

    def place(self, site: Site) -> ArchivedPlace:
        """Of one that `continuations` has just given, in the same thread: to read on, or back, at any time."""
        return self._search.place(site)

    def forget(self, *, namespace: str | None) -> int:
        """Delete what is kept of a namespace, of every tokenizer; None: all. How many tokens. OSError."""
        with self._turn:
            for name in list(self._shelves) if namespace is None else [namespace]:
                self._shelves.pop(name, None)
            tag = None if namespace is None else archive_tag(namespace, self._salt)
            return drop(self.directory, tag).tokens

    def stats(self) -> ArchiveStats:
        """Opens no file."""
        segments = [segment for shelf in list(self._shelves.values()) for segment in shelf.segments]
        counts = self._counts
        return ArchiveStats(
            tokens=sum(segment.num_tokens for segment in segments),
            segments=len(segments),
            bytes=self._room.held,
            appended=counts.appended,
            dropped=counts.dropped,
            damaged=counts.damaged,
            foreign=counts.foreign,
            unreadable=counts.unreadable,
            evicted=self._room.num_evicted,
        )

    def close(self) -> None:
        """Let go of all files. It opens again when it is used again."""
        with self._turn:
            self._shelves.clear()

    def _refreshed(self, namespace: str) -> Shelf:
        shelf = self._shelf(namespace)
        try:
            shelf.refresh()
        except OSError as error:
            self._counts.unreadable += 1
            self._warn("the archive cannot be read", f"{self.directory}: {error.strerror or error}")
        return shelf

    def _shelf(self, namespace: str) -> Shelf:
        """The least recently used goes when there are too many."""
        shelf = self._shelves.get(namespace)
        if shelf is None:
            if not self._shelves:
                with suppress(OSError), opened(self.directory) as root:
                    self._room.make(root)
            while len(self._shelves) >= MOST_OPEN:
                del self._shelves[next(iter(self._shelves))]
            owner = Owner(self._fingerprint, archive_tag(namespace, self._salt))
            shelf = self._shelves[namespace] = Shelf(owner, self._room, self._counts, self._warn)
        self._shelves.move_to_end(namespace)
        return shelf

    def _refresh_all(self) -> None:
        """Let go of what was evicted."""
        for shelf in self._shelves.values():
            with suppress(OSError):
                shelf.refresh()

    def _warn(self, what: str, which: object) -> None:
        self._trouble.warn("%s: %s; going on without (others are only counted)", what, which)
