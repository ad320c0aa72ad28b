"""Open files of the archive, read by a query while others work.

With `pread`, not through a map: a mapped file that somebody cuts short kills the process (SIGBUS), and its pages would
count as ours.
"""

from __future__ import annotations

import ctypes
import fcntl
import os

_libc = ctypes.PyDLL(None)
pread = getattr(_libc, "pread64", _libc.pread)
"""(descriptor, address, bytes, offset): how many bytes were read. Keeps the interpreter's lock, or each of a query's
reads could lose it, for milliseconds, to a thread that waits for it."""
pread.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64)
pread.restype = ctypes.c_ssize_t


class Descriptor:
    """An open file that closes with the last who refers to it: a query may still read what the writer has let go."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        os.close(self.number)

    def read(self, size: int, offset: int) -> bytes:
        """Fewer bytes when the file ends before. OSError."""
        data = os.pread(self.number, size, offset)
        while len(data) < size and (more := os.pread(self.number, size - len(data), offset + len(data))):
            data += more
        return data

    def write(self, data: bytes, offset: int) -> None:
        """OSError when the disk does not take all of it."""
        rest = memoryview(data)
        while rest:
            written = os.pwrite(self.number, rest, offset)
            rest, offset = rest[written:], offset + written

    def lock(self) -> bool:
        """Whether this is now the one who may write."""
        try:
            fcntl.flock(self.number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
