"""What waits for the disk: its order, its bound, and how it makes way for those who wait for tokens. Virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from reame.runtime.backlog import MAX_PENDING, MAX_TEXTS, MOST_REST_S, SHARE, Backlog, Task

if TYPE_CHECKING:
    from collections.abc import Callable


def task(name: str, size: int = 1, namespace: str = "", *, of_cells: bool = True) -> Task:
    return Task(namespace, size, lambda: name, of_cells=of_cells)


async def names(backlog: Backlog) -> list[object]:
    """All that is left, in order."""
    backlog.close()
    found = []
    while (each := await backlog.next()) is not None:
        found.append(each.job())
        backlog.done(each)
    return found


async def test_urgent_ones_first_each_kind_in_turn() -> None:
    backlog = Backlog()
    for number in range(2):
        assert backlog.put(task(f"block {number}"))
        assert backlog.put(task(f"text {number}"), urgent=True)
    assert await names(backlog) == ["text 0", "text 1", "block 0", "block 1"]


async def test_what_does_not_fit_is_refused_until_something_is_written() -> None:
    backlog = Backlog()
    assert backlog.put(task("large", MAX_PENDING))
    assert not backlog.put(task("small"))
    large = await backlog.next()
    assert large is not None
    assert not backlog.put(task("small"))
    backlog.done(large)
    assert backlog.put(task("small"))
    assert await names(backlog) == ["small"]


async def test_what_a_namespace_waits_for_can_be_dropped() -> None:
    backlog = Backlog()
    backlog.put(task("hers", MAX_PENDING // 2, "anna"))
    backlog.put(task("his", 1, "bert"))
    backlog.put(task("her text", 1, "anna"), urgent=True)
    backlog.drop("anna")
    assert backlog.put(task("more", MAX_PENDING - 1, "bert"))
    assert await names(backlog) == ["his", "more"]


async def rested(backlog: Backlog, is_busy: Callable[[], bool], *, cost_s: float = 0.01) -> float:
    started = trio.current_time()
    await backlog.rest(cost_s, is_busy)
    return trio.current_time() - started


async def test_while_somebody_waits_writing_takes_its_share(autojump_clock: trio.testing.MockClock) -> None:
    backlog = Backlog()
    backlog.put(task("block"))
    assert await rested(backlog, lambda: True) == pytest.approx(0.01 / SHARE)
    assert await rested(backlog, lambda: False) == 0
    ends = trio.current_time() + 0.5
    assert await rested(backlog, lambda: trio.current_time() < ends) == pytest.approx(0.5)


async def test_what_is_urgent_or_half_the_room_waits_for_nobody(autojump_clock: trio.testing.MockClock) -> None:
    for come in (task("text"), task("blocks", MAX_PENDING // 2 + 1), None):
        backlog = Backlog()

        async def later(backlog: Backlog = backlog, come: Task | None = come) -> None:
            await trio.sleep(0.33)
            if come is None:
                backlog.close()
            else:
                backlog.put(come, urgent=come.size == 1)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(later)
            assert await rested(backlog, lambda: True) == pytest.approx(0.33)


async def test_cells_and_texts_do_not_keep_each_other_out() -> None:
    backlog = Backlog()
    assert backlog.put(task("state", MAX_PENDING + 1))
    assert not backlog.put(task("block", 0))
    assert backlog.put(task("text", MAX_TEXTS, of_cells=False))
    assert not backlog.put(task("answer", of_cells=False))
    assert await names(backlog) == ["state", "text"]
    assert backlog.put(task("block"))
    assert backlog.put(task("answer", of_cells=False))


async def test_what_somebody_waits_for_is_taken_into_full_rooms() -> None:
    backlog = Backlog()
    assert backlog.put(task("state", MAX_PENDING + 1))
    assert backlog.put(task("text", MAX_TEXTS + 1, of_cells=False))
    assert backlog.put(Task("", 0, lambda: "erase", trio.Event()), urgent=True)
    assert await names(backlog) == ["erase", "state", "text"]


async def test_what_something_urgent_cut_short_is_made_up_for(autojump_clock: trio.testing.MockClock) -> None:
    """A block took its share for two seconds, a text comes after a third of them: the next block waits for the rest."""
    backlog = Backlog()
    backlog.put(task("text"), urgent=True)
    assert await rested(backlog, lambda: True) == 0
    await backlog.next()
    assert await rested(backlog, lambda: True, cost_s=0.005) == pytest.approx(0.015 / SHARE)
    backlog.put(task("text"), urgent=True)
    assert await rested(backlog, lambda: True) == 0
    await backlog.next()
    assert await rested(backlog, lambda: False) == 0
    assert await rested(backlog, lambda: True) == pytest.approx(0.01 / SHARE), "who rested for nobody owes nothing"
    backlog.put(task("text"), urgent=True)
    for _ in range(9):
        assert await rested(backlog, lambda: True) == 0
    await backlog.next()
    assert await rested(backlog, lambda: True, cost_s=0.0) == pytest.approx(MOST_REST_S)
    assert await rested(backlog, lambda: True, cost_s=0.1) == pytest.approx(0.1 / SHARE)
