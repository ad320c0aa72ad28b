"""The decode loop: what it computes, what ends a request before its time, and what ends the loop."""

from __future__ import annotations

import pytest
import trio
from serving import GREEDY, Answer, PacedThread, Serving, call_of, config_of, prompt_of, read, serving, text_of

from reame.engine.fake import reference_tokens
from reame.errors import RequestError


def counted(up: Serving, name: str, **labels: str) -> float:
    return up.metrics.registry.get_sample_value(f"reame_{name}_total", labels) or 0.0


class TestSharing:
    async def test_four_choices_share_one_prefill(self, autojump_clock: trio.testing.MockClock) -> None:
        """33 tokens, 16 a step: the others wait for the first 32 and compute the last one each."""
        prompt = prompt_of(33, 6)
        async with serving(config_of(slots=4, rows=16)) as up:
            answer = await up.answer(call_of(prompt, n=4, max_tokens=6))
            assert answer.texts == [text_of(prompt, 6)] * 4
            assert up.num_rows == 33 + 3 * 1 + 4 * 5
            assert [finish.usage.cached_tokens for finish in answer.finishes] == [0, 32, 32, 32]

    async def test_the_next_turn_starts_where_the_answer_ended(self, autojump_clock: trio.testing.MockClock) -> None:
        async with serving(config_of(slots=1)) as up:
            prompt = prompt_of(20, 6)
            await up.answer(call_of(prompt, max_tokens=6))
            before = up.num_rows
            turn = (*prompt, *reference_tokens(prompt, GREEDY, 6, 8), 1, 2)
            answer = await up.answer(call_of(turn, max_tokens=1))
            assert answer.finishes[0].usage.cached_tokens == 20 + 5  # the last token of an answer is never computed
            assert up.num_rows - before == 3

    async def test_another_keys_cells_are_computed_anew(self, autojump_clock: trio.testing.MockClock) -> None:
        prompt = prompt_of(20, 2)
        async with serving(config_of()) as up:
            for key in ("ours", "theirs"):
                answer = await up.answer(call_of(prompt, max_tokens=2), key=key)
                assert answer.finishes[0].usage.cached_tokens == 0
            assert up.num_rows == 2 * 21


class TestFairness:
    async def test_keys_take_turns(self, autojump_clock: trio.testing.MockClock) -> None:
        """One slot. When b comes one of a's runs and three wait, the first of them longer than b."""
        order: list[str] = []

        async def client(key: str) -> None:
            await up.answer(call_of(prompt_of(4, 3), max_tokens=3), key=key)
            order.append(key)

        async with serving(config_of(slots=1), thread=PacedThread()) as up, trio.open_nursery() as nursery:
            for number, key in enumerate("aaaab"):
                nursery.start_soon(client, key)
                await trio.sleep(0.1 * number)
        assert order == ["a", "a", "b", "a", "a"]


class TestDeadlines:
    async def test_a_request_that_takes_too_long_ends_with_408_and_its_slot_is_free(
        self, autojump_clock: trio.testing.MockClock
    ) -> None:
        """A step a second: after 5.5 s five tokens are told, and a sixth is drawn in the step that runs."""
        long, next_one = prompt_of(5, 100), prompt_of(5, 3, first=2)
        async with (
            serving(config_of(slots=1), thread=PacedThread()) as up,
            up.ask(call_of(long, max_tokens=100, timeout=5.5)) as replies,
        ):
            waiting = up.ask(call_of(next_one, max_tokens=3))
            async with waiting as others:
                answer = await read(replies)
                assert answer.texts == [text_of(long, 6)]
                assert [(error.status, error.code) for error in answer.errors] == [(408, "request_timeout")]
                assert (await read(others)).texts == [text_of(next_one, 3)]
            assert counted(up, "requests", outcome="request_timeout") == 0  # counted when it leaves
        assert counted(up, "requests", outcome="request_timeout") == 1

    async def test_waiting_counts(self, autojump_clock: trio.testing.MockClock) -> None:
        async with serving(config_of(slots=1, timeout_s=4.5), thread=PacedThread()) as up:
            async with (
                up.ask(call_of(prompt_of(5, 50), max_tokens=50)),
                up.ask(call_of(prompt_of(30, 50, first=2), max_tokens=50, timeout=1e9)) as waiting,
            ):
                answer = await read(waiting)
            assert [error.status for error in answer.errors] == [408]
            assert answer.finishes[0].usage.completion_tokens == 0
            assert up.num_rows == 5 + 4
            assert up.metrics.registry.get_sample_value("reame_first_token_seconds_count") == 0


