"""Blocks of computed prefixes on disk, for one model: looked up by name, without an index.

Nothing is read when a store is made: a look-up opens files one after the other until one is not there. So another
process's blocks are found, files that vanish are misses, and a restart has nothing to rebuild. Safe to call from
several threads, and with several processes on one directory. Nothing here raises for what the disk is like.
"""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from attrs import frozen

from reame.memory.ages import STEP_NS, age_for, make_younger, set_age
from reame.memory.block_counts import BlockCounts
from reame.memory.block_directory import BlockDirectory, Removed
from reame.memory.folders import (
    PAGE,
    Place,
    Unusable,
    charge,
    ensure,
    ensure_root,
    namespace_tag,
    opened,
    opened_file,
    place_of,
    read_all,
    remove,
    write_new,
)
from reame.memory.format import SMALLEST, Damaged, Foreign, decode, encode, read_header
from reame.memory.outage import Outage, Seldom

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from reame.core.blocks import Block
    from reame.memory.block_counts import BlockStats


ATTEMPTS = 5
"""To write a block while other processes remove the folders that they find empty."""


@frozen
class Wanted:
    """What must be in a file; `parent` None for the first of a chain, whose parent is the root."""

    key: bytes
    parent: bytes | None
    depth: int
    tokens: tuple[int, ...]


