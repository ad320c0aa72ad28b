"""Batches of several keys and of several daemons on one disk: whose they are, and who works on them."""

from __future__ import annotations

import json
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.lowlevel
from attrs import define, field
from lines import answer_of, line_of, read

from reame.batch.journal import Journal
from reame.batch.order import ordered
from reame.batch.shelf import Shelf, new_id
from reame.errors import ConfigError, RequestError
from reame.runtime.batches import Batches

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from reame.batch.line import Record
    from reame.batch.result import Outcome

CHAT = "/v1/chat/completions"


@define
class Gate:
    """Answers only while it is open."""

    name: str
    opened: trio.Event = field(factory=trio.Event)
    asked: int = 0

    def width(self) -> int:
        return 2

    def most(self) -> int:
        return 2

    async def solve(self, record: Record) -> Outcome:
        self.asked += 1
        await self.opened.wait()
        return answer_of(self.name)


@define
class Breaking(Gate):
    """Answers one record, is silent on the next, and raises `error` when it is then asked how many at once it can do.
    """

    error: Exception = field(factory=Exception)
    times: int = 0

    async def solve(self, record: Record) -> Outcome:
        self.asked += 1
        if self.asked > 1:
            await trio.sleep_forever()
        return answer_of(self.name)

    def most(self) -> int:
        self.times += 1
        if self.times == 3:
            raise self.error
        return 1


@asynccontextmanager
async def daemon(
    root: Path, model: str, *, room: int = 1 << 20, gate: Gate | None = None
) -> AsyncIterator[tuple[Batches, Gate]]:
    gate = gate or Gate(model)
    batches = Batches(Shelf(root, room=room, keep_s=86_400), lambda key: gate, model)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(batches.run)
        yield batches, gate
        nursery.cancel_scope.cancel()


async def begun(batches: Batches, key: str) -> str:
    shelf = batches.shelf
    data = shelf.begin(key)
    data.write_bytes(b"".join(line_of(f"r{i}", f"text {i}") + b"\n" for i in range(3)))
    file = shelf.add(data, filename="f.jsonl", purpose="batch")
    told = ordered(
        new_id("batch"), model=batches.model_id, file=file["id"], endpoint=CHAT, window="24h", seconds=86_400,
        metadata={"secret": key}, now=time.time(),
    )  # fmt: skip
    await batches.create(key, told)
    return str(told["id"])


async def until(batches: Batches, key: str, name: str, status: str) -> dict[str, Any]:
    with trio.fail_after(20):
        while (told := await batches.retrieve(key, name))["status"] != status:
            continue
    return told


def answers(shelf: Shelf, key: str, told: dict[str, Any]) -> list[str]:
    lines = read(shelf.data_path(key, told["output_file_id"]))
    return [line["response"]["body"]["choices"][0]["message"]["content"] for line in lines]


async def test_another_key_can_neither_see_nor_cancel_a_batch_that_runs(tmp_path: Path) -> None:
    async with daemon(tmp_path, "small") as (batches, gate):
        name = await begun(batches, "ann")
        await until(batches, "ann", name, "in_progress")
        for ask in (batches.cancel, batches.retrieve):
            with pytest.raises(RequestError) as caught:
                await ask("bob", name)
            assert caught.value.status == 404
        gate.opened.set()
        told = await until(batches, "ann", name, "completed")
        assert answers(batches.shelf, "ann", told) == ["small"] * 3


async def test_its_own_key_can(tmp_path: Path) -> None:
    async with daemon(tmp_path, "small") as (batches, _):
        name = await begun(batches, "ann")
        await until(batches, "ann", name, "in_progress")
        assert (await batches.cancel("ann", name))["status"] == "cancelling"
        told = await until(batches, "ann", name, "cancelled")
        assert (await batches.cancel("ann", name)) == told


async def test_what_another_daemon_works_on_is_left_alone(tmp_path: Path) -> None:
    async with daemon(tmp_path, "small") as (first, gate):
        name = await begun(first, "ann")
        await until(first, "ann", name, "in_progress")
        async with daemon(tmp_path, "small") as (second, other):
            # its own batch of that key comes behind it, so it has been looked at when that one runs
            own = await begun(second, "ann")
            await until(second, "ann", own, "in_progress")
            assert (await second.retrieve("ann", name))["status"] == "in_progress"
            assert first.shelf.journal_path("ann", name).exists()
            other.opened.set()
            await until(second, "ann", own, "completed")
        gate.opened.set()
        told = await until(first, "ann", name, "completed")
        assert told["errors"] is None
        assert answers(first.shelf, "ann", told) == ["small"] * 3


async def test_a_batch_waits_for_its_model(tmp_path: Path) -> None:
    async with daemon(tmp_path, "small") as (first, _):
        name = await begun(first, "ann")
        await until(first, "ann", name, "in_progress")
    async with daemon(tmp_path, "large") as (second, gate):
        gate.opened.set()
        own = await begun(second, "ann")
        await until(second, "ann", own, "completed")
        assert gate.asked == 3
        assert (await second.retrieve("ann", name))["status"] == "in_progress"
        assert (await second.cancel("ann", name))["status"] == "cancelling"  # that needs no model
        await until(second, "ann", name, "cancelled")
        assert gate.asked == 3


