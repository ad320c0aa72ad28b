"""An election through intake, loop and scheduler, on the fake engine: what it gives, what it takes, what is kept."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import trio
from attrs import evolve
from electing import PROMPT, SEED, begin, call_of, elected, remembering, speak
from serving import Answer, config_of, prompt_of, read, serving

from reame.core.constraint import Constraint
from reame.core.events import Delta, Finish, Usage
from reame.core.request import Call, Request, Sampling
from reame.core.vote import Conclave, Progress
from reame.errors import RequestError
from reame.memory.answers import AnswerStore
from reame.runtime.candidates import Candidates
from reame.runtime.conclave import as_candidates
from reame.runtime.prompts import seeded

if TYPE_CHECKING:
    from pathlib import Path

    from reame.core.events import Event


SAID = ("b", "aa", "aa", "aa", "g!")
"""Of those whose election is remembered."""


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


async def test_calls_of_tools_are_votes_whatever_is_voted_on() -> None:
    constraint = Constraint("tools", json.dumps({"tools": [], "must": False, "parallel": True}))
    requests = [evolve(request, constraint=constraint) for request in _requests(call_of(3))]
    table = Candidates(requests, Conclave(size=3), "auto", wave=3)
    for index, name in enumerate(("delete_file", "read_file", "read_file")):
        text = f'<tool_call>\n{{"name": "{name}", "arguments": {{"id": 5}}}}\n</tool_call>'
        table.take(index, Delta(text=text))
        table.take(index, Finish(reason="stop", usage=Usage(prompt_tokens=1, cached_tokens=0, completion_tokens=1)))
    outcome = table.outcome()
    assert outcome is not None
    assert (outcome.elected, outcome.agreement) == (1, 2)


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
