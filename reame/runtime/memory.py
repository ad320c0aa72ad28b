"""What is kept on disk, as the tasks see it: look-ups that never fail, writing behind, and both in I/O threads.

A fault of the disk is a miss and a counter, never an error to anybody. Bound: `MAX_PENDING` bytes of blocks wait for
the disk; what comes on top is dropped and counted.
"""

from __future__ import annotations

import hashlib
import logging
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import trio
from attrs import frozen

from reame.core.answer_key import answer_key, is_fixed
from reame.core.blocks import Block, block_keys, root_key
from reame.core.events import Delta, Usage
from reame.memory.answer_format import Answer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reame.core.batch import Load, Saved
    from reame.core.request import Request
    from reame.memory.answers import AnswerStats, AnswerStore
    from reame.memory.archive import Archive
    from reame.memory.block_counts import BlockStats
    from reame.memory.block_store import BlockStore

T = TypeVar("T")

MAX_PENDING = 64 << 20

log = logging.getLogger(__name__)


MOST_PINS = 64
"""Pins that are applied to blocks still to be written; the oldest is forgotten (what is on disk stays pinned)."""


@frozen
class Pin:
    """The blocks of `tokens` are not to be evicted before `until` (Unix time, seconds)."""

    tokens: tuple[int, ...]
    namespace: str
    until: float


class Memory:
    """The disk side of one served model. Without a `store` no blocks are kept, without `answers` no answers, without
    an `archive` (set once the tokenizer is known) no generations."""

    def __init__(
        self,
        store: BlockStore | None,
        answers: AnswerStore | None,
        *,
        fingerprint: bytes,
        block_tokens: int,
        salt: bytes,
        element_bytes: int,
    ) -> None:
        self.block_tokens = block_tokens if store else 0
        self.num_dropped = 0
        self._store = store
        self._answers = answers
        self._fingerprint = fingerprint
        self._salt = salt
        self._element_bytes = element_bytes
        self._io = trio.CapacityLimiter(2)
        self._pins: deque[Pin] = deque(maxlen=MOST_PINS)
        self._pending: deque[tuple[int, Callable[[], object]]] = deque()
        self._urgent: deque[tuple[int, Callable[[], object]]] = deque()
        self._num_pending_bytes = 0
        self._unwritten: dict[bytes, str] = {}
        self.archive: Archive | None = None
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

    def answer_key(self, request: Request, *, seed_given: bool) -> bytes | None:
        """The name of the request's answer, None when there cannot be an old one."""
        if self._answers is None or not is_fixed(request, seed_given=seed_given):
            return None
        return answer_key(self._fingerprint + self._salt, request)

    async def answer(self, key: bytes) -> Answer | None:
        """What the request of this name was answered with."""
        answers = self._answers
        return await self._try(partial(answers.get, key), None) if answers else None

    def keep(self, saved: Saved) -> None:
        """Write these blocks, soon."""
        if not self._put_off(sum(map(len, saved.payloads)), partial(self._write, saved)):
            self.num_dropped += len(saved.payloads)

    def keep_answer(self, key: bytes, answer: Answer, namespace: str) -> None:
        """Write this answer, soon."""
        if self._answers is not None:
            size = sum(len(delta.text) for delta in answer.deltas)
            self._put_off(size, partial(self._answers.put, key, answer, namespace=namespace))

    @property
    def keeps_texts(self) -> bool:
        """`keep_text` does something: there is a store of old answers, which has the texts too."""
        return self._answers is not None

    def keep_text(self, name: str, text: str, *, namespace: str) -> None:
        """Write a text of the API's own under this name, soon; `text` finds it at once."""
        answers, key = self._answers, self._text_key(name, namespace)
        if answers is None:
            return
        usage = Usage(prompt_tokens=0, cached_tokens=0, completion_tokens=0)
        answer = Answer(deltas=(Delta(text=text),), reason="stop", usage=usage)

        def write() -> None:
            answers.put(key, answer, namespace=namespace)
            self._unwritten.pop(key, None)

        if self._put_off(len(text), write):
            self._unwritten[key] = text

    async def text(self, name: str, *, namespace: str) -> str | None:
        """What was kept under this name in this namespace, by whichever process."""
        key = self._text_key(name, namespace)
        if key in self._unwritten:
            return self._unwritten[key]
        answer = await self.answer(key)
        return None if answer is None else "".join(delta.text for delta in answer.deltas)

    def _text_key(self, name: str, namespace: str) -> bytes:
        """Not bound to the model: a conversation may go on with another one."""
        words = f"{namespace}\0{name}".encode("utf-8", "surrogatepass")
        return hashlib.blake2b(words, digest_size=32, person=b"reame.text", key=self._salt[:64]).digest()

    async def prepare_archive(self, namespace: str) -> None:
        """Before a sequence of this namespace: so that what was there before the start is found, and what others take
        in or away since. Microseconds, but for the first time."""
        if self.archive is not None:
            await self._try(partial(self.archive.prepare, namespace=namespace), None)

    def remember(self, tokens: Sequence[int], namespace: str) -> None:
        """Archive a finished generation, before anything else that waits to be written."""
        if self.archive is not None and tokens:
            job = partial(self.archive.append, list(tokens), namespace=namespace)
            self._put_off(8 * len(tokens), job, to=self._urgent)

    async def pin(self, pin: Pin) -> None:
        """Keep the blocks of these tokens, those that are there and those to come, until then."""
        self._pins.append(pin)
        if self._store is not None:
            keys = self._keys(pin.tokens, pin.namespace)
            await self._try(partial(self._store.touch, keys, namespace=pin.namespace, until=pin.until), None)

    def _pinned_until(self, namespace: str, tokens: tuple[int, ...]) -> float | None:
        pins = tuple(self._pins)  # at once: this is an I/O thread, and others come meanwhile
        ends = [p.until for p in pins if p.namespace == namespace and p.tokens[: len(tokens)] == tokens]
        return max(ends, default=None)

    def _put_off(
        self, size: int, job: Callable[[], object], *, to: deque[tuple[int, Callable[[], object]]] | None = None
    ) -> bool:
        if self._num_pending_bytes + size > MAX_PENDING:
            return False
        (self._pending if to is None else to).append((size, job))
        self._num_pending_bytes += size
        self._news.set()
        return True

    def stats(self) -> tuple[BlockStats | None, AnswerStats | None]:
        """Opens one small file and reads one row; None for what is not kept."""
        return (
            self._store.stats() if self._store else None,
            self._answers.stats() if self._answers else None,
        )

    async def run(self) -> None:
        """The flusher: writes behind until `close`, then what is left."""
        await self.prepare_archive("")
        if self._store is not None:
            await self._try(self._store.prune, None)
        while self._urgent or self._pending or not self._closed:
            if not (self._urgent or self._pending):
                await self._news.wait()
                self._news = trio.Event()
                continue
            size, job = (self._urgent or self._pending).popleft()
            await self._try(job, None)
            self._num_pending_bytes -= size
        if self._answers is not None:
            self._answers.close()
        if self.archive is not None:
            await self._try(self.archive.close, None)

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
            until = self._pinned_until(save.namespace, save.tokens[: block.stop])
            self._store.store(block, namespace=save.namespace, until=until, element_bytes=self._element_bytes)

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
