"""The tuner with hand-made step times, and beside the decode loop, in virtual time."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from itertools import cycle
from typing import TYPE_CHECKING

import trio
from attrs import define, evolve, field
from serving import PacedThread, call_of, config_of, prompt_of, serving, text_of

from reame.config import EngineConfig
from reame.core.draft import DraftCount
from reame.core.limits import Limits
from reame.core.scheduler import Scheduler
from reame.core.slots import Slots
from reame.core.spin_choice import PATIENCE
from reame.core.step_time import StepTime
from reame.core.thread_choice import LEAST_WAIT_S, MOST_WAIT_S, SPAN_S, SPAN_STEPS, TRY_STEPS
from reame.engine.thread import InlineThread, decode_thread
from reame.runtime.metrics import Metrics
from reame.runtime.tuner import IDLE_S, MOST_STEPS, PACE_S, TRY_PACE_S, VERDICT_S, Tuner, cpu_pressure, may_adapt
from reame.speculation.verdict import LEAST_DRAWN

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    import pytest

    from reame.engine.thread import Caller

CALM = [0.1] * (SPAN_STEPS + int(SPAN_S / 0.1))
HELD_UP = [0.9]
"""Enough to try fewer threads; the steps behind it are those of the try."""
TRY = [0.1] * 100
"""Steps that win the try, and more than that takes."""


@define
class Machine:
    """What the tuner sees and sets."""

    scheduler: Scheduler = field(
        factory=lambda: Scheduler(
            Slots(100, 4), Limits(max_running=2, max_rows=16), piece=lambda _: b"x", eog_tokens=frozenset()
        )
    )
    metrics: Metrics = field(factory=Metrics)
    pressure: float = 0.0
    set: list[tuple[int, int]] = field(factory=list)

    def tuner(
        self,
        thread: Caller,
        *,
        adapts: bool = True,
        spin: Switch | None = None,
        company: Callable[[], float] = lambda: 0.0,
    ) -> Tuner:
        return Tuner(
            thread,
            lambda decode, prefill: self.set.append((decode, prefill)),
            self.scheduler,
            self.metrics,
            threads=3,
            prefill_threads=4,
            adapts=adapts,
            speculates=True,
            spin=spin,
            company=company,
            pressure=lambda: self.pressure,
        )

    @property
    def shown(self) -> tuple[float, float]:
        value = self.metrics.registry.get_sample_value
        return value("reame_threads", {"rows": "one"}) or 0, value("reame_threads", {"rows": "more"}) or 0


@asynccontextmanager
async def running(tuner: Tuner) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(tuner.run)
        yield
        tuner.close()


async def feed(tuner: Tuner, times: Iterable[float], *, rows: int = 1) -> None:
    """As fast as it looks, so that none is dropped."""
    for seconds in times:
        tuner.tell(StepTime(rows, 1, 500, seconds, trio.current_time()))
        await trio.sleep(PACE_S)


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "reame.runtime.tuner"]


async def live(tuner: Tuner, machine: Machine, held_up: float, looks: int) -> None:
    """Steps of one row, as long as this machine takes: 0.13 s with two threads, with three so long as said."""
    for _ in range(looks):
        await feed(tuner, [0.13 if machine.set and machine.set[-1][0] == 2 else held_up])


async def test_threads_go_down_and_come_back(autojump_clock: object, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    machine = Machine()
    tuner = machine.tuner(InlineThread())
    assert machine.shown == (3, 4), "shown from the start"
    async with running(tuner):
        await live(tuner, machine, 0.1, len(CALM))
        assert machine.set == []
        await live(tuner, machine, 0.9, len(HELD_UP) + 1)
        assert (machine.set, machine.shown) == ([(2, 4)], (3, 4)), "a try is not shown"
        await live(tuner, machine, 0.9, 40)
        assert machine.shown == (2, 4)
        assert machine.set.count((3, 4)) > 1, "tries that lost, and are not told"
        await live(tuner, machine, 0.1, 60)
        assert (machine.set[-1], machine.shown) == ((3, 4), (3, 4))
    assert told(caplog) == [
        "threads for steps of one row: 2 instead of 3, fewer are faster at present, others want the CPUs",
        "threads for steps of one row: 3 instead of 2, more are faster again",
    ]


async def test_steps_of_more_rows_have_a_choice_of_their_own(autojump_clock: object) -> None:
    machine = Machine()
    tuner = machine.tuner(InlineThread())
    async with running(tuner):
        await feed(tuner, CALM)
        await feed(tuner, CALM + HELD_UP + TRY[: 2 * TRY_STEPS], rows=8)
        assert (machine.set[0], machine.shown) == ((3, 3), (3, 3))


async def test_the_config_may_want_them_as_they_are(autojump_clock: object) -> None:
    machine = Machine()
    async with running(tuner := machine.tuner(InlineThread(), adapts=False)):
        await feed(tuner, CALM + HELD_UP * 3 + TRY)
    assert (machine.set, machine.shown) == ([], (3, 4))


async def test_a_try_is_looked_at_often(autojump_clock: object) -> None:
    """It may be a bad one: it ends long before the next second."""
    machine = Machine()
    tuner = machine.tuner(InlineThread())
    async with running(tuner):
        await feed(tuner, CALM + HELD_UP)
        assert machine.set == [(2, 4)]
        tuner.tell(StepTime(1, 1, 500, 30.0, trio.current_time() + 31))
        await trio.sleep(2 * TRY_PACE_S)
        assert machine.set == [(2, 4), (3, 4)]


def test_texts_never_depend_on_the_threads() -> None:
    assert may_adapt(EngineConfig())
    assert not may_adapt(EngineConfig(adapt_threads=False))
    assert not may_adapt(EngineConfig(kv_type="f16"))


async def test_while_others_wait_for_a_cpu_more_is_tried_seldom(autojump_clock: object) -> None:
    """Tries of three threads, which here lose next to nothing, in a minute."""
    tries = []
    for pressure in (0.0, 0.4):
        machine = Machine(pressure=pressure)
        tuner = machine.tuner(InlineThread())
        async with running(tuner):
            await feed(tuner, CALM + HELD_UP + TRY[: 2 * TRY_STEPS])
            assert machine.shown == (2, 4)
            machine.set.clear()
            for _ in range(60):
                for place in range(10):
                    tuner.tell(StepTime(1, 1, 500, 0.1, trio.current_time() + 0.1 * (place + 1)))
                await trio.sleep(1)
        tries.append(machine.set.count((3, 4)))
    assert MOST_WAIT_S > LEAST_WAIT_S
    assert tries[0] > tries[1] > 0


async def test_a_step_that_still_had_the_old_threads_is_not_judged(autojump_clock: object) -> None:
    """It would be the usual one from then on, and every later step slow beside it."""
    machine = Machine()
    tuner = machine.tuner(PacedThread(seconds=2.0))
    async with running(tuner):
        for seconds in CALM + HELD_UP:
            tuner.tell(StepTime(1, 1, 500, seconds, trio.current_time()))
        await trio.sleep(1.0)
        late = StepTime(1, 1, 500, 0.001, trio.current_time())
        tuner.tell(late)
        await trio.sleep(1.5)
        assert machine.set == [(2, 4)], "two seconds later, when the decode thread came to it"
        begun = trio.current_time() - 0.6
        tuner.tell(evolve(late, seconds=trio.current_time() + 1 - begun, at=trio.current_time() + 1))
        await trio.sleep(PACE_S)
        assert machine.set == [(2, 4)], "nor one that had begun with them"
        await feed(tuner, TRY)
    assert machine.set[0] == (2, 4)
    assert machine.shown == (2, 4)


async def test_more_steps_than_it_can_hold_are_dropped(autojump_clock: object) -> None:
    machine = Machine()
    tuner = machine.tuner(InlineThread())
    for seconds in CALM * (MOST_STEPS // len(CALM) + 1):
        tuner.tell(StepTime(1, 1, 500, seconds, 0.0))
    for seconds in HELD_UP * 10:
        tuner.tell(StepTime(1, 1, 500, seconds, 0.0))
    async with running(tuner):
        await trio.sleep(10 * PACE_S)
    assert machine.set == []


async def test_with_nothing_to_do_it_sleeps(autojump_clock: trio.testing.MockClock) -> None:
    """Were it to wake up now and then, virtual time would not stand still."""
    machine = Machine()
    async with running(machine.tuner(InlineThread())):
        await trio.testing.wait_all_tasks_blocked()
        assert trio.lowlevel.current_statistics().seconds_to_next_deadline == float("inf")


async def test_verdicts_on_drafts_are_told_once_a_minute_at_most(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    machine = Machine()
    machine.scheduler.cost.seed({1: 0.1, 4: 0.16, 16: 0.4})
    tuner = machine.tuner(InlineThread())
    async with running(tuner):
        for minute in range(4):
            good = minute % 2 == 0
            for _ in range(6):
                machine.scheduler.num_drawn += LEAST_DRAWN
                count = machine.scheduler.drafts.setdefault("prompt", DraftCount())
                count.add(100, 90 if good else 5, 1.0 if good else -1.0)
                await feed(tuner, [0.1] * int(VERDICT_S / PACE_S / 6))
    prices = (
        "4 rows cost 1.6 steps (a draft of 3 pays from 20% of it right), "
        "16 rows cost 4.0 steps (a draft of 15 pays from 20% of it right)"
    )
    assert len(told(caplog)) == 3
    assert told(caplog)[0].startswith("drafts pay at present: prompt (")
    assert told(caplog)[1].startswith("drafts do not pay at present: prompt (")
    assert all(line.endswith(f"; {prices}") for line in told(caplog))


def test_the_pressure_of_this_machine_is_a_share() -> None:
    assert 0.0 <= cpu_pressure() <= 1.0


async def test_the_loop_tells_its_steps_also_when_it_runs_ahead(autojump_clock: object) -> None:
    times: list[StepTime] = []
    prompt = prompt_of(5, 20)
    async with serving(config_of(), run_ahead=8, tell_time=times.append) as up:
        answer = await up.answer(call_of(prompt, max_tokens=20))
    assert answer.texts == [text_of(prompt, 20)]
    assert [time.num_rows for time in times] == [len(rows) for rows in up.engine.steps]
    assert [time.num_rows for time in times][1:] == [1] * 19
    assert [time.num_cells for time in times][1:] == [5 + i + 6 + i for i in range(19)], "written, and its own"


async def test_threads_change_between_the_steps_of_a_loop_that_runs_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the real decode thread, and without a trace in the text."""
    monkeypatch.setattr("reame.runtime.tuner.PACE_S", 0.0)
    machine, prompt, times = Machine(), prompt_of(5, 100), cycle([*CALM, *HELD_UP, *TRY])
    async with decode_thread() as thread:
        tuner = machine.tuner(thread)

        def tell(time: StepTime) -> None:
            tuner.tell(StepTime(1, 1, 500, next(times), time.at))

        async with running(tuner), serving(config_of(), thread=thread, run_ahead=8, tell_time=tell) as up:
            texts = set()
            while len(machine.set) < 2:
                texts |= set((await up.answer(call_of(prompt, max_tokens=100))).texts)
    assert machine.set[0] == (2, 4)
    assert texts == {text_of(prompt, 100)}


