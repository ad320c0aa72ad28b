"""Blocks on disk when nothing is wrong: found by name, by another process too, and by nobody else."""

from __future__ import annotations

import os
import stat
import time
from typing import TYPE_CHECKING

import pytest
from chains import FINGERPRINT, SIZE, block_files, chain, file_of, new_store

from reame.core.blocks import block_keys, root_key
from reame.memory.block_store import BlockStore

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from reame.core.blocks import Block


def test_a_chain_is_found_again_by_another_process(tmp_path: Path) -> None:
    line = chain(5)
    writer = new_store(tmp_path / "memory" / "blocks")
    assert line.load(writer) == []
    assert line.store(writer) == [True] * 5
    reader = new_store(tmp_path / "memory" / "blocks")
    assert line.has(reader) == 5
    assert tuple(line.load(reader)) == line.blocks
    assert tuple(line.load(reader, first=2)) == line.blocks[2:]
    counts = reader.stats()
    assert (counts.hits, counts.misses, counts.blocks) == (8, 0, 5)
    assert writer.stats().misses == 5


def test_a_look_up_ends_at_the_first_block_that_is_not_there(tmp_path: Path) -> None:
    line, store = chain(6), new_store(tmp_path)
    line.store(store)
    file_of(tmp_path, line.blocks[3]).unlink()
    assert line.has(store) == 3
    assert tuple(line.load(store)) == line.blocks[:3]
    assert tuple(line.load(store, first=4)) == line.blocks[4:]
    assert line.load(store, first=6) == []
    counts = store.stats()
    assert (counts.hits, counts.misses) == (5, 3)


def test_a_prompt_that_goes_on_otherwise_shares_what_it_can(tmp_path: Path) -> None:
    line, store = chain(4), new_store(tmp_path)
    line.store(store)
    tokens = (*line.tokens[:9], 7, *line.tokens[10:])
    keys = block_keys(root_key(FINGERPRINT, ""), tokens, SIZE)
    assert tuple(store.load(keys, tokens, block_tokens=SIZE, namespace="")) == line.blocks[:2]


def test_what_is_there_is_not_written_again(tmp_path: Path) -> None:
    line, store = chain(3), new_store(tmp_path)
    line.store(store)
    before = [(file, file.stat().st_ino) for file in block_files(tmp_path)]
    assert line.store(store) == [True] * 3
    assert [(file, file.stat().st_ino) for file in block_files(tmp_path)] == before
    assert store.stats().stored == 3


def test_namespaces_and_models_do_not_meet(tmp_path: Path) -> None:
    mine, yours = chain(3, namespace="alice"), chain(3, namespace="bob")
    store = new_store(tmp_path)
    mine.store(store)
    assert yours.load(store) == []
    assert store.load(mine.keys, mine.tokens, block_tokens=SIZE, namespace="bob") == []
    other = BlockStore(tmp_path, fingerprint=bytes(16), budget_bytes=1 << 20)
    assert mine.load(other) == []
    assert not any("alice" in str(path) for path in tmp_path.rglob("*"))


def test_nobody_else_can_read_it(tmp_path: Path) -> None:
    """The umask may take away rights, never add any."""
    before = os.umask(0)
    try:
        chain(3).store(new_store(tmp_path / "memory" / "blocks"))
    finally:
        os.umask(before)
    modes = {path.is_dir(): stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "memory" / "blocks").rglob("*")}
    assert modes == {True: 0o700, False: 0o600}
    assert stat.S_IMODE((tmp_path / "memory" / "blocks").stat().st_mode) == 0o700


def test_a_start_reads_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many blocks lie there: a look-up and a write open their own files only."""
    line = chain(4)
    line.store(new_store(tmp_path))

    def scan(*args: object) -> None:
        pytest.fail("the directory is listed")

    monkeypatch.setattr(os, "scandir", scan)
    monkeypatch.setattr(os, "listdir", scan)
    store = new_store(tmp_path)
    assert len(line.load(store)) == line.has(store) == 4
    assert chain(2, seed=1).store(store) == [True, True]
    assert store.stats().blocks == 6


def ages(directory: Path, blocks: Sequence[Block]) -> list[int]:
    """When they were last used, ns."""
    return [file_of(directory, block).stat().st_mtime_ns for block in blocks]


def test_a_block_is_older_than_the_one_before_it(tmp_path: Path) -> None:
    """Whenever it was written, and however the chain was used: so the end of a chain goes first."""
    line, store = chain(6), new_store(tmp_path)
    line.store(store)
    assert ages(tmp_path, line.blocks) == sorted(ages(tmp_path, line.blocks), reverse=True)
    for block in line.blocks[:4]:
        long_ago = time.time_ns() - 10**12 - block.depth
        os.utime(file_of(tmp_path, block), ns=(long_ago, long_ago))
    assert store.store(line.blocks[4], namespace="")  # it is there: a use like any other
    assert ages(tmp_path, line.blocks) == sorted(ages(tmp_path, line.blocks), reverse=True)
    assert min(ages(tmp_path, line.blocks[:5])) > time.time_ns() - 60 * 10**9


@pytest.mark.parametrize("first", [0, 2, 3])
def test_a_hit_makes_all_before_it_younger(tmp_path: Path, first: int) -> None:
    line, store = chain(5), new_store(tmp_path)
    line.store(store)
    for number, block in enumerate(line.blocks):
        os.utime(file_of(tmp_path, block), (1000 + number, 1000 + number))
    started = time.time_ns()
    store.load(line.keys[:4], line.tokens, block_tokens=SIZE, namespace="", first=first)
    *used, unused = ages(tmp_path, line.blocks)
    assert used == sorted(used, reverse=True)
    assert min(used) >= started - 5000
    assert unused == 1004 * 10**9


def test_a_pin_lies_in_the_future_and_a_hit_does_not_take_it_away(tmp_path: Path) -> None:
    line, store = chain(3), new_store(tmp_path)
    until = time.time() + 3600
    assert all(store.store(block, namespace="", until=until) for block in line.blocks)
    pinned = ages(tmp_path, line.blocks)
    assert pinned == sorted(pinned, reverse=True)
    assert min(pinned) > (until - 1) * 1e9
    line.load(store)
    line.store(store)
    assert ages(tmp_path, line.blocks) == pinned
    store.touch(line.keys, namespace="", until=until + 60)
    assert min(ages(tmp_path, line.blocks)) > (until + 59) * 1e9


def test_what_is_written_behind_a_pin_is_not_pinned(tmp_path: Path) -> None:
    line, store = chain(3), new_store(tmp_path)
    for block in line.blocks[:2]:
        store.store(block, namespace="", until=time.time() + 3600)
    store.store(line.blocks[2], namespace="")
    (age,) = ages(tmp_path, line.blocks[2:])
    assert age < time.time_ns()


def test_touching_what_is_not_there_does_nothing(tmp_path: Path) -> None:
    line = chain(2)
    new_store(tmp_path / "nowhere").touch(line.keys, namespace="")
    assert not (tmp_path / "nowhere").exists()
