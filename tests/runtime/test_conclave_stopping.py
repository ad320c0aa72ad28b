"""Who is heard in an election, who waits and who is stopped; candidates that fail, or whose client goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio
from electing import PROMPT, begin, call_of, elected, speak
from serving import PacedThread, config_of, read, serving
from trio.testing import wait_all_tasks_blocked

from reame.core.events import Finish
from reame.core.vote import Conclave

if TYPE_CHECKING:

    from trio.testing import MockClock



async def test_who_can_change_nothing_is_stopped() -> None:
    async with serving(config_of(slots=8)) as up:
        speak(up, "g!", "aa", "aa", "aa", "g!")
        begin(up, 5)
        text, _, verdict = await elected(up, call_of())
        await up.idle()
        assert not up.loop.scheduler.running
        fates = {fate: up.metrics.candidates.labels(fate)._value.get() for fate in ("voted", "silent", "stopped")}
        assert fates == {"voted": 3, "silent": 0, "stopped": 2}
    assert (text, verdict.agreement, verdict.stopped, verdict.silent) == ("aa", 3, 2, 0)
    assert 9 + 2 * 3 <= verdict.tokens <= 9 + 2 * 6, "they had a little more, and were stopped"


async def test_the_cells_of_who_is_stopped_are_free_at_the_next_step(autojump_clock: MockClock) -> None:
    async with serving(config_of(slots=8), thread=PacedThread()) as up:
        speak(up, "g!", "aa", "aa", "aa", "g!")
        begin(up, 5)
        async with up.ask(call_of()) as replies:
            async for _, event in replies:
                if isinstance(event, Finish):
                    await trio.sleep(1.5)
                    assert not up.loop.scheduler.sequences()


async def test_more_candidates_than_slots_run_in_waves() -> None:
    async with serving(config_of(slots=2)) as up:
        speak(up, "aa", "aa", "aa", "bb", "bb")
        text, _, verdict = await elected(up, call_of())
        assert len(up.engine.steps) < 15
    assert (text, verdict.agreement, verdict.elected) == ("aa", 3, 0)
    assert verdict.tokens < 15


@pytest.mark.parametrize("slots", [1, 2, 3, 8])
async def test_the_elected_answer_does_not_depend_on_slots(slots: int) -> None:
    async with serving(config_of(slots=slots)) as up:
        speak(up, "aaaa", "b", "aaaa", "bbb", "aaaa", "aaaa", "c")
        text, _, verdict = await elected(up, call_of(7))
    assert (text, verdict.elected) == ("aaaa", 0)


@pytest.mark.parametrize(
    ("texts", "num_voted"),
    [
        (("aa", "aa", "aa", "aaaa", "c"), 3),
        (("aa", "b", "aa", "aa", "c"), 4),  # after one of another opinion the three others may still decide
        (("aa", "b", "c", "aa", "aa"), 5),
        (("g!", "g!", "g!", "g!", "aa"), 1),
    ],
)
async def test_who_is_held_back_is_asked_when_the_others_cannot_decide(texts: tuple[str, ...], num_voted: int) -> None:
    async with serving(config_of(slots=8)) as up:
        speak(up, *texts)
        begin(up, 4)
        text, finish, verdict = await elected(up, call_of(max_tokens=9))
        fates = {fate: up.metrics.candidates.labels(fate)._value.get() for fate in ("voted", "silent", "stopped")}
    assert text == "aa"
    assert fates["voted"] == num_voted
    assert verdict.candidates == sum(fates.values()) == 5
    assert (num_voted == 5 or "!" in texts[0]) == (verdict.stopped == 0)
    assert finish.usage.completion_tokens == verdict.tokens


async def test_nobody_is_held_back_where_all_are_to_be_heard() -> None:
    async with serving(config_of(slots=8)) as up:
        speak(up, *["aa"] * 5)
        begin(up, 3)
        _, _, verdict = await elected(up, call_of(conclave=Conclave(size=5, vote="choice", early=False)))
    assert (verdict.agreement, verdict.stopped) == (5, 0)


async def test_who_is_cut_does_not_vote() -> None:
    async with serving(config_of(slots=8)) as up:
        speak(up, "g!", "g!", "g!", "a", "b")
        text, finish, verdict = await elected(up, call_of())
    assert (text, finish.reason, verdict.silent, verdict.agreement) == ("a", "stop", 3, 1)


async def test_nobody_votes() -> None:
    async with serving(config_of(slots=8)) as up:
        speak(up, *["g!"] * 3)
        text, finish, verdict = await elected(up, call_of(3, max_tokens=9))
    assert (text, finish.reason, verdict.agreement, verdict.elected) == ("g" * 9, "length", 0, 0)


async def test_all_fail_as_one() -> None:
    async with serving(config_of(slots=8)) as up:
        up.engine.poison = PROMPT[0]
        answer = await up.answer(call_of())
    assert [error.code for error in answer.errors] == ["engine_error"]


async def test_who_fails_does_not_vote() -> None:
    """The first step fails, in which the first candidate is alone: the others waited for the prompt that it read."""
    async with serving(config_of(slots=2)) as up:
        speak(up, "aaa", "b", "b")
        async with up.ask(call_of(3)) as replies:
            up.engine.fail_next_decode = True
            answer = await read(replies)
    (finish,) = answer.finishes
    assert answer.texts == ["b"]
    assert finish.verdict is not None
    assert (finish.verdict.silent, finish.verdict.agreement) == (1, 2)


async def test_who_leaves_pays_for_all_candidates(autojump_clock: MockClock) -> None:
    async with serving(config_of(slots=8), thread=PacedThread()) as up:
        speak(up, *["g!"] * 5)
        begin(up, 5)
        async with up.ask(call_of()) as replies:
            with trio.move_on_after(10):
                await replies.__anext__()
            # what the last step drew may not have been heard
            assert up.loop.scheduler.num_drawn - 5 <= replies.num_tokens - len(PROMPT) <= up.loop.scheduler.num_drawn
            assert up.loop.scheduler.num_drawn > 25


async def test_a_leaving_client_frees_all(autojump_clock: MockClock) -> None:
    async with serving(config_of(slots=3), thread=PacedThread()) as up:
        speak(up, *["g!"] * 5)
        async with up.ask(call_of()) as replies:
            with trio.move_on_after(10):
                await replies.__anext__()
            assert len(up.loop.scheduler.running) == 3
        await trio.sleep(1.5)
        assert up.loop.scheduler.sequences() == []


async def test_a_client_that_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The channel fills up, and what is cut off has failed."""
    monkeypatch.setattr("reame.runtime.intake.REPLY_EVENTS", 4)
    async with serving(config_of(slots=8)) as up:
        speak(up, *["g!"] * 3)
        begin(up, 3)
        for margin in (None, 0.5):
            async with up.ask(call_of(3, margin=margin)) as replies:
                await wait_all_tasks_blocked()
                answer = await read(replies)
            assert [error.code for error in answer.errors] == ["slow_client"]
