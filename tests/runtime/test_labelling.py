"""Every label's probability through intake, loop and scheduler, on the fake engine with odds of its own."""

from __future__ import annotations

from collections import Counter
from contextlib import asynccontextmanager
from math import log
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
import trio
from attrs import evolve
from serving import GREEDY, PacedThread, Serving, config_of, prompt_of, serving

from reame.core.constraint import Constraint
from reame.core.events import Finish
from reame.core.request import Call, Sampling
from reame.core.vote import Conclave
from reame.engine.base import Row
from reame.engine.fake import FakeEngine
from reame.errors import RequestError
from reame.memory.answers import AnswerStore
from reame.runtime.memory import Memory

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from trio.testing import MockClock

    from reame.config import Config
    from reame.engine.fake import FakeSampler

PROMPT = prompt_of(40, 40)
LABELS = ["ab", "abc", "abdd", "g", "ba", "bcaaa"]
CHOICE = Constraint("choice", '["' + '","'.join(LABELS) + '"]')
DRAWN = Sampling(temperature=1, top_k=0, top_p=1, min_p=0)


def call_of(*prompts: tuple[int, ...], **fields: Any) -> Call:
    call = Call(
        prompts=prompts or (PROMPT,), sampling=GREEDY, max_tokens=12, constraint=CHOICE, logprobs=0, confidence=True
    )
    return evolve(call, **fields)


def weights(engine: FakeEngine, row: int) -> list[float]:
    """Of each token, by what the sequence has in its cells."""
    random = Random(engine._logits[row])
    return [random.uniform(0.1, 1) for _ in range(8)]


def be_fair(engine: FakeEngine) -> None:
    """Draw by `weights`, and tell them."""
    def odds(row: int) -> dict[int, float]:
        allowed = engine._masks.get(row, [True] * 8)
        kept = {token: weight for token, weight in enumerate(weights(engine, row)) if allowed[token]}
        return {token: weight / sum(kept.values()) for token, weight in kept.items()}

    def sample(row: int, sampler: FakeSampler) -> int:
        banned = {token for token, bias in sampler.sampling.logit_bias if bias <= -100}
        left = {token: chance for token, chance in odds(row).items() if token not in banned}
        if sampler.sampling.temperature <= 0:
            return max(left, key=left.__getitem__)
        return sampler.random.choices(list(left), list(left.values()))[0]

    def logprobs(row: int, token: int, top: int) -> tuple[float, tuple[tuple[int, float], ...]]:
        told = odds(row)
        best = sorted(told, key=told.__getitem__, reverse=True)[:top]
        return log(told[token]), tuple((each, log(told[each])) for each in best)

    engine.sample, engine.logprobs = sample, logprobs  # type: ignore[method-assign, assignment]


def expected(prompt: tuple[int, ...] = PROMPT) -> dict[str, float]:
    """By hand: each label computed alone, in one go; at every place what is allowed are the beginnings of labels."""
    chances = {}
    for label in LABELS:
        tokens = [FakeEngine().vocabulary.ALPHABET.index(letter.encode()) for letter in label]
        engine = FakeEngine()
        engine.max_rows = 64
        engine.decode([Row(token, place, 0, True) for place, token in enumerate((*prompt, *tokens))])
        chance = 1.0
        for place in range(len(label) + 1):
            begun = [other for other in LABELS if other.startswith(label[:place])]
            ways = {0 if other == label[:place] else 1 + ord(other[place]) - ord("a") for other in begun}
            told = weights(engine, len(prompt) - 1 + place)
            chance *= told[(*tokens, 0)[place]] / sum(told[way] for way in ways)
        chances[label] = chance
    return chances


def told(finish: Finish) -> dict[Any, float]:
    assert finish.error is None
    return {each.label: each.probability for each in finish.labels}


@asynccontextmanager
async def fair(config: Config, **more: Any) -> AsyncIterator[Serving]:
    async with serving(config, **more) as up:
        be_fair(up.engine)
        assert up.intake.model is not None
        assert up.intake.model.constraints is not None
        up.intake.model.constraints.compile(CHOICE)  # else a real thread does, and virtual time runs away
        yield up


@pytest.mark.parametrize("slots", [1, 2, 8])
async def test_the_probabilities_are_those_of_the_tree(slots: int) -> None:
    async with fair(config_of(slots=slots, rows=64)) as up:
        answer = await up.answer(call_of())
    found = told(answer.finishes[0])
    assert found == pytest.approx(expected(), abs=1e-9)
    assert sum(found.values()) == pytest.approx(1, abs=1e-6)
    assert list(found.values()) == sorted(found.values(), reverse=True)
    assert len(set(found.values())) > 4