class TestStepErrors:
    async def test_a_failed_step_fails_its_own_requests_and_serving_goes_on(
        self, autojump_clock: trio.testing.MockClock
    ) -> None:
        """Two run when the poisoned one comes in; all three are in the step that fails. The fourth waits outside."""
        errors: dict[str, int] = {}

        async def client(name: str, prompt: tuple[int, ...]) -> None:
            answer = await up.answer(call_of(prompt, max_tokens=30))
            if answer.errors:
                errors[name] = answer.errors[0].status
            else:
                assert answer.texts == [text_of(prompt, 30)]

        async with serving(config_of(slots=3), thread=PacedThread()) as up, trio.open_nursery() as nursery:
            up.engine.poison = 7
            for number in range(2):
                nursery.start_soon(client, f"beside {number}", prompt_of(4, 30, first=number))
            await trio.sleep(1.5)
            nursery.start_soon(client, "poisoned", (7, 1, 2))
            await trio.sleep(0.1)
            nursery.start_soon(client, "outside", prompt_of(4, 30, first=2))
        assert errors == {"beside 0": 500, "beside 1": 500, "poisoned": 500}
        assert counted(up, "step_errors") == 1
        assert counted(up, "requests", outcome="engine_error") == 3
        assert counted(up, "requests", outcome="ok") == 1


class TestTheEnd:
    async def test_stop_ends_everything_inside_and_whatever_still_comes(
        self, autojump_clock: trio.testing.MockClock
    ) -> None:
        stopping = RequestError("the server is stopping", status=503, code="server_stopping")
        call = call_of(prompt_of(5, 90), max_tokens=90)
        async with serving(config_of(slots=1), thread=PacedThread()) as up:
            async with up.ask(call) as running, up.ask(call) as waiting:
                await trio.sleep(3.5)
                up.loop.stop(stopping)
                for replies in (running, waiting):
                    assert (await read(replies)).errors == [stopping]
            assert (await up.answer(call)).errors == [stopping]
            assert up.num_rows == 5 + 3

    async def test_a_closed_intake_ends_the_loop_when_all_inside_have_their_answers(
        self, autojump_clock: trio.testing.MockClock
    ) -> None:
        prompt = prompt_of(5, 20)
        async with (
            serving(config_of(slots=1), thread=PacedThread()) as up,
            up.ask(call_of(prompt, max_tokens=20)) as replies,
            up.ask(call_of(prompt, max_tokens=20)) as more,
        ):
            up.intake.close()
            assert (await read(replies)).texts == [text_of(prompt, 20)]
            assert (await read(more)).texts == [text_of(prompt, 20)]

    async def test_a_loop_without_work_ends_at_once(self, autojump_clock: trio.testing.MockClock) -> None:
        started = trio.current_time()
        async with serving(config_of()):
            pass
        assert trio.current_time() == started

    async def test_a_cancelled_loop_ends_after_the_step_that_runs(self, autojump_clock: trio.testing.MockClock) -> None:
        """Its clients, elsewhere, do not keep it alive."""
        async with (
            serving(config_of(slots=1), thread=PacedThread()) as up,
            up.ask(call_of(prompt_of(5, 90), max_tokens=90)),
        ):
            await trio.sleep(3.5)
            up.scope.cancel()
            await trio.sleep(10)
            assert up.scope.cancelled_caught
            assert len(up.engine.steps) == 4


class TestAudit:
    async def test_cells_that_are_not_as_believed_end_the_daemon(self, autojump_clock: trio.testing.MockClock) -> None:
        """Served right up to the planted fault; it is found when nobody runs any more."""
        believes = pytest.RaisesExc(RuntimeError, match="not what the scheduler believes")
        with pytest.RaisesGroup(believes, flatten_subgroups=True):
            async with serving(config_of()) as up:
                await up.answer(call_of(prompt_of(5, 3), max_tokens=3))
                await up.idle()
                up.engine.trim(0, 2)
                await up.answer(call_of(prompt_of(5, 3, first=3), max_tokens=3))

    async def test_an_exception_that_is_no_engine_error_ends_the_daemon(
        self, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(row: int, sampler: object) -> int:
            raise MemoryError

        with pytest.RaisesGroup(MemoryError, flatten_subgroups=True):
            async with serving(config_of()) as up:
                monkeypatch.setattr(up.engine, "sample", broken)
                async with up.ask(call_of((1, 2))):
                    await trio.sleep(1)


class TestCounters:
    async def test_rows_tokens_and_preemptions_are_counted(self, autojump_clock: trio.testing.MockClock) -> None:
        """60 cells for two answers that want 50 each: one steps back, and both come out right."""
        prompts = [prompt_of(10, 41, first=first) for first in (0, 4)]
        answers: dict[tuple[int, ...], Answer] = {}

        async def client(prompt: tuple[int, ...]) -> None:
            answers[prompt] = await up.answer(call_of(prompt, max_tokens=41))

        config = config_of(context=60, cells=60, reserve=4)
        async with serving(config) as up, trio.open_nursery() as nursery:
            for prompt in prompts:
                nursery.start_soon(client, prompt)
        assert [answers[prompt].texts for prompt in prompts] == [[text_of(prompt, 41)] for prompt in prompts]
        assert counted(up, "preemptions") == up.loop.scheduler.admission.preemption.num_preempted > 0
        assert counted(up, "rows") == up.num_rows
        assert counted(up, "generated_tokens") == 82
        assert counted(up, "prompt_tokens") == 20
        assert counted(up, "requests", outcome="ok") == 2
        assert up.metrics.registry.get_sample_value("reame_running_sequences") == 0
