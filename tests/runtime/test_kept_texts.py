"""Texts of the API's own beside the old answers: kept, found at once, deleted at once and for good."""

from __future__ import annotations

import sqlite3
from contextlib import asynccontextmanager, closing
from typing import TYPE_CHECKING

import pytest
import trio

from reame.core.batch import Save, Saved
from reame.core.events import Delta, TokenLogprob, Usage
from reame.memory.answers import Answer, AnswerStore
from reame.runtime.backlog import MAX_PENDING
from reame.runtime.memory import Memory

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

NAME, SECRET = "resp_1", "a-word-that-stands-nowhere-else"


@pytest.fixture
def store(tmp_path: Path) -> AnswerStore:
    return AnswerStore(tmp_path / "answers.sqlite", budget_bytes=1 << 20)


@asynccontextmanager
async def remembering(store: AnswerStore, *, now: bool = True) -> AsyncIterator[Memory]:
    """Unless `now`, nothing is written before the block ends."""
    memory = Memory(None, store, fingerprint=b"f" * 16, block_tokens=0, salt=b"s", element_bytes=1)
    async with trio.open_nursery() as nursery:
        if now:
            nursery.start_soon(memory.run)
        yield memory
        if not now:
            nursery.start_soon(memory.run)
        memory.close()


async def keep(memory: Memory, namespace: str = "anna") -> None:
    memory.keep_text(NAME, SECRET, namespace=namespace)


def all_bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir())


@pytest.mark.parametrize("now", [True, False])
async def test_what_is_deleted_is_gone(store: AnswerStore, *, now: bool) -> None:
    async with remembering(store, now=now) as memory:
        await keep(memory)
        assert await memory.text(NAME, namespace="anna") == SECRET
        assert not await memory.drop_text(NAME, namespace="bert")
        assert await memory.drop_text(NAME, namespace="anna")
        assert await memory.text(NAME, namespace="anna") is None
        assert not await memory.drop_text(NAME, namespace="anna")
    assert store.stats().answers == 0


async def test_others_stay_and_no_bytes_do(store: AnswerStore) -> None:
    async with remembering(store) as memory:
        await keep(memory, "bert")
        await keep(memory)
    with closing(sqlite3.connect(store.path)) as database:
        bodies = [row[-1] for row in database.execute("SELECT * FROM answers")]
    async with remembering(store) as memory:
        assert await memory.drop_text(NAME, namespace="anna")
        assert await memory.text(NAME, namespace="bert") == SECRET
    store.close()
    files = await trio.to_thread.run_sync(all_bytes, store.path.parent)
    assert sorted(body in files for body in bodies) == [False, True]


async def test_without_a_store_there_is_nothing_to_delete() -> None:
    memory = Memory(None, None, fingerprint=b"f" * 16, block_tokens=0, salt=b"s", element_bytes=1)
    await keep(memory)
    assert not await memory.drop_text(NAME, namespace="anna")


async def test_a_large_state_on_its_way_to_the_disk_keeps_no_text_out(store: AnswerStore) -> None:
    async with remembering(store, now=False) as memory:
        memory.keep(Saved(Save(0, "anna", (1, 2), 0, 2), (bytes(MAX_PENDING + 1),), 0.1))
        await keep(memory)
        assert await memory.text(NAME, namespace="anna") == SECRET


async def test_old_answers_that_wait_are_weighed_with_their_probabilities(store: AnswerStore) -> None:
    """Twenty rivals for each token are hundreds of times the text."""
    rivals = tuple((token, b"word", -1.0) for token in range(20))
    tokens = tuple(TokenLogprob(1, b"word", -0.5, rivals) for _ in range(200))
    usage = Usage(prompt_tokens=1, cached_tokens=0, completion_tokens=200)
    answer = Answer(deltas=(Delta(text=200 * "word", logprobs=tokens),), reason="stop", usage=usage)
    async with remembering(store, now=False) as memory:
        for number in range(100):
            memory.keep_answer(number.to_bytes(4, "big"), answer, "")
    stats = store.stats()
    assert 10 < stats.answers + stats.evicted < 60, "sixteen megabytes of them wait, half a megabyte each"
