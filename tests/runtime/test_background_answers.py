"""Background work that generates: it waits until nobody else is there, gives way within one step, and its text is that
of the same call in the foreground."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio
from attrs import evolve
from serving import GREEDY, PacedThread, call_of, config_of, prompt_of, read, serving, text_of

from reame.core.events import Delta
from reame.core.request import Sampling
from reame.errors import RequestError

if TYPE_CHECKING:
    from trio.testing import MockClock

    from reame.core.request import Call


def behind(call: Call) -> Call:
    return evolve(call, background=True)


async def test_it_gives_way_within_one_step_and_goes_on_afterwards(autojump_clock: MockClock) -> None:
    """A step takes a second. The batch has both slots and is in the middle of its answers when somebody comes."""
    thread = PacedThread()
    config = config_of(slots=2, cells=400)
    slow, other, urgent = (prompt_of(6, 20, first=first) for first in range(3))
    async with serving(config, thread=thread) as up, trio.open_nursery() as nursery:
        texts: dict[str, str] = {}

        async def batch(name: str, prompt: tuple[int, ...]) -> None:
            texts[name] = (await up.answer(behind(call_of(prompt, max_tokens=20)))).texts[0]

        nursery.start_soon(batch, "slow", slow)
        nursery.start_soon(batch, "other", other)
        await trio.sleep(8.5)
        assert len(up.loop.scheduler.running) == 2
        came = trio.current_time()
        async with up.ask(call_of(urgent, max_tokens=4)) as replies:
            async for _, event in replies:
                if isinstance(event, Delta) and event.text:
                    break
            assert trio.current_time() - came <= 2.0  # the step under way, and its own first
            assert [s.request.background for s in up.loop.scheduler.running] == [False]
            await read(replies)
        assert not texts
    assert texts == {"slow": text_of(slow, 20), "other": text_of(other, 20)}


async def test_drawn_tokens_are_those_of_the_foreground(autojump_clock: MockClock) -> None:
    """Also after giving way in the middle: the random numbers go on where they were."""
    sampling = Sampling(temperature=1.0, seed=11)
    prompt = prompt_of(6, 20)
    call = evolve(call_of(prompt, max_tokens=16), sampling=sampling)
    async with serving(config_of(slots=1), thread=PacedThread()) as up:
        expected = (await up.answer(call)).texts
    async with serving(config_of(slots=1), thread=PacedThread()) as up, trio.open_nursery() as nursery:

        async def batch() -> None:
            assert (await up.answer(behind(call))).texts == expected

        nursery.start_soon(batch)
        for _ in range(3):
            await trio.sleep(3)
            await up.answer(call_of(prompt_of(3, 4, first=2), max_tokens=2))


async def test_it_joins_the_steps_of_others_where_that_costs_them_little(autojump_clock: MockClock) -> None:
    """Little is anything here: two rows may take eleven times as long as one."""
    prompt, busy = prompt_of(6, 8), prompt_of(4, 30, first=1)
    async with serving(config_of(slowdown=10.0), thread=PacedThread()) as up, trio.open_nursery() as nursery:
        answers: list[tuple[str, float]] = []

        async def ask(name: str, call: Call) -> None:
            answers.append(((await up.answer(call)).texts[0], trio.current_time()))

        nursery.start_soon(ask, "busy", call_of(busy, max_tokens=30))
        await trio.sleep(3.5)
        nursery.start_soon(ask, "record", behind(call_of(prompt, max_tokens=8)))
    assert [text for text, _ in answers] == [text_of(prompt, 8), text_of(busy, 30)]
    assert answers[1][1] == 30  # as many steps as tokens, and a second each


async def test_it_fills_half_of_the_places_and_turns_nobody_away(autojump_clock: MockClock) -> None:
    async with serving(config_of(slots=2, queue=4), thread=PacedThread()) as up, trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(up.answer, behind(call_of(prompt_of(4, 4), max_tokens=4)))
        await trio.sleep(0.5)
        with pytest.raises(RequestError) as caught:
            async with up.ask(behind(call_of(prompt_of(4, 4), max_tokens=4))):
                pass
        assert (caught.value.status, caught.value.code) == (429, "queue_full")
        await up.answer(call_of(prompt_of(4, 4), max_tokens=4))


async def test_waiting_for_others_is_not_held_against_it(autojump_clock: MockClock) -> None:
    """The time limit of requests is 10 s; others take three times 8."""
    async with serving(config_of(slots=1, timeout_s=10.0), thread=PacedThread()) as up, trio.open_nursery() as nursery:
        prompt = prompt_of(4, 4)

        async def busy() -> None:
            for first in range(1, 4):
                await up.answer(call_of(prompt_of(4, 8, first=first), max_tokens=8))

        nursery.start_soon(busy)
        await trio.sleep(0.5)
        answer = await up.answer(behind(call_of(prompt, max_tokens=4)))
        assert (answer.errors, answer.texts) == ([], [text_of(prompt, 4, GREEDY)])
        assert trio.current_time() > 3 * 8


async def test_how_many_at_once_are_fastest_is_known_from_the_steps(autojump_clock: MockClock) -> None:
    async with serving(config_of(slots=8)) as up:
        cost = up.loop.scheduler.cost
        for rows in range(1, 9):
            for _ in range(40):
                cost.observe(rows, 1.0 if rows <= 4 else 3.0)
        assert up.intake.background_width() == up.intake.health().slots_background == 4
