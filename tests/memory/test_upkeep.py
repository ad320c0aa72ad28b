"""Listing, verifying, forgetting and clearing a directory of blocks."""

from __future__ import annotations

import shutil
import threading
from typing import TYPE_CHECKING

import pytest
from attrs import evolve
from chains import FINGERPRINT, block_files, chain, file_of, new_store

from reame.memory import upkeep
from reame.memory.block_directory import BlockDirectory
from reame.memory.block_store import BlockStore
from reame.memory.folders import namespace_tag
from reame.memory.format import encode

if TYPE_CHECKING:
    from pathlib import Path


def test_a_list_says_what_each_block_is(tmp_path: Path) -> None:
    line, store = chain(3, namespace="alice"), new_store(tmp_path)
    line.store(store)
    (file_of(tmp_path, line.blocks[0]).parent / "0123456789abcdef.tmp").write_bytes(b"")
    found = sorted(upkeep.entries(store.directory), key=lambda entry: entry.depth)
    assert [(entry.key, entry.depth, entry.num_tokens) for entry in found] == [
        (block.key.hex(), block.depth, 4) for block in line.blocks
    ]
    assert {(entry.model, entry.namespace) for entry in found} == {(FINGERPRINT.hex()[:16], namespace_tag("alice"))}
    assert [entry.size for entry in found] == [file_of(tmp_path, block).stat().st_size for block in line.blocks]
    assert all(-1 < entry.age < 60 for entry in found)


def test_verifying_finds_exactly_the_damaged(tmp_path: Path) -> None:
    """Of any model and namespace, and also what lies under a name that is not its own."""
    line, store = chain(6), new_store(tmp_path)
    line.store(store)
    foreign = BlockStore(tmp_path, fingerprint=b"another model's ", budget_bytes=1 << 20)
    chain(2, namespace="bob").store(foreign)
    flipped, cut, moved, renamed = (file_of(tmp_path, block) for block in line.blocks[1:5])
    flipped.write_bytes(flipped.read_bytes()[:-1] + b"\0")
    cut.write_bytes(b"")
    moved.write_bytes(encode(line.blocks[3], fingerprint=b"another model's "))
    renamed.write_bytes(encode(evolve(line.blocks[4], parent=bytes(16)), fingerprint=FINGERPRINT))
    result = upkeep.verify(store.directory)
    assert dict(result.damaged) == {
        str(flipped.relative_to(tmp_path)): "the checksum is wrong",
        str(cut.relative_to(tmp_path)): "only 0 bytes long",
        str(moved.relative_to(tmp_path)): "it lies under another name",
        str(renamed.relative_to(tmp_path)): "its name does not follow from its tokens",
    }
    assert result.blocks == 4 == len(block_files(tmp_path))
    assert result.bytes == sum(file.stat().st_size for file in block_files(tmp_path))
    assert upkeep.verify(store.directory).damaged == ()


def test_a_namespace_is_forgotten_in_all_models_and_nothing_else_is(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    other = BlockStore(tmp_path, fingerprint=b"another model's ", budget_bytes=1 << 20)
    hers, his = chain(5, namespace="alice"), chain(3, namespace="bob")
    for each in (store, other):
        hers.store(each)
        his.store(each)
    removed = upkeep.forget(store.directory, "alice")
    assert (removed.blocks, removed.bytes) == (10, 10 * 4096)
    assert (hers.has(store), his.has(store), len(block_files(tmp_path))) == (0, 3, 6)
    assert store.stats().blocks == 6
    assert upkeep.forget(store.directory, "alice").blocks == upkeep.forget(store.directory, "nobody").blocks == 0
    assert hers.store(store) == [True] * 5


def test_all_is_cleared_but_what_is_not_ours(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    chain(5).store(store)
    (tmp_path / "README.txt").write_text("not ours")
    assert upkeep.clear(store.directory).blocks == 5
    assert sorted(path.name for path in tmp_path.iterdir()) == ["README.txt", "usage"]
    assert store.stats().blocks == 0


def test_a_directory_that_is_not_there_is_empty(tmp_path: Path) -> None:
    directory = BlockDirectory(tmp_path / "none", budget_bytes=1)
    assert list(upkeep.entries(directory)) == []
    assert upkeep.verify(directory).blocks == upkeep.clear(directory).blocks == upkeep.forget(directory, "").blocks == 0
    assert not (tmp_path / "none").exists()


def test_what_cannot_be_deleted_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forgetting is a promise: half of it is an error."""
    store = new_store(tmp_path)
    chain(2).store(store)
    monkeypatch.setattr(shutil, "rmtree", lambda *args, **keywords: None)
    with pytest.raises(OSError, match="not all files could be deleted"):
        upkeep.clear(store.directory)
    assert chain(2).has(store) == 0  # nobody finds it any more, and the next pruning tries again
    monkeypatch.undo()
    store.prune()
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


def test_forgetting_while_somebody_writes(tmp_path: Path) -> None:
    store, line = new_store(tmp_path), chain(4, namespace="alice")
    done = threading.Event()

    def write() -> None:
        while not done.is_set():
            line.store(store)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(50):
            upkeep.forget(store.directory, "alice")
    finally:
        done.set()
        thread.join()
    upkeep.forget(store.directory, "alice")
    assert block_files(tmp_path) == []
    assert line.store(store) == [True] * 4
