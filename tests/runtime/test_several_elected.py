"""`best_of` with `n` above 1: the elected answer, then the next ones in the order of election."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from electing import PROMPT, call_of, remembering, speak
from serving import config_of, prompt_of, read, serving

from reame.core.events import Delta, Finish
from reame.core.vote import Conclave
from reame.memory.answers import AnswerStore

if TYPE_CHECKING:
    from pathlib import Path

SAID = ("c", "aa", "bb", "bb", "g!", "aa", "aa")
ORDER = ["aa", "bb", "c", "aa", "bb", "aa", "g" * 60]
"""Three say aa, two bb, one c; one never ends and does not vote."""
HEARD = Conclave(size=7, vote="choice", early=False)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 6, 7])
async def test_each_answer_once_and_then_who_said_the_same(n: int) -> None:
    async with serving(config_of(slots=8)) as up:
        speak(up, *SAID)
        answer = await up.answer(call_of(n=n, conclave=HEARD))
    assert answer.texts == ORDER[:n]
    assert [finish.verdict is not None for finish in answer.finishes] == [True] + [False] * (n - 1)
    reasons = [finish.reason for finish in answer.finishes]
    assert reasons == (["stop"] * 6 + ["length"])[:n]


async def test_what_was_spent_is_counted_once() -> None:
    async with serving(config_of(slots=8, rows=64)) as up:
        speak(up, *SAID)
        answer = await up.answer(call_of(n=3, conclave=HEARD))
    usages = [finish.usage for finish in answer.finishes]
    assert sum(usage.completion_tokens for usage in usages) == 2 + 5 * 3 + 60
    assert [usage.completion_tokens for usage in usages[1:]] == [3, 2]
    assert [usage.prompt_tokens for usage in usages] == [len(PROMPT)] * 3


@pytest.mark.parametrize("slots", [1, 3, 8])
async def test_slots_decide_nothing(slots: int) -> None:
    async with serving(config_of(slots=slots)) as up:
        speak(up, *SAID)
        assert (await up.answer(call_of(n=4, conclave=HEARD))).texts == ORDER[:4]


async def test_several_prompts() -> None:
    other = prompt_of(30, 40, first=1)
    async with serving(config_of(slots=8)) as up:
        speak(up, "aa", "b", "aa")
        call = call_of(prompts=(PROMPT, other), n=2, conclave=Conclave(size=3, vote="choice", early=False))
        async with up.ask(call) as replies:
            assert (replies.num_choices, replies.prompt_tokens) == (4, 70)
            answer = await read(replies)
    assert answer.texts == ["aa", "b"] * 2


async def test_of_equal_groups_the_more_probable_comes_first() -> None:
    async with serving(config_of(slots=8)) as up:
        speak(up, "aa", "aa", "b", "c")
        likely = up.engine.vocabulary.ALPHABET.index(b"c")
        up.engine.logprobs = lambda row, token, top: (-0.1 if token == likely else -3.0, ())  # type: ignore[method-assign]
        answer = await up.answer(call_of(n=3, conclave=Conclave(size=4, vote="choice", early=False)))
    assert answer.texts == ["aa", "c", "b"]


async def test_progress_is_told_of_the_first() -> None:
    async with serving(config_of(slots=8)) as up:
        speak(up, "aa", "b", "aa")
        async with up.ask(call_of(n=2, conclave=Conclave(size=3, vote="choice", early=False))) as replies:
            told = [(index, event) async for index, event in replies]
    assert [index for index, event in told if isinstance(event, Delta) and event.progress] == [0, 0]
    assert [index for index, event in told if isinstance(event, Finish)] == [0, 1]


async def test_old_ones_are_told_again(tmp_path: Path) -> None:
    store = AnswerStore(tmp_path / "answers.sqlite", budget_bytes=1 << 20)
    call = call_of(n=3, conclave=HEARD)
    async with remembering(store, *SAID) as up:
        first = await up.answer(call)
    async with remembering(store, *SAID) as up:
        again = await up.answer(call)
        assert up.num_rows == 0
        assert again.texts == first.texts
        assert [finish.stored for finish in again.finishes] == [True] * 3
        assert [finish.usage.completion_tokens for finish in again.finishes] == [
            finish.usage.completion_tokens for finish in first.finishes
        ]
        more = await up.answer(call_of(n=5, conclave=HEARD))
    assert more.texts == ORDER[:5]
    spent = sum(finish.usage.completion_tokens for finish in more.finishes)
    assert spent == sum(finish.usage.completion_tokens for finish in first.finishes), "all candidates, each once"