@define
class Switch:
    """Notes what it is told."""

    told: list[str] = field(factory=list)
    refuses: bool = False

    def shorten(self) -> bool:
        self.told.append("short")
        return not self.refuses

    def lengthen(self) -> None:
        self.told.append("long")


async def test_the_spin_follows_the_company(autojump_clock: object, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    machine, switch = Machine(), Switch()
    company = iter([2.0, 0.0, 1.0, 0.9, *[0.1] * PATIENCE, 0.2])  # the first: before there was anything to do
    tuner = machine.tuner(InlineThread(), adapts=False, spin=switch, company=lambda: next(company))
    shown = []
    async with running(tuner):
        for _ in range(8):
            await feed(tuner, [0.1])
            shown.append(machine.metrics.registry.get_sample_value("reame_short_spin"))
    assert switch.told == ["short", "long"]
    assert shown == [0, 0, 1, 1, 1, 1, 0, 0]
    assert told(caplog) == [
        "threads spin only shortly: others use these cores too",
        "threads spin long again: nobody else uses these cores",
    ]


async def test_where_threads_are_scarce_the_spin_stays_long(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    machine, switch = Machine(), Switch(refuses=True)
    company = cycle([2.0, *[0.0] * PATIENCE])
    tuner = machine.tuner(InlineThread(), adapts=False, spin=switch, company=lambda: next(company))
    async with running(tuner):
        await feed(tuner, [0.1] * 20)
    assert switch.told == ["short"]
    (message,) = told(caplog)
    assert message.startswith("threads spin long beside others too")
    assert machine.metrics.registry.get_sample_value("reame_short_spin") == 0


async def test_who_used_the_cores_while_there_was_nothing_to_do_is_no_company(autojump_clock: object) -> None:
    machine, switch = Machine(), Switch()
    company = iter([0.0, 0.0, 2.0, 0.0, 2.0])
    tuner = machine.tuner(InlineThread(), adapts=False, spin=switch, company=lambda: next(company))
    async with running(tuner):
        await feed(tuner, [0.1, 0.1])
        await trio.sleep(10 * IDLE_S)
        await feed(tuner, [0.1, 0.1])
        assert switch.told == []
        await feed(tuner, [0.1])
        assert switch.told == ["short"]


async def test_a_process_that_was_stopped_before_it_looked_had_no_company(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """SIGSTOP, a laptop's sleep: the pause between two looks is over late, and a step from before waits."""
    machine, switch = Machine(), Switch()
    company = iter([0.0, 0.0, 2.0, 2.0, 2.0])
    tuner = machine.tuner(InlineThread(), adapts=False, spin=switch, company=lambda: next(company))
    async with running(tuner):
        await feed(tuner, [0.1])
        tuner.tell(StepTime(1, 1, 500, 0.1, trio.current_time()))
        await trio.sleep(PACE_S / 2)
        tuner.tell(StepTime(1, 1, 500, 0.1, trio.current_time()))
        autojump_clock.jump(10.0)
        await trio.sleep(PACE_S)
        await feed(tuner, [0.1])
        assert switch.told == []
        await feed(tuner, [0.1])
        assert switch.told == ["short"]


async def test_steps_that_take_long_are_no_idleness(autojump_clock: object) -> None:
    machine, switch = Machine(), Switch()
    tuner = machine.tuner(InlineThread(), adapts=False, spin=switch, company=lambda: 2.0)
    async with running(tuner):
        await feed(tuner, [0.1])
        await trio.sleep(10 * IDLE_S)
        await feed(tuner, [PACE_S + 10 * IDLE_S])
    assert switch.told == ["short"]
