"""The way in: who is refused and why, and that room taken is given back whatever happens."""

from __future__ import annotations

import threading

import pytest
import trio
import trio.lowlevel
from attrs import evolve
from serving import GREEDY, Answer, PacedThread, Serving, call_of, config_of, prompt_of, serving, text_of

from reame.core.constraint import Constraint
from reame.core.request import Call, Chat, Sampling
from reame.engine.base import ModelInfo
from reame.engine.fake import FakeVocabulary
from reame.errors import RequestError
from reame.runtime.intake import Intake
from reame.runtime.metrics import Metrics
from reame.runtime.preparing import INLINE_CHARACTERS
from reame.runtime.prompts import ServedModel, seeded, tokenise


async def refused(up: Serving, call: Call) -> RequestError:
    with pytest.raises(RequestError) as caught:
        await up.answer(call)
    return caught.value


async def assert_all_room_is_there(up: Serving, capacity: int) -> None:
    """A call of as many choices as ever is let in."""
    answer = await up.answer(call_of(prompt_of(3, 4), n=capacity, max_tokens=2))
    assert answer.errors == []


class TestFull:
    async def test_one_slot_and_a_queue_of_two_take_three_of_ten(self, autojump_clock: trio.testing.MockClock) -> None:
        prompts = [prompt_of(5, 30, first=number % 7) for number in range(10)]
        answers: list[Answer | RequestError] = []

        async def client(prompt: tuple[int, ...]) -> None:
            try:
                answers.append(await up.answer(call_of(prompt, max_tokens=30)))
            except RequestError as error:
                answers.append(error)

        async with serving(config_of(slots=1, queue=2), thread=PacedThread()) as up, trio.open_nursery() as nursery:
            for prompt in prompts:
                nursery.start_soon(client, prompt)
            await trio.sleep(2.5)
            health = up.intake.health()
            assert (health.slots_total, health.slots_busy, health.queue_depth) == (1, 1, 2)
            assert len(answers) == 7

        errors = [answer for answer in answers if isinstance(answer, RequestError)]
        whole = [answer for answer in answers if isinstance(answer, Answer)]
        assert {(error.status, error.code) for error in errors} == {(429, "queue_full")}
        assert all(error.retry_after for error in errors)
        assert len(errors) == 7
        assert [len(answer.texts[0]) for answer in whole] == [30, 30, 30]
        assert up.metrics.registry.get_sample_value("reame_requests_total", {"outcome": "refused"}) == 7

    async def test_no_key_locks_the_others_out(self, autojump_clock: trio.testing.MockClock) -> None:
        call = call_of(prompt_of(3, 9), n=3, max_tokens=9)
        async with serving(config_of(slots=1, queue=3)) as up:
            up.intake.room.has_several_keys = lambda: True
            async with up.intake.open(call, key="ann", namespace="ann"):
                with pytest.raises(RequestError) as caught:
                    async with up.intake.open(evolve(call, n=1), key="ann", namespace="ann"):
                        pass
                assert (caught.value.status, caught.value.code) == (429, "queue_full")
                async with up.intake.open(evolve(call, n=1), key="bob", namespace="bob"):
                    pass
            await assert_all_room_is_there(up, 4)

    async def test_choices_are_counted_one_by_one(self, autojump_clock: trio.testing.MockClock) -> None:
        call = call_of(prompt_of(3, 9), n=3, max_tokens=9)
        async with serving(config_of(slots=1, queue=3)) as up, up.ask(call):
            assert (await refused(up, evolve(call, n=2))).status == 429
            assert (await up.answer(evolve(call, n=1))).errors == []

    async def test_more_choices_than_there_is_ever_room_for_is_the_clients_mistake(
        self, autojump_clock: trio.testing.MockClock
    ) -> None:
        async with serving(config_of(slots=1, queue=3)) as up:
            error = await refused(up, call_of((1, 2), (3, 4), (5,), n=2))
            assert (error.status, error.param) == (400, "n")
            assert "6 choices" in error.message
            assert "takes 4 " in error.message

    async def test_clients_that_come_and_go_during_one_long_step_fill_the_queue(
        self, autojump_clock: trio.testing.MockClock
    ) -> None:
        """Their jobs lie in the channel until the step is over, although their room is free again."""
        go_on = trio.Event()

        class Held:
            is_wanted = False

            async def call(self, function):  # type: ignore[no-untyped-def]
                await go_on.wait()
                return function()

        call = call_of(prompt_of(3, 4), max_tokens=2)
        async with serving(config_of(slots=1, queue=2), thread=Held()) as up:
            async with up.ask(call):
                await trio.testing.wait_all_tasks_blocked()
                for _ in range(6):  # the channel holds as many forks of labels as it holds calls
                    async with up.ask(call):
                        pass
                error = await refused(up, call)
                assert (error.status, error.code) == (429, "queue_full")
                go_on.set()
            await up.idle()
            await assert_all_room_is_there(up, 3)


