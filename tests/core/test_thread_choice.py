"""The choice of threads: rules with hand-made steps, and whole days of a simulated machine with neighbours.

The machine says how long a step takes with so many threads while such a neighbour is there; what the choice made of it
is compared with never changing anything, and with an oracle that knows when neighbours come and go.
"""

from __future__ import annotations

from functools import cache
from random import Random
from typing import TYPE_CHECKING

import pytest
from attrs import define, field
from hypothesis import given, settings
from hypothesis import strategies as st

from reame.core.thread_choice import GAP_S, LEAST_WAIT_S, MOST_WAIT_S, SPAN_S, TRY_S, Change, ThreadChoice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Neighbour = Callable[[int, Random], float]
    """Threads -> what a step takes, in steps with two threads alone."""

STEP = 0.07
"""Seconds of one with two threads, alone: a model of 1.5B."""
TOLD = (Change.LOWERED, Change.RAISED)


def nobody(threads: int, random: Random) -> float:
    return {1: 1.75, 2: 1.0}[threads] * random.uniform(1, 1.08)


def harmful(threads: int, random: Random) -> float:
    """Threads that wait spinning, and a process that never rests: every other step is held up."""
    return 1.8 * random.uniform(1, 1.1) if threads == 1 else random.choice((1.0, random.uniform(3, 8)))


def harmless(threads: int, random: Random) -> float:
    """A busy process, and a short spin: twice as slow, and slower still with one thread."""
    return 2.6 * random.uniform(1, 1.2) if threads == 1 else random.uniform(1.7, 2.3)


def quota(threads: int, random: Random) -> float:
    """Time for one thread: with two the kernel stops both now and then."""
    return 1.75 * random.uniform(1, 1.1) if threads == 1 else random.choice((1.0, 1.0, 1.0, 8.0))


def jitter(threads: int, random: Random) -> float:
    """One step in 14 is held up: cron jobs, log lines."""
    return nobody(threads, random) * (3 if random.random() < 0.07 else 1)


@cache
def means_with(neighbour: Neighbour) -> dict[int, float]:
    random, count = Random(1), 5000
    return {threads: sum(neighbour(threads, random) for _ in range(count)) / count for threads in (1, 2)}


@define
class Machine:
    """Steps of one kind, back to back. `changes`: when (seconds) which number was settled on."""

    step: float = STEP
    seed: int = 0
    choice: ThreadChoice = field(factory=lambda: ThreadChoice(2))
    at: float = 0.0
    changes: list[tuple[float, int]] = field(factory=list)
    tries: int = 0
    ideal: float = 0.0
    """Seconds that the steps so far would have taken with the best number of threads for each moment."""
    fixed: dict[int, float] = field(factory=lambda: {1: 0.0, 2: 0.0})
    """... and with one that never changes."""

    def live(self, seconds: float, neighbour: Neighbour) -> Machine:
        random, end = Random(f"{self.seed} {self.at}"), self.at + seconds
        means = means_with(neighbour)
        while self.at < end:
            took = self.step * neighbour(self.choice.threads, random)
            self.at += took
            self.ideal += self.step * min(means.values())
            for threads, mean in means.items():
                self.fixed[threads] += self.step * mean
            change = self.choice.observe(1, took, at=self.at)
            self.tries += change is Change.TRIED
            if change in TOLD:
                self.changes.append((self.at, self.choice.settled))
        return self


SEEDS = range(4)
STEPS = (0.011, STEP, 0.3)
"""SmolLM2, a model of 1.5B, one of 7B."""


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("seed", SEEDS)
def test_alone_nothing_is_even_tried(step: float, seed: int) -> None:
    machine = Machine(step, seed).live(200, nobody)
    assert (machine.changes, machine.tries) == ([], 0)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_harmful_neighbour_comes_and_goes(step: float, seed: int) -> None:
    """Fewer threads within seconds, and all of them again within seconds after it has left, for good."""
    machine = Machine(step, seed).live(20, nobody).live(120, harmful)
    came, number = machine.changes[0]
    assert number == 1
    assert came < 20 + 2 * (SPAN_S + TRY_S) + LEAST_WAIT_S + 60 * step
    left = machine.at
    machine.live(60, nobody)
    back, number = machine.changes[-1]
    assert number == 2
    assert back < left + MOST_WAIT_S + SPAN_S + TRY_S + 60 * step
    assert machine.at < 1.2 * machine.ideal
    assert machine.at < 0.9 * min(machine.fixed.values())


@pytest.mark.parametrize("seed", SEEDS)
def test_a_quota_is_found_and_the_price_of_looking_again_is_small(seed: int) -> None:
    machine = Machine(seed=seed).live(300, quota)
    assert machine.choice.settled == 1
    assert machine.at < 1.15 * machine.ideal
    assert machine.at < 0.8 * machine.fixed[2]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_neighbour_that_makes_fewer_threads_slower_changes_nothing(step: float, seed: int) -> None:
    machine = Machine(step, seed).live(20, nobody).live(200, harmless)
    assert machine.changes == []
    assert machine.at < 1.05 * machine.fixed[2]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(("on", "off"), [(0.3, 0.6), (2, 3), (20, 20), (1.5, 60)])
def test_bursts_never_cost_more_than_the_better_of_both_numbers(step: float, on: float, off: float) -> None:
    """Nor is anything left of the last burst: a quiet minute ends with all threads."""
    machine = Machine(step)
    while machine.at < 200:
        machine.live(off, nobody).live(on, harmful)
    assert machine.at < 1.12 * min(machine.fixed.values())
    machine.live(60, nobody)
    assert machine.choice.settled == 2


