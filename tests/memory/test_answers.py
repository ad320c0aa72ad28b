"""Old answers: the same again, within a budget, by several processes, and never an error of the disk's."""

from __future__ import annotations

import logging
import os
import random
import sqlite3
import stat
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from xxhash import xxh3_128_digest

from reame.core.events import Delta, TokenLogprob, Usage
from reame.memory.answer_database import VERSION
from reame.memory.answer_format import MOST_BYTES, Answer, pack, unpack
from reame.memory.answers import AnswerStore
from reame.memory.format import Damaged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

LOGPROB = TokenLogprob(5, b"\xff\x00", -0.1, ((1, b"a", float("-inf")), (2, b"", -1e-300)))
ANSWER = Answer(
    deltas=(Delta(text="Hello, "), Delta(text=""), Delta(text="\U0001f30d\n\0", logprobs=(LOGPROB,))),
    reason="stop",
    usage=Usage(prompt_tokens=3, cached_tokens=2, completion_tokens=1),
)


def key(number: int) -> bytes:
    return number.to_bytes(32, "little")


def long(number: int) -> Answer:
    """About 1.2 kB that do not pack, another for each number."""
    text = random.Random(number).randbytes(600).hex()
    return Answer(deltas=(Delta(text=text),), reason="length", usage=ANSWER.usage)


@pytest.fixture
def open_store(tmp_path: Path) -> Iterator[Callable[..., AnswerStore]]:
    """Stores on one database, closed at the end."""
    stores = []

    def open_one(budget: int = 1 << 20, **keywords: Callable[[], float]) -> AnswerStore:
        stores.append(AnswerStore(tmp_path / "memory" / "answers.sqlite", budget_bytes=budget, **keywords))
        return stores[-1]

    yield open_one
    for store in stores:
        store.close()


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


floats = st.floats(allow_nan=False)
tokens = st.builds(
    TokenLogprob, st.integers(0, 2**31), st.binary(max_size=4), floats,
    st.lists(st.tuples(st.integers(0, 9), st.binary(max_size=3), floats), max_size=2).map(tuple),
)  # fmt: skip
deltas = st.builds(Delta, text=st.text(max_size=9), logprobs=st.lists(tokens, max_size=2).map(tuple))


@given(st.lists(deltas, max_size=4).map(tuple), st.sampled_from(["stop", "length"]))
@settings(deadline=None)
def test_an_answer_is_the_same_again(deltas: tuple[Delta, ...], reason: str) -> None:
    answer = Answer(deltas=deltas, reason=reason, usage=ANSWER.usage)  # type: ignore[arg-type]
    assert unpack(key(1), pack(key(1), answer)) == answer


def test_every_damage_to_an_answer_is_noticed() -> None:
    body = pack(key(1), ANSWER)
    for position in range(len(body)):
        for changed in (body[:position], body[:position] + bytes((body[position] ^ 1,)) + body[position + 1 :]):
            with pytest.raises(Damaged):
                unpack(key(1), changed)
    with pytest.raises(Damaged, match="checksum"):
        unpack(key(2), body)


def test_it_is_there_for_others_and_after_a_restart(open_store: Callable[..., AnswerStore]) -> None:
    one, other = open_store(), open_store()
    assert one.get(key(1)) is None
    assert one.put(key(1), ANSWER, namespace="alice")
    assert one.get(key(1)) == other.get(key(1)) == ANSWER
    assert other.get(key(2)) is None
    one.close()
    other.close()
    assert open_store().get(key(1)) == ANSWER
    counts = one.stats()
    assert (counts.answers, counts.hits, counts.misses, counts.dropped, counts.corrupt) == (1, 1, 1, 0, 0)


def test_an_answer_is_kept_once(open_store: Callable[..., AnswerStore]) -> None:
    store = open_store()
    assert [store.put(key(1), ANSWER, namespace="") for _ in range(3)] == [True] * 3
    assert store.stats().answers == 1


def test_nobody_else_can_read_it(open_store: Callable[..., AnswerStore], tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        open_store().put(key(1), ANSWER, namespace="alice")
    finally:
        os.umask(before)
    files = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "memory").iterdir()}
    assert files == dict.fromkeys(("answers.sqlite", "answers.sqlite-wal", "answers.sqlite-shm"), 0o600)
    assert stat.S_IMODE((tmp_path / "memory").stat().st_mode) == 0o700
    assert not any(b"alice" in path.read_bytes() for path in (tmp_path / "memory").iterdir())


