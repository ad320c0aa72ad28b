"""What is kept on disk, as the tasks see it: look-ups that never fail, writing behind, and both in I/O threads.

A fault of the disk is a miss and a counter, never an error to anybody. Bound: `MAX_PENDING` bytes of blocks wait for
the disk; what comes on top is dropped and counted.
"""

from __future__ import annotations

import logging
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import trio

from reame.core.blocks import Block, block_keys, root_key

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reame.core.batch import Load, Saved
    from reame.memory.block_store import BlockStats, BlockStore

T = TypeVar("T")

MAX_PENDING = 64 << 20

log = logging.getLogger(__name__)


class Memory:
    """The disk side of one served model. `block_tokens` 0, `store` None: nothing is kept."""

    def __init__(
        self, store: BlockStore | None, *, fingerprint: bytes, block_tokens: int, salt: bytes, element_bytes: int
    ) -> None:
        self.block_tokens = block_tokens if store else 0
        self.num_dropped = 0
        self._store = store
        self._fingerprint = fingerprint
        self._salt = salt
        self._element_bytes = element_bytes
        self._io = trio.CapacityLimiter(2)
        self._pending: deque[Saved] = deque()
        self._num_pending_bytes = 0
        self._news = trio.Event()
        self._closed = False

    async def num_on_disk(self, tokens: Sequence[int], namespace: str) -> int:
        """How many tokens from the front lie there in whole blocks."""
        store = self._store
        if store is None or len(tokens) <= self.block_tokens:
            return 0

        def look() -> int:
            return self.block_tokens * store.has(self._keys(tokens, namespace), namespace=namespace)

        return await self._try(look, 0)

    async def read(self, load: Load) -> tuple[Block, ...]:
        """The blocks asked for, as far as they can be had."""
        store, namespace = self._store, load.sequence.request.namespace
        tokens = load.sequence.tokens[: load.stop]
        if store is None:
            return ()

        def read() -> tuple[Block, ...]:
            found = store.load(
                self._keys(tokens, namespace),
                tokens,
                block_tokens=self.block_tokens,
                namespace=namespace,
                first=load.start // self.block_tokens,
            )
            return tuple(found)

        return await self._try(read, ())

    def keep(self, saved: Saved) -> None:
        """Write these blocks, soon."""
        size = sum(map(len, saved.payloads))
        if self._store is None or self._num_pending_bytes + size > MAX_PENDING:
            self.num_dropped += len(saved.payloads)
            return
        self._pending.append(saved)
        self._num_pending_bytes += size
        self._news.set()

    def stats(self) -> BlockStats | None:
        """Opens one small file; None when nothing is kept."""
        return self._store.stats() if self._store else None

    async def run(self) -> None:
        """The flusher: writes behind until `close`, then what is left."""
        if self._store is not None:
            await self._try(self._store.prune, None)
        while self._pending or not self._closed:
            if not self._pending:
                await self._news.wait()
                self._news = trio.Event()
                continue
            saved = self._pending.popleft()
            await self._try(partial(self._write, saved), None)
            self._num_pending_bytes -= sum(map(len, saved.payloads))

    def close(self) -> None:
        """Nothing more will be kept: `run` ends when all is written."""
        self._closed = True
        self._news.set()

    def _write(self, saved: Saved) -> None:
        save, size = saved.save, saved.save.block_tokens
        assert self._store is not None
        root = self._root(save.namespace)
        keys = [root, *block_keys(root, save.tokens, size)]
        for number, payload in enumerate(saved.payloads):
            depth = save.start // size + number
            tokens = save.tokens[depth * size : (depth + 1) * size]
            block = Block(keys[depth + 1], keys[depth], depth, tokens, payload)
            self._store.store(block, namespace=save.namespace, element_bytes=self._element_bytes)

    def _keys(self, tokens: Sequence[int], namespace: str) -> list[bytes]:
        return block_keys(self._root(namespace), tokens, self.block_tokens)

    def _root(self, namespace: str) -> bytes:
        return root_key(self._fingerprint, namespace, self._salt)

    async def _try(self, function: Callable[[], T], otherwise: T) -> T:
        """Run it in an I/O thread. The store does not raise for a bad disk; whatever else happens is a miss too."""
        try:
            return await trio.to_thread.run_sync(function, limiter=self._io)
        except Exception:
            log.exception("the memory on disk failed")
            return otherwise
