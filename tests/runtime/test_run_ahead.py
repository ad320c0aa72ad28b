"""Running ahead: the same texts with fewer hops, and whoever comes or leaves is noticed after the step that runs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import trio
from serving import call_of, config_of, prompt_of, serving, text_of

from reame.core.events import Delta
from reame.core.limits import Limits
from reame.core.request import Request, Sampling
from reame.core.scheduler import Scheduler
from reame.core.slots import Slots
from reame.engine.fake import FakeEngine
from reame.engine.step import StepRunner
from reame.engine.thread import decode_thread
from reame.runtime.run_ahead import WAKE_SECONDS, News, RunAhead

if TYPE_CHECKING:
    from collections.abc import Callable

PROMPT = prompt_of(5, 40)


class Lent:
    """A scheduler with one request, lent to a RunAhead whose clock goes on by `tick` seconds at each look."""

    def __init__(self, most_steps: int, *, tick: float = 0.0, is_wanted: Callable[[], bool] = lambda: False) -> None:
        engine = FakeEngine(num_cells=100, num_seqs=4)
        limits = Limits(max_running=2, max_rows=16)
        self.scheduler = Scheduler(
            Slots(100, 4), limits, piece=engine.vocabulary.piece, eog_tokens=engine.info.eog_tokens
        )
        self.news: list[News] = []
        self.num_wakes = 0
        self.now = 0.0
        self.tick = tick
        self.ahead = RunAhead(
            self.scheduler, StepRunner(engine), self.look, is_wanted, self.news.append, self.wake, most_steps
        )
        self.add("first")

    def add(self, name: str, prompt: tuple[int, ...] = PROMPT, *, max_tokens: int = 30) -> None:
        request = Request(id=name, prompt=prompt, max_tokens=max_tokens, sampling=Sampling(temperature=0))
        self.scheduler.add(request, 0.0)

    def look(self) -> float:
        self.now += self.tick
        return self.now

    def wake(self) -> None:
        self.num_wakes += 1

    def go(self) -> None:
        batch = self.scheduler.plan(0.0)
        assert batch is not None
        self.ahead.run(batch)

    @property
    def text(self) -> str:
        return "".join(event.text for news in self.news for _, event in news.events if isinstance(event, Delta))


def test_it_takes_the_steps_it_may_and_tells_of_each() -> None:
    lent = Lent(8)
    lent.go()
    assert len(lent.news) == 8
    assert lent.text == text_of(PROMPT, 8)
    while lent.scheduler.sequences():
        lent.go()
    assert lent.text == text_of(PROMPT, 30)


def test_it_stops_after_the_step_in_which_somebody_is_wanted() -> None:
    lent = Lent(8, is_wanted=lambda: len(lent.news) == 3)
    lent.go()
    assert len(lent.news) == 3


def test_it_does_not_run_ahead_of_somebody_who_waits_or_catches_up() -> None:
    lent = Lent(8)
    lent.go()
    lent.add("second", prompt_of(30, 12, first=3))  # two steps of 16 rows, one of them the first one's
    lent.go()
    assert len(lent.news) == 9
    lent.go()
    assert len(lent.news) == 17


def test_it_wakes_the_others_no_oftener_than_somebody_reads() -> None:
    lent = Lent(8, tick=WAKE_SECONDS / 10)
    lent.go()
    assert 1 <= lent.num_wakes <= 4


def test_a_first_token_is_sent_at_once() -> None:
    lent = Lent(8)
    lent.go()
    assert lent.num_wakes == 1


def test_an_end_is_told_at_once_though_another_goes_on() -> None:
    lent = Lent(8)
    lent.add("short", prompt_of(6, 3, first=3), max_tokens=3)
    lent.go()
    assert [sequence.request.id for sequence in lent.scheduler.running] == ["first"]
    assert lent.num_wakes == 2, "for the first tokens, and for the end"


async def test_on_a_real_thread_texts_and_counts_are_the_same() -> None:
    config = config_of(slots=4)
    prompts = [prompt_of(6, 25, first=first) for first in range(4)]
    async with decode_thread() as thread, serving(config, thread=thread, run_ahead=8) as up:
        texts: dict[int, list[str]] = {}

        async def ask(number: int) -> None:
            texts[number] = (await up.answer(call_of(prompts[number], max_tokens=25))).texts

        async with trio.open_nursery() as nursery:
            for number in range(4):
                nursery.start_soon(partial(ask, number))
        assert texts == {number: [text_of(prompt, 25)] for number, prompt in enumerate(prompts)}
        assert up.metrics.registry.get_sample_value("reame_generated_tokens_total") == 100


async def test_who_leaves_is_noticed_before_the_run_is_over() -> None:
    prompt = prompt_of(5, 120)
    async with decode_thread() as thread, serving(config_of(slots=1), thread=thread, run_ahead=1000) as up:
        async with up.ask(call_of(prompt, max_tokens=120)) as replies:
            await replies.__anext__()
        answer = await up.answer(call_of(prompt_of(5, 4, first=3), max_tokens=4))
        assert answer.texts == [text_of(prompt_of(5, 4, first=3), 4)]
