"""An election through intake, loop and scheduler, on the fake engine: who is heard, who is stopped, what it takes."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio
from attrs import evolve
from electing import PROMPT, SEED, begin, call_of, remembering, speak
from serving import Answer, PacedThread, Serving, config_of, prompt_of, read, serving
from trio.testing import wait_all_tasks_blocked

from reame.core.constraint import Constraint
from reame.core.events import Delta, Finish, Usage
from reame.core.request import Call, Request, Sampling
from reame.core.vote import Conclave, Progress, Verdict
from reame.errors import RequestError
from reame.memory.answers import AnswerStore
from reame.runtime.candidates import Candidates
from reame.runtime.conclave import as_candidates
from reame.runtime.prompts import seeded

if TYPE_CHECKING:
    from pathlib import Path

    from trio.testing import MockClock

    from reame.core.events import Event

SAID = ("b", "aa", "aa", "aa", "g!")
"""Of those whose election is remembered."""


async def elected(up: Serving, call: Call, *, key: str = "") -> tuple[str, Finish, Verdict]:
    answer = await up.answer(call, key=key)
    (text,), (finish,) = answer.texts, answer.finishes
    assert finish.verdict is not None
    return text, finish, finish.verdict


async def test_the_answer_of_the_most() -> None:
    async with serving(config_of(slots=8)) as up:
        speak(up, "b", "aa", "aaa", "b", "aa")
        begin(up, 5)
        text, finish, verdict = await elected(up, call_of())
    assert (text, finish.reason) == ("aa", "stop")
    assert (verdict.candidates, verdict.elected, verdict.vote, verdict.stopped) == (5, 1, "choice", 0)
    groups = [(group.answer, group.candidates) for group in verdict.groups]
    assert groups == [("aa", (1, 4)), ("b", (0, 3)), ("aaa", (2,))]


async def test_the_prompt_is_computed_once_and_counted_once() -> None:
    async with serving(config_of(slots=8, rows=64)) as up:
        speak(up, *["ab"] * 5)
        begin(up, 5)
        _, finish, verdict = await elected(up, call_of())
        assert up.num_rows == 40 + 4 + 5 * 2, "four compute the last token again"
    usage = finish.usage
    assert (usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens) == (40, 0, 15)
    assert verdict.tokens == 15
    assert verdict.agreement == 5


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


async def test_forks_are_held_back_too() -> None:
    """Candidate 0 is not sure; of the others two begin, and agree with it."""
    async with serving(config_of(slots=8)) as up:
        speak(up, *["aa"] * 5)
        begin(up, 3)
        up.engine.logprobs = partial(_rivals, up, at=0)  # type: ignore[method-assign, assignment]
        _, _, verdict = await elected(up, call_of(margin=0.2))
    assert (verdict.candidates, verdict.agreement, verdict.stopped) == (5, 3, 2)


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


async def test_labels_of_a_list_are_votes_as_they_are() -> None:
    """In free text both would be the label 1."""
    constraint = Constraint("choice", json.dumps(["-1", "1"]))
    requests = [evolve(request, constraint=constraint) for request in _requests(call_of(3))]
    table = Candidates(requests, Conclave(size=3), "choice", wave=3)
    for index, text in enumerate(("-1", "1", "-1")):
        table.take(index, Delta(text=text))
        table.take(index, Finish(reason="stop", usage=Usage(prompt_tokens=1, cached_tokens=0, completion_tokens=1)))
    outcome = table.outcome()
    assert outcome is not None
    assert [(group.answer, group.candidates) for group in outcome.groups] == [("-1", (0, 2)), ("1", (1,))]


async def test_a_leaving_client_frees_all(autojump_clock: MockClock) -> None:
    async with serving(config_of(slots=3), thread=PacedThread()) as up:
        speak(up, *["g!"] * 5)
        async with up.ask(call_of()) as replies:
            with trio.move_on_after(10):
                await replies.__anext__()
            assert len(up.loop.scheduler.running) == 3
        await trio.sleep(1.5)
        assert up.loop.scheduler.sequences() == []


async def test_progress_then_the_answer() -> None:
    events: list[Event] = []
    async with serving(config_of(slots=8)) as up:
        speak(up, "aa", "b", "aaaa", "aaaa", "aaaa")
        async with up.ask(call_of()) as replies:
            events = [event async for _, event in replies]
    told = [event.progress for event in events if isinstance(event, Delta) and event.progress]
    assert told == [Progress(5, 1, 1), Progress(5, 2, 1), Progress(5, 3, 1), Progress(5, 4, 2)]
    assert [event.text for event in events if isinstance(event, Delta) and not event.progress] == ["aaaa"]
    assert isinstance(events[-1], Finish)


async def test_the_first_candidate_is_the_plain_request() -> None:
    """With everybody cut there is no vote, and the first candidate's text comes back."""
    async with serving(config_of(slots=8)) as up:
        plain = await up.answer(call_of(conclave=None, max_tokens=4))
        text, *_ = await elected(up, call_of(max_tokens=4))
    assert [text] == plain.texts


async def test_the_same_again() -> None:
    async with serving(config_of(slots=8)) as up:
        first, second = [await up.answer(call_of()) for _ in range(2)]
    assert first.texts == second.texts


def test_the_others_are_hot_and_of_other_seeds() -> None:
    call = call_of(3, sampling=Sampling(temperature=0.2, seed=SEED))
    requests = as_candidates(call, _requests(call))
    assert [request.sampling.temperature for request in requests] == [0.2, 0.7, 0.7]
    assert len({request.sampling.seed for request in requests}) == 3
    assert requests[0].sampling == call.sampling


