"""Whatever the disk says when blocks are written and read: a miss, a number, at most one line, no more."""

from __future__ import annotations

import errno
import logging
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from chains import block_files, chain, new_store

from reame.runtime.recall import memory_salt

if TYPE_CHECKING:
    from pathlib import Path

LINE = chain(6)
THIRD = LINE.blocks[2]


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_file_system_without_links_keeps_a_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)
    salt = memory_salt(tmp_path / "memory")
    assert len(salt) == 32
    assert memory_salt(tmp_path / "memory") == salt
    (file,) = (tmp_path / "memory").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_disk_that_is_full_is_said_once_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    clock, calls = Clock(), []
    store = new_store(tmp_path, clock=clock)
    assert LINE.store(store)[:1] == [True]
    later = chain(4, seed=1)

    def full(*args: object, **keywords: object) -> int:
        calls.append(args)
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        assert later.store(store) == [False] * 4
        assert len(calls) == 1  # then it waits
        clock.now += 31
        assert later.store(store) == [False] * 4
        assert len(calls) == 2
    assert [line for line in warnings(caplog) if "No space left" in line] == warnings(caplog)
    assert len(warnings(caplog)) == 1
    assert tuple(LINE.load(store)) == LINE.blocks  # reading goes on
    assert later.store(store) == [False] * 4
    clock.now += 31
    assert later.store(store) == [True] * 4
    assert "works again" in caplog.text
    counts = store.stats()
    assert (counts.dropped, counts.blocks) == (12, 10)
    assert not list(tmp_path.rglob("*.tmp"))


def test_a_write_that_the_system_cuts_short_leaves_nothing(tmp_path: Path) -> None:
    """A real one, half way through a file: the process may not write more than 600 bytes to one."""
    program = """
import resource, sys
from pathlib import Path
from chains import chain, new_store
resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600))
store = new_store(Path(sys.argv[1]))
small, large = chain(2, payload=100), chain(2, seed=1, payload=1000)
assert small.store(store) == [True, True]
assert large.store(store) == [False, False]
assert store.stats().dropped == 2
assert large.load(store) == [] and tuple(small.load(store)) == small.blocks
"""
    environment = os.environ | {"PYTHONPATH": os.path.dirname(__file__)}
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, env=environment, timeout=60)
    assert len(block_files(tmp_path)) == 2
    assert not list(tmp_path.rglob("*.tmp"))


@pytest.mark.parametrize("where", ["file", "file/blocks", "file/blocks/deeper"])
def test_a_file_where_the_directory_should_be(tmp_path: Path, caplog: pytest.LogCaptureFixture, where: str) -> None:
    (tmp_path / "file").write_text("mine")
    store = new_store(tmp_path / where)
    assert LINE.load(store) == []
    assert LINE.has(store) == 0
    assert LINE.store(store) == [False] * 6
    store.touch(LINE.keys, namespace="")
    store.prune()
    counts = store.stats()
    assert (counts.dropped, counts.misses, counts.corrupt, counts.blocks) == (6, 6, 0, 0)
    assert len(warnings(caplog)) == 1
    assert (tmp_path / "file").read_text() == "mine"


def test_a_disk_that_may_only_be_read_still_serves_what_it_has(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the system calls of such a disk answer; rights would not stop a test that runs as root."""
    LINE.store(new_store(tmp_path))
    system_open = os.open

    def refuse(*args: object, **keywords: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    def only_reading(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            refuse()
        return system_open(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", only_reading)
    for name in ("mkdir", "unlink", "rename", "utime", "rmdir"):
        monkeypatch.setattr(os, name, refuse)
    store = new_store(tmp_path)
    assert tuple(LINE.load(store)) == LINE.blocks
    store.touch(LINE.keys, namespace="")
    store.prune()
    assert chain(2, seed=1).store(store) == [False, False]
    assert len(warnings(caplog)) == 1
    assert "Read-only file system" in warnings(caplog)[0]


@pytest.mark.parametrize(
    ("code", "stays"), [(errno.EACCES, False), (errno.EIO, True), (errno.EMFILE, True)], ids=["EACCES", "EIO", "EMFILE"]
)
def test_a_file_that_cannot_be_read_is_a_miss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, stays: bool
) -> None:
    """It is deleted only when the fault lies with the file, not with the process or the disk."""
    store = new_store(tmp_path)
    LINE.store(store)
    system_open = os.open

    def refuse(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path == f"{THIRD.key.hex()}.kv":
            raise OSError(code, os.strerror(code))
        return system_open(path, flags, mode, dir_fd=dir_fd)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        assert tuple(LINE.load(store)) == LINE.blocks[:2]
    assert store.stats().corrupt == 1
    assert len(LINE.load(store)) == (6 if stays else 2)
