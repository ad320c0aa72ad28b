"""Old answers: the same again, kept within a budget, and forgotten to the last byte."""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
from typing import TYPE_CHECKING

import pytest
import zstandard
from answering import ANSWER, key, long
from hypothesis import given, settings
from hypothesis import strategies as st
from xxhash import xxh3_128_digest

from reame.core.events import Delta, TokenLogprob
from reame.memory.answer_format import MOST_BYTES, Answer, pack, unpack
from reame.memory.format import Damaged

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from reame.memory.answers import AnswerStore

floats = st.floats(allow_nan=False)
tokens = st.builds(
    TokenLogprob, st.integers(0, 2**31), st.binary(max_size=4), floats,
    st.lists(st.tuples(st.integers(0, 9), st.binary(max_size=3), floats), max_size=2).map(tuple),
)  # fmt: skip
deltas = st.builds(Delta, text=st.text(max_size=9), logprobs=st.lists(tokens, max_size=2).map(tuple))


@given(st.lists(deltas, max_size=4).map(tuple), st.sampled_from(["stop", "length"]))
@settings(deadline=None)
def test_an_answer_is_the_same_again(deltas: tuple[Delta, ...], reason: str) -> None:
    answer = Answer(deltas=deltas, reason=reason, usage=ANSWER.usage, stop="END")  # type: ignore[arg-type]
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


def test_a_body_that_says_it_is_huge_is_refused() -> None:
    packed = zstandard.ZstdCompressor().compress(bytes(MOST_BYTES + 1))
    with pytest.raises(Damaged, match="another size"):
        unpack(key(1), xxh3_128_digest(key(1) + packed) + packed)


def test_while_something_long_is_done_there_is_no_old_answer(open_store: Callable[..., AnswerStore]) -> None:
    store = open_store()
    assert store.put(key(1), ANSWER, namespace="")
    held, taken = threading.Event(), threading.Event()

    def hold() -> None:
        with store._turn:
            taken.set()
            held.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait()
    assert store.get(key(1)) is None
    held.set()
    thread.join()
    assert store.get(key(1)) == ANSWER
