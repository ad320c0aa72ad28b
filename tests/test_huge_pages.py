"""Huge pages for memory that is in use: what is taken, what is left alone, and a kernel that gives none."""

from __future__ import annotations

import ctypes
import errno
import logging
import mmap
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from reame.engine.huge_pages import use_huge_pages

if TYPE_CHECKING:
    from collections.abc import Iterator

SIZE = 64 << 20


@pytest.fixture
def memory() -> Iterator[mmap.mmap]:
    """Anonymous and private, as malloc takes it, and not touched yet."""
    with mmap.mmap(-1, SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as area:
        yield area


def figures(area: mmap.mmap) -> dict[str, int]:
    """Bytes by name, of the mapping's lines in smaps."""
    address = ctypes.addressof(ctypes.c_char.from_buffer(area))
    found, inside = dict.fromkeys(("Rss", "AnonHugePages"), 0), False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if place := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            inside = address < int(place[2], 16) and int(place[1], 16) < address + SIZE
        elif inside and (name := line.partition(":")[0]) in found:
            found[name] += int(line.split()[1]) << 10
    return found


def may_collapse() -> bool:
    """Linux 6.1 and later, where huge pages are not forbidden."""
    release = re.match(r"(\d+)\.(\d+)", Path("/proc/sys/kernel/osrelease").read_text())
    enabled = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    assert release is not None
    return (int(release[1]), int(release[2])) >= (6, 1) and enabled.exists() and "[never]" not in enabled.read_text()


def test_what_is_in_use_throughout_gets_them_and_nothing_else_grows(memory: mmap.mmap) -> None:
    half = SIZE // 2
    memory[:half] = bytes(range(256)) * (half // 256)
    for at in range(half, SIZE, 1 << 20):
        memory[at] = 1  # a page here and there
    before = figures(memory)
    use_huge_pages()
    after = figures(memory)
    assert after["Rss"] == before["Rss"]
    assert after["AnonHugePages"] >= (half - (4 << 20) if may_collapse() else 0)
    assert memory[:half] == bytes(range(256)) * (half // 256)


@pytest.mark.parametrize("files", [{}, {"enabled": "always madvise [never]", "hpage_pmd_size": "2097152"}])
def test_a_kernel_that_gives_none_is_not_asked(tmp_path: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert use_huge_pages(tmp_path) == 0


@pytest.mark.parametrize("fault", [errno.EPERM, errno.ENOSYS])
def test_a_filter_that_forbids_to_ask_is_said_once(
    memory: mmap.mmap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fault: int
) -> None:
    class Filtered:
        def __init__(self, *_: object, **__: object) -> None:
            pass

        def mincore(self, *_: object) -> int:
            ctypes.set_errno(fault)
            return -1

    (tmp_path / "enabled").write_text("always [madvise] never")
    (tmp_path / "hpage_pmd_size").write_text("2097152")
    memory[:] = bytes(SIZE)
    monkeypatch.setattr(ctypes, "CDLL", Filtered)
    caplog.set_level(logging.INFO)
    assert use_huge_pages(tmp_path) == 0
    (message,) = [record.getMessage() for record in caplog.records]
    assert "mincore is refused here" in message