@pytest.mark.parametrize("seed", SEEDS)
def test_steps_that_are_late_now_and_then_are_no_reason(seed: int) -> None:
    machine = Machine(seed=seed).live(300, jitter)
    assert machine.at < 1.05 * machine.fixed[2]


def feed(choice: ThreadChoice, times: Iterable[float], *, kind: int = 1, start: float, pressure: float = 0.0) -> float:
    """Steps back to back. Returns when the last one ended."""
    at = start
    for seconds in times:
        at += seconds
        choice.observe(kind, seconds, at=at, pressure=pressure)
    return at


def until_a_try(choice: ThreadChoice, seconds: float, *, start: float, pressure: float = 0.0) -> float:
    """Steps of so many seconds."""
    for _ in range(500):
        start = feed(choice, [seconds], start=start, pressure=pressure)
        if choice.is_trying:
            return start
    raise AssertionError("nothing is tried")


def disturbed(most: int = 2) -> tuple[ThreadChoice, float]:
    """Fewer threads are tried."""
    choice = ThreadChoice(most)
    return choice, until_a_try(choice, 0.5, start=feed(choice, [0.1] * 20, start=0))


def lowered() -> tuple[ThreadChoice, float]:
    choice, at = disturbed()
    at = feed(choice, [0.1] * 20, start=at)
    assert (choice.settled, choice.is_trying) == (1, False)
    return choice, at


def test_a_try_that_can_no_longer_win_ends_at_once() -> None:
    choice, at = lowered()
    at = until_a_try(choice, 0.1, start=at)
    assert choice.threads == 2
    assert choice.observe(1, 2.0, at=at + 2) is Change.RETURNED
    assert choice.threads == 1


@pytest.mark.parametrize(("pressure", "wait"), [(0.0, LEAST_WAIT_S), (0.4, MOST_WAIT_S)])
def test_while_many_wait_for_a_cpu_more_are_tried_as_seldom_as_can_be(pressure: float, wait: float) -> None:
    """A try that lost next to nothing would else be repeated soon."""
    choice, at = lowered()
    first = until_a_try(choice, 0.1, start=at)
    while choice.is_trying:
        first = feed(choice, [0.1], start=first, pressure=pressure)
    assert until_a_try(choice, 0.1, start=first) - first == pytest.approx(wait, abs=0.2)


def test_after_a_pause_nothing_is_concluded_from_before() -> None:
    choice = ThreadChoice(2)
    at = feed(choice, [0.1] * 20 + [0.12] * 30, start=0)
    at = feed(choice, [0.12] * 3 + [0.1] * 30, start=at + GAP_S + 1)
    assert not choice.is_trying
    choice, at = lowered()
    at = until_a_try(choice, 0.1, start=at)
    feed(choice, [0.01], start=at + GAP_S + 1)
    assert (choice.settled, choice.is_trying) == (1, False)


def test_after_a_pause_all_threads_are_tried_at_once() -> None:
    choice, at = lowered()
    at = feed(choice, [0.1], start=at + GAP_S + 1)
    assert (choice.settled, choice.threads) == (1, 2)
    feed(choice, [0.06] * 12, start=at)
    assert (choice.settled, choice.is_trying) == (2, False)


def test_and_given_up_soon_if_the_neighbour_is_still_there() -> None:
    choice, at = lowered()
    at = feed(choice, [0.1], start=at + GAP_S + 1)
    end = feed(choice, [0.3] * 9, start=at)
    assert (choice.settled, choice.is_trying) == (1, False)
    assert end - at < 3


def test_kinds_are_compared_with_their_own_and_a_try_does_not_wait_for_one_for_ever() -> None:
    """Steps of sixteen rows were never seen before the try; those of one row decide, when they come."""
    for kind, settled in ((16, 2), (1, 1)):
        choice, at = disturbed()
        at = feed(choice, [0.3] * 3, kind=16, start=at)
        assert choice.is_trying
        feed(choice, [0.1] * 40, kind=kind, start=at)
        assert (choice.settled, choice.is_trying) == (settled, False)


def test_a_growing_context_is_no_neighbour() -> None:
    choice = ThreadChoice(2)
    feed(choice, (0.1 * 1.002**i for i in range(1500)), start=0)
    assert (choice.settled, choice.is_trying) == (2, False), "twenty times slower in the end"


def test_many_threads_go_by_the_eighth_and_one_is_the_least() -> None:
    choice, _ = disturbed(32)
    assert choice.threads == 28
    single = ThreadChoice(1)
    feed(single, [0.1] * 20 + [0.5] * 60, start=0)
    assert single.threads == 1


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 12),
    st.lists(st.tuples(st.integers(1, 3), st.floats(1e-4, 10), st.floats(0, 1), st.floats(0, 9)), max_size=400),
)
def test_whatever_comes_the_number_stays_within_its_bounds(
    most: int, steps: list[tuple[int, float, float, float]]
) -> None:
    choice, at = ThreadChoice(most), 0.0
    for kind, seconds, pressure, pause in steps:
        at += seconds + pause
        before, set_before = choice.settled, choice.threads
        change = choice.observe(kind, seconds, at=at, pressure=pressure)
        assert 1 <= choice.threads <= most
        assert (change in TOLD) == (choice.settled != before)
        assert change is Change.TRIED or choice.threads == set_before or change is Change.RETURNED
        assert choice.is_trying == (choice.threads != choice.settled)