async def test_it_costs_a_row_for_each_token_on_the_way_to_a_fork() -> None:
    async with fair(config_of(slots=8, rows=64)) as up:
        plain = await up.answer(call_of(confidence=False))
        alone = up.num_rows
    async with fair(config_of(slots=8, rows=64)) as up:
        answer = await up.answer(call_of())
        assert up.num_rows - alone == 1 + 1 + 2, "for the forks at the beginning, after b, and after ab"
        assert len(up.engine.steps) <= 5
    assert answer.texts == plain.texts
    assert answer.finishes[0].usage == plain.finishes[0].usage


async def test_forks_push_nobody_out_of_the_cells() -> None:
    other = prompt_of(30, 40, first=1)
    async with fair(config_of(slots=1, residents=2, rows=64)) as up:
        await up.answer(call_of(other, confidence=False), key="bob")
        await up.answer(call_of())
        residents = up.loop.scheduler.admission.slots.residents()
        assert any(slot.tokens[:30] == list(other) for slot in residents)


async def test_the_greedy_answer_takes_the_likeliest_way_at_each_fork() -> None:
    async with fair(config_of()) as up:
        for first in range(6):
            prompt = prompt_of(12, 5, first=first)
            answer = await up.answer(call_of(prompt))
            chances, begun = expected(prompt), ""
            while begun not in LABELS or len([each for each in LABELS if each.startswith(begun)]) > 1:
                ways = Counter[str]()
                for label, chance in chances.items():
                    if label.startswith(begun):
                        ways[label[: len(begun) + 1]] += chance
                best = ways.most_common(1)[0][0]
                if best == begun:
                    break
                begun = best
            assert answer.texts == [begun]


