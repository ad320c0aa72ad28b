"""Weights and cells in huge pages: a step reads all of them, and 4 KiB pages make it miss the TLB at every one.

The kernel is asked after loading, as llama.cpp allocates for itself: for memory of this process that is in use
throughout, nothing else, so that it never takes more. Transparent huge pages are mostly set to `madvise`, where nobody
gets any without asking. Sources: Linux's admin-guide/mm/transhuge.rst, madvise(2).
"""

from __future__ import annotations

import ctypes
import errno
import logging
import mmap
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_SETTINGS = Path("/sys/kernel/mm/transparent_hugepage")
_OWN = re.compile(r"([0-9a-f]+)-([0-9a-f]+) rw-p \S+ \S+ 0\s*(?:\[heap\])?")
"""A private mapping of no file, in /proc/self/maps."""
_MADV_HUGEPAGE = 14
"""For the kernel's own thread, which collects pages slowly; all that kernels before 6.1 have."""
_MADV_COLLAPSE = 25
"""Now."""
_LEAST = 1 << 24
"""Bytes of a mapping that is looked at."""
_REFUSED = errno.EPERM, errno.ENOSYS
"""What a filter of system calls says, for all memory alike."""
_MOST_FAILURES = 16
"""In a row: the memory is too full or too scattered, and each further one would take milliseconds."""

log = logging.getLogger(__name__)


def use_huge_pages(settings: Path = _SETTINGS) -> int:
    """Bytes of weights and cells that are in huge pages now. Takes one to two seconds a gigabyte, as everything is
    copied. Never fails: without them everything works as well, a few per cent slower."""
    try:
        size = int((settings / "hpage_pmd_size").read_text())
        maps = Path("/proc/self/maps").read_text()
        if "[never]" in (settings / "enabled").read_text():
            return 0
    except (OSError, ValueError):
        return 0
    libc = ctypes.CDLL(None, use_errno=True)
    collapsed = failures = 0
    for start in _in_use(libc, maps, size):
        place = ctypes.c_void_p(start), ctypes.c_size_t(size)
        libc.madvise(*place, _MADV_HUGEPAGE)
        if not libc.madvise(*place, _MADV_COLLAPSE):
            collapsed, failures = collapsed + 1, 0
        elif (failures := failures + 1) == _MOST_FAILURES:
            break
    return collapsed * size


def _in_use(libc: ctypes.CDLL, maps: str, size: int) -> Iterator[int]:
    """Where a huge page would take the place of small ones that are all there. Where that may not be asked: nowhere."""
    there = (ctypes.c_ubyte * (size // mmap.PAGESIZE))()
    for line in maps.splitlines():
        found = _OWN.fullmatch(line)
        if found is None:
            continue
        start, end = int(found[1], 16), int(found[2], 16)
        if end - start < _LEAST:
            continue
        for at in range(-(-start // size) * size, end - size + 1, size):
            if not libc.mincore(ctypes.c_void_p(at), ctypes.c_size_t(size), there):
                if all(byte & 1 for byte in there):
                    yield at
            elif (fault := ctypes.get_errno()) in _REFUSED:
                log.info("no huge pages for weights and cells: mincore is refused here (%s)", os.strerror(fault))
                return