class TestStatus:
    async def test_before_the_model_is_there_all_is_503(self) -> None:
        intake = Intake(config_of(), "fake", Metrics())
        assert (intake.is_ready(), intake.health().status) == (False, "loading")
        with pytest.raises(RequestError, match="loading fake") as caught:
            async with intake.open(call_of((1, 2)), key="", namespace=""):
                pass
        assert (caught.value.status, caught.value.code) == (503, "server_loading")
        assert caught.value.retry_after

    async def test_while_draining_those_inside_finish_and_nobody_else_comes_in(
        self, autojump_clock: trio.testing.MockClock
    ) -> None:
        prompt = prompt_of(4, 12)
        async with serving(config_of()) as up, up.ask(call_of(prompt, max_tokens=12)) as replies:
            up.intake.drain()
            error = await refused(up, call_of(prompt))
            assert (error.status, error.code, up.intake.is_ready()) == (503, "server_draining", False)
            texts = [event.text async for _, event in replies if not hasattr(event, "usage")]
            assert "".join(texts) == text_of(prompt, 12)


class TestContext:
    async def test_an_answer_may_use_the_context_to_its_edge(self, autojump_clock: trio.testing.MockClock) -> None:
        prompt = prompt_of(30, 10)
        async with serving(config_of(context=40)) as up:
            answer = await up.answer(Call(prompts=(prompt,), sampling=GREEDY))
            assert (answer.texts, answer.finishes[0].reason) == ([text_of(prompt, 10)], "length")
            answer = await up.answer(Call(prompts=(prompt,), sampling=GREEDY, max_tokens=99))
            assert answer.finishes[0].usage.completion_tokens == 10

    async def test_a_prompt_must_leave_room_for_one_token(self, autojump_clock: trio.testing.MockClock) -> None:
        async with serving(config_of(context=40)) as up:
            answer = await up.answer(call_of(prompt_of(39, 1)))
            assert (answer.finishes[0].reason, answer.finishes[0].usage.completion_tokens) == ("length", 1)
            for length in (40, 41):
                error = await refused(up, call_of((1,) * length))
                assert (error.status, error.code, error.param) == (400, "context_length_exceeded", "prompt")
                assert error.message.startswith(f"prompt is too long: {length} tokens")  # as LiteLLM looks for it
                assert "context is 40 tokens" in error.message