async def test_draws_at_temperature_1_are_distributed_like_it() -> None:
    """Chi-square with five degrees of freedom: above 20.5 once in a thousand, and the seeds are fixed."""
    number, seen = 600, Counter[str]()
    async with fair(config_of(slots=8, rows=64)) as up:
        for seed in range(number // 6):
            answer = await up.answer(call_of(sampling=evolve(DRAWN, seed=seed), n=6))
            seen.update(answer.texts)
            assert told(answer.finishes[0]) == told(answer.finishes[5])
    counts = {label: number * chance for label, chance in expected().items()}
    assert sum((seen[label] - count) ** 2 / count for label, count in counts.items()) < 20.5
    assert set(seen) <= set(LABELS)


async def test_alone_and_in_a_crowd_warm_and_cold_they_are_the_same() -> None:
    finishes: list[Finish] = []
    async with fair(config_of(slots=3, queue=40, context=100)) as up:
        cold = await up.answer(call_of())
        warm = await up.answer(call_of())

        async def ask(key: str, prompt: tuple[int, ...]) -> None:
            answer = await up.answer(call_of(prompt, n=2), key=key)
            if prompt == PROMPT:
                finishes.extend(answer.finishes)

        async with trio.open_nursery() as nursery:
            for number in range(4):
                nursery.start_soon(ask, f"key{number}", PROMPT if number % 2 else prompt_of(30, 5, first=number))
    assert len(finishes) == 4
    assert all(told(finish) == told(cold.finishes[0]) for finish in (*warm.finishes, *finishes))


async def test_several_prompts_have_their_own() -> None:
    other = prompt_of(30, 5, first=3)
    async with fair(config_of(slots=2)) as up:
        answer = await up.answer(call_of(PROMPT, other, n=2))
    wanted = [expected(), expected(), expected(other), expected(other)]
    for finish, chances in zip(answer.finishes, wanted, strict=True):
        assert told(finish) == pytest.approx(chances)


@pytest.mark.parametrize(("slots", "queue"), [(1, 0), (1, 1), (2, 0)])
async def test_a_server_without_room_to_spare_asks_one_fork_at_a_time(slots: int, queue: int) -> None:
    async with fair(config_of(slots=slots, queue=queue)) as up:
        answer = await up.answer(call_of(n=slots))
        assert told(answer.finishes[0]) == pytest.approx(expected())
        again = await up.answer(call_of(n=slots))
    assert told(again.finishes[0]) == told(answer.finishes[0])


async def test_nobody_is_turned_away_for_the_sake_of_forks(autojump_clock: MockClock) -> None:
    found: list[dict[Any, float]] = []

    async def ask(key: str) -> None:
        found.append(told((await up.answer(call_of(), key=key)).finishes[0]))

    async with fair(config_of(slots=2, queue=6), thread=PacedThread()) as up, trio.open_nursery() as nursery:
        for number in range(8):
            nursery.start_soon(ask, f"key{number}")
    assert found == [pytest.approx(expected())] * 8


async def test_an_elected_answer_has_them_too() -> None:
    async with fair(config_of(slots=8)) as up:
        answer = await up.answer(call_of(sampling=evolve(DRAWN, seed=1), conclave=Conclave(size=5)))
    (finish,) = answer.finishes
    assert finish.verdict is not None
    assert told(finish) == pytest.approx(expected())


async def test_an_old_answer_has_them_without_a_row(tmp_path: Path) -> None:
    @asynccontextmanager
    async def remembering() -> AsyncIterator[Serving]:
        memory = Memory(None, store, fingerprint=b"f" * 16, block_tokens=0, salt=b"s", element_bytes=1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(memory.run)
            async with fair(config_of(slots=8), memory=memory) as up:
                yield up
            memory.close()

    store = AnswerStore(tmp_path / "answers.sqlite", budget_bytes=1 << 20)
    async with remembering() as up:
        new = await up.answer(call_of())
    async with remembering() as up:
        old = await up.answer(call_of())
        assert up.num_rows == 0
        assert old.finishes[0].stored
        assert told(old.finishes[0]) == told(new.finishes[0])
        without = await up.answer(call_of(confidence=False))
        assert not without.finishes[0].stored
        assert not without.finishes[0].labels


async def test_who_does_not_ask_or_has_no_labels_gets_none() -> None:
    async with fair(config_of()) as up:
        for call in (call_of(confidence=False), call_of(max_tokens=0), call_of(constraint=None)):
            assert not (await up.answer(call)).finishes[0].labels
        one = await up.answer(call_of(constraint=Constraint("choice", '["abc"]')))
        cut = await up.answer(call_of(max_tokens=1))
    assert (one.texts, told(one.finishes[0])) == (["abc"], {"abc": 1.0})
    assert told(cut.finishes[0]) == pytest.approx(expected()), "also of an answer that was cut"


async def test_more_labels_than_are_rated_are_answered_without() -> None:
    labels = [f"{a}{b}{c}{d}" for a in "abcdefg" for b in "abcdefg" for c in "abcdefg" for d in "abcdefg"]
    many = Constraint("choice", '["' + '","'.join(labels) + '"]')
    async with fair(config_of()) as up:
        answer = await up.answer(call_of(constraint=many))
    assert answer.texts[0] in labels
    assert not answer.finishes[0].labels


async def test_labels_that_do_not_fit_behind_the_prompt() -> None:
    async with fair(config_of(context=42)) as up:
        with pytest.raises(RequestError, match="prompt is too long: 40 tokens and a label up to 5") as caught:
            await up.answer(call_of(confidence_named=True))
        with_logprobs = await up.answer(call_of())
    assert (caught.value.status, caught.value.code) == (400, "context_length_exceeded")
    assert with_logprobs.errors == []
    assert not with_logprobs.finishes[0].labels, "nobody asked for them by name"


async def test_a_failure_at_a_fork_is_the_answers_end() -> None:
    async with fair(config_of(slots=1, queue=0)) as up:
        async with up.ask(call_of(max_tokens=1)) as replies:
            index, _ = await anext(replies)
            up.engine.fail_next_decode = True
            _, finish = await anext(replies)
        assert isinstance(finish, Finish)
        assert finish.error is not None
        assert (index, finish.error.code, finish.labels) == (0, "engine_error", ())
        assert told((await up.answer(call_of())).finishes[0]) == pytest.approx(expected())


async def test_an_impatient_reader_loses_nothing(autojump_clock: MockClock) -> None:
    events: list[Any] = []
    async with fair(config_of(slots=1, queue=0), thread=PacedThread()) as up, up.ask(call_of()) as replies:
        while not events or not isinstance(events[-1], Finish):
            with trio.move_on_after(0.3):
                events.append((await anext(replies))[1])
    assert told(events[-1]) == pytest.approx(expected())
    assert sum(isinstance(event, Finish) for event in events) == 1


async def test_who_leaves_takes_the_forks_along(autojump_clock: MockClock) -> None:
    async with fair(config_of(slots=2), thread=PacedThread()) as up:
        async with up.ask(call_of()) as replies:
            await anext(replies)
            assert up.loop.scheduler.sequences()
        await trio.sleep(2.5)
        assert not up.loop.scheduler.sequences()
        assert up.intake.health().slots_busy == 0
        answers = [await up.answer(call_of()) for _ in range(12)]
    assert all(not answer.errors for answer in answers), "the places are free again"
