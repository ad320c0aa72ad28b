"""Memory bandwidth and disk speed, in a second or two each."""

from __future__ import annotations

import os
import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from reame.host.ram import ram

if TYPE_CHECKING:
    from pathlib import Path

MOST_BYTES = 128 << 20
"""Copied at a time by all threads: more than the caches of the machines this is for."""
_CHUNK = 4 << 20
_FILE_BYTES = 256 << 20
_MEMORY_SHARE = 8
"""The copies take at most a fourth of what is available (source and target), the file an eighth of the free disk."""


def bandwidth(threads: int, *, seconds: float) -> float:
    """Bytes a second, read and written, when that many threads copy at once."""
    size = max(1 << 20, min(MOST_BYTES, ram().available // _MEMORY_SHARE) // threads)
    pairs = [(np.ones(size, np.uint8), np.zeros(size, np.uint8)) for _ in range(threads)]
    best, end = 0.0, time.monotonic() + seconds
    with ThreadPoolExecutor(threads) as pool:
        while True:
            started = time.perf_counter()
            list(pool.map(lambda pair: np.copyto(pair[1], pair[0]), pairs))  # lets go of the GIL
            best = max(best, 2 * size * threads / (time.perf_counter() - started))
            if time.monotonic() > end:
                return best


def disk_speed(folder: Path, *, seconds: float) -> tuple[float, float]:
    """Bytes a second to write (with fsync) and to read back what the kernel has forgotten again. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f".doctor-{secrets.token_hex(8)}"
    room = os.statvfs(folder)
    most = min(_FILE_BYTES, room.f_bavail * room.f_frsize // _MEMORY_SHARE)
    if most < _CHUNK:
        raise OSError(28, "no space left on device")
    handle = os.open(file, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
    os.unlink(file)  # gone with this process, whatever ends it
    try:
        written, taken = _write(handle, most, seconds / 2)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        return written / taken, _read(handle, seconds / 2)
    finally:
        os.close(handle)


def _write(handle: int, most: int, seconds: float) -> tuple[int, float]:
    chunk, written, started = os.urandom(_CHUNK), 0, time.perf_counter()
    while written < most and time.perf_counter() - started < seconds:
        written += os.write(handle, chunk)
        os.fdatasync(handle)
    return written, time.perf_counter() - started


def _read(handle: int, seconds: float) -> float:
    place, started = 0, time.perf_counter()
    while data := os.pread(handle, _CHUNK, place):
        place += len(data)
        if time.perf_counter() - started > seconds:
            break
    return place / (time.perf_counter() - started)
