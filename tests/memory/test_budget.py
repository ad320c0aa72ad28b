"""The budget holds at every moment, the right ones go, and nothing that is left behind grows."""

from __future__ import annotations

import fcntl
import logging
import os
import time
from typing import TYPE_CHECKING

import pytest
from chains import FINGERPRINT, block_files, chain, file_of, new_store, total_bytes

from reame.memory import block_directory, ledger
from reame.memory.block_store import BlockStore

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from reame.core.blocks import Block

PAYLOAD = 8 * 4096 - 200
"""A block's file then has 8 pages."""
CHARGE = 8 * 4096
BUDGET = 40 * CHARGE


def age(directory: Path, blocks: Sequence[Block], seconds: float) -> None:
    """As if they had last been used so much earlier."""
    for block in blocks:
        file = file_of(directory, block)
        then = file.stat().st_mtime_ns - int(seconds * 1e9)
        os.utime(file, ns=(then, then))


def test_sixty_prompts_in_the_room_of_a_few(tmp_path: Path) -> None:
    """Never more than the budget, and the last used are there."""
    store = new_store(tmp_path, BUDGET)
    lines = [chain(3, seed=seed, payload=PAYLOAD) for seed in range(60)]
    for number, line in enumerate(lines):
        for block in line.blocks:
            assert store.store(block, namespace="")
            assert total_bytes(tmp_path) <= BUDGET
        for earlier in lines[: number + 1]:
            age(tmp_path, earlier.blocks[: earlier.has(store)], 100)  # time goes by
        if number > 2:
            assert len(lines[2].load(store)) == 3  # somebody asks for this one again and again
    assert len(lines[2].load(store)) == 3
    assert all(line.has(store) == 3 for line in lines[-8:])
    assert all(line.has(store) == 0 for line in lines[:2] + lines[3:40])
    counts = store.stats()
    assert counts.evicted == 180 - counts.blocks
    assert counts.dropped == 0
    assert counts.blocks == len(block_files(tmp_path))