def test_the_least_recently_used_go(open_store: Callable[..., AnswerStore], monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1e9
    monkeypatch.setattr("time.time", lambda: now)
    store = open_store(30_000)
    for number in range(60):
        assert store.put(key(number), long(number), namespace="")
        assert store.stats().bytes <= 30_000
        now += 100
        assert store.get(key(0)) == long(0)  # asked for again and again
    counts = store.stats()
    assert counts.evicted == 60 - counts.answers
    there = [number for number in range(60) if store.get(key(number))]
    assert there == [0, *range(61 - counts.answers, 60)]
    assert counts.answers > 15


def test_the_file_does_not_outgrow_the_budget(open_store: Callable[..., AnswerStore], tmp_path: Path) -> None:
    store = open_store(200_000)
    for number in range(1000):
        store.put(key(number), long(number), namespace="")
    store.close()
    assert (tmp_path / "memory" / "answers.sqlite").stat().st_size < 300_000


def test_an_answer_that_is_larger_than_the_budget_is_not_kept(open_store: Callable[..., AnswerStore]) -> None:
    store = open_store(1000)
    assert not store.put(key(1), long(1), namespace="")
    assert store.stats().dropped == 1


def test_a_smaller_budget_is_kept_after_pruning(open_store: Callable[..., AnswerStore]) -> None:
    store = open_store()
    for number in range(20):
        store.put(key(number), long(number), namespace="")
    small = open_store(10_000)
    gone = small.prune()
    assert gone > 10
    assert small.stats().bytes <= 10_000
    assert small.stats().answers == 20 - gone
    assert open_store(1).prune() == 20 - gone


def test_a_namespace_is_forgotten_to_the_last_byte(open_store: Callable[..., AnswerStore], tmp_path: Path) -> None:
    store = open_store()
    for number in range(5):
        store.put(key(number), long(number), namespace="alice")
        store.put(key(10 + number), long(10 + number), namespace="bob")
    body = pack(key(1), long(1))
    assert any(body in path.read_bytes() for path in (tmp_path / "memory").iterdir())
    assert store.forget("alice") == 5
    assert store.forget("alice") == store.forget("nobody") == 0
    assert [bool(store.get(key(number))) for number in (0, 4, 10, 14)] == [False, False, True, True]
    assert not any(body in path.read_bytes() for path in (tmp_path / "memory").iterdir())
    assert store.clear() == 5
    assert store.stats().answers == 0


def test_what_could_not_be_overwritten_yet_is_said(
    open_store: Callable[..., AnswerStore], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reame.memory.answer_database.BUSY_S", 0.0)
    store = open_store()
    store.put(key(1), ANSWER, namespace="alice")
    reader = sqlite3.connect(tmp_path / "memory" / "answers.sqlite", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM answers").fetchall()
    with pytest.raises(OSError, match="another process reads it; try again"):
        store.forget("alice")
    assert store.get(key(1)) is None
    reader.close()
    assert store.forget("alice") == 0


def test_forgetting_where_nothing_is_makes_nothing(open_store: Callable[..., AnswerStore], tmp_path: Path) -> None:
    store = open_store()
    assert (store.forget(""), store.clear(), store.prune(), store.verify()) == (0, 0, 0, (0, 0))
    assert store.stats().answers == 0
    assert not (tmp_path / "memory").exists()


def test_a_damaged_answer_is_a_miss_and_goes(open_store: Callable[..., AnswerStore], tmp_path: Path) -> None:
    store = open_store()
    for number in range(4):
        store.put(key(number), ANSWER, namespace="")
    with sqlite3.connect(tmp_path / "memory" / "answers.sqlite") as database:
        database.execute("UPDATE answers SET body = ? WHERE key = ?", (b"short", key(0)))
        database.execute("UPDATE answers SET body = ? WHERE key = ?", (pack(key(0), ANSWER), key(1)))
        database.execute("UPDATE answers SET body = ? WHERE key = ?", (b"\0" * 40, key(2)))
    database.close()
    assert [store.get(key(number)) for number in range(2)] == [None, None]
    assert store.stats().corrupt == 2
    assert store.verify() == (1, 1)
    counts = store.stats()
    assert (counts.corrupt, counts.answers) == (3, 1)


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


def test_threads_and_processes_at_once(open_store: Callable[..., AnswerStore], tmp_path: Path) -> None:
    program = """
import sys
from pathlib import Path
from test_answers import AnswerStore, key, long
store = AnswerStore(Path(sys.argv[1]), budget_bytes=50_000)
for number in range(100):
    store.put(key(number % 50), long(number % 50), namespace="")
    assert store.get(key(number % 50)) in (None, long(number % 50))
store.close()
"""
    store = open_store(50_000)
    environment = os.environ | {"PYTHONPATH": os.path.dirname(__file__)}
    path = str(tmp_path / "memory" / "answers.sqlite")
    others = [subprocess.Popen([sys.executable, "-c", program, path], env=environment) for _ in range(2)]
    wrong = []

    def use(start: int) -> None:
        for number in range(100):
            store.put(key(start + number % 50), long(start + number % 50), namespace="")
            if store.get(key(number % 50)) not in (None, long(number % 50)):
                wrong.append(number)

    threads = [threading.Thread(target=use, args=(start,)) for start in (0, 25)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [other.wait(60) for other in others] == [0, 0]
    counts = store.stats()
    assert wrong == []
    assert counts.corrupt == 0
    assert counts.bytes <= 50_000
    assert store.verify() == (counts.answers, 0)


def test_a_writer_that_is_killed_leaves_a_sound_database(
    open_store: Callable[..., AnswerStore], tmp_path: Path
) -> None:
    program = """
import sys
from pathlib import Path
from test_answers import AnswerStore, key, long
store = AnswerStore(Path(sys.argv[1]), budget_bytes=1 << 30)
number = 0
while True:
    assert store.put(key(number), long(number), namespace="")
    print(number, flush=True)
    number += 1
"""
    environment = os.environ | {"PYTHONPATH": os.path.dirname(__file__)}
    command = [sys.executable, "-c", program, str(tmp_path / "memory" / "answers.sqlite")]
    for lines in (1, 37, 90):
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            last = [int(process.stdout.readline()) for _ in range(lines)][-1]
            process.kill()
        store = open_store(1 << 30)
        assert store.get(key(last)) == long(last)
        assert store.verify()[1] == 0
        store.close()


def test_a_body_that_says_it_is_huge_is_refused() -> None:
    packed = zstandard.ZstdCompressor().compress(bytes(MOST_BYTES + 1))
    with pytest.raises(Damaged, match="another size"):
        unpack(key(1), xxh3_128_digest(key(1) + packed) + packed)
