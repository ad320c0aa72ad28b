"""What is kept on disk, as the tasks see it: look-ups that never fail, writing behind, and both in I/O threads.

A fault of the disk is a miss and a counter, never an error to anybody. Bound: what waits for the disk is a `Backlog`;
what that refuses is dropped, and blocks among it are counted.
"""

from __future__ import annotations

import time
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

import trio

from reame.core.answer_key import answer_key, is_fixed
from reame.runtime.backlog import Backlog, Task
from reame.runtime.disk_threads import DiskThreads
from reame.runtime.kept import Found, Kept, Question
from reame.runtime.pins import Pins
from reame.runtime.texts import Texts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reame.core.batch import Load, Saved
    from reame.core.blocks import Block
    from reame.core.events import Delta
    from reame.core.request import Request
    from reame.memory.answer_format import Answer
    from reame.memory.answers import AnswerStats, AnswerStore
    from reame.memory.block_counts import BlockStats
    from reame.memory.block_store import BlockStore
    from reame.runtime.pins import Pin

LOOK_UP_S, LOAD_S = 5.0, 60.0
"""Seconds after which a look-up, and a reading of blocks, are a miss."""
LOGPROB_BYTES = 120
"""Of one probability of one token."""


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
        self._looking, self._reading = DiskThreads(2, LOOK_UP_S), DiskThreads(1, LOAD_S)
        """Somebody waits for what is looked up; what is read may take long, and is held until it is in the cells."""
        self._writing = DiskThreads(1, LOAD_S)
        self._pins = Pins()
        self._backlog = Backlog()
        self.is_busy: Callable[[], bool] = lambda: False
        """Whether somebody waits for tokens, so that what can wait should."""
        self._texts = Texts(answers, salt=salt, backlog=self._backlog, threads=self._looking)
        self._eras: Counter[str] = Counter()

    async def recall(self, questions: Sequence[Question], namespace: str) -> list[Found]:
        """What is remembered of requests of this namespace, in their order; and its archive is opened, so that what was
        there before the start is found, and what others take in or away since. All in one hop to an I/O thread: beside
        steps that use all cores each takes milliseconds."""
        recalled = partial(self.kept.recalled, questions, namespace)
        return await self._looking.look(recalled, [Found()] * len(questions))

    async def read(self, load: Load) -> tuple[Block, ...]:
        """The blocks asked for, as far as they can be had."""
        sequence = load.sequence
        tokens = sequence.tokens[: load.stop]
        read = partial(self.kept.read, tokens, load.start, sequence.request.namespace)
        return await self._reading.look(read, ())

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
        return self._texts.answers is not None

    def keep_text(self, name: str, text: str, *, namespace: str, era: int = 0) -> None:
        """Write a text of the API's own under this name, soon, unless `era` is over; `text` finds it at once."""
        if era == self.era(namespace):
            self._texts.keep(name, text, namespace)

    async def text(self, name: str, *, namespace: str) -> str | None:
        """What was kept under this name in this namespace. Raises RequestError (503) when the disk does not say."""
        return await self._texts.get(name, namespace)

    async def drop_text(self, name: str, *, namespace: str) -> bool:
        """Delete what was kept under this name in this namespace. Whether there was something."""
        return await self._texts.drop(name, namespace)

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
        self._texts.forget(namespace)
        erased = trio.Event()
        self._backlog.put(Task(namespace, 0, partial(self.kept.erase, namespace), erased), urgent=True)
        await erased.wait()

    async def pin(self, pin: Pin, *, era: int = 0) -> None:
        """Keep the blocks of these tokens, those that are there and those to come, until then, unless `era` is over."""
        if era != self.era(pin.namespace):
            return
        self._pins.add(pin)
        touch = partial(self.kept.touch, pin.tokens, pin.namespace, until=pin.until)
        await self._writing.run(touch, None)

    def stats(self) -> tuple[BlockStats | None, AnswerStats | None]:
        """Opens one small file and reads one row; None for what is not kept."""
        store, answers = self.kept.store, self.kept.answers
        return store.stats() if store else None, answers.stats() if answers else None

    async def run(self) -> None:
        """The flusher: writes behind until `close`, then what is left."""
        await self._writing.run(partial(self.kept.prepare_archive, ""), None)
        if self.kept.store is not None:
            await self._writing.run(self.kept.store.prune, None)
        while (task := await self._backlog.next()) is not None:
            cost_s = await self._writing.run(partial(_cost_s, task.job), 0.0)
            self._backlog.done(task)
            await self._backlog.rest(cost_s, self.is_busy)
        for kept in (self.kept.answers, self.kept.archive):
            if kept is not None:
                await self._writing.look(kept.close, None)

    def close(self) -> None:
        """Nothing more will be kept: `run` ends when all is written."""
        self._backlog.close()

    def _write(self, saved: Saved) -> None:
        """In an I/O thread."""
        self.loses = not self.kept.write(saved, self._pins.until)


def _bytes_of(delta: Delta) -> int:
    """About what it takes in memory: the rivals of a token are a hundred times its text."""
    return len(delta.text) + sum(LOGPROB_BYTES * (1 + len(token.top)) for token in delta.logprobs)


def _cost_s(job: Callable[[], object]) -> float:
    """Do it. The seconds of processor time that it took: waiting for a disk costs nobody anything."""
    started = time.thread_time()
    job()
    return time.thread_time() - started
