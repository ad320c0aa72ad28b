"""What was generated comes back at the places where texts end alike: against a plain search through everything."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import sys
import threading
from typing import TYPE_CHECKING

import pytest
from generations import VOCABULARY, Writing, new_archive, text
from hypothesis import given, settings
from hypothesis import strategies as st

from reame.memory import archive_descriptor
from reame.memory.archive_index import GRAMS
from reame.memory.archive_search import FEW, MOST_GIVEN, MOST_SITES
from reame.memory.archive_upkeep import drop
from reame.speculation.palimpsest import Site, likeliest_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from reame.memory.archive import Archive

LONG = text(1, 300)


def segment_files(directory: Path) -> list[Path]:
    return sorted(directory.glob("*/*/*.seg"))


def following(archive: Archive, tail: Sequence[int], *, namespace: str = "", most: int = 8) -> list[tuple[int, ...]]:
    return [site.tokens for site in archive.continuations(tail, namespace=namespace, most=most)]


def places(generations: list[list[int]], tail: Sequence[int], most: int) -> list[tuple[int, tuple[int, ...]]]:
    """All places that match in three tokens or more, the newest first: how long they match and what followed."""
    found = []
    for tokens in reversed(generations):
        for stop in range(len(tokens) - 1, 2, -1):
            match = 0
            while match < min(stop, len(tail), 64) and tokens[stop - 1 - match] == tail[-1 - match]:
                match += 1
            if match >= 3:
                found.append((match, tuple(tokens[stop : stop + most])))
    return found


def test_a_text_that_comes_again_is_continued(tmp_path: Path) -> None:
    archive = new_archive(tmp_path)
    archive.append(LONG, namespace="")
    (site,) = archive.continuations([*text(2, 10), *LONG[40:60]], namespace="", most=8)
    assert site == Site(20, len(LONG) - 59, tuple(LONG[60:68]))
    assert likeliest_path([site], 8)[0] == tuple(LONG[60:68])
    assert following(archive, LONG[:2]) == []
    assert following(archive, text(3, 64)) == []


def test_no_continuation_crosses_the_end_of_its_generation(tmp_path: Path) -> None:
    archive = new_archive(tmp_path)
    for start in (0, 100, 200):
        archive.append(LONG[start : start + 100], namespace="")
    assert following(archive, LONG[90:97], most=64) == [tuple(LONG[97:100])]
    assert following(archive, LONG[90:100], most=64) == []
    assert following(archive, LONG[96:102], most=64) == []
    (site,) = archive.continuations(LONG[96:104], namespace="", most=64)
    assert (site.match_length, site.tokens) == (4, tuple(LONG[104:168]))


def test_matches_are_counted_back_to_the_beginning_and_no_further(tmp_path: Path) -> None:
    archive = new_archive(tmp_path)
    archive.append(LONG, namespace="")
    assert [s.match_length for s in archive.continuations([9, 9, *LONG[:5]], namespace="", most=1)] == [5]
    assert [s.match_length for s in archive.continuations(LONG[:200], namespace="", most=1)] == [64]


def test_the_newest_come_first_and_know_their_age(tmp_path: Path) -> None:
    archive = new_archive(tmp_path)
    for end in (11, 12, 13):
        archive.append([*LONG[:50], end], namespace="")
    sites = archive.continuations(LONG[:50], namespace="", most=4)
    assert [site.tokens for site in sites] == [(13,), (12,), (11,)]
    ages = [site.age for site in sites]
    assert ages == sorted(ages)
    assert ages[0] < 10 < 50 < ages[1] < ages[2] < 170


def test_namespaces_and_tokenizers_know_nothing_of_each_other(tmp_path: Path) -> None:
    archive = new_archive(tmp_path)
    archive.append(LONG, namespace="alice")
    archive.prepare(namespace="bob")
    assert following(archive, LONG[:20], namespace="bob") == []
    other = new_archive(tmp_path, fingerprint=b"another tokenizer's fingerprint.")
    other.prepare(namespace="alice")
    assert following(other, LONG[:20], namespace="alice") == []
    assert following(archive, LONG[:20], namespace="alice") == [tuple(LONG[20:28])]


def test_what_is_there_at_the_start_is_found_once_it_is_prepared(tmp_path: Path) -> None:
    archive = new_archive(tmp_path)
    archive.append(LONG, namespace="")
    archive.close()
    again = new_archive(tmp_path)
    assert following(again, LONG[:20]) == []
    again.prepare(namespace="")
    assert following(again, LONG[:20]) == [tuple(LONG[20:28])]
    assert again.stats().tokens == len(LONG)
    again.append(LONG, namespace="")
    assert len(segment_files(tmp_path)) == 1, "it goes on in the segment that was begun"


def test_nobody_waits_for_segments_that_somebody_else_opens(tmp_path: Path) -> None:
    """A quarter of a gigabyte on a cold disk takes seconds."""
    archive = new_archive(tmp_path)
    archive.append(LONG, namespace="a")
    slow = threading.Event()
    with archive._turn:
        newcomer = threading.Thread(target=lambda: (archive.prepare(namespace="b"), slow.set()))
        newcomer.start()
        assert slow.wait(10), "it goes on and knows nothing"
    newcomer.join()
    archive.prepare(namespace="a")
    assert following(archive, LONG[:20], namespace="a")


def test_nothing_is_made_before_something_is_kept(tmp_path: Path) -> None:
    archive = new_archive(tmp_path / "archive")
    archive.prepare(namespace="")
    archive.append(LONG[:3], namespace="")
    assert following(archive, LONG[:20]) == []
    assert archive.forget(namespace=None) == 0
    assert not (tmp_path / "archive").exists()


def test_ids_that_do_not_exist_are_not_kept(tmp_path: Path) -> None:
    archive = new_archive(tmp_path)
    for wrong in (-1, VOCABULARY, 1 << 31, 1 << 40):
        archive.append([*LONG[:20], wrong], namespace="")
    assert archive.stats().dropped == 4
    assert archive.stats().appended == 0


def test_full_segments_are_left_for_larger_ones_and_nothing_is_lost(tmp_path: Path) -> None:
    archive = new_archive(tmp_path)
    texts = [text(seed, 700) for seed in range(80)]
    for tokens in texts:
        archive.append(tokens, namespace="")
    assert len(segment_files(tmp_path)) == 3
    for each in (archive, new_archive(tmp_path)):
        each.prepare(namespace="")
        for tokens in texts:
            assert following(each, tokens[300:310]) == [tuple(tokens[310:318])]
        assert each.stats().tokens == 80 * 700


def test_a_generation_larger_than_any_segment_is_kept_in_pieces(tmp_path: Path) -> None:
    archive = new_archive(tmp_path, budget=600_000)
    tokens = text(4, 20_000)
    archive.append(tokens, namespace="")
    assert archive.stats().appended == 20_000
    for at in (10, 8000, 9000, 19_000):
        assert following(archive, tokens[at : at + 10], most=2) == [tuple(tokens[at + 10 : at + 12])]


def test_the_oldest_goes_when_the_budget_is_passed(tmp_path: Path) -> None:
    budget = 1 << 20
    archive = new_archive(tmp_path, budget=budget)
    texts = [text(seed, 4000) for seed in range(20)]
    for number, tokens in enumerate(texts):
        archive.append(tokens, namespace="alice" if number < 2 else "bob")
        for file in segment_files(tmp_path):
            os.utime(file, ns=(1, file.stat().st_mtime_ns - 10**9))  # as if each were a second older than the next
        assert sum(file.stat().st_size for file in tmp_path.rglob("*.seg")) <= budget
    assert archive.stats().evicted > 0
    assert following(archive, texts[0][:10], namespace="alice") == []
    assert following(archive, texts[-1][:10], namespace="bob", most=1) == [(texts[-1][10],)]
    assert following(archive, texts[2][:10], namespace="bob") == []


def test_a_budget_without_room_for_anything_drops(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    archive = new_archive(tmp_path, budget=100_000)
    archive.append(LONG, namespace="")
    archive.append(LONG, namespace="")
    assert archive.stats().dropped == 2
    assert "memory.archive_mb" in caplog.text
    assert len(caplog.records) == 1


def test_forgetting_one_leaves_the_others(tmp_path: Path) -> None:
    archive = new_archive(tmp_path)
    for namespace in ("alice", "bob"):
        archive.append(LONG, namespace=namespace)
    assert archive.forget(namespace="alice") == len(LONG)
    archive.prepare(namespace="alice")
    assert following(archive, LONG[:20], namespace="alice") == []
    assert following(archive, LONG[:20], namespace="bob") == [tuple(LONG[20:28])]
    archive.append(LONG[:100], namespace="alice")
    assert following(archive, LONG[:20], namespace="alice") == [tuple(LONG[20:28])]
    assert archive.forget(namespace=None) == len(LONG) + 100
    assert segment_files(tmp_path) == []


@pytest.mark.parametrize("how", ["prepare", "forget one", "forget all", "drop"])
def test_what_a_killed_forgetting_left_is_deleted(tmp_path: Path, how: str) -> None:
    """It was taken out of the way, maybe with all that the tokenizer had, and not deleted yet."""
    archive = new_archive(tmp_path)
    archive.append(LONG, namespace="")
    (tokenizer,) = tmp_path.iterdir()
    tokenizer.rename(tmp_path / "gone-0123456789abcdef")
    archive = new_archive(tmp_path)
    if how == "prepare":
        archive.prepare(namespace="")
    elif how == "drop":
        drop(tmp_path, None)
    else:
        archive.forget(namespace=None if how == "forget all" else "")
    assert list(tmp_path.iterdir()) == []


def test_the_least_recently_used_namespace_is_closed_when_there_are_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reame.memory.archive.MOST_OPEN", 2)
    archive = new_archive(tmp_path)
    for namespace in ("often", "seldom", "often", "new"):
        archive.append(LONG, namespace=namespace)
    found = [bool(following(archive, LONG[:20], namespace=namespace)) for namespace in ("often", "seldom", "new")]
    assert found == [True, False, True]


@pytest.mark.parametrize("vanish", ["unlink", "rmtree", "forget", "truncate"])
def test_what_others_take_away_is_gone_and_new_things_are_kept(tmp_path: Path, vanish: str) -> None:
    directory = tmp_path / "archive"
    archive = new_archive(directory)
    archive.append(LONG, namespace="")
    if vanish == "rmtree":
        shutil.rmtree(directory)
    elif vanish == "forget":
        new_archive(directory).forget(namespace="")
    else:
        for file in segment_files(directory):
            file.unlink() if vanish == "unlink" else os.truncate(file, 100)
    following(archive, LONG[:20])
    archive.append(text(5, 50), namespace="")
    assert following(archive, text(5, 20)) == [tuple(text(5, 28)[20:])]
    assert following(archive, LONG[:20]) == []
    assert archive.stats().dropped == 0


def test_a_disk_that_takes_nothing_is_said_once_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = [0.0]
    archive = new_archive(tmp_path, clock=lambda: now[0])
    archive.append(LONG, namespace="")

    def full(*args: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(archive_descriptor.os, "pwrite", full)
        for _ in range(3):
            archive.append(text(6, 40), namespace="")
    archive.append(text(7, 40), namespace="")  # too early
    assert archive.stats().dropped == 4
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING] == [
        f"archive of generations ({tmp_path}): No space left on device; going on without, trying again every 30 s"
    ]
    assert following(archive, LONG[:20]) == [tuple(LONG[20:28])]
    now[0] = 31.0
    archive.append(text(8, 40), namespace="")
    assert following(archive, text(8, 40)[:20]) == [tuple(text(8, 40)[20:28])]
    again = new_archive(tmp_path)
    again.prepare(namespace="")
    assert (again.stats().damaged, again.stats().tokens) == (0, len(LONG) + 40)


def test_names_in_the_archive_are_salted(tmp_path: Path) -> None:
    from reame.memory.archive import Archive

    for salt in (b"one", b"other"):
        options = {"fingerprint": bytes(32), "vocab_size": VOCABULARY, "budget_bytes": 1 << 30}
        Archive(tmp_path, salt=salt, **options).append(LONG, namespace="alice")  # type: ignore[arg-type]
    folders = {file.parent.name for file in segment_files(tmp_path)}
    assert len(folders) == 2
    assert all(path.stat().st_mode & 0o077 == 0 for path in tmp_path.rglob("*"))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 2), min_size=4, max_size=60), min_size=1, max_size=12),
    st.lists(st.integers(0, 2), min_size=0, max_size=70),
    st.integers(1, 6),
    st.booleans(),
)
def test_it_finds_what_a_plain_search_finds(
    tmp_path_factory: pytest.TempPathFactory, texts: list[list[int]], tail: list[int], most: int, again: bool
) -> None:
    """All places when there are few; else of the newest that match in twelve the longest; or a few of the others."""
    directory = tmp_path_factory.mktemp("archive")
    archive = new_archive(directory)
    for tokens in texts:
        archive.append(tokens, namespace="")
    if again:
        archive = new_archive(directory)
        archive.prepare(namespace="")
    found = [(s.match_length, s.tokens) for s in archive.continuations(tail, namespace="", most=most)]
    expected = places(texts, tail, most)
    if len(expected) >= FEW:
        longer = [place for place in expected if place[0] >= GRAMS[0]][:MOST_SITES]
        best = sorted(range(len(longer)), key=lambda i: -longer[i][0])[:MOST_GIVEN]
        expected = [longer[i] for i in sorted(best)] or expected[:FEW]
    assert found == expected


@pytest.fixture
def quick_turns() -> Iterator[None]:
    """Threads take turns after 50 us, not 5 ms: they meet in more places, and none waits long."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(5e-5)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.usefixtures("quick_turns")
def test_a_reader_beside_a_writer_only_sees_what_was_appended(tmp_path: Path) -> None:
    """Every continuation it gets is one of the text that its tail was taken from."""
    archive = new_archive(tmp_path)
    writing = Writing(3)
    texts = [writing.generation() for _ in range(300)]
    known = {tuple(tokens[i : i + 12]) for tokens in texts for i in range(len(tokens))}
    archive.append(texts[0], namespace="")
    done = threading.Event()

    def write() -> None:
        for tokens in texts:
            archive.append(tokens, namespace="")
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    found = 0
    while not done.is_set() or not found:
        for tokens in texts[::7]:
            for site in archive.continuations(tokens[:6], namespace="", most=6):
                found += 1
                if site.match_length >= 6 and len(site.tokens) == 6:
                    assert (*tokens[:6], *site.tokens) in known
    writer.join()
    assert archive.stats().appended == sum(map(len, texts)) + len(texts[0])
