"""A client that leaves, at whatever moment: no step after it computes anything for it, and all is free again."""

from __future__ import annotations

import pytest
import trio
from serving import PacedThread, call_of, config_of, prompt_of, read, serving, text_of

from reame.runtime import intake as intake_module


class TestLeaving:
    async def test_while_it_decodes(self, autojump_clock: trio.testing.MockClock) -> None:
        """A step takes a second: the prompt, then a token each. It leaves in the fourth."""
        prompt = prompt_of(5, 100)
        async with serving(config_of(slots=1), thread=PacedThread()) as up:
            async with up.ask(call_of(prompt, max_tokens=100)):
                await trio.sleep(3.5)
            await up.idle()
            assert len(up.engine.steps) == 4
            assert up.num_rows == 5 + 3
            assert up.loop.scheduler.running == []

    async def test_while_its_prompt_is_read(self, autojump_clock: trio.testing.MockClock) -> None:
        """16 rows a step. What was computed is there for whoever comes with the same prompt."""
        prompt = prompt_of(100, 1)
        async with serving(config_of(slots=1), thread=PacedThread()) as up:
            async with up.ask(call_of(prompt)):
                await trio.sleep(2.5)
            await up.idle()
            assert [len(step) for step in up.engine.steps] == [16, 16, 16]
            answer = await up.answer(call_of(prompt, max_tokens=1))
            assert answer.finishes[0].usage.cached_tokens == 48
            assert up.num_rows == 100

    async def test_while_it_waits(self, autojump_clock: trio.testing.MockClock) -> None:
        prompt = prompt_of(5, 10)
        async with serving(config_of(slots=1), thread=PacedThread()) as up:
            async with up.ask(call_of(prompt, max_tokens=10)) as running:
                async with up.ask(call_of(prompt_of(50, 1, first=3))):
                    await trio.sleep(3.5)
                    assert up.intake.health().queue_depth == 1
                assert (await read(running)).texts == [text_of(prompt, 10)]
            await up.idle()
            assert up.num_rows == 5 + 9

    async def test_before_the_loop_heard_of_it(self, autojump_clock: trio.testing.MockClock) -> None:
        async with serving(config_of(slots=1), thread=PacedThread()) as up:
            async with up.ask(call_of(prompt_of(5, 1))):
                pass
            await up.idle()
            assert up.num_rows == 0

    async def test_by_cancellation_of_its_task(self, autojump_clock: trio.testing.MockClock) -> None:
        async with serving(config_of(slots=1), thread=PacedThread()) as up:
            with trio.move_on_after(3.5) as scope:
                await up.answer(call_of(prompt_of(5, 100), max_tokens=100))
            await up.idle()
            assert scope.cancelled_caught
            assert len(up.engine.steps) == 4

    async def test_with_all_its_choices(self, autojump_clock: trio.testing.MockClock) -> None:
        async with serving(config_of(slots=2, queue=6), thread=PacedThread()) as up:
            async with up.ask(call_of(prompt_of(5, 50), n=8, max_tokens=50)):
                await trio.sleep(3.5)
            await up.idle()
            assert len(up.engine.steps) == 4
            answer = await up.answer(call_of(prompt_of(5, 2), n=8, max_tokens=2))
            assert answer.errors == []

    async def test_when_its_answer_is_complete_but_unread(self, autojump_clock: trio.testing.MockClock) -> None:
        async with serving(config_of(slots=1)) as up:
            async with up.ask(call_of(prompt_of(5, 4), max_tokens=4)):
                await up.idle()
            assert up.metrics.registry.get_sample_value("reame_requests_total", {"outcome": "cancelled"}) == 1


class TestSlowClient:
    @pytest.fixture(autouse=True)
    def few_events(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(intake_module, "REPLY_EVENTS", 6)

    async def test_who_does_not_read_is_cut_off_and_the_others_go_on(
        self, autojump_clock: trio.testing.MockClock
    ) -> None:
        slow, quick = prompt_of(5, 40), prompt_of(6, 40, first=4)
        async with serving(config_of(slots=2), thread=PacedThread()) as up:
            async with up.ask(call_of(slow, max_tokens=40)) as unread:
                answer = await up.answer(call_of(quick, max_tokens=40))
                assert (answer.texts, answer.errors) == ([text_of(quick, 40)], [])
                assert up.num_rows == 6 + 39 + 5 + 6  # the slow one's seventh event did not fit
                late = await read(unread)
            assert late.texts == [text_of(slow, 6)]
            assert [(error.status, error.code) for error in late.errors] == [(408, "slow_client")]
            assert up.metrics.registry.get_sample_value("reame_requests_total", {"outcome": "slow_client"}) == 1

    async def test_who_reads_late_but_in_time_misses_nothing(self, autojump_clock: trio.testing.MockClock) -> None:
        prompt = prompt_of(5, 5)
        async with serving(config_of(slots=1)) as up, up.ask(call_of(prompt, max_tokens=5)) as unread:
            await up.idle()
            late = await read(unread)
            assert (late.texts, late.errors) == ([text_of(prompt, 5)], [])

    async def test_each_choice_that_was_cut_off_is_told_so(self, autojump_clock: trio.testing.MockClock) -> None:
        call = call_of(prompt_of(3, 40), n=2, max_tokens=40)
        async with serving(config_of(slots=2)) as up, up.ask(call) as unread:
            await up.idle()
            late = await read(unread)
            assert [error.code for error in late.errors] == ["slow_client", "slow_client"]
            assert sum(map(len, late.texts)) == 12
