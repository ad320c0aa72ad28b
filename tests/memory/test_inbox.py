"""Orders to running daemons: who gets them, and when they count as done."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from reame.memory.inbox import NAME, Inbox, order, pid_of, wait_done

if TYPE_CHECKING:
    from pathlib import Path

NOBODY = 65534
DAEMON = """
import pathlib, sys
from reame.memory.inbox import Inbox
Inbox(pathlib.Path(sys.argv[1]))
print("up", flush=True)
input()
"""


def test_nobody_runs(tmp_path: Path) -> None:
    assert order(tmp_path / "none", "anna") == []
    assert not (tmp_path / "none").exists()


def test_every_daemon_gets_the_order_and_ticks_it_off(tmp_path: Path) -> None:
    inboxes = [Inbox(tmp_path), Inbox(tmp_path)]
    files = order(tmp_path, "anna ü")
    assert len(files) == 2
    assert wait_done(files, patience_s=0) == files
    for inbox in inboxes:
        (told,) = inbox.orders()
        assert told.namespace == "anna ü"
        inbox.done(told)
        assert inbox.orders() == []
    assert wait_done(files, patience_s=0) == []
    for inbox in inboxes:
        inbox.close()
    assert order(tmp_path, "anna") == []


def test_the_daemon_of_another_user_can_read_what_root_orders(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path)
    if os.geteuid() == 0:
        os.chown(inbox.folder, NOBODY, NOBODY)
    (file,) = order(tmp_path, "anna")
    told, its = file.stat(), inbox.folder.stat()
    assert (told.st_uid, told.st_gid) == (its.st_uid, its.st_gid)
    assert stat.S_IMODE(told.st_mode) == 0o600
    inbox.close()


def test_a_daemon_that_ends_in_an_orderly_way_is_waited_for_no_longer(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path)
    files = order(tmp_path, "anna")
    inbox.close()
    assert wait_done(files, patience_s=0) == []
    assert list((tmp_path / NAME).iterdir()) == []


def test_a_daemon_that_is_killed_is_waited_for_no_longer_and_tidied_up(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", DAEMON, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as daemon:
        assert daemon.stdout
        assert daemon.stdout.readline() == "up\n"
        files = order(tmp_path, "anna")
        assert wait_done(files, patience_s=0) == files
        assert pid_of(files[0]) == str(daemon.pid)
        daemon.kill()
    assert wait_done(files, patience_s=0) == []
    assert order(tmp_path, "anna") == []
    assert list((tmp_path / NAME).iterdir()) == []


def test_what_is_no_order_is_passed_over(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path)
    (inbox.folder / "note.txt").write_text("anna")
    (inbox.folder / "0.forget").mkdir()
    (inbox.folder / "1.forget").write_bytes(b"\xff\xfe")
    (inbox.folder / "2.forget").write_text("bert")
    assert [told.namespace for told in inbox.orders()] == ["bert"]
    inbox.close()


def test_a_disk_that_fails_is_no_directory_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inbox = Inbox(tmp_path)
    for number, is_gone in ((errno.EACCES, False), (errno.EIO, False), (errno.ESTALE, False), (errno.ENOENT, True)):
        failure = OSError(number, os.strerror(number))

        def fail(path: object, failure: OSError = failure) -> None:
            raise failure

        monkeypatch.setattr(os, "stat", fail)
        told = inbox.is_gone
        monkeypatch.undo()
        assert told is is_gone
    inbox.close()


def test_what_cannot_be_made_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inbox = Inbox(tmp_path)
    before = len(os.listdir("/proc/self/fd"))

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(os, "write", fail)
    with pytest.raises(OSError, match="no space"):
        inbox.reopen()
    monkeypatch.undo()
    assert len(os.listdir("/proc/self/fd")) == before
    assert os.listdir(tmp_path / NAME) == [inbox.folder.name]
    inbox.close()
