"""Whatever happens to the bytes of an archive: it starts, proposes only tokens that exist, and keeps what is sound."""

from __future__ import annotations

import errno
import logging
import os
import random
import shutil
from typing import TYPE_CHECKING

import pytest
from generations import VOCABULARY, new_archive, text
from hypothesis import given, settings
from hypothesis import strategies as st

from reame.memory.archive_format import CELL_BYTES, HEADER_BYTES, SEAL_AT, SEAL_BYTES

if TYPE_CHECKING:
    from pathlib import Path

    from reame.memory.archive import Archive

TEXTS = [text(seed, 240) for seed in range(40)]
"""The first segment has 8,192 cells and holds 33 of them."""


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("sound") / "archive"
    archive = new_archive(directory)
    for tokens in TEXTS:
        archive.append(tokens, namespace="")
    archive.close()
    return directory


def copied(sound: Path, directory: Path) -> tuple[Path, Path]:
    """The full segment and the one that was being written."""
    shutil.copytree(sound, directory)
    full, begun = sorted(directory.glob("*/*/*.seg"))
    return full, begun


def opened(directory: Path) -> Archive:
    archive = new_archive(directory)
    archive.prepare(namespace="")
    return archive


def known(archive: Archive) -> int:
    """How many of the texts can be continued in their middle. All that is proposed exists."""
    count = 0
    for tokens in TEXTS:
        sites = archive.continuations(tokens[100:120], namespace="", most=16)
        assert all(0 <= token < VOCABULARY for site in sites for token in site.tokens)
        count += [site.tokens for site in sites] == [tuple(tokens[120:136])]
    return count


def flip(file: Path, offset: int, bit: int) -> None:
    with file.open("r+b") as data:
        data.seek(offset)
        (byte,) = data.read(1)
        data.seek(offset)
        data.write(bytes([byte ^ 1 << bit]))


@pytest.mark.parametrize("where", ["word", "link", "head", "seal", "header"])
def test_a_flipped_bit_in_a_full_segment_sets_it_aside_and_saves_the_rest(
    sound: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, where: str
) -> None:
    full, _ = copied(sound, tmp_path / "archive")
    at = HEADER_BYTES + 1000 * CELL_BYTES
    offset = {"word": at, "link": at + 4, "head": full.stat().st_size - 9, "seal": SEAL_AT + 20, "header": 20}[where]
    flip(full, offset, 3)
    before = full.read_bytes()
    archive = opened(tmp_path / "archive")
    assert known(archive) == len(TEXTS) - (where == "word")
    stats = archive.stats()
    assert (stats.damaged, stats.foreign) == (1, 0)
    aside = full.with_name(full.name + ".damaged")
    assert aside.read_bytes() == before, "the bytes are left as they were"
    (message,) = [record.getMessage() for record in caplog.records]
    assert aside.name in message
    assert known(opened(tmp_path / "archive")) == known(archive)
    assert opened(tmp_path / "archive").stats().damaged == 0


@pytest.mark.parametrize("step", ["fstatvfs", "ftruncate", "pwrite"])
def test_what_is_sound_in_a_damaged_segment_waits_for_room(
    sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, step: str
) -> None:
    full, _ = copied(sound, tmp_path / "archive")
    flip(full, HEADER_BYTES + 1000 * CELL_BYTES, 3)
    names = sorted(full.parent.iterdir())

    real = os.pwrite

    def no_room(*args: int) -> object:
        if step == "pwrite" and args[2] == 0:  # a header, in its place before the disk is full
            return real(*args)  # type: ignore[arg-type]
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, step, no_room)
        archive = new_archive(tmp_path / "archive")
        archive.prepare(namespace="")
    assert known(archive) == 7, "newer ones are read all the same"
    assert (archive.stats().damaged, archive.stats().unreadable) == (0, 1)
    assert "No space left on device" in caplog.text
    assert sorted(full.parent.iterdir()) == names
    again = opened(tmp_path / "archive")
    assert (known(again), again.stats().damaged) == (39, 1)


@pytest.mark.parametrize("size", [0, 100, HEADER_BYTES, HEADER_BYTES + 10_000, 1 << 30])
@pytest.mark.parametrize("which", [0, 1])
def test_a_segment_of_another_length_is_set_aside(sound: Path, tmp_path: Path, size: int, which: int) -> None:
    file = copied(sound, tmp_path / "archive")[which]
    os.truncate(file, size)
    archive = opened(tmp_path / "archive")
    assert archive.stats().damaged == 1
    kept = known(archive)
    assert kept >= (7 if which == 0 else 33)
    assert kept == 40 if size == 1 << 30 else kept < 40
    archive.append(text(99, 50), namespace="")
    assert archive.continuations(text(99, 20), namespace="", most=1)


def test_what_is_cut_short_while_it_is_open_is_not_found_any_more(sound: Path, tmp_path: Path) -> None:
    """With a map of the file this would be a SIGBUS."""
    full, begun = copied(sound, tmp_path / "archive")
    archive = opened(tmp_path / "archive")
    assert known(archive) == 40
    os.truncate(full, HEADER_BYTES)
    assert known(archive) == 7
    os.truncate(begun, 0)
    assert known(archive) == 0
    archive.append(TEXTS[0], namespace="")
    assert known(archive) == 1


