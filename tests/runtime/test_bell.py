"""A bell that any thread rings and Trio's thread hears."""

from __future__ import annotations

import os
import threading

import pytest
import trio

from reame.runtime import bell


async def heard(calls: list[int], least: int) -> None:
    with trio.fail_after(10):
        while len(calls) < least:
            await trio.lowlevel.checkpoint()


async def test_who_rings_from_another_thread_is_heard_on_this_one() -> None:
    threads: list[int] = []
    async with bell.hung(lambda: threads.append(threading.get_ident())) as ring:
        for number in (1, 2):
            ringer = threading.Thread(target=ring)
            ringer.start()
            ringer.join()
            await heard(threads, number)
    assert threads == [threading.get_ident()] * 2


async def test_rings_that_come_together_are_heard_once() -> None:
    calls: list[int] = []
    async with bell.hung(lambda: calls.append(1)) as ring:
        for _ in range(1000):
            ring()
        await heard(calls, 1)
        for _ in range(100):
            await trio.lowlevel.checkpoint()
    assert calls == [1]


async def test_what_goes_wrong_where_it_is_heard_ends_the_block() -> None:
    def fail() -> None:
        raise RuntimeError("wrong")

    with pytest.RaisesGroup(RuntimeError):
        async with bell.hung(fail) as ring:
            ring()
            await trio.sleep_forever()


async def test_it_leaves_no_descriptor_behind() -> None:
    before = set(os.listdir("/proc/self/fd"))
    async with bell.hung(lambda: None):
        pass
    assert set(os.listdir("/proc/self/fd")) <= before
