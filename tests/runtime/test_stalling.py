"""An engine that does not get on: seen, said to the service manager, and no client waits for ever. In virtual time."""

from __future__ import annotations

import os
import socket
from functools import partial
from itertools import pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING, TypeVar, cast

import pytest
import trio
from attrs import define, evolve, field
from serving import PacedThread, call_of, config_of, prompt_of, read, serving, text_of

from reame.config import SchedulerConfig
from reame.core.vote import Conclave
from reame.engine.thread import InlineThread
from reame.runtime.embeddings import LONG_PIECE, Embeddings
from reame.runtime.notify import Supervisor
from reame.runtime.replies import LATE_S
from reame.runtime.watchdog import TICK_S, watch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from reame.runtime.embeddings import Embedder

T = TypeVar("T")
STALL_S = config_of().scheduler.stall_s


async def test_health_is_bad_while_a_step_takes_too_long_and_never_while_there_is_nothing_to_do(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with serving(config_of(), thread=PacedThread(100)) as up:
        await trio.sleep(3 * STALL_S)
        assert up.intake.health().status == "ready"
        async with up.ask(call_of(prompt_of(5, 2), max_tokens=2)) as replies:
            for seconds, status in ((0, "ready"), (STALL_S - 1, "ready"), (STALL_S + 1, "stalled"), (101, "ready")):
                await trio.sleep_until(3 * STALL_S + seconds)
                assert up.intake.health().status == status, seconds
            assert "has not finished a step for" not in up.intake.health().detail
            assert (await read(replies)).texts == [text_of(prompt_of(5, 2), 2)]
        await up.idle()
        await trio.sleep(10 * STALL_S)
        assert up.intake.health().status == "ready"


async def test_a_long_text_that_is_being_embedded_is_no_stall(autojump_clock: trio.testing.MockClock) -> None:
    """An encoder reads it at once, and a step waits for the thread meanwhile; not for ever, though."""
    embedder = SimpleNamespace(context=9, piece_rows=9, size=1, vocab_size=9, begin=int, feed=list, vector=int)

    class Slow(InlineThread):
        async def call(self, function: Callable[[], T]) -> T:
            await trio.sleep(1000 if isinstance(function, partial) else 0)
            return await super().call(function)

    async with serving(config_of(), thread=PacedThread(1000)) as up:
        bounds, fake = SchedulerConfig(request_timeout_s=1e5), cast("Embedder", embedder)
        model = Embeddings("vectors", fake, Slow(), up.metrics, up.intake.tokens, bounds)
        up.intake.embeddings = model
        async with up.ask(call_of(prompt_of(5, 2), max_tokens=2)), trio.open_nursery() as nursery:
            nursery.start_soon(partial(model.embed, [(1, 2, 3)], key="", namespace=""))
            for seconds, status in ((2 * STALL_S, "ready"), (LONG_PIECE * STALL_S + 1, "stalled")):
                await trio.sleep_until(seconds)
                assert up.intake.health().status == status, seconds
            nursery.cancel_scope.cancel()


async def test_a_client_whose_time_is_up_is_told_so_although_the_engine_hangs(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """One that is in the step that hangs, and one that the loop has not even seen."""
    async with serving(config_of(slots=1), thread=PacedThread(60)) as up:
        async with up.ask(call_of(prompt_of(5, 9), max_tokens=9, timeout=10)) as first:
            await trio.sleep(3)
            async with up.ask(call_of(prompt_of(6, 9, first=2), max_tokens=9, timeout=4)) as second:
                for replies, at in ((second, 7), (first, 10)):
                    answer = await read(replies)
                    assert [(error.status, error.code) for error in answer.errors] == [(408, "request_timeout")]
                    assert trio.current_time() == pytest.approx(at + LATE_S)
        await up.idle()
        assert up.num_rows == 5, "nothing was computed for them when the engine came back"


async def test_nor_does_an_election_wait_for_ever(autojump_clock: trio.testing.MockClock) -> None:
    conclave = Conclave(size=3, vote="choice")
    async with serving(config_of(slots=4), thread=PacedThread(1000)) as up:
        asked = evolve(call_of(prompt_of(5, 9), prompt_of(6, 9), max_tokens=9, timeout=10), conclave=conclave)
        async with up.ask(asked) as replies:
            answer = await read(replies)
            assert [error.code for error in answer.errors] == ["request_timeout"] * 2
            assert trio.current_time() == pytest.approx(10 + LATE_S)
        await up.idle()


@define
class Listening(Supervisor):
    """Keeps what it is told and when, instead of sending it."""

    watchdog_s: float | None = None
    fed: list[float] = field(factory=list)
    said: list[str] = field(factory=list)
    listens = True

    def alive(self) -> None:
        self.fed.append(trio.current_time())

    def status(self, text: str) -> None:
        self.said.append(text)


async def test_the_watchdog_is_fed_by_progress(autojump_clock: trio.testing.MockClock) -> None:
    supervisor = Listening()
    async with trio.open_nursery() as nursery:
        async with serving(config_of(), thread=PacedThread(101)) as up:
            nursery.start_soon(watch, supervisor, up.intake)
            await trio.sleep(10)
            await up.answer(call_of(prompt_of(5, 1), max_tokens=1))
            await trio.sleep(10)
        nursery.cancel_scope.cancel()
    fed = [round(at) for at in supervisor.fed]
    gaps = [(a, b) for a, b in pairwise(fed) if b - a > TICK_S]
    assert gaps[0] == (70, 112), "the step began at 10, is too long from 70 on, and ends at 111"
    assert supervisor.said[0] == "serving fake: 0 of 2 slots busy, 0 waiting"
    assert "work waits, and the engine has not finished a step for 62 s" in supervisor.said


class TestSupervisor:
    def heard(self, wire: socket.socket) -> list[str]:
        said = []
        while True:
            try:
                said.append(wire.recv(4096).decode())
            except BlockingIOError:
                return said

    @pytest.mark.parametrize("abstract", [False, True])
    def test_what_is_sent(self, tmp_path: Path, abstract: bool) -> None:
        name = f"@reame-test-{os.getpid()}" if abstract else str(tmp_path / "s")
        environ = {"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": str(os.getpid()), "A": "b"}
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as wire:
            wire.bind(name.replace("@", "\0"))
            wire.setblocking(False)
            supervisor = Supervisor(environ)
            assert environ == {"A": "b"}, "children do not speak for this process"
            assert (supervisor.listens, supervisor.watchdog_s) == (True, 3.0)
            supervisor.reloading()
            supervisor.reloaded()
            supervisor.status("two\nlines")
            supervisor.status("two\nlines")
            supervisor.ready("here")
            supervisor.ready("here")
            supervisor.stopping(1.5)
            supervisor.stopping(1.5)
            supervisor.reloading()
            supervisor.reloaded()
            supervisor.ready("again")
            assert self.heard(wire) == [
                "STATUS=two lines", "READY=1\nSTATUS=here", "STOPPING=1\nEXTEND_TIMEOUT_USEC=1500000",
            ]  # fmt: skip

    def test_a_manager_that_does_not_read_or_is_gone_holds_nobody_up(self, tmp_path: Path) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as wire:
            wire.bind(str(tmp_path / "s"))
            supervisor = Supervisor({"NOTIFY_SOCKET": str(tmp_path / "s")})
            for _ in range(2000):
                supervisor.alive()
        supervisor.alive()

    @pytest.mark.parametrize(
        "environ",
        [{}, {"NOTIFY_SOCKET": "vsock:1:2"}, {"WATCHDOG_USEC": "5", "WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "x"}],
    )
    def test_nobody_listens(self, environ: dict[str, str]) -> None:
        supervisor = Supervisor(environ)
        assert (supervisor.listens, supervisor.watchdog_s) == (False, None)
        supervisor.ready("to nobody")
