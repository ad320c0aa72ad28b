"""Texts of the API's own (stored responses), kept beside the old answers, each for its namespace.

A text that waits for the disk is found all the same. Owner: `Memory`, whose backlog and threads these are.
"""

from __future__ import annotations

import hashlib
from functools import partial
from typing import TYPE_CHECKING

from reame.core.events import Delta, Usage
from reame.errors import RequestError
from reame.memory.answer_format import Answer
from reame.runtime.backlog import Task

if TYPE_CHECKING:
    from reame.memory.answers import AnswerStore
    from reame.runtime.backlog import Backlog
    from reame.runtime.disk_threads import DiskThreads


class Texts:
    """`answers`: where they are kept; without it nothing is."""

    def __init__(self, answers: AnswerStore | None, *, salt: bytes, backlog: Backlog, threads: DiskThreads) -> None:
        self.answers = answers
        self._salt = salt[:64]
        self._backlog = backlog
        self._threads = threads
        self._unwritten: dict[bytes, tuple[str, str]] = {}
        """By their keys, with their namespaces. An I/O thread takes away what it has written."""

    def keep(self, name: str, text: str, namespace: str) -> None:
        """Write it under this name, soon; `get` finds it at once."""
        answers, key = self.answers, self._key(name, namespace)
        if answers is None:
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

    async def get(self, name: str, namespace: str) -> str | None:
        """What was kept under this name, by whichever process. Raises RequestError (503) when the disk does not say
        whether there is something."""
        answers, key = self.answers, self._key(name, namespace)
        unwritten = self._unwritten.get(key)
        if unwritten is not None:
            return unwritten[1]
        if answers is None:
            return None
        found = await self._threads.look(lambda: (answers.get(key),), None)
        if found is None:
            raise RequestError(
                "the server's disk does not answer: try again", status=503, code="disk_error", retry_after=5
            )
        (answer,) = found
        return None if answer is None else "".join(delta.text for delta in answer.deltas)

    async def drop(self, name: str, namespace: str) -> bool:
        """Delete what was kept under this name. Whether there was something."""
        answers, key = self.answers, self._key(name, namespace)
        was_unwritten = self._unwritten.pop(key, None) is not None
        was_kept = answers is not None and await self._threads.run(partial(answers.drop, key), otherwise=False)
        return was_unwritten or was_kept

    def forget(self, namespace: str) -> None:
        """Those of this namespace that wait for the disk."""
        for key, (owner, _) in list(self._unwritten.items()):
            if owner == namespace:
                self._unwritten.pop(key, None)

    def _key(self, name: str, namespace: str) -> bytes:
        """Not bound to the model: a conversation may go on with another one."""
        words = f"{namespace}\0{name}".encode("utf-8", "surrogatepass")
        return hashlib.blake2b(words, digest_size=32, person=b"reame.text", key=self._salt).digest()
