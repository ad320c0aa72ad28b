"""A key is forgotten while the daemon runs: nothing of it is left in cells, on the disk, or on the way there."""

from __future__ import annotations

import shutil
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio
from attrs import evolve, frozen
from serving import PacedThread, Serving, call_of, config_of, prompt_of, read, serving, text_of

from reame.config import Config, MemoryConfig
from reame.core.blocks import block_keys, root_key
from reame.core.events import Delta
from reame.core.vote import Conclave
from reame.memory import inbox as inboxes
from reame.memory.answers import AnswerStore
from reame.memory.archive import Archive
from reame.memory.block_store import BlockStore
from reame.memory.inbox import Inbox
from reame.runtime.forgetting import Forgetting, open_inbox
from reame.runtime.memory import Memory
from reame.runtime.pins import Pin
from reame.runtime.recall import memory_salt

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from serving import Answer
    from trio.testing import MockClock

FINGERPRINT = bytes(16)
BLOCK = 8
ANNA, BERT = "anna", "bert"
PROMPT = prompt_of(41, 12)
CALL = call_of(PROMPT, max_tokens=12)


@frozen
class Kept:
    """A server with all of its memories, in real time, as they are real files. A step takes two milliseconds."""

    up: Serving
    memory: Memory
    store: BlockStore
    answers: AnswerStore
    archive: Archive

    async def forget(self, key: str) -> None:
        self.memory.begin_era(key)
        await self.up.loop.forget(key)
        await self.memory.forget(key)

    def cells_of(self, key: str) -> int:
        slots = self.up.loop.scheduler.admission.slots.slots
        return sum(len(slot.tokens) for slot in slots if slot.namespace == key)

    def on_disk(self, key: str) -> int:
        return self.store.has(block_keys(root_key(FINGERPRINT, key), PROMPT, BLOCK), namespace=key)

    async def cached(self, key: str) -> int:
        answer = await self.up.answer(call_of(PROMPT, max_tokens=1), key=key)
        return answer.finishes[0].usage.cached_tokens

    async def answer(self, key: str) -> Answer:
        answer = await self.up.answer(CALL, key=key)
        assert answer.texts == [text_of(PROMPT, 12)]
        await self.up.idle()
        while self.on_disk(key) < len(PROMPT) // BLOCK:  # noqa: ASYNC110 - an I/O thread has no event for it
            await trio.sleep(0.01)
        return answer


@pytest.fixture
async def kept(tmp_path: Path) -> AsyncIterator[Kept]:
    async with keeping(tmp_path) as kept:
        yield kept


@asynccontextmanager
async def keeping(folder: Path) -> AsyncIterator[Kept]:
    store = BlockStore(folder / "blocks", fingerprint=FINGERPRINT, budget_bytes=1 << 24)
    answers = AnswerStore(folder / "answers.sqlite", budget_bytes=1 << 24)
    archive = Archive(folder / "archive", fingerprint=bytes(32), vocab_size=256, budget_bytes=1 << 24)
    memory = Memory(store, answers, fingerprint=FINGERPRINT, block_tokens=BLOCK, salt=b"", element_bytes=1)
    memory.kept.archive = archive
    async with trio.open_nursery() as nursery:
        nursery.start_soon(memory.run)
        async with serving(config_of(slots=2, residents=4, cells=400), memory=memory, thread=PacedThread(0.002)) as up:
            yield Kept(up, memory, store, answers, archive)
            await up.idle()
        memory.close()


async def test_what_is_over_leaves_cells_disk_answers_archive_and_pins(kept: Kept) -> None:
    for key in (ANNA, BERT):
        await kept.answer(key)
        await kept.memory.pin(Pin(PROMPT, key, 4e9))
    assert (await kept.up.answer(CALL, key=ANNA)).finishes[0].stored
    assert [kept.on_disk(key) for key in (ANNA, BERT)] == [5, 5]
    await kept.forget(ANNA)
    assert kept.cells_of(ANNA) == 0
    assert kept.on_disk(ANNA) == 0
    assert kept.answers.forget(ANNA) == 0
    assert kept.archive.forget(namespace=ANNA) == 0
    assert await kept.cached(ANNA) == 0
    assert kept.cells_of(BERT) > len(PROMPT)
    assert kept.on_disk(BERT) == 5
    assert (await kept.up.answer(CALL, key=BERT)).finishes[0].stored
    assert kept.archive.forget(namespace=BERT) > 0


async def test_what_runs_goes_on_and_leaves_nothing(kept: Kept) -> None:
    async with kept.up.ask(CALL, key=ANNA) as replies:
        index, event = await replies.__anext__()
        assert isinstance(event, Delta)
        assert kept.cells_of(ANNA) >= len(PROMPT)
        await kept.forget(ANNA)
        assert event.text + (await read(replies)).texts[index] == text_of(PROMPT, 12)
    await kept.up.idle()
    assert kept.cells_of(ANNA) == 0
    assert kept.on_disk(ANNA) == 0
    assert kept.answers.forget(ANNA) == 0
    assert kept.archive.forget(namespace=ANNA) == 0