def test_at_temperature_zero_everything_is_fixed() -> None:
    call = call_of(3, sampling=Sampling(temperature=0))
    first, second = [as_candidates(call, _requests(call)) for _ in range(2)]
    assert [request.sampling for request in first] == [request.sampling for request in second]
    assert [request.sampling.temperature for request in first] == [0, 0.7, 0.7]


def _requests(call: Call) -> list[Request]:
    return [Request(id=f"a-{i}", prompt=PROMPT, max_tokens=9, sampling=seeded(call.sampling, i)) for i in range(3)]


async def test_several_prompts_have_an_election_each() -> None:
    other = prompt_of(30, 40, first=1)
    async with serving(config_of(slots=8)) as up:
        speak(up, "aa", "aa", "b")
        answer = await up.answer(call_of(3, prompts=(PROMPT, other)))
    assert answer.texts == ["aa", "aa"]
    assert [finish.usage.prompt_tokens for finish in answer.finishes] == [40, 30]


async def test_logprobs_only_as_wanted() -> None:
    async with serving(config_of(slots=8)) as up:
        speak(up, "ab", "ab", "b")
        for wanted, tops in ((None, []), (0, [0, 0]), (3, [3, 3])):
            async with up.ask(call_of(3, logprobs=wanted)) as replies:
                told = [e.logprobs async for _, e in replies if isinstance(e, Delta) and not e.progress]
            assert [len(token.top) for tokens in told for token in tokens] == tops


async def test_lazy_and_certain_is_one_answer() -> None:
    async with serving(config_of(slots=8)) as up:
        speak(up, "aa", *["b"] * 4)
        begin(up, 3)
        text, _, verdict = await elected(up, call_of(margin=0.0))
        fates = {fate: up.metrics.candidates.labels(fate)._value.get() for fate in ("voted", "silent", "stopped")}
    assert (text, verdict.candidates, verdict.agreement, verdict.tokens) == ("aa", 1, 1, 3)
    assert (verdict.stopped, verdict.tokens_saved) == (0, 0), "nobody else was asked"
    assert fates == {"voted": 1, "silent": 0, "stopped": 0}


async def test_lazy_and_uncertain_forks_at_the_token() -> None:
    """The fake engine's rivals are all as likely, so the closest token is the first: nothing is shared."""
    async with serving(config_of(slots=8)) as up:
        speak(up, "aa", *["b"] * 4)
        begin(up, 5)
        text, finish, verdict = await elected(up, call_of(margin=0.5))
    assert (text, verdict.candidates, verdict.agreement) == ("b", 5, 4)
    assert finish.usage.completion_tokens == 3 + 4 * 2


async def test_forks_share_what_comes_before() -> None:
    async with serving(config_of(slots=8)) as up:
        speak(up, "abcde", *["abcff"] * 4)
        begin(up, 5)
        closest = partial(_rivals, up, at=3)
        up.engine.logprobs = closest  # type: ignore[method-assign]
        text, finish, verdict = await elected(up, call_of(margin=0.5, logprobs=0))
        assert up.num_rows == 40 + 5 + 4 * (1 + 2)
    assert (text, verdict.agreement) == ("abcff", 4)
    assert verdict.tokens == 6 + 3 * 3 + 3 == finish.usage.completion_tokens


def _rivals(up: Serving, row: int, token: int, top: int, *, at: int) -> tuple[float, tuple[tuple[int, float], ...]]:
    position = up.engine.steps[-1][row].position - len(PROMPT) + 1
    return -1.0, tuple((t, -1.0 - (0 if position == at else t)) for t in range(top))


async def test_an_old_election_is_told_again(tmp_path: Path) -> None:
    store = AnswerStore(tmp_path / "answers.sqlite", budget_bytes=1 << 20)
    async with remembering(store, *SAID) as up:
        text, finish, verdict = await elected(up, call_of())
    async with remembering(store, *SAID) as up:
        again, finish_again, verdict_again = await elected(up, call_of())
        assert up.num_rows == 0
        assert (again, verdict_again, finish_again.stored) == (text, verdict, True)
        assert finish_again.usage.completion_tokens == finish.usage.completion_tokens
        text_vote = call_of(conclave=Conclave(size=5, vote="text"))
        for other in (call_of(4), text_vote, call_of(conclave=None), call_of(answers=False)):
            assert not (await up.answer(other)).finishes[0].stored


async def test_an_election_with_a_failure_is_not_kept(tmp_path: Path) -> None:
    store = AnswerStore(tmp_path / "answers.sqlite", budget_bytes=1 << 20)
    async with remembering(store, *SAID) as up, up.ask(call_of()) as replies:
        up.engine.fail_next_decode = True
        assert (await read(replies)).texts == ["aa"]
    assert store.stats().answers == 0


async def test_too_many() -> None:
    async with serving(config_of(slots=2, queue=2)) as up:
        with pytest.raises(RequestError, match="5 choices") as caught:
            await up.answer(call_of())
    assert (caught.value.status, caught.value.param) == (400, "best_of")


async def test_others_run_beside_it() -> None:
    others: list[Answer] = []
    async with serving(config_of(slots=3)) as up:
        plain = evolve(call_of(conclave=None), sampling=Sampling(temperature=0), max_tokens=12)
        alone = await up.answer(plain)

        async def ask() -> None:
            others.append(await up.answer(plain, key="bob"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            first = await up.answer(call_of())
        second = await up.answer(call_of())
    assert first.texts == second.texts
    assert [other.texts for other in others] == [alone.texts]


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