def test_a_torn_tail_is_cut_and_the_next_one_comes_in_its_place(sound: Path, tmp_path: Path) -> None:
    """As a writer leaves it that was killed in the middle of a write."""
    _, begun = copied(sound, tmp_path / "archive")
    start = HEADER_BYTES + CELL_BYTES * 6 * (240 + 3)
    with begun.open("r+b") as data:
        data.seek(start + 100 * CELL_BYTES)
        data.write(bytes(200 * CELL_BYTES))
    archive = opened(tmp_path / "archive")
    assert known(archive) == 39
    archive.append(TEXTS[39], namespace="")
    assert known(archive) == 40
    assert known(opened(tmp_path / "archive")) == 40
    assert archive.stats().damaged == 0
    assert len(list((tmp_path / "archive").rglob("*.seg"))) == 2


def test_a_damaged_generation_with_sound_ones_behind_it_is_no_torn_tail(sound: Path, tmp_path: Path) -> None:
    _, begun = copied(sound, tmp_path / "archive")
    flip(begun, HEADER_BYTES + CELL_BYTES * 300, 0)
    archive = opened(tmp_path / "archive")
    assert known(archive) == 39
    assert archive.stats().damaged == 1


@settings(max_examples=60, deadline=None)
@given(st.integers(0), st.integers(0, 7), st.integers(0, 1), st.booleans())
def test_any_bit_may_flip_before_or_while_it_is_read(
    sound: Path, tmp_path_factory: pytest.TempPathFactory, place: int, bit: int, which: int, early: bool
) -> None:
    directory = tmp_path_factory.mktemp("flip") / "archive"
    file = copied(sound, directory)[which]
    archive = new_archive(directory)
    if not early:
        archive.prepare(namespace="")
    place %= file.stat().st_size
    flip(file, place, bit)
    archive.prepare(namespace="")
    known(archive)
    archive.append(text(99, 50), namespace="")
    assert archive.continuations(text(99, 20), namespace="", most=1)
    again = opened(directory)
    assert known(again) >= 39
    assert again.continuations(text(99, 20), namespace="", most=1)


def test_noise_in_place_of_the_index_only_costs_finds(sound: Path, tmp_path: Path) -> None:
    """While it is open nobody checks the sums: chains may lead anywhere, and end."""
    full, begun = copied(sound, tmp_path / "archive")
    archive = opened(tmp_path / "archive")
    chance = random.Random(1)
    for file in (full, begun):
        data = bytearray(file.read_bytes())
        for at in range(HEADER_BYTES, len(data) - 4, 4):
            if (at - HEADER_BYTES) % CELL_BYTES or at >= HEADER_BYTES + 8192 * CELL_BYTES:
                data[at : at + 4] = chance.randbytes(4)
        file.write_bytes(data)
    known(archive)


def test_segments_of_another_tokenizer_or_version_are_left_alone(sound: Path, tmp_path: Path) -> None:
    full, begun = copied(sound, tmp_path / "archive")
    other = new_archive(tmp_path / "other", fingerprint=b"another tokenizer's fingerprint.")
    other.append(TEXTS[0], namespace="")
    (stranger,) = (tmp_path / "other").glob("*/*/*.seg")
    here = full.parent / stranger.name
    shutil.copy(stranger, here)
    shutil.copy(begun, full.parent / f"{'0' * 16}-{'0' * 16}.seg")
    archive = opened(tmp_path / "archive")
    assert known(archive) == 40
    assert archive.stats().foreign == 2
    assert here.read_bytes() == stranger.read_bytes()


@pytest.mark.parametrize("kind", ["directory", "link", "dangling", "fifo", "noise", "seal only"])
def test_what_is_no_segment_disturbs_nobody(
    sound: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    full, begun = copied(sound, tmp_path / "archive")
    file = full.with_name(f"{'0' * 16}-{'1' * 16}.seg")
    {
        "directory": lambda: file.mkdir(),
        "link": lambda: file.symlink_to(full),
        "dangling": lambda: file.symlink_to(tmp_path / "nothing"),
        "fifo": lambda: os.mkfifo(file),
        "noise": lambda: file.write_bytes(random.Random(2).randbytes(100_000)),
        "seal only": lambda: file.write_bytes(bytes(SEAL_AT) + b"\1" * SEAL_BYTES),
    }[kind]()
    archive = opened(tmp_path / "archive")
    assert known(archive) == 40
    archive.append(text(99, 50), namespace="")
    assert archive.stats().dropped == 0
    assert len([r for r in caplog.records if r.levelno >= logging.WARNING]) == 1
    assert begun.exists()


def test_an_unreadable_directory_is_a_warning_and_its_bytes_stay(
    sound: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A file where the directory should be, since root may read everything."""
    directory = tmp_path / "archive"
    directory.write_bytes(b"mine")
    archive = opened(directory)
    archive.append(TEXTS[0], namespace="")
    assert known(archive) == 0
    assert archive.stats().dropped == 1
    assert directory.read_bytes() == b"mine"
    assert "cannot be read" in caplog.text
