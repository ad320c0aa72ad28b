"""A batch under way, in virtual time: how many at once, what is on the disk when, and what a failure leaves."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
import trio
import trio.testing
from attrs import define, field
from lines import answer_of, line_of, read, write

from reame.batch.account import Account
from reame.batch.journal import Journal
from reame.batch.plan import Plan
from reame.batch.result import refusal
from reame.errors import ConfigError, RequestError
from reame.runtime.batch_run import BatchRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from reame.batch.line import Record
    from reame.batch.result import Outcome


T = TypeVar("T")


@define
class Slow:
    """Each record takes a second; `on_disk` says at the start of each how many lines the output has, `beside`
    how many others run."""

    output: Path
    at_once: int = 3
    room: int = 0
    asked: list[str] = field(factory=list)
    running: int = 0
    most_running: int = 0
    on_disk: list[int] = field(factory=list)
    beside: list[int] = field(factory=list)

    def width(self) -> int:
        return self.at_once

    def most(self) -> int:
        return self.room or self.at_once

    async def solve(self, record: Record) -> Outcome:
        self.asked.append(record.custom_id)
        self.on_disk.append(len(read(self.output)))
        self.beside.append(self.running)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        await trio.sleep(1)
        self.running -= 1
        if record.custom_id == "dead":
            raise ConfigError("nobody there")
        if record.custom_id == "broken":
            raise ValueError("a bug")
        if record.custom_id == "bad":
            return refusal(RequestError("no", param="messages"))
        return answer_of(record.custom_id)


@contextmanager
def batch(source: Path, output: Path, **more: int) -> Iterator[tuple[BatchRun, Slow, Account]]:
    plan, journal = Plan(source), Journal(output)
    plan.scan({})
    counts = plan.resume(journal, retry=False)
    solver = Slow(output, **more)
    account = Account(counts.lines, counts.done, trio.current_time())
    yield BatchRun(plan, journal, solver, account, lambda: None), solver, account
    plan.close()
    journal.close()


@pytest.fixture(autouse=True)
def inline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads do their work at once: virtual time would run on while they do it."""

    async def run_sync(function: Callable[..., T], *args: Any) -> T:
        await trio.lowlevel.checkpoint()
        return function(*args)

    monkeypatch.setattr(trio.to_thread, "run_sync", run_sync)


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "out.jsonl"


async def test_each_result_is_on_the_disk_before_the_next_takes_its_place(
    tmp_path: Path, output: Path, autojump_clock: trio.testing.MockClock
) -> None:
    source = write(tmp_path / "in", *(line_of(f"r{i}", f"text {i}") for i in range(10)), b"{")
    with batch(source, output) as (run, solver, account):
        await run.run()
    assert solver.most_running == 3
    assert all(lines - 1 >= number - 2 for number, lines in enumerate(solver.on_disk))  # but for two that run
    assert len(read(output)) == 11
    assert (account.good, account.failed, account.done) == (10, 1, 11)


async def test_more_or_fewer_at_once_as_the_solver_says(
    tmp_path: Path, output: Path, autojump_clock: trio.testing.MockClock
) -> None:
    source = write(tmp_path / "in", *(line_of(f"r{i}", f"text {i}") for i in range(12)))
    with batch(source, output, at_once=1, room=4) as (run, solver, _):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run.run)
            await trio.sleep(3.5)
            assert solver.running == 1
            solver.at_once = 4
            await trio.sleep(1)
            assert solver.running == 4
    assert len(read(output)) == 12


async def test_now_and_then_all_places_are_filled_to_see_what_that_takes(
    tmp_path: Path, output: Path, autojump_clock: trio.testing.MockClock
) -> None:
    source = write(tmp_path / "in", *(line_of(f"r{i}", f"text {i}") for i in range(40)))
    with batch(source, output, at_once=1, room=4) as (run, solver, _):
        await run.run()
    crowded = [number for number, running in enumerate(solver.beside) if running]
    assert crowded == [1, 2, 3, 32, 33, 34]  # the first four of each 32; one more still runs the second time


async def test_identical_records_are_computed_once(
    tmp_path: Path, output: Path, autojump_clock: trio.testing.MockClock
) -> None:
    source = write(tmp_path / "in", *(line_of(f"r{i}", f"text {i % 2}") for i in range(10)))
    with batch(source, output) as (run, solver, account):
        await run.run()
    assert len(solver.asked) == 2
    texts = {line["custom_id"]: line["response"]["body"]["choices"][0]["message"]["content"] for line in read(output)}
    assert len(texts) == 10
    assert len({texts[f"r{i}"] for i in range(0, 10, 2)}) == 1
    assert (account.good, account.alike) == (10, 8)
    assert account.remembered == 2 * 4 + 8 * 13  # of 13 tokens, 4 were cached


async def test_a_refused_record_is_a_result_and_the_others_are_done(
    tmp_path: Path, output: Path, autojump_clock: trio.testing.MockClock
) -> None:
    source = write(tmp_path / "in", line_of("a", "x"), line_of("bad", "y"), line_of("c", "z"))
    with batch(source, output) as (run, _, account):
        await run.run()
    errors = {line["custom_id"]: line["error"] for line in read(output)}
    assert errors == {"a": None, "c": None, "bad": {"code": "invalid_request_error", "message": "no"}}
    assert (account.good, account.failed) == (2, 1)


async def test_what_breaks_with_one_record_is_the_end_of_that_one(
    tmp_path: Path, output: Path, autojump_clock: trio.testing.MockClock
) -> None:
    source = write(tmp_path / "in", line_of("a", "x"), line_of("broken", "y"), line_of("c", "z"))
    with batch(source, output) as (run, _, account):
        await run.run()
    codes = {line["custom_id"]: line["error"] and line["error"]["code"] for line in read(output)}
    assert codes == {"a": None, "c": None, "broken": "internal_error"}
    assert (account.good, account.failed) == (2, 1)


async def test_what_was_done_when_there_is_no_point_in_going_on_stays(
    tmp_path: Path, output: Path, autojump_clock: trio.testing.MockClock
) -> None:
    source = write(tmp_path / "in", *(line_of(f"r{i}", f"text {i}") for i in range(4)), line_of("dead", "zzz"))
    with batch(source, output, at_once=1) as (run, solver, _), pytest.RaisesGroup(ConfigError):
        await run.run()
    done = {line["custom_id"] for line in read(output)}
    assert done == set(solver.asked) - {"dead"}
    with batch(source, output) as (_, _, account):
        assert account.before == len(done)


async def test_a_full_disk_leaves_whole_lines_only(
    tmp_path: Path, output: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    source = write(tmp_path / "in", *(line_of(f"r{i}", f"text {i}") for i in range(20)))
    room, real = 1000, os.pwrite

    def pwrite(descriptor: int, data: bytes, offset: int) -> int:
        if offset >= room:
            raise OSError(28, "No space left on device")
        return real(descriptor, data[: room - offset], offset)

    monkeypatch.setattr(os, "pwrite", pwrite)
    with batch(source, output) as (run, _, _), pytest.RaisesGroup(OSError):
        await run.run()
    done = read(output)
    assert 0 < len(done) < 20
    monkeypatch.undo()
    with batch(source, output) as (run, _, account):
        assert account.before == len(done)
        await run.run()
    assert sorted(line["custom_id"] for line in read(output)) == sorted(f"r{i}" for i in range(20))
