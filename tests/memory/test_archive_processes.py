"""Several processes on one archive, and writers that are killed."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from generations import new_archive, text

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def archivist(directory: Path, seed: int) -> Iterator[subprocess.Popen[str]]:
    """It is killed at the end."""
    program = Path(__file__).with_name("archivist.py")
    command = [sys.executable, str(program), str(directory), str(seed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def said(process: subprocess.Popen[str], count: int) -> int:
    """Tokens of the next `count` generations."""
    assert process.stdout
    return sum(int(process.stdout.readline()) for _ in range(count))


def rest(process: subprocess.Popen[str]) -> int:
    assert process.stdout
    return sum(int(line) for line in process.stdout.read().split("\n")[:-1])


def test_a_killed_writer_has_lost_nothing_that_it_said_and_the_next_one_goes_on(tmp_path: Path) -> None:
    expected = 0
    for seed in range(4):
        with archivist(tmp_path, seed) as process:
            expected += said(process, 20 * seed + 1)
            process.kill()
            expected += rest(process)
        archive = new_archive(tmp_path)
        archive.prepare(namespace="")
        held = archive.stats().tokens
        assert archive.stats().damaged == 0
        assert expected <= held <= expected + 1000, "with the last one, which was whole before it was said"
        expected = held
        archive.close()


def test_two_writers_write_segments_of_their_own_and_read_each_others(tmp_path: Path) -> None:
    with archivist(tmp_path, 1) as one, archivist(tmp_path, 2) as other:
        expected = said(one, 15) + said(other, 15)
        third = new_archive(tmp_path)
        third.append(text(5, 60), namespace="")
        assert third.stats().tokens >= expected + 60
        before = third.stats().tokens
        more = said(one, 500)  # more than the pipe holds of what was said before
        third.prepare(namespace="")
        assert third.stats().tokens > before
        assert more
    assert third.stats().damaged == 0
    again = new_archive(tmp_path)
    again.prepare(namespace="")
    assert again.continuations(text(5, 20), namespace="", most=3)[0].tokens == tuple(text(5, 23)[20:])
    assert again.stats().damaged == 0


def test_what_another_process_appends_is_found_after_the_next_prepare(tmp_path: Path) -> None:
    """Two archives in one process hold two locks, as two processes do."""
    writer, reader = new_archive(tmp_path), new_archive(tmp_path)
    writer.append(text(1, 50), namespace="")
    reader.append(text(2, 50), namespace="")
    for seed in range(3, 60):
        writer.append(text(seed, 600), namespace="")
        reader.prepare(namespace="")
        (site,) = reader.continuations(text(seed, 300), namespace="", most=2)
        assert site.tokens == tuple(text(seed, 302)[300:])
    assert reader.stats().tokens == 57 * 600 + 100
