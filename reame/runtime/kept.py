"""What is kept on disk for one served model: looked up, written and erased, each call for an I/O thread.

A fault of the disk is a miss and a line in the log, never an error to anybody.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from attrs import frozen

from reame.core.blocks import Block, block_keys, root_key
from reame.memory import upkeep

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reame.core.batch import Saved
    from reame.memory.answer_format import Answer
    from reame.memory.answers import AnswerStore
    from reame.memory.archive import Archive
    from reame.memory.block_store import BlockStore

T = TypeVar("T")

log = logging.getLogger(__name__)


@frozen
class Question:
    """Of a request: the name of its answer, if it can have one, and whether the disk may have more of its prompt than
    the cells."""

    key: bytes | None
    prompt: tuple[int, ...]
    looks_on_disk: bool


@frozen
class Found:
    """The old answer; without one, how many tokens of the prompt the disk has."""

    answer: Answer | None = None
    num_on_disk: int = 0


class Kept:
    """Without a `store` no blocks are kept, without `answers` no answers, without an `archive` (set once the tokenizer
    is known) no generations. `salt` is part of every name, `element_bytes` the size of a number in a cell."""

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
        self.store = store
        self.answers = answers
        self.archive: Archive | None = None
        self.block_tokens = block_tokens if store else 0
        self.whole_state = False
        """Set once the model is known: a block is a whole state, of all tokens before its end (`core.checkpoints`)."""
        self.fingerprint = fingerprint
        self.salt = salt
        self._element_bytes = element_bytes

    def prepare_archive(self, namespace: str) -> None:
        """So that what was there before the start is found, and what others take in or away since. Microseconds, but
        for the first time."""
        if self.archive is not None:
            guarded(partial(self.archive.prepare, namespace=namespace), None)

    def recalled(self, questions: Sequence[Question], namespace: str) -> list[Found]:
        """See `Memory.recall`."""
        self.prepare_archive(namespace)
        answers, on_disk = self.answers, dict[tuple[int, ...], int]()
        found = []
        for asked in questions:
            answer = guarded(partial(answers.get, asked.key), None) if answers and asked.key else None
            if answer is None and asked.looks_on_disk and asked.prompt not in on_disk:
                on_disk[asked.prompt] = guarded(partial(self._num_on_disk, asked.prompt, namespace), 0)
            found.append(Found(answer, on_disk.get(asked.prompt, 0)))
        return found

    def read(self, tokens: Sequence[int], start: int, namespace: str) -> tuple[Block, ...]:
        """The blocks of these tokens from `start` on, as far as they can be had; or the longest state."""
        if self.store is None:
            return ()
        keys, size = self._keys(tokens, namespace), self.block_tokens
        if self.whole_state:
            return tuple(self.store.load_state(keys, tokens, block_tokens=size, namespace=namespace))
        first = start // size
        return tuple(self.store.load(keys, tokens, block_tokens=size, namespace=namespace, first=first))

    def write(self, saved: Saved, until: Callable[[str, tuple[int, ...]], float | None]) -> bool:
        """Whether all of it is on the disk now. `until`: the time (Unix) up to which these tokens are pinned."""
        save, size = saved.save, saved.save.block_tokens
        assert self.store is not None
        root = root_key(self.fingerprint, save.namespace, self.salt)
        keys, done = [root, *self._keys(save.tokens, save.namespace)], True
        for start, payload in zip(range(save.start, len(save.tokens), size), saved.payloads, strict=True):
            stop, per_key = start + size, self.block_tokens  # a state is one block, with the name of the last in it
            tokens = save.tokens[start:stop]
            link = per_key if self.whole_state else 0
            block = Block(keys[stop // per_key], keys[start // per_key], start // size, tokens, payload, link)
            pinned = until(save.namespace, save.tokens[: block.stop])
            done &= self.store.store(block, namespace=save.namespace, until=pinned, element_bytes=self._element_bytes)
        return done

    def touch(self, tokens: Sequence[int], namespace: str, *, until: float) -> None:
        """The blocks of these tokens that are there stay until then (Unix time)."""
        if self.store is not None:
            self.store.touch(self._keys(tokens, namespace), namespace=namespace, until=until)

    def erase(self, namespace: str) -> None:
        """All that is on the disk of this namespace."""
        for erase in (
            self.store and partial(upkeep.forget, self.store.directory, namespace),
            self.answers and partial(self.answers.forget, namespace),
            self.archive and partial(self.archive.forget, namespace=namespace),
        ):
            try:
                if erase:
                    erase()
            except OSError as error:
                log.warning("not all of an API key could be forgotten: %s", error)

    def _num_on_disk(self, tokens: Sequence[int], namespace: str) -> int:
        """How many tokens from the front lie there in whole blocks; or up to where a state does."""
        store = self.store
        if store is None or len(tokens) <= self.block_tokens:
            return 0
        if self.whole_state:
            return self.block_tokens * store.has_state(self._keys(tokens[:-1], namespace), namespace=namespace)
        return self.block_tokens * store.has(self._keys(tokens, namespace), namespace=namespace)

    def _keys(self, tokens: Sequence[int], namespace: str) -> list[bytes]:
        return block_keys(root_key(self.fingerprint, namespace, self.salt), tokens, self.block_tokens)


def guarded(function: Callable[[], T], otherwise: T) -> T:
    """The stores do not raise for a bad disk; whatever else happens is a miss too."""
    try:
        return function()
    except Exception:
        log.exception("the memory on disk failed")
        return otherwise
