"""Old answers on a disk that fails: damage is set aside, an outage is said once, and neither is ever an error."""

from __future__ import annotations

import logging
import os
import random
import sqlite3
from typing import TYPE_CHECKING

import pytest
from answering import ANSWER, key, long, warnings

from reame.memory.answer_database import VERSION
from reame.memory.answers import AnswerStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def overwrite(path: Path) -> None:
    path.write_bytes(random.Random(1).randbytes(path.stat().st_size))


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def other_tables(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE answers (a, b)")
    database.close()


def other_version(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute(f"PRAGMA user_version = {VERSION + 1}")
    database.close()


def become_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def become_link(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.parent.parent / "outside")


@pytest.mark.parametrize("damage", [overwrite, cut, other_tables, other_version, become_directory, become_link])
@pytest.mark.parametrize("first", ["get", "put", "verify"])
def test_a_damaged_database_is_set_aside(
    open_store: Callable[..., AnswerStore],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    damage: Callable[[Path], None],
    first: str,
) -> None:
    before = open_store()
    for number in range(50):
        before.put(key(number), long(number), namespace="")
    before.close()
    path = tmp_path / "memory" / "answers.sqlite"
    damage(path)
    store = open_store()
    if first == "get":
        assert store.get(key(49)) is None
    elif first == "put":
        store.put(key(1), ANSWER, namespace="")
    else:
        assert store.verify()[0] == 0
    assert store.put(key(1), ANSWER, namespace="")
    assert store.get(key(1)) == ANSWER
    assert store.stats().corrupt == 1
    assert os.path.lexists(path.with_name("answers.sqlite.damaged"))
    assert len(warnings(caplog)) == 1
    assert not (tmp_path / "outside").exists()


def test_only_the_last_damaged_one_is_kept_and_forgetting_takes_it_too(
    open_store: Callable[..., AnswerStore], tmp_path: Path
) -> None:
    path = tmp_path / "memory" / "answers.sqlite"
    for _ in range(3):
        store = open_store()
        store.put(key(1), ANSWER, namespace="")
        store.close()
        overwrite(path)
        assert store.get(key(1)) is None
    assert [file.name for file in path.parent.iterdir() if "damaged" in file.name] == ["answers.sqlite.damaged"]
    store.forget("alice")
    assert [file.name for file in path.parent.iterdir() if "damaged" in file.name] == []
    store.put(key(1), ANSWER, namespace="")
    store.close()
    overwrite(path)
    assert store.clear() == 0
    assert list(path.parent.glob("*.damaged")) == []


def test_a_file_that_somebody_removes_is_made_again(open_store: Callable[..., AnswerStore], tmp_path: Path) -> None:
    store = open_store()
    store.put(key(1), ANSWER, namespace="")
    for file in (tmp_path / "memory").iterdir():
        file.unlink()
    assert store.get(key(1)) is None
    assert store.put(key(1), ANSWER, namespace="")
    assert open_store().get(key(1)) == ANSWER
    assert store.stats().corrupt == 0


def test_a_disk_that_takes_nothing_is_said_once_and_tried_again(
    open_store: Callable[..., AnswerStore], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    now = 0.0
    store = open_store(1 << 24, clock=lambda: now)
    store.put(key(1), ANSWER, namespace="")
    database = store._database.open()
    (pages,) = database.execute("PRAGMA page_count").fetchone()
    database.execute(f"PRAGMA max_page_count = {pages}")  # what sqlite then says is what a full disk makes it say
    stored = [store.put(key(number), long(number), namespace="") for number in range(2, 40)]
    assert stored[-1] is False
    assert len(warnings(caplog)) == 1
    assert "full" in warnings(caplog)[0]
    assert store.get(key(1)) == ANSWER
    database.execute("PRAGMA max_page_count = 100000")
    assert not store.put(key(50), ANSWER, namespace="")
    now += 31
    assert store.put(key(50), ANSWER, namespace="")
    assert "works again" in caplog.text


def test_no_directory_no_answers(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("mine")
    store = AnswerStore(tmp_path / "file" / "answers.sqlite", budget_bytes=1000)
    assert store.get(key(1)) is None
    assert not store.put(key(1), ANSWER, namespace="")
    assert store.stats().answers == 0
    assert len(warnings(caplog)) == 1
    with pytest.raises(NotADirectoryError):
        store.forget("")
    assert (tmp_path / "file").read_text() == "mine"


def test_a_writer_that_holds_the_lock_is_no_outage(
    open_store: Callable[..., AnswerStore],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("reame.memory.answer_database.BUSY_S", 0.0)
    store = open_store()
    store.put(key(1), ANSWER, namespace="")
    other = sqlite3.connect(tmp_path / "memory" / "answers.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert store.get(key(1)) == ANSWER
    assert not store.put(key(2), ANSWER, namespace="")
    other.execute("ROLLBACK")
    other.close()
    assert store.put(key(2), ANSWER, namespace="")
    assert warnings(caplog) == []