class BlockStore:
    """The blocks of the model with this fingerprint (16 bytes); the budget is for the whole directory.

    `clock` in seconds is for the pause after a failed write.
    """

    def __init__(
        self,
        directory: Path,
        *,
        fingerprint: bytes,
        budget_bytes: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.directory = BlockDirectory(directory, budget_bytes=budget_bytes)
        self._fingerprint = fingerprint
        self._model = fingerprint.hex()[:16]
        self._counts = BlockCounts()
        self._outage = Outage(f"blocks on disk ({directory})", clock)
        self._damage = Seldom(clock)
        self._oversize = Seldom(clock)

    def load(
        self, keys: Sequence[bytes], tokens: Sequence[int], *, block_tokens: int, namespace: str, first: int = 0
    ) -> list[Block]:
        """The blocks `first`, `first + 1`, ... of a chain, up to the first that cannot be had.

        `keys` and `tokens` are those of the whole chain, from position 0 on. Memory: the payloads of all blocks.
        """
        blocks: list[Block] = []
        tag, now = namespace_tag(namespace), time.time_ns()
        with suppress(OSError), opened(self.directory.path) as root:
            for depth in range(first, len(keys)):
                part = tuple(tokens[depth * block_tokens : (depth + 1) * block_tokens])
                wanted = Wanted(keys[depth], keys[depth - 1] if depth else None, depth, part)
                block = self._load(root, self._place(wanted.key, tag), wanted, now - depth * STEP_NS)
                if block is None:
                    break
                blocks.append(block)
        self._counts.add(hits=len(blocks), misses=max(0, len(keys) - first - len(blocks)))
        if blocks and first:
            self.touch(keys[:first], namespace=namespace)
        return blocks

    def load_state(
        self, keys: Sequence[bytes], tokens: Sequence[int], *, block_tokens: int, namespace: str
    ) -> list[Block]:
        """The longest of the states at the end of one of these blocks that can be had, if any: a block of all tokens up
        to there. `keys` and `tokens` are those of the whole chain."""
        tag, now = namespace_tag(namespace), time.time_ns()
        with suppress(OSError), opened(self.directory.path) as root:
            for depth in reversed(range(len(keys))):
                wanted = Wanted(keys[depth], None, 0, tuple(tokens[: (depth + 1) * block_tokens]))
                block = self._load(root, self._place(wanted.key, tag), wanted, now)
                if block is not None:
                    self._counts.add(hits=1)
                    return [block]
        self._counts.add(misses=1)
        return []

    def has(self, keys: Sequence[bytes], *, namespace: str) -> int:
        """How many blocks of a chain are there from the front on, by name: they may still turn out damaged."""
        tag = namespace_tag(namespace)
        return next((depth for depth, key in enumerate(keys) if not self._is_there(key, tag)), len(keys))

    def has_state(self, keys: Sequence[bytes], *, namespace: str) -> int:
        """Up to which block of a chain there is a state, by name; 0 if none is."""
        tag = namespace_tag(namespace)
        return next((depth for depth in range(len(keys), 0, -1) if self._is_there(keys[depth - 1], tag)), 0)

    def store(self, block: Block, *, namespace: str, until: float | None = None, element_bytes: int = 1) -> bool:
        """Whether the block is on disk now. `until`: pinned to that Unix time (seconds). `element_bytes` 2: f16 inside.

        False, and counted as dropped: the budget has no room, the disk takes nothing (said once, tried again later).
        """
        done = not self._outage.holds() and self._try_to_store(block, namespace, until, element_bytes)
        if not done:
            self._counts.add(dropped=1)
        return done

    def touch(self, keys: Sequence[bytes], *, namespace: str, until: float | None = None) -> None:
        """Blocks of a chain, from its first on, were used, though not from here; or are pinned to a Unix time."""
        tag, now = namespace_tag(namespace), time.time_ns()
        with suppress(OSError), opened(self.directory.path) as root:
            for depth, key in enumerate(keys):
                wanted = (now if until is None else int(until * 1e9)) - depth * STEP_NS
                with suppress(OSError):
                    make_younger(root, self._place(key, tag), wanted)

    def prune(self) -> Removed:
        """Bring the directory within its budget, whoever filled it. For the background, at the start and now and then:
        a second for 100,000 blocks."""
        try:
            return self.directory.prune()
        except OSError:
            return Removed()

    def stats(self) -> BlockStats:
        """Opens one small file."""
        usage = self.directory.glance()
        return self._counts.stats(blocks=usage.blocks, bytes=usage.bytes, evicted=self.directory.num_evicted)

    def _is_there(self, key: bytes, tag: str) -> bool:
        try:
            facts = os.stat(self.directory.path / str(self._place(key, tag)), follow_symlinks=False)
        except OSError:
            return False
        return stat.S_ISREG(facts.st_mode) and facts.st_size >= SMALLEST

    def _place(self, key: bytes, tag: str) -> Place:
        return place_of(key, model=self._model, namespace=tag)

    def _load(self, root: int, place: Place, wanted: Wanted, mtime_ns: int) -> Block | None:
        try:
            with opened(root, *place.folders) as folder, opened_file(folder, place.name) as (file, facts):
                head = read_all(file, SMALLEST)
                if read_header(head).file_size != facts.st_size:
                    raise Damaged(f"{facts.st_size} bytes long")
                data = head + read_all(file, facts.st_size - len(head))
                block = decode(data, fingerprint=self._fingerprint, key=wanted.key, tokens=wanted.tokens)
                if block.depth != wanted.depth or block.parent != (wanted.parent or block.parent):
                    raise Damaged("of another chain")
                with suppress(OSError):
                    set_age(file, facts, mtime_ns)
                return block
        except FileNotFoundError:
            return None
        except (Damaged, OSError) as error:
            self._refuse(root, place, error)
            return None

    def _refuse(self, root: int, place: Place, error: Damaged | OSError) -> None:
        """Count a file that is no good, and delete it unless the fault may lie elsewhere."""
        self._counts.add(**{"foreign" if isinstance(error, Foreign) else "corrupt": 1})
        if isinstance(error, (Damaged, Unusable, PermissionError)):
            remove(root, place)
        self._damage.warn(
            "a block on disk is no good and is computed again: %s: %s (others are only counted)", place, error
        )

    def _try_to_store(self, block: Block, namespace: str, until: float | None, element_bytes: int) -> bool:
        for _ in range(ATTEMPTS):
            try:
                done = self._store(block, namespace, until, element_bytes)
            except FileNotFoundError:
                continue  # somebody deletes folders meanwhile: the disk is not at fault
            except (BlockingIOError, Unusable):
                return False
            except OSError as error:
                self._outage.begin(error.strerror or error)
                return False
            self._outage.end()
            return done
        return False

    def _store(self, block: Block, namespace: str, until: float | None, element_bytes: int) -> bool:
        place = self._place(block.key, namespace_tag(namespace))
        ensure_root(self.directory.path)
        with opened(self.directory.path) as root:
            mtime = age_for(root, place, block)
            if until is not None:
                mtime = max(mtime, int(until * 1e9) - block.depth * STEP_NS)
            if make_younger(root, place, mtime):
                return True
            data = encode(block, fingerprint=self._fingerprint, element_bytes=element_bytes)
            return self._write(root, place, data, mtime)

    def _write(self, root: int, place: Place, data: bytes, mtime: int) -> bool:
        size = charge(len(data))
        if size > self.directory.budget_bytes:
            self._oversize.warn("a block of %d bytes is larger than memory.disk_mb allows: not kept", len(data))
            return False
        if not self.directory.take_room(root, size):
            return False
        try:
            made = ensure(root, *place.folders)
            with opened(root, *place.folders) as folder:
                write_new(folder, place.name, data, mtime_ns=mtime)
        except BaseException:
            self.directory.count(root, -size, -1)
            raise
        if made:
            self.directory.count(root, made * PAGE, 0)
        self._counts.add(stored=1)
        return True
