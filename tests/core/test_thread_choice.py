"""The choice of threads against hand-made series of step times."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reame.core.thread_choice import MOST_PATIENCE, PATIENCE, PROBE, SLOW, SUSTAINED, WINDOW, Change, ThreadChoice

if TYPE_CHECKING:
    from collections.abc import Iterable

CALM = [0.1] * WINDOW
ERRATIC = [0.1, 0.1, 0.5] * (WINDOW // 3)
LONG_ERRATIC = ERRATIC * SUSTAINED
LESS_ERRATIC = [0.1, 0.1, 0.3] * (WINDOW // 3)
ERRATIC_ALONE = [0.1, 0.1, 0.1, 0.25] * (WINDOW // 4)
FIRST = [0.1]
"""The first step of a kind says what is usual, and is not judged."""


def feed(choice: ThreadChoice, times: Iterable[float], *, rows: int = 1, pressure: float = 0.0) -> list[Change]:
    found = (choice.observe(rows, seconds, pressure=pressure) for seconds in times)
    return [change for change in found if change]


def lowered() -> ThreadChoice:
    """Two threads were one too many."""
    choice = ThreadChoice(2)
    assert feed(choice, FIRST + LONG_ERRATIC) == [Change.LOWERED]
    assert choice.threads == 1
    return choice


def windows_until(choice: ThreadChoice, change: Change, times: list[float]) -> int:
    for count in range(1, 200):
        if change in feed(choice, times):
            return count
    raise AssertionError(f"never {change}")


def test_steady_steps_change_nothing() -> None:
    choice = ThreadChoice(4)
    assert feed(choice, FIRST + CALM * 20) == []
    assert choice.threads == 4


def test_erratic_steps_take_a_thread_away() -> None:
    """And another one, when that has helped, but not enough."""
    choice = ThreadChoice(4)
    assert feed(choice, FIRST + CALM + LONG_ERRATIC) == [Change.LOWERED]
    assert choice.threads == 3
    assert feed(choice, FIRST + LESS_ERRATIC * SUSTAINED) == [Change.LOWERED]
    assert choice.threads == 2


def test_fewer_threads_that_are_no_faster_are_given_back_and_not_tried_again_soon() -> None:
    """Beside a busy process: two threads take 0.23 in the mean, one takes 0.25 without ever being held up."""
    choice = ThreadChoice(2)
    feed(choice, FIRST)
    alone, waits = [0.25] * WINDOW, []
    for number in range(7):
        windows = windows_until(choice, Change.LOWERED, ERRATIC)
        waits.append(windows)
        assert feed(choice, [0.25, *alone] if number == 0 else alone) == [Change.RETURNED]
        assert choice.threads == 2
    assert waits == [SUSTAINED, *(max(SUSTAINED, PATIENCE * 2**i) for i in range(5)), MOST_PATIENCE]


def test_while_there_is_no_calm_more_threads_are_probed_now_and_then_and_kept_if_they_are_faster() -> None:
    """One thread was taken for better by chance, and the neighbours never leave."""
    choice = lowered()
    feed(choice, FIRST)
    for faster, back in ((0.2, Change.GIVEN_UP), (0.05, None)):
        assert windows_until(choice, Change.PROBED, ERRATIC_ALONE) == PROBE
        assert choice.threads == 2
        assert feed(choice, [faster] * WINDOW) == ([back] if back else [])
    assert choice.threads == 2


def test_steps_of_several_sizes_are_compared_by_their_own_best() -> None:
    """Small steps while two threads were held up, large ones with one: longer in seconds, and still better."""
    choice = ThreadChoice(2)
    feed(choice, [2.0], rows=64)
    assert feed(choice, FIRST + LONG_ERRATIC) == [Change.LOWERED]
    assert feed(choice, [3.0] * (WINDOW + 1), rows=64) == []
    assert choice.threads == 1


def test_never_below_one_nor_above_the_most() -> None:
    choice = lowered()
    assert feed(choice, (FIRST + ERRATIC_ALONE) * 10) == []
    assert choice.threads == 1
    feed(choice, CALM * 100)
    assert choice.threads == 2
    single = ThreadChoice(1)
    assert feed(single, FIRST + ERRATIC * 10) == []
    assert single.threads == 1


def test_a_few_slow_steps_are_no_reason() -> None:
    """5 of 24 is below a quarter: a compaction, a log line, a cron job."""
    choice = ThreadChoice(2)
    assert feed(choice, [*FIRST, *([0.1] * (WINDOW - 5)), *([2.0] * 5)]) == []


def test_a_burst_is_no_reason() -> None:
    """Two windows, then calm again: a build that ended, another server's turn."""
    choice = ThreadChoice(2)
    for _ in range(5):
        assert feed(choice, FIRST + ERRATIC * (SUSTAINED - 1) + CALM) == []
    assert choice.threads == 2