def test_the_end_of_a_chain_goes_first(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    old, young = chain(10, seed=1, payload=PAYLOAD), chain(10, seed=2, payload=PAYLOAD)
    young.store(store)
    old.store(store)
    young.load(store)
    for budget in range(20, 0, -3):
        removed = new_store(tmp_path, budget * CHARGE).prune()
        left = (young.has(store), old.has(store))
        assert sum(left) == len(block_files(tmp_path))  # no block without all before it
        assert left[1] == 0 or left[0] == 10
        assert total_bytes(tmp_path) <= budget * CHARGE
        assert removed.bytes == removed.blocks * CHARGE
    assert sum(left) <= 1


def test_a_pinned_chain_goes_last(tmp_path: Path) -> None:
    store = new_store(tmp_path, BUDGET)
    pinned = chain(5, payload=PAYLOAD)
    pinned.store(store)
    store.touch(pinned.keys, namespace="", until=time.time() + 60)
    for seed in range(1, 30):
        chain(3, seed=seed, payload=PAYLOAD).store(store)
    assert pinned.has(store) == 5
    assert store.stats().evicted > 40
    new_store(tmp_path, CHARGE).prune()
    assert pinned.has(store) == 0


def test_a_block_that_is_larger_than_the_budget_is_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = new_store(tmp_path, BUDGET)
    small = chain(2, payload=PAYLOAD)
    small.store(store)
    for seed in range(1, 4):
        assert chain(1, seed=seed, payload=BUDGET + 1).store(store) == [False]
    assert small.has(store) == 2
    assert store.stats().dropped == 3
    assert len(caplog.records) == 1
    assert "larger than memory.disk_mb" in caplog.text


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The size of the disk and what other programs have on it, in bytes. All else on it is in `tmp_path`."""
    facts = [30 * CHARGE, 0]
    system = os.fstatvfs

    def fstatvfs(descriptor: int) -> os.statvfs_result:
        pages = facts[0] // 4096
        free = pages - (facts[1] + total_bytes(tmp_path)) // 4096
        real = list(system(descriptor))
        return os.statvfs_result([4096, 4096, pages, free, max(0, free), *real[5:]])

    monkeypatch.setattr(os, "fstatvfs", fstatvfs)
    return facts


def test_on_a_disk_that_is_smaller_than_the_budget_the_oldest_go_before_it_is_full(
    tmp_path: Path, disk: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    store = new_store(tmp_path, 100 * CHARGE)
    lines = [chain(3, seed=seed, payload=PAYLOAD) for seed in range(30)]
    for line in lines:
        assert line.store(store) == [True] * 3
        assert total_bytes(tmp_path) <= 0.95 * disk[0]
        age(tmp_path, line.blocks, 100)
    assert all(line.has(store) == 3 for line in lines[-5:])
    assert store.stats().evicted > 50
    assert not caplog.records


def test_blocks_make_way_for_what_others_put_on_the_disk(
    tmp_path: Path, disk: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    store = new_store(tmp_path, 100 * CHARGE)
    chain(20, payload=PAYLOAD).store(store)
    held = []
    for seed in range(1, 40):  # others take whatever is free, again and again
        disk[1] = disk[0] - total_bytes(tmp_path)
        stored = chain(1, seed=seed, payload=PAYLOAD).store(store)
        held.append(len(block_files(tmp_path)))
    assert held[0] > 10
    assert held[-1] == 0
    assert stored == [False]
    assert "too little room is left on the disk" in caplog.text
    assert len(caplog.records) == 1


def test_other_models_and_namespaces_count_and_go_too(tmp_path: Path) -> None:
    yesterday = BlockStore(tmp_path, fingerprint=b"yesterday's mode", budget_bytes=BUDGET)
    old = chain(20, namespace="alice", payload=PAYLOAD)
    old.store(yesterday)
    age(tmp_path, old.blocks, 1000)
    store = new_store(tmp_path, BUDGET)
    for seed in range(40):
        chain(1, seed=seed, payload=PAYLOAD).store(store)
    assert old.has(yesterday) == 0
    assert total_bytes(tmp_path) <= BUDGET
    store.prune()
    folders = [path.name for path in tmp_path.iterdir() if path.is_dir()]
    assert folders == [FINGERPRINT.hex()[:16]]  # nor do empty folders pile up


def test_what_killed_writers_left_goes_after_an_hour(tmp_path: Path) -> None:
    store = new_store(tmp_path, BUDGET)
    line = chain(1, payload=PAYLOAD)
    line.store(store)
    folder = file_of(tmp_path, line.blocks[0]).parent
    old, new = folder / "0123456789abcdef.tmp", folder / "fedcba9876543210.tmp"
    for file in (old, new):
        file.write_bytes(bytes(CHARGE))
    os.utime(old, (time.time() - 3700, time.time() - 3700))
    gone = tmp_path / f"{block_directory.GONE}0123456789abcdef"
    (gone / "00").mkdir(parents=True)
    store.prune()
    assert (old.exists(), new.exists(), gone.exists()) == (False, True, False)
    assert line.has(store) == 1
    assert store.stats().bytes == 2 * CHARGE + 4 * 4096  # an unfinished file needs its room too


def test_where_pruning_makes_no_room_nothing_is_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Another process is just writing a file as large as the budget."""
    store = new_store(tmp_path, BUDGET)
    line = chain(1, payload=PAYLOAD)
    line.store(store)
    unfinished = file_of(tmp_path, line.blocks[0]).with_name("0123456789abcdef.tmp")
    unfinished.write_bytes(bytes(BUDGET))
    store.prune()
    assert chain(2, seed=1, payload=PAYLOAD).store(store) == [False, False]
    assert store.stats().dropped == 2
    assert not caplog.records
    unfinished.unlink()
    assert chain(2, seed=1, payload=PAYLOAD).store(store) == [True, True]


@pytest.mark.parametrize("damage", [b"", b"short", bytes(24), bytes(range(24)), b"\xff" * 24, None])
def test_a_sum_that_cannot_be_believed_is_counted_anew(tmp_path: Path, damage: bytes | None) -> None:
    store = new_store(tmp_path, BUDGET)
    chain(5, payload=PAYLOAD).store(store)
    file = tmp_path / ledger.FILE
    if damage is None:
        file.unlink()
    else:
        file.write_bytes(damage)
    assert store.stats().bytes == 0
    assert chain(1, seed=1, payload=PAYLOAD).store(store) == [True]
    counts = store.stats()
    num_folders = sum(path.is_dir() for path in tmp_path.rglob("*"))
    assert (counts.blocks, counts.bytes) == (6, 6 * CHARGE + 4096 * (num_folders + 1))


@pytest.mark.parametrize("kind", ["directory", "link", "pipe"])
def test_something_else_in_the_place_of_the_sum(tmp_path: Path, kind: str) -> None:
    directory = tmp_path / "blocks"
    store = new_store(directory, BUDGET)
    chain(2, payload=PAYLOAD).store(store)
    file = directory / ledger.FILE
    file.unlink()
    if kind == "directory":
        file.mkdir()
    elif kind == "link":
        (tmp_path / "outside").write_bytes(bytes(24))
        file.symlink_to(tmp_path / "outside")
    else:
        os.mkfifo(file)
    assert store.stats().blocks == 0
    assert chain(1, seed=1, payload=PAYLOAD).store(store) == [True]
    assert store.stats().blocks == 3
    assert kind != "link" or (tmp_path / "outside").read_bytes() == bytes(24)


def test_a_sum_that_is_too_high_is_corrected_before_anything_is_dropped(tmp_path: Path) -> None:
    """Somebody has deleted files by hand; a writer was killed after it took room."""
    store = new_store(tmp_path, BUDGET)
    first = chain(30, payload=PAYLOAD)
    first.store(store)
    for file in block_files(tmp_path)[:25]:
        file.unlink()
    second = chain(20, seed=1, payload=PAYLOAD)
    assert second.store(store) == [True] * 20
    assert store.stats().evicted == 0
    assert len(block_files(tmp_path)) == 25


def test_a_process_that_holds_the_lock_for_ever_stops_writing_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It may have been stopped in the middle."""
    monkeypatch.setattr(ledger, "PATIENCE_S", 0.0)
    store, line = new_store(tmp_path, BUDGET), chain(3, payload=PAYLOAD)
    line.store(store)
    with (tmp_path / ledger.FILE).open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert chain(2, seed=1, payload=PAYLOAD).store(store) == [False, False]
        assert len(line.load(store)) == 3
        assert store.prune().blocks == 0
    assert chain(2, seed=1, payload=PAYLOAD).store(store) == [True, True]
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_smaller_budget_holds_from_the_next_start(tmp_path: Path) -> None:
    chain(40, payload=1000).store(new_store(tmp_path, BUDGET))
    small = new_store(tmp_path, BUDGET // 8)
    small.prune()
    assert total_bytes(tmp_path) <= BUDGET // 8
    assert chain(1, seed=1, payload=1000).store(small) == [True]
    assert total_bytes(tmp_path) <= BUDGET // 8