class TestRoomComesBack:
    async def test_after_a_bad_prompt(self, autojump_clock: trio.testing.MockClock) -> None:
        async with serving(config_of(slots=1, queue=1)) as up:
            for bad in ((), (1,) * 500, (8,), (-1, 2)):
                for _ in range(3):
                    assert (await refused(up, call_of((1, 2), bad))).status == 400
            await assert_all_room_is_there(up, 2)
            assert up.engine.num_rows_computed == len(prompt_of(3, 4)) + 3  # nothing of the refused calls

    async def test_after_a_constraint_that_cannot_be_read(self, autojump_clock: trio.testing.MockClock) -> None:
        """A fault of ours, as nothing lets it in."""
        async with serving(config_of(slots=1, queue=1)) as up:
            unreadable = evolve(call_of((1, 2)), constraint=Constraint("choice", "[" * 100_000), confidence=True)
            for _ in range(3):
                with pytest.raises(RecursionError):
                    await up.answer(unreadable)
            await assert_all_room_is_there(up, 2)

    async def test_after_the_clients_own_exception(self, autojump_clock: trio.testing.MockClock) -> None:
        async with serving(config_of(slots=1, queue=1)) as up:
            for _ in range(3):
                with pytest.raises(ZeroDivisionError):
                    async with up.ask(call_of((1, 2), n=2)):
                        raise ZeroDivisionError
                await up.idle()
            await assert_all_room_is_there(up, 2)

    async def test_after_a_cancellation_while_the_prompt_is_tokenised(self) -> None:
        """A long text is read in a thread; who gives up meanwhile takes no room and starts no work."""
        started, go_on = threading.Event(), threading.Event()

        class Stuck(FakeVocabulary):
            def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
                started.set()
                go_on.wait(60)
                return [1, 2, 3]

        async with serving(config_of(slots=1, queue=1)) as up:
            assert up.intake.model is not None
            model = up.intake.model
            up.intake.model = evolve(model, vocabulary=Stuck(8))
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(up.answer, Call(prompts=("x" * (INLINE_CHARACTERS + 1),), n=2))
                    await trio.to_thread.run_sync(started.wait)
                    scope.cancel()
                    go_on.set()
            assert scope.cancelled_caught
            up.intake.model = model
            assert up.num_rows == 0
            await assert_all_room_is_there(up, 2)


class TestSeeds:
    def test_the_first_choice_has_the_requests_own_seed_the_others_derived_ones(self) -> None:
        asked = Sampling(seed=7)
        seeds = [seeded(asked, choice).seed for choice in range(5)]
        assert seeds[0] == 7
        assert len(set(seeds)) == 5
        assert seeds == [seeded(asked, choice).seed for choice in range(5)]
        assert seeds[1] != seeded(Sampling(seed=8), 1).seed

    def test_without_a_seed_every_choice_gets_one_of_its_own(self) -> None:
        assert len({seeded(Sampling(), choice).seed for choice in (0, 0, 0, 1, 1)}) == 5

    async def test_choices_differ_and_come_again_with_the_same_seed(
        self, autojump_clock: trio.testing.MockClock
    ) -> None:
        call = Call(prompts=((1, 2, 3),), n=4, sampling=Sampling(seed=5), max_tokens=20)
        async with serving(config_of(slots=4)) as up:
            first, second = await up.answer(call), await up.answer(call)
            other = await up.answer(evolve(call, sampling=Sampling(seed=6)))
        assert first.texts == second.texts
        assert len({*first.texts, *other.texts}) == 8
        # Choice 0 is what the plain loop gives with that very seed.
        assert text_of((1, 2, 3), 20, Sampling(seed=5)) == first.texts[0]


class TestTokenise:
    def model(self, *, template: object = None, adds_bos: bool = True) -> ServedModel:
        info = ModelInfo(
            name="", vocab_size=99, context_trained=9, eog_tokens=frozenset(), bos_token=42, adds_bos=adds_bos,
            bos_text="<s>",
        )  # fmt: skip
        return ServedModel(
            id="",
            context=9,
            info=info,
            fingerprint="",
            vocabulary=Spelling(),
            template=template,  # type: ignore[arg-type]
        )

    def test_a_text_gets_one_bos(self) -> None:
        assert tokenise(self.model(), "ab") == (42, 97, 98)

    def test_a_text_that_begins_with_the_bos_gets_no_second_one(self) -> None:
        assert tokenise(self.model(), "<s>ab") == (42, 97, 98)

    def test_an_empty_text_is_the_bos_alone(self) -> None:
        assert tokenise(self.model(), "") == (42,)

    def test_a_conversation_needs_a_template(self) -> None:
        with pytest.raises(RequestError, match=r"model\.chat_template") as caught:
            tokenise(self.model(), Chat(messages=({"role": "user", "content": "hi"},)))
        assert caught.value.code == "no_chat_template"


class Spelling:
    """Bytes are tokens; `<s>` is 42."""

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        assert parse_special
        rest = list(text.removeprefix("<s>").encode())
        return [42, *rest] if text.startswith("<s>") or (add_special and text) else rest

    def piece(self, token: int) -> bytes:
        return bytes([token])
