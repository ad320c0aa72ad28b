"""The decode thread: one OS thread for its whole life, whose calls are never abandoned."""

from __future__ import annotations

import threading
from functools import partial

import pytest
import trio
import trio.testing

from reame.engine.thread import InlineThread, decode_thread


async def test_every_call_runs_on_the_same_thread_in_the_order_of_the_calls() -> None:
    order: list[int] = []
    async with decode_thread() as thread, trio.open_nursery() as nursery:
        threads = [await thread.call(threading.get_ident) for _ in range(5)]
        # Other users of Trio's worker threads do not get in between.
        others = [await trio.to_thread.run_sync(threading.get_ident) for _ in range(5)]
        for number in range(20):
            nursery.start_soon(thread.call, partial(order.append, number))
            await trio.testing.wait_all_tasks_blocked()
        threads += [await thread.call(threading.get_ident)]
    assert len(set(threads)) == 1
    assert threading.get_ident() not in threads
    assert not set(others) & set(threads)
    assert order == list(range(20))


async def test_results_and_exceptions_come_back() -> None:
    def fail() -> None:
        raise ZeroDivisionError("as asked")

    async with decode_thread() as thread:
        assert await thread.call(lambda: 6 * 7) == 42
        with pytest.raises(ZeroDivisionError, match="as asked"):
            await thread.call(fail)
        assert await thread.call(lambda: "still there") == "still there"


async def test_trio_goes_on_while_the_thread_computes() -> None:
    seen = threading.Event()
    async with decode_thread() as thread, trio.open_nursery() as nursery:
        nursery.start_soon(thread.call, partial(seen.wait, 60))
        await trio.testing.wait_all_tasks_blocked()
        seen.set()
    assert seen.is_set()


async def test_a_call_that_is_cancelled_runs_to_its_end_and_its_result_arrives() -> None:
    started, go_on = threading.Event(), threading.Event()
    results = []

    def step() -> str:
        started.set()
        assert go_on.wait(60)
        return "done"

    async with decode_thread() as thread:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:

                async def caller() -> None:
                    results.append(await thread.call(step))

                nursery.start_soon(caller)
                await trio.to_thread.run_sync(started.wait)
                scope.cancel()
                with trio.CancelScope(shield=True):
                    await trio.testing.wait_all_tasks_blocked()
                assert results == []
                go_on.set()
        assert results == ["done"]
        assert await thread.call(lambda: 1) == 1


async def test_the_thread_ends_with_its_block() -> None:
    async with decode_thread() as thread:
        (own,) = [one for one in threading.enumerate() if one.ident == await thread.call(threading.get_ident)]
    # It goes back to Trio's cache of idle threads: nothing runs on it any more, and the next block may have it.
    async with decode_thread() as again:
        assert await again.call(threading.get_ident) == own.ident


async def test_a_block_that_fails_waits_for_the_step_that_runs() -> None:
    started, go_on, finished = threading.Event(), threading.Event(), threading.Event()

    def step() -> None:
        started.set()
        assert go_on.wait(60)
        finished.set()

    async def release(*, task_status: trio.TaskStatus[None]) -> None:
        task_status.started()
        await failed.wait()
        await trio.testing.wait_all_tasks_blocked()
        assert not finished.is_set()
        go_on.set()

    async def fail_beside_a_step() -> None:
        async with decode_thread() as thread, trio.open_nursery() as nursery:
            nursery.start_soon(thread.call, step)
            await trio.to_thread.run_sync(started.wait)
            failed.set()
            raise ZeroDivisionError

    failed = trio.Event()
    async with trio.open_nursery() as nursery:
        await nursery.start(release)
        with pytest.RaisesGroup(ZeroDivisionError, flatten_subgroups=True):
            await fail_beside_a_step()
        assert finished.is_set()


async def test_the_inline_twin_runs_in_the_calling_task() -> None:
    thread = InlineThread()
    assert await thread.call(threading.get_ident) == threading.get_ident()
    with trio.CancelScope() as scope:
        scope.cancel()
        assert await thread.call(lambda: "not cancelled") == "not cancelled"
    with pytest.raises(ZeroDivisionError):
        await thread.call(lambda: 1 // 0)


async def test_it_tells_whether_somebody_waits_for_it() -> None:
    held = threading.Event()
    async with decode_thread() as thread, trio.open_nursery() as nursery:
        nursery.start_soon(thread.call, held.wait)
        await trio.testing.wait_all_tasks_blocked()
        while thread.is_wanted:  # until the first is taken
            await trio.lowlevel.checkpoint()
        nursery.start_soon(thread.call, held.is_set)
        await trio.testing.wait_all_tasks_blocked()
        assert thread.is_wanted
        held.set()
    assert not thread.is_wanted


async def test_who_asks_when_it_is_over_is_cancelled_with_the_rest() -> None:
    """Else a daemon that should end with an error would wait for ever."""
    is_first = trio.Event()

    async def ask_again() -> None:
        await thread.call(is_first.is_set)
        is_first.set()
        await left.wait()
        await thread.call(is_first.is_set)
        raise AssertionError("nothing runs there any more")

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            left = trio.Event()
            async with decode_thread() as thread:
                nursery.start_soon(ask_again)
                await is_first.wait()
            left.set()
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