async def test_what_nobody_works_on_is_taken_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon that shares the disk with one that was killed looks again after a while."""
    monkeypatch.setattr("reame.runtime.batches.CLEAN_S", 0.01)
    shelf = Shelf(tmp_path, room=1 << 20, keep_s=86_400)
    async with daemon(tmp_path, "small") as (batches, gate):
        gate.opened.set()
        own = await begun(batches, "ann")  # it has looked at what there is once this is done
        await until(batches, "ann", own, "completed")
        data = shelf.begin("ann")
        data.write_bytes(line_of("r0") + b"\n")
        file = shelf.add(data, filename="f.jsonl", purpose="batch")
        told = ordered(
            new_id("batch"), model="small", file=file["id"], endpoint=CHAT, window="24h", seconds=86_400,
            metadata=None, now=time.time(),
        )  # fmt: skip
        shelf.add_batch("ann", told | {"status": "in_progress"})
        await until(batches, "ann", told["id"], "completed")


@pytest.mark.parametrize("left", [b"", b"an", b"\xff\xfe"])
def test_what_a_power_cut_left_of_a_keys_name(tmp_path: Path, left: bytes) -> None:
    """It stops nobody, and is written anew when the key comes again."""
    shelf = Shelf(tmp_path, room=1 << 20, keep_s=86_400)
    for key in ("ann", "bob"):
        shelf.save_batch(key, {"id": new_id("batch"), "status": "in_progress", "input_file_id": "", "created_at": 0})
    (name,) = (path for path in tmp_path.glob("*/key") if path.read_text() == "ann")
    name.write_bytes(left)
    assert [key for key, _ in shelf.unfinished()] == ["bob"]
    shelf.expire(0)
    assert len(shelf.batches("ann")) == 1
    assert sorted(key for key, _ in shelf.unfinished()) == ["ann", "bob"]
    assert json.loads(next(name.parent.glob("batch_*.json")).read_text())["status"] == "in_progress"


async def test_a_batch_that_outgrows_its_room_gives_what_it_has(tmp_path: Path) -> None:
    async with daemon(tmp_path, "small", room=700) as (batches, gate):
        gate.opened.set()
        name = await begun(batches, "ann")
        told = await until(batches, "ann", name, "failed")
        assert told["errors"]["data"][0]["code"] == "no_room"
        assert 1 <= len(answers(batches.shelf, "ann", told)) <= 3
        assert told["request_counts"]["completed"] >= 1


@pytest.mark.parametrize(
    ("error", "code"),
    [(ZeroDivisionError("/srv/secret"), "internal_error"), (ConfigError("/srv/secret"), "batch_failed")],
)
async def test_a_batch_that_breaks_in_the_middle_gives_what_it_has(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, error: Exception, code: str
) -> None:
    async with daemon(tmp_path, "small", gate=Breaking("small", error=error)) as (batches, _):
        name = await begun(batches, "ann")
        told = await until(batches, "ann", name, "failed")
        (said,) = told["errors"]["data"]
        assert said["code"] == code
        assert "/srv" not in said["message"]
        assert "/srv/secret" in caplog.text
        assert told["request_counts"] == {"total": 3, "completed": 1, "failed": 0}
        assert answers(batches.shelf, "ann", told) == ["small"]


async def test_what_was_done_stays_when_it_cannot_be_handed_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("reame.runtime.batches.hand_out", breaks)
    async with daemon(tmp_path, "small") as (batches, gate):
        gate.opened.set()
        name = await begun(batches, "ann")
        await until(batches, "ann", name, "failed")
        with trio.fail_after(20):
            while name in batches._running:
                await trio.lowlevel.checkpoint()
    assert len(read(batches.shelf.journal_path("ann", name))) == 3


async def test_a_batch_waits_until_the_disk_works_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append, done = Journal.append, 0

    def fails_once(journal: Journal, lines: bytes) -> None:
        nonlocal done
        done += 1
        if done == 2:
            raise OSError(5, "input/output error")
        append(journal, lines)

    monkeypatch.setattr(Journal, "append", fails_once)
    async with daemon(tmp_path, "small") as (batches, gate):
        gate.opened.set()
        name = await begun(batches, "ann")
        with trio.fail_after(20):
            while done < 2 or name in batches._running:
                await trio.lowlevel.checkpoint()
        assert (await batches.retrieve("ann", name))["status"] == "in_progress"
    async with daemon(tmp_path, "small") as (batches, gate):
        gate.opened.set()
        told = await until(batches, "ann", name, "completed")
        assert answers(batches.shelf, "ann", told) == ["small"] * 3
        assert gate.asked < 3, "what was done is not done again"
