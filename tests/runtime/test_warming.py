"""Prompts computed ahead of time, through intake and loop: they wait, give way, are kept, and pins outlive others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio
from serving import PacedThread, call_of, config_of, prompt_of, read, serving, text_of

from reame.core.blocks import block_keys, root_key
from reame.core.events import Delta
from reame.core.request import Call
from reame.errors import RequestError
from reame.memory.block_store import BlockStore
from reame.memory.folders import PAGE
from reame.runtime.memory import Memory

if TYPE_CHECKING:
    from pathlib import Path

    from reame.runtime.replies import Replies

BLOCK = 8
FINGERPRINT = b"f" * 16


def warm(*prompts: tuple[int, ...]) -> Call:
    return Call(prompts=prompts, warm=True)


async def progress_of(replies: Replies) -> list[int]:
    return [event.num_computed async for _, event in replies if isinstance(event, Delta)]


class TestIdleTimeOnly:
    async def test_work_for_others_comes_with_the_next_step_and_nothing_done_is_lost(
        self, autojump_clock: trio.testing.MockClock
    ) -> None:
        """A step a second, 16 rows each. Somebody asks after 2.5 s, in the third step."""
        long, short = prompt_of(100, 1), prompt_of(5, 3, first=2)
        seen: list[int] = []

        async def watch(replies: Replies) -> None:
            seen.extend(await progress_of(replies))

        async with (
            serving(config_of(), thread=PacedThread()) as up,
            up.ask(warm(long)) as replies,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(watch, replies)
            await trio.sleep(2.5)
            answer = await up.answer(call_of(short, max_tokens=3))
            assert answer.texts == [text_of(short, 3)]
            assert trio.current_time() == pytest.approx(6)
        assert [len(rows) for rows in up.engine.steps] == [16, 16, 16, 5, 1, 1, 16, 16, 16, 3]
        assert seen == [16, 32, 48, 64, 80, 96, 99]
        assert up.metrics.registry.get_sample_value("reame_preemptions_total") == 0

    async def test_a_busy_server_warms_nothing_and_says_so_in_the_end(
        self, autojump_clock: trio.testing.MockClock
    ) -> None:
        busy, ahead = prompt_of(5, 50), prompt_of(20, 1, first=2)
        async with serving(config_of(timeout_s=30), thread=PacedThread()) as up:
            async with up.ask(call_of(busy, max_tokens=50)), up.ask(warm(ahead)) as replies:
                errors = (await read(replies)).errors
            assert [(error.status, error.code) for error in errors] == [(408, "request_timeout")]
            assert not any(row.token == ahead[0] and row.position == 0 for rows in up.engine.steps for row in rows)


class TestTwice:
    async def test_the_second_time_and_a_question_find_it_all_computed(
        self, autojump_clock: trio.testing.MockClock
    ) -> None:
        first, second = prompt_of(40, 4), prompt_of(30, 4, first=1)
        async with serving(config_of()) as up:
            ends = (await up.answer(warm(first, second))).finishes
            assert [end.usage.cached_tokens for end in ends] == [0, 0]
            assert up.num_rows == 39 + 29
            ends = (await up.answer(warm(first, second))).finishes
            assert [end.usage.cached_tokens for end in ends] == [39, 29]
            assert up.num_rows == 39 + 29
            answer = await up.answer(call_of(first, max_tokens=4))
            assert answer.texts == [text_of(first, 4)]
            assert answer.finishes[0].usage.cached_tokens == 39
            assert up.num_rows == 39 + 29 + 4

    async def test_what_two_have_in_common_is_computed_once(self, autojump_clock: trio.testing.MockClock) -> None:
        common = prompt_of(60, 1)
        async with serving(config_of(), thread=PacedThread()) as up:
            await up.answer(warm((*common, 1, 2), (*common, 3, 4)))
            assert up.num_rows == 61 + 1 + 12  # fewer than 16 that are still to come are not worth a wait

    async def test_who_leaves_costs_no_further_step_and_leaves_what_was_done(
        self, autojump_clock: trio.testing.MockClock
    ) -> None:
        prompt = prompt_of(100, 1)
        async with serving(config_of(), thread=PacedThread()) as up:
            async with up.ask(warm(prompt)):
                await trio.sleep(2.5)
            await up.idle()
            assert up.num_rows == 48
            assert (await up.answer(warm(prompt))).finishes[0].usage.cached_tokens == 48
            assert up.num_rows == 99


class TestRoom:
    async def test_half_of_the_room_is_kept_for_those_who_ask(self, autojump_clock: trio.testing.MockClock) -> None:
        """Two slots and a queue of eight: five prompts may be warmed at once, and ten sequences be inside."""
        prompts = [prompt_of(50, 1, first=number) for number in range(6)]
        async with serving(config_of(slots=2, queue=8), thread=PacedThread()) as up:
            with pytest.raises(RequestError, match="6 prompts in one request; this server takes 5 ") as raised:
                await up.answer(warm(*prompts))
            assert (raised.value.status, raised.value.param) == (400, "prompt")
            async with up.ask(warm(*prompts[:5])):
                with pytest.raises(RequestError, match="full") as raised:
                    await up.answer(warm(prompts[5]))
                assert raised.value.status == 429
                answer = await up.answer(call_of(*prompts[:5], max_tokens=1))
                assert answer.errors == []

    async def test_the_smallest_server_warms_too(self, autojump_clock: trio.testing.MockClock) -> None:
        async with serving(config_of(slots=1, queue=0)) as up:
            assert (await up.answer(warm(prompt_of(20, 1)))).errors == []


def store_in(folder: Path, pages: int) -> BlockStore:
    return BlockStore(folder, fingerprint=FINGERPRINT, budget_bytes=pages * PAGE)


def memory_of(store: BlockStore) -> Memory:
    return Memory(store, None, fingerprint=FINGERPRINT, block_tokens=BLOCK, salt=b"", element_bytes=1)


def on_disk(store: BlockStore, prompt: tuple[int, ...]) -> int:
    return store.has(block_keys(root_key(FINGERPRINT, ""), prompt, BLOCK), namespace="")


async def warmed(folder: Path, *calls: Call, pinned: tuple[int, ...] = (), until: float = 4e9) -> None:
    """A server that warms `calls` in turn, pins a prompt after the first of them, and writes all before it ends."""
    memory = memory_of(store_in(folder, 1000))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(memory.run)
        async with serving(config_of(cells=2000, residents=20), memory=memory) as up:
            for number, call in enumerate(calls):
                assert (await up.answer(call)).errors == []
                if pinned and not number:
                    assert await up.intake.pin(pinned, namespace="", until=until)
            await up.idle()
        memory.close()


def shrink(folder: Path, num_blocks: int) -> BlockStore:
    """The store after budgets that became smaller until that many blocks, or one or two more, had to go."""
    pages, gone = 250, 0
    while gone < num_blocks:
        pages -= 1
        gone += store_in(folder, pages).prune().blocks
    assert gone <= num_blocks + 2
    return store_in(folder, pages)


class TestDisk:
    async def test_a_pinned_prompt_outlives_younger_ones(self, tmp_path: Path) -> None:
        """Five prompts of ten blocks each, of which the pinned one was there first."""
        prompts = [prompt_of(81, 1, first=number) for number in range(5)]
        await warmed(tmp_path, *map(warm, prompts), pinned=prompts[0])
        assert [on_disk(store_in(tmp_path, 1000), prompt) for prompt in prompts] == [10] * 5
        tiny = shrink(tmp_path, 38)
        left = [on_disk(tiny, prompt) for prompt in prompts]
        assert left[0] == 10
        assert sum(left[1:]) <= 2

    async def test_a_pin_holds_for_blocks_that_were_there_before(self, tmp_path: Path) -> None:
        old, young = prompt_of(81, 1), prompt_of(81, 1, first=1)
        await warmed(tmp_path, warm(old), warm(young))
        await warmed(tmp_path, warm(old), pinned=old)
        tiny = shrink(tmp_path, 8)
        assert on_disk(tiny, old) == 10
        assert on_disk(tiny, young) <= 2

    async def test_a_pin_that_is_over_protects_nothing(self, tmp_path: Path) -> None:
        old, young = prompt_of(81, 1), prompt_of(81, 1, first=1)
        await warmed(tmp_path, warm(old), warm(young), pinned=old, until=1.0)
        tiny = shrink(tmp_path, 8)
        assert on_disk(tiny, old) <= 2
        assert on_disk(tiny, young) == 10

    async def test_without_a_disk_nothing_is_pinned(self) -> None:
        async with serving(config_of()) as up:
            assert not await up.intake.pin((1, 2, 3), namespace="", until=4e9)
