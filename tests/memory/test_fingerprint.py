"""A model is known by its content, whatever it is called; the digest is remembered only for the very same file."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reame.errors import ModelError
from reame.memory import fingerprint as module
from reame.memory.fingerprint import MOST_DIGESTS, fingerprint, identity, model_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

facts = st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=3)


@pytest.fixture(autouse=True)
def all_is_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of a test are younger than two seconds."""
    monkeypatch.setattr(module, "SETTLED_S", -10.0)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[Path]]:
    """What was read as a whole."""
    done: list[Sequence[Path]] = []
    whole = module._digest

    def digest(files: Sequence[Path], go_on: Callable[[], bool]) -> bytes:
        done.append(files)
        return whole(files, go_on)

    monkeypatch.setattr(module, "_digest", digest)
    return done


def test_the_content_counts_not_the_name(tmp_path: Path, reads: list[Sequence[Path]]) -> None:
    one, other = tmp_path / "one.gguf", tmp_path / "other.gguf"
    one.write_bytes(b"GGUF" + bytes(3_000_000))
    other.write_bytes(one.read_bytes())
    cache = tmp_path / "cache"
    digest = model_digest([one], cache)
    assert len(digest) == 32
    assert model_digest([other], cache) == digest
    assert [model_digest([one], cache), model_digest([other], cache)] == [digest] * 2
    assert len(reads) == 2
    other.rename(tmp_path / "third.gguf")  # renaming alone changes the ctime
    assert model_digest([tmp_path / "third.gguf"], cache) == digest


def test_a_model_that_is_swapped_under_name_size_and_mtime_is_another(tmp_path: Path) -> None:
    model = tmp_path / "m.gguf"
    model.write_bytes(b"GGUF" + b"a" * 1000)
    os.utime(model, (1_000_000, 1_000_000))
    before = model_digest([model], tmp_path)
    with model.open("r+b") as file:  # in place: also the same inode
        file.seek(500)
        file.write(b"b")
    os.utime(model, (1_000_000, 1_000_000))
    after = model_digest([model], tmp_path)
    assert after != before
    model.write_bytes(b"GGUF" + b"a" * 1000)
    assert model_digest([model], tmp_path) == before


def test_all_parts_count_and_where_they_are_cut(tmp_path: Path) -> None:
    parts = [tmp_path / name for name in "abcd"]
    for part, data in zip(parts, (b"12", b"3", b"1", b"23"), strict=True):
        part.write_bytes(data)
    a, b, c, d = parts
    digests = {model_digest(files, tmp_path / "cache") for files in ([a, b], [c, d], [b, a], [a], [a, a])}
    assert len(digests) == 5


def test_what_is_remembered_is_checked(tmp_path: Path, reads: list[Sequence[Path]]) -> None:
    model = tmp_path / "m.gguf"
    model.write_bytes(b"GGUF")
    digest = model_digest([model], tmp_path / "cache")
    (known,) = (tmp_path / "cache" / "digests").iterdir()
    for damage in (b"", b"00", b"x" * 64, b"0" * 65):
        known.write_bytes(damage)
        assert model_digest([model], tmp_path / "cache") == digest
    assert len(reads) == 5


def test_a_file_that_was_changed_just_now_is_not_remembered(
    tmp_path: Path, reads: list[Sequence[Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It could be changed again within the same tick of the clock."""
    monkeypatch.setattr(module, "SETTLED_S", 2.0)
    model = tmp_path / "m.gguf"
    model.write_bytes(b"GGUF")
    for _ in range(2):
        model_digest([model], tmp_path / "cache")
    assert len(reads) == 2
    monkeypatch.setattr(time, "time", lambda: model.stat().st_ctime + 3)
    for _ in range(2):
        model_digest([model], tmp_path / "cache")
    assert len(reads) == 3


def test_a_file_that_changes_while_it_is_read_is_not_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "m.gguf"
    model.write_bytes(b"GGUF")
    whole = module._digest

    def digest(files: Sequence[Path], go_on: Callable[[], bool]) -> bytes:
        read = whole(files, go_on)
        model.write_bytes(b"GGUF more")
        return read

    monkeypatch.setattr(module, "_digest", digest)
    model_digest([model], tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_a_cache_that_cannot_be_written_only_costs_time(tmp_path: Path, reads: list[Sequence[Path]]) -> None:
    model = tmp_path / "m.gguf"
    model.write_bytes(b"GGUF")
    (tmp_path / "file").write_text("")
    assert model_digest([model], tmp_path / "file") == model_digest([model], tmp_path / "file")
    assert len(reads) == 2


def test_the_cache_does_not_grow_for_ever(tmp_path: Path) -> None:
    model = tmp_path / "m.gguf"
    for number in range(MOST_DIGESTS + 10):
        model.write_bytes(b"GGUF" + bytes(number))
        model_digest([model], tmp_path)
    assert len(list((tmp_path / "digests").iterdir())) == MOST_DIGESTS


def test_a_model_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"the model cannot be read: .*m\.gguf"):
        model_digest([tmp_path / "m.gguf"], tmp_path)
    with pytest.raises(FileNotFoundError):
        identity([tmp_path / "m.gguf"])


@given(st.binary(max_size=3), facts, st.binary(max_size=3), facts)
@settings(deadline=None)
def test_every_fact_counts(one: bytes, here: dict[str, str], other: bytes, there: dict[str, str]) -> None:
    assert (fingerprint(one, here) == fingerprint(other, there)) == ((one, here) == (other, there))
    assert len(fingerprint(one, here)) == 16


def test_the_order_of_the_facts_does_not_count_but_where_they_begin_does() -> None:
    assert fingerprint(b"d", {"a": "1", "b": "2"}) == fingerprint(b"d", {"b": "2", "a": "1"})
    prints = [fingerprint(b"d", facts) for facts in ({"ab": "c"}, {"a": "bc"}, {"abc": ""}, {"a": "b", "c": ""}, {})]
    assert len(set(prints)) == 5


def test_who_stops_does_not_wait_for_the_whole_model(tmp_path: Path) -> None:
    file = tmp_path / "large.gguf"
    with file.open("wb") as data:
        data.truncate(64 * module.CHUNK)
    looks = iter([True, True, False])
    with pytest.raises(ModelError, match="given up"):
        model_digest([file], tmp_path / "cache", lambda: next(looks))
    assert list(looks) == []
    assert not list((tmp_path / "cache" / "digests").glob("*"))