async def test_what_a_call_from_before_still_launches_leaves_nothing(kept: Kept) -> None:
    """The other candidates begin when the first is over, long after the key was forgotten."""
    election = Conclave(size=3, vote="text", margin=2.0)
    async with kept.up.ask(evolve(CALL, max_tokens=40, conclave=election), key=ANNA) as replies:
        await kept.forget(ANNA)
        answer = await read(replies)
    await kept.up.idle()
    assert answer.finishes[0].reason == "stop"
    assert kept.up.loop.scheduler.num_drawn > len(answer.texts[0]) + 1, "there were others"
    assert (kept.cells_of(ANNA), kept.on_disk(ANNA)) == (0, 0)
    assert kept.answers.forget(ANNA) == 0
    assert kept.archive.forget(namespace=ANNA) == 0


async def test_who_orders_it_waits_for_a_step_or_two_not_for_many(autojump_clock: MockClock) -> None:
    call = call_of(prompt_of(41, 60), max_tokens=60)
    async with serving(config_of(slots=2), thread=PacedThread(), run_ahead=32) as up, up.ask(call, key=ANNA) as replies:
        await replies.__anext__()
        before = len(up.engine.steps)
        await up.loop.forget(ANNA)
        assert len(up.engine.steps) - before <= 3
        await read(replies)


async def test_what_waits_for_a_place_leaves_nothing_either(kept: Kept) -> None:
    longer = call_of(prompt_of(60, 40, first=1), max_tokens=40, n=2)
    async with kept.up.ask(longer, key=BERT) as running, kept.up.ask(CALL, key=ANNA) as waiting:
        assert kept.up.intake.health().queue_depth > 0
        await kept.forget(ANNA)
        assert (await read(waiting)).texts == [text_of(PROMPT, 12)]
        await read(running)
    await kept.up.idle()
    assert (kept.cells_of(ANNA), kept.on_disk(ANNA)) == (0, 0)
    assert kept.cells_of(BERT) > 0


async def test_what_comes_afterwards_is_kept_again(kept: Kept) -> None:
    await kept.forget(ANNA)
    await kept.answer(ANNA)
    assert (await kept.up.answer(CALL, key=ANNA)).finishes[0].stored
    assert kept.on_disk(ANNA) == 5
    assert await kept.cached(ANNA) == len(PROMPT) - 1


async def test_texts_and_pins_of_an_earlier_era_are_not_kept(kept: Kept) -> None:
    intake, era = kept.up.intake, kept.up.intake.era(ANNA)
    intake.keep_text("resp_1", "before", namespace=ANNA, era=era)
    await kept.forget(ANNA)
    assert await intake.text("resp_1", namespace=ANNA) is None
    intake.keep_text("resp_2", "begun before", namespace=ANNA, era=era)
    assert await intake.text("resp_2", namespace=ANNA) is None
    intake.keep_text("resp_3", "after", namespace=ANNA, era=intake.era(ANNA))
    assert await intake.text("resp_3", namespace=ANNA) == "after"


async def test_orders_are_carried_out_and_ticked_off(kept: Kept, tmp_path: Path) -> None:
    await kept.answer(ANNA)
    inbox = open_inbox(Config(memory=MemoryConfig(path=str(tmp_path))))
    assert isinstance(inbox, Inbox)
    forgetting = Forgetting(inbox, kept.up.loop, kept.memory)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(forgetting.run)
        (file,) = inboxes.order(tmp_path, ANNA)
        assert await trio.to_thread.run_sync(partial(inboxes.wait_done, [file], patience_s=60.0)) == []
        assert (kept.cells_of(ANNA), kept.on_disk(ANNA)) == (0, 0)
        forgetting.close()
    inbox.close()


async def test_a_directory_that_was_emptied_is_used_again(kept: Kept, tmp_path: Path) -> None:
    """What is kept afterwards is found after a restart, and orders come through."""
    folder = tmp_path / "emptied"
    inbox = open_inbox(Config(memory=MemoryConfig(path=str(folder))))
    assert isinstance(inbox, Inbox)
    kept.memory.kept.salt = memory_salt(folder)
    shutil.rmtree(folder)
    assert inboxes.order(folder, ANNA) == []
    forgetting = Forgetting(inbox, kept.up.loop, kept.memory)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(forgetting.run)
        while not (files := inboxes.order(folder, ANNA)):  # noqa: ASYNC110 - a thread of its own makes it
            await trio.sleep(0.01)
        assert await trio.to_thread.run_sync(partial(inboxes.wait_done, files, patience_s=60.0)) == []
        assert memory_salt(folder) == kept.memory.kept.salt
        assert folder.stat().st_mode & 0o777 == 0o700
        forgetting.close()
    inbox.close()


def test_nothing_is_made_where_nothing_is_kept(tmp_path: Path) -> None:
    assert open_inbox(Config(memory=MemoryConfig(path=str(tmp_path / "none"), enabled=False))) is None
    assert not (tmp_path / "none").exists()
    (tmp_path / "file").touch()
    assert open_inbox(Config(memory=MemoryConfig(path=str(tmp_path / "file")))) is None
