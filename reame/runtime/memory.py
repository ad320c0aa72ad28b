"""What is kept on disk, as the tasks see it: look-ups that never fail, writing behind, and both in I/O threads.

A fault of the disk is a miss and a counter, never an error to anybody. Bound: what waits for the disk is a `Backlog`;
what that refuses is dropped, and blocks among it are counted.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import trio

from reame.core.answer_key import answer_key, is_fixed
from reame.core.events import Delta, Usage
from reame.errors import RequestError
from reame.memory.answer_format import Answer
from reame.runtime.backlog import Backlog, Task
from reame.runtime.kept import Found, Kept, Question, guarded
from reame.runtime.pins import Pins

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reame.core.batch import Load, Saved
    from reame.core.blocks import Block
    from reame.core.request import Request
    from reame.memory.answers import AnswerStats, AnswerStore
    from reame.memory.block_counts import BlockStats
    from reame.memory.block_store import BlockStore
    from reame.runtime.pins import Pin

T = TypeVar("T")

LOOK_UP_S, LOAD_S = 5.0, 60.0
"""Seconds after which a look-up, and a reading of blocks, are a miss."""
LOGPROB_BYTES = 120
"""Of one probability of one token."""

log = logging.getLogger(__name__)


class Memory:
    """The disk side of one served model: see `Kept`, which it owns."""

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
        self.kept = Kept(
            store, answers, fingerprint=fingerprint, block_tokens=block_tokens, salt=salt, element_bytes=element_bytes
        )
        self.block_tokens = self.kept.block_tokens
        self.num_dropped = 0
        self.loses = False
        """What was last to be written was not, or not all of it."""
        self._io, self._loading, self._writing = (trio.CapacityLimiter(number) for number in (2, 1, 1))
        """Threads that look something up, which somebody waits for; that read blocks, which may take long, and hold all
        that they read until it is in the cells; and the flusher's."""
        self._is_slow = False
        """The last look-up was given up."""
        self._pins = Pins()
        self._backlog = Backlog()
        self.is_busy: Callable[[], bool] = lambda: False
        """Whether somebody waits for tokens, so that what can wait should."""
        self._unwritten: dict[bytes, tuple[str, str]] = {}
        """Texts by their names, with their namespaces."""
        self._eras: Counter[str] = Counter()

    async def recall(self, questions: Sequence[Question], namespace: str) -> list[Found]:
        """What is remembered of requests of this namespace, in their order; and its archive is opened, so that what was
        there before the start is found, and what others take in or away since. All in one hop to an I/O thread: beside
        steps that use all cores each takes milliseconds."""
        recalled = partial(self.kept.recalled, questions, namespace)
        return await self._look(recalled, [Found()] * len(questions), self._io, LOOK_UP_S)

    async def read(self, load: Load) -> tuple[Block, ...]:
        """The blocks asked for, as far as they can be had."""
        sequence = load.sequence
        tokens = sequence.tokens[: load.stop]
        read = partial(self.kept.read, tokens, load.start, sequence.request.namespace)
        return await self._look(read, (), self._loading, LOAD_S)

    def answer_key(self, request: Request, *, seed_given: bool) -> bytes | None:
        """The name of the request's answer, None when there cannot be an old one."""
        if self.kept.answers is None or not is_fixed(request, seed_given=seed_given):
            return None
        return answer_key(self.kept.fingerprint + self.kept.salt, request)

    def keep(self, saved: Saved) -> None:
        """Write these blocks, soon."""
        size = sum(map(len, saved.payloads))
        if not self._backlog.put(Task(saved.save.namespace, size, partial(self._write, saved), of_cells=True)):
            self.num_dropped += len(saved.payloads)
            self.loses = True

    @property
    def is_behind(self) -> bool:
        """What waits to be written takes half of its room."""
        return self._backlog.is_half_full

    def era(self, namespace: str) -> int:
        """Changes when the namespace is forgotten: what was begun in an earlier era is not kept."""
        return self._eras[namespace]

    def begin_era(self, namespace: str) -> None:
        self._eras[namespace] += 1

    def keep_answer(self, key: bytes, answer: Answer, namespace: str, *, era: int = 0) -> None:
        """Write this answer, soon, unless the `era` in which it was begun is over."""
        if self.kept.answers is not None and era == self.era(namespace):
            size = sum(map(_bytes_of, answer.deltas))
            self._backlog.put(Task(namespace, size, partial(self.kept.answers.put, key, answer, namespace=namespace)))

    @property
    def keeps_texts(self) -> bool:
        """`keep_text` does something: there is a store of old answers, which has the texts too."""
        return self.kept.answers is not None

    def keep_text(self, name: str, text: str, *, namespace: str, era: int = 0) -> None:
        """Write a text of the API's own under this name, soon, unless `era` is over; `text` finds it at once."""
        answers, key = self.kept.answers, self._text_key(name, namespace)
        if answers is None or era != self.era(namespace):
            return
        usage = Usage(prompt_tokens=0, cached_tokens=0, completion_tokens=0)
        answer = Answer(deltas=(Delta(text=text),), reason="stop", usage=usage)

        def write() -> None:
            if key in self._unwritten:
                answers.put(key, answer, namespace=namespace)
                if self._unwritten.pop(key, None) is None:  # it was dropped meanwhile
                    answers.drop(key)

        if self._backlog.put(Task(namespace, len(text), write)):
            self._unwritten[key] = namespace, text

    async def text(self, name: str, *, namespace: str) -> str | None:
        """What was kept under this name in this namespace, by whichever process. Raises RequestError (503) when the
        disk does not say whether there is something."""
        key = self._text_key(name, namespace)
        unwritten = self._unwritten.get(key)  # at once: an I/O thread takes away what it has written
        if unwritten is not None:
            return unwritten[1]
        answers = self.kept.answers
        if answers is None:
            return None
        found = await self._look(lambda: (answers.get(key),), None, self._io, LOOK_UP_S)
        if found is None:
            raise RequestError(
                "the server's disk does not answer: try again", status=503, code="disk_error", retry_after=5
            )
        (answer,) = found
        return None if answer is None else "".join(delta.text for delta in answer.deltas)

    async def drop_text(self, name: str, *, namespace: str) -> bool:
        """Delete what was kept under this name in this namespace. Whether there was something."""
        answers, key = self.kept.answers, self._text_key(name, namespace)
        was_unwritten = self._unwritten.pop(key, None) is not None
        was_kept = answers is not None and await self._try(partial(answers.drop, key), otherwise=False)
        return was_unwritten or was_kept

    def _text_key(self, name: str, namespace: str) -> bytes:
        """Not bound to the model: a conversation may go on with another one."""
        words = f"{namespace}\0{name}".encode("utf-8", "surrogatepass")
        return hashlib.blake2b(words, digest_size=32, person=b"reame.text", key=self.kept.salt[:64]).digest()

    def remember(self, tokens: Sequence[int], namespace: str) -> None:
        """Archive a finished generation, before anything else that waits to be written."""
        archive = self.kept.archive
        if archive is not None and tokens:
            job = partial(archive.append, list(tokens), namespace=namespace)
            self._backlog.put(Task(namespace, 8 * len(tokens), job), urgent=True)

    async def forget(self, namespace: str) -> None:
        """Until nothing of this namespace is on the disk, on its way there, or pinned. What began before will not be
        kept. The decode loop must have forgotten it already, or it goes on saving cells."""
        self.begin_era(namespace)
        self._backlog.drop(namespace)
        self._pins.drop(namespace)
        for key, (owner, _) in list(self._unwritten.items()):  # a copy: an I/O thread takes away what it has written
            if owner == namespace:
                self._unwritten.pop(key, None)
        erased = trio.Event()
        self._backlog.put(Task(namespace, 0, partial(self.kept.erase, namespace), erased), urgent=True)
        await erased.wait()

    async def pin(self, pin: Pin, *, era: int = 0) -> None:
        """Keep the blocks of these tokens, those that are there and those to come, until then, unless `era` is over."""
        if era != self.era(pin.namespace):
            return
        self._pins.add(pin)
        touch = partial(self.kept.touch, pin.tokens, pin.namespace, until=pin.until)
        await self._try(touch, None, limiter=self._writing)

    def stats(self) -> tuple[BlockStats | None, AnswerStats | None]:
        """Opens one small file and reads one row; None for what is not kept."""
        store, answers = self.kept.store, self.kept.answers
        return store.stats() if store else None, answers.stats() if answers else None

    async def run(self) -> None:
        """The flusher: writes behind until `close`, then what is left."""
        await self._try(partial(self.kept.prepare_archive, ""), None, limiter=self._writing)
        if self.kept.store is not None:
            await self._try(self.kept.store.prune, None, limiter=self._writing)
        while (task := await self._backlog.next()) is not None:
            cost_s = await self._try(partial(_cost_s, task.job), 0.0, limiter=self._writing)
            self._backlog.done(task)
            await self._backlog.rest(cost_s, self.is_busy)
        for kept in (self.kept.answers, self.kept.archive):
            if kept is not None:
                await self._look(kept.close, None, self._writing, LOAD_S)

    def close(self) -> None:
        """Nothing more will be kept: `run` ends when all is written."""
        self._backlog.close()

    def _write(self, saved: Saved) -> None:
        """In an I/O thread."""
        self.loses = not self.kept.write(saved, self._pins.until)

    async def _look(self, function: Callable[[], T], otherwise: T, limiter: trio.CapacityLimiter, seconds: float) -> T:
        """Run it in an I/O thread, which is left to itself when it takes longer, or nobody wants it any more: a disk
        that hangs must not hold up anybody. Who comes while all threads are left to themselves does not wait either."""
        if self._is_slow and not limiter.available_tokens:
            return otherwise
        with trio.move_on_after(seconds):
            found = await trio.to_thread.run_sync(guarded, function, otherwise, limiter=limiter, abandon_on_cancel=True)
            self._is_slow = False
            return found
        if not self._is_slow:
            log.warning("the memory's disk has not answered for %.0f s: going on without what it keeps", seconds)
        self._is_slow = True
        return otherwise

    async def _try(self, function: Callable[[], T], otherwise: T, *, limiter: trio.CapacityLimiter | None = None) -> T:
        """Run it in an I/O thread."""
        return await trio.to_thread.run_sync(guarded, function, otherwise, limiter=limiter or self._io)


def _bytes_of(delta: Delta) -> int:
    """About what it takes in memory: the rivals of a token are a hundred times its text."""
    return len(delta.text) + sum(LOGPROB_BYTES * (1 + len(token.top)) for token in delta.logprobs)


def _cost_s(job: Callable[[], object]) -> float:
    """Do it. The seconds of processor time that it took: waiting for a disk costs nobody anything."""
    started = time.thread_time()
    job()
    return time.thread_time() - started
