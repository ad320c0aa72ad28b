"""Whatever lies where a block should be: a miss, a number, at most one line, no more."""

from __future__ import annotations

import logging
import os
import pickle
import random
import shutil
import threading
from typing import TYPE_CHECKING

import pytest
from attrs import evolve
from chains import FINGERPRINT, block_files, chain, file_of, new_store, payloads

from reame.memory.format import encode

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LINE = chain(6)
THIRD = LINE.blocks[2]


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def truncate(file: Path, size: int) -> None:
    os.truncate(file, size)


def become_directory(file: Path) -> None:
    file.unlink()
    file.mkdir()


def become_dangling_link(file: Path) -> None:
    file.unlink()
    file.symlink_to(file.parent / "nothing")


def become_link(file: Path) -> None:
    """To a copy that would be accepted if links were followed."""
    outside = file.parents[4] / "outside"
    shutil.move(file, outside)
    file.symlink_to(outside)


def become_fifo(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def become_foreign(file: Path) -> None:
    file.write_bytes(encode(THIRD, fingerprint=b"another model's "))


def become_another_block(file: Path) -> None:
    file.write_bytes(encode(LINE.blocks[3], fingerprint=FINGERPRINT))


def become_deeper(file: Path) -> None:
    """Its state would go to other positions."""
    file.write_bytes(encode(evolve(THIRD, depth=3), fingerprint=FINGERPRINT))


def become_orphan(file: Path) -> None:
    file.write_bytes(encode(evolve(THIRD, parent=bytes(16)), fingerprint=FINGERPRINT))


def become_pickle(file: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
            return os.mkdir, (str(file.parents[4] / "pwned"),)

    file.write_bytes(pickle.dumps(Trap()))


FAULTS = {
    "no bytes": lambda file: truncate(file, 0),
    "10 bytes": lambda file: truncate(file, 10),
    "header only": lambda file: truncate(file, 96),
    "last byte missing": lambda file: truncate(file, file.stat().st_size - 1),
    "bytes too many": lambda file: truncate(file, 5000),
    "huge": lambda file: truncate(file, 1 << 40),
    "a directory": become_directory,
    "a dangling link": become_dangling_link,
    "a link": become_link,
    "a pipe": become_fifo,
    "another model's": become_foreign,
    "another block": become_another_block,
    "a block of another depth": become_deeper,
    "a block of another chain": become_orphan,
    "a pickle": become_pickle,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_file_that_is_no_block_is_a_miss_and_goes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, fault: str
) -> None:
    """Nor does it stop what is stored afterwards."""
    directory = tmp_path / "blocks"
    store = new_store(directory)
    LINE.store(store)
    FAULTS[fault](file_of(directory, THIRD))
    assert tuple(LINE.load(store)) == LINE.blocks[:2]
    assert tuple(LINE.load(store)) == LINE.blocks[:2]
    counts = store.stats()
    assert counts.corrupt + counts.foreign == 1
    assert counts.foreign == (fault == "another model's")
    assert len(warnings(caplog)) == 1
    assert LINE.store(store) == [True] * 6
    assert tuple(LINE.load(store)) == LINE.blocks
    assert {path.name for path in tmp_path.iterdir()} <= {"blocks", "outside"}


def test_a_directory_with_something_in_it_stays_and_disturbs_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = new_store(tmp_path)
    LINE.store(store)
    file = file_of(tmp_path, THIRD)
    become_directory(file)
    (file / "mine.txt").write_text("keep")
    assert tuple(LINE.load(store)) == LINE.blocks[:2]
    assert LINE.store(store) == [True, True, False, True, True, True]
    assert (file / "mine.txt").read_text() == "keep"
    assert store.stats().dropped == 1
    assert len(warnings(caplog)) == 1


def test_a_folder_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    """Neither read through nor written through; a folder of ours takes its place."""
    directory, outside = tmp_path / "blocks", tmp_path / "outside"
    store = new_store(directory)
    LINE.store(store)
    for level in range(3):
        folder = file_of(directory, THIRD).parents[level]
        shutil.move(folder, outside)
        folder.symlink_to(outside)
        before = sorted(outside.rglob("*"))
        assert THIRD not in LINE.load(store, first=2)
        assert LINE.store(store) == [True] * 6
        assert sorted(outside.rglob("*")) == before
        assert not folder.is_symlink()
        assert tuple(LINE.load(store)) == LINE.blocks
        shutil.rmtree(outside)


def test_what_is_none_of_ours_is_left_alone(tmp_path: Path) -> None:
    """Files of others in its folders are neither read nor deleted."""
    store = new_store(tmp_path)
    LINE.store(store)
    folder = file_of(tmp_path, THIRD).parent
    others = [tmp_path / "README.txt", folder / "README.txt", folder.parent / "README.txt", folder / "x.kv"]
    for other in others:
        other.write_text("not ours")
    store.prune()
    assert tuple(LINE.load(store)) == LINE.blocks
    assert all(other.read_text() == "not ours" for other in others)


def test_any_wrong_byte_anywhere_is_a_miss(tmp_path: Path) -> None:
    """At 200 places, each another value."""
    chance = random.Random(3)
    store = new_store(tmp_path)
    LINE.store(store)
    file = file_of(tmp_path, THIRD)
    whole = file.read_bytes()
    for number, place in enumerate(sorted(chance.sample(range(len(whole)), 200)), 1):
        data = bytearray(whole)
        data[place] ^= chance.randrange(1, 256)
        file.write_bytes(data)
        assert tuple(LINE.load(store)) == LINE.blocks[:2]
        assert not file.exists()
        counts = store.stats()
        assert counts.corrupt + counts.foreign == number


def test_files_that_somebody_deletes_meanwhile_are_misses(tmp_path: Path) -> None:
    """Whatever is loaded is right, whenever the files vanish and come back."""
    store, other = new_store(tmp_path), new_store(tmp_path)
    LINE.store(store)
    done = threading.Event()

    def delete() -> None:
        chance = random.Random(4)
        while not done.is_set():
            files = block_files(tmp_path)
            for file in chance.sample(files, k=min(3, len(files))):
                file.unlink(missing_ok=True)
            for model in tmp_path.glob("[0-9a-f]*"):
                shutil.rmtree(model, ignore_errors=True)

    thread = threading.Thread(target=delete)
    thread.start()
    lengths = set()
    try:
        for _ in range(300):
            LINE.store(other)
            found = LINE.load(store)
            assert payloads(found) == payloads(LINE.blocks[: len(found)])
            lengths.add(len(found))
    finally:
        done.set()
        thread.join()
    assert len(lengths) > 1
    assert store.stats().corrupt == 0


def test_no_more_file_descriptors_than_before(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    LINE.store(store)
    before = len(os.listdir("/proc/self/fd"))
    for fault in FAULTS.values():
        fault(file_of(tmp_path, THIRD))
        LINE.load(store)
        LINE.store(store)
        (tmp_path.parent / "outside").unlink(missing_ok=True)
    store.prune()
    store.stats()
    assert len(os.listdir("/proc/self/fd")) == before