def test_it_comes_back_after_some_calm_windows() -> None:
    choice = lowered()
    feed(choice, FIRST)
    assert windows_until(choice, Change.RAISED, CALM) == PATIENCE
    assert choice.threads == 2


def test_while_others_wait_for_a_cpu_nothing_more_is_tried() -> None:
    choice = lowered()
    assert feed(choice, FIRST + CALM * 50, pressure=0.4) == []
    assert windows_until(choice, Change.RAISED, CALM) == PATIENCE


def test_each_failed_trial_doubles_the_patience_and_a_good_one_resets_it() -> None:
    choice = lowered()
    feed(choice, FIRST)
    waits = []
    for _ in range(7):
        waits.append(windows_until(choice, Change.RAISED, CALM))
        assert feed(choice, ERRATIC) == [Change.LOWERED]
    assert waits == [PATIENCE * 2**i for i in range(5)] + [MOST_PATIENCE] * 2
    windows_until(choice, Change.RAISED, CALM)
    assert feed(choice, CALM * MOST_PATIENCE) == []
    assert feed(choice, LONG_ERRATIC) == [Change.LOWERED], "not a failed trial any more"
    assert windows_until(choice, Change.RAISED, CALM) == PATIENCE


def test_steps_of_other_sizes_are_compared_with_their_own_kind() -> None:
    choice = ThreadChoice(2)
    mixed = [(1, 0.1), (64, 1.0), (8, 0.2)] * 200
    assert [choice.observe(rows, seconds) for rows, seconds in mixed if choice.observe(rows, seconds)] == []
    assert choice.threads == 2
    assert choice.usual(64) == pytest.approx(1.0)


def test_a_growing_context_is_no_neighbour() -> None:
    choice = ThreadChoice(2)
    assert feed(choice, (0.1 * 1.002**i for i in range(1500))) == [], "twenty times slower in the end"


def test_a_neighbour_that_stays_is_a_reason_too() -> None:
    choice = ThreadChoice(2)
    assert feed(choice, FIRST + CALM + [0.3] * WINDOW * SUSTAINED) == [Change.LOWERED]


def test_many_threads_go_by_the_eighth() -> None:
    choice = ThreadChoice(32)
    feed(choice, FIRST + LONG_ERRATIC)
    assert choice.threads == 28


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 12),
    st.lists(st.tuples(st.sampled_from([1, 2, 8]), st.floats(1e-4, 10), st.floats(0, 1)), max_size=400),
)
def test_whatever_comes_the_number_stays_within_its_bounds(most: int, steps: list[tuple[int, float, float]]) -> None:
    choice = ThreadChoice(most)
    for rows, seconds, pressure in steps:
        before = choice.threads
        change = choice.observe(rows, seconds, pressure=pressure)
        assert 1 <= choice.threads <= most
        assert (change is not None) == (choice.threads != before)
        assert (change in (Change.RAISED, Change.RETURNED, Change.PROBED)) == (choice.threads > before)
    assert SLOW > 1
