"""One segment of the archive: opened by anybody to read, written by the one process that holds its lock.

A segment that is not full has its heads in the RAM of whoever opened it, made from the cells; a full one has them in
its file, and is never written again.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import secrets
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
from xxhash import xxh3_128

from reame.memory.archive_descriptor import Descriptor, pread
from reame.memory.archive_format import (
    CELL_BYTES,
    CELL_WORDS,
    FRAME,
    HEADER_BYTES,
    LARGEST,
    SEAL_AT,
    SEAL_BYTES,
    Header,
    Seal,
    framed,
    read_log,
    unpack_header,
    unpack_seal,
)
from reame.memory.archive_index import FLAG, GRAMS, Heads, Words
from reame.memory.format import Damaged, Foreign

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reame.memory.archive_format import Log

CHUNK = 1 << 20
FOLLOWED = 1 << 14
"""Words that are read at once of what another process has written."""
END = np.array((FLAG,), np.uint32)
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
_WRITE = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK


class Segment:
    """`num_words` of its cells are in use. One thread writes, others look at `head` and the cells meanwhile."""

    def __init__(self, file: Descriptor, header: Header, *, seal: Seal | None = None, log: Log | None = None) -> None:
        self.number = file.number
        self.file = file
        self.header = header
        self.seal = seal
        self.heads = None if seal else Heads(header.slot_bits)
        self.num_words = seal.num_words if seal else log.end if log else 0
        self.num_generations = seal.num_generations if seal else len(log.spans) if log else 0
        self._shift = 64 - header.slot_bits
        self._tables_at = [header.heads_at + (4 * chain << header.slot_bits) for chain in range(len(GRAMS))]
        self._entry = ctypes.c_uint32()
        self._entry_at = ctypes.addressof(self._entry)

    @property
    def name(self) -> str:
        return self.header.name

    @property
    def num_tokens(self) -> int:
        return self.num_words - FRAME * self.num_generations

    @property
    def room(self) -> int:
        """Words that fit in beside the mark of the end."""
        return self.header.capacity - 1 - self.num_words

    def head(self, chain: int, key: int) -> int:
        """The entry at the beginning of the chain of this hash; 0 when there is none, or no reading it."""
        if self.heads is not None:
            return self.heads.entry(chain, key)
        at = self._tables_at[chain] + 4 * (key >> self._shift)
        return self._entry.value if pread(self.number, self._entry_at, 4, at) == 4 else 0

    def is_gone(self) -> bool:
        """Whether somebody has deleted the file or cut it short."""
        facts = os.fstat(self.file.number)
        return facts.st_nlink == 0 or facts.st_size != self.header.size

    def append(self, generations: Sequence[Words]) -> None:
        """Write them behind everything, in one call. OSError: then they are not there. The lock must be ours."""
        assert self.heads is not None
        place, parts = self.num_words, []
        for tokens in generations:
            parts.append(framed(tokens, place, self.header))
            place += len(parts[-1])
        words = np.concatenate((*parts, END))
        links, news = self.heads.link(words, self.num_words)
        cells = np.empty((len(words), CELL_WORDS), np.uint32)
        cells[:, 0], cells[:, 1:] = words, links
        self.file.write(cells.tobytes(), HEADER_BYTES + CELL_BYTES * self.num_words)
        self.heads.add(news)
        self.num_words = place
        self.num_generations += len(generations)

    def follow(self) -> None:
        """Take in what the process that writes here has written since. OSError."""
        while self.heads is not None:
            start = self.num_words
            frame = _read_words(self.file, start, start + 1)
            length = max(int(frame[0]) - FLAG, 0) if len(frame) else 0
            stop = min(start + max(length + FRAME + 1, FOLLOWED), self.header.capacity)
            words = _read_words(self.file, start, stop if length else start)
            log = read_log(words, self.header, start)
            if not log.spans:
                return
            self.heads.read(words[: log.end], start)
            self.num_words = start + log.end
            self.num_generations += len(log.spans)

    def sealed(self) -> Segment:
        """The same one, full: its heads go into the file, and nobody writes it again. OSError."""
        assert self.heads is not None
        self.file.write(b"".join(table.tobytes() for table in self.heads.tables), self.header.heads_at)
        plain = Seal(self.num_words, self.num_generations, bytes(16))
        seal = Seal(self.num_words, self.num_generations, _digest(self.file, self.header, plain))
        self.file.write(seal.pack(), SEAL_AT)
        fcntl.flock(self.file.number, fcntl.LOCK_UN)
        return Segment(self.file, self.header, seal=seal)


def create(folder: int, header: Header) -> Segment:
    """An empty one, locked, which nobody finds before it is one. OSError."""
    temporary = f"{header.name}.{secrets.token_hex(8)}.tmp"
    file = Descriptor(os.open(temporary, _WRITE | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder))
    try:
        file.lock()
        os.ftruncate(file.number, header.size)
        file.write(header.pack(), 0)
        os.rename(temporary, header.name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise
    return Segment(file, header)


def open_segment(folder: int, name: str) -> Segment:
    """To read. All of it is read once, and checked. Damaged, Foreign, OSError."""
    return _load(Descriptor(os.open(name, _READ, dir_fd=folder)))[0]


def take(folder: int, name: str) -> Segment | None:
    """To write, when it is not full and nobody else writes it: a torn tail is cut. Damaged, Foreign, OSError."""
    file = Descriptor(os.open(name, _WRITE, dir_fd=folder))
    if not file.lock() or not _is_still(folder, name, file):
        return None
    segment, cells = _load(file)
    if segment.seal is not None:
        return None
    end = segment.num_words
    if cells[end, 0] != FLAG or cells[end + 1 :].any():
        os.ftruncate(file.number, HEADER_BYTES + CELL_BYTES * end)
        os.ftruncate(file.number, segment.header.size)
        file.write(END.tobytes(), HEADER_BYTES + CELL_BYTES * end)
    return segment


def set_aside(folder: int, header: Header, suffix: str, save: Callable[[list[Words]], None]) -> bool:
    """Rename a damaged one, once `save` has taken its sound generations. False: it is another's, who writes it.
    OSError, also from `save`: then it is left as it is.

    `header` is as its name says: its own may be what is damaged.
    """
    file = Descriptor(os.open(header.name, _READ, dir_fd=folder))
    if not file.lock() or not _is_still(folder, header.name, file):
        return False
    words = _read_words(file, 0, LARGEST)
    save([words[start:stop] for start, stop in read_log(words, header).spans])
    with suppress(FileNotFoundError):  # it was the oldest, and went to make room for what was saved
        os.rename(header.name, header.name + suffix, src_dir_fd=folder, dst_dir_fd=folder)
    return True


def _load(file: Descriptor) -> tuple[Segment, Words]:
    """The segment and, when it is not full, its cells."""
    facts = os.fstat(file.number)
    if not stat.S_ISREG(facts.st_mode):
        raise Foreign("not a file")
    head = file.read(HEADER_BYTES, 0)
    header = unpack_header(head)
    if facts.st_size != header.size:
        raise Damaged(f"{facts.st_size} bytes long, not {header.size}")
    if seal := unpack_seal(head[SEAL_AT : SEAL_AT + SEAL_BYTES]):
        if _digest(file, header, seal) != seal.digest:
            raise Damaged("the checksum is wrong")
        return Segment(file, header, seal=seal), END
    data = file.read(CELL_BYTES * header.capacity, HEADER_BYTES)
    if len(data) != CELL_BYTES * header.capacity:
        raise Damaged("it became shorter")
    cells = np.frombuffer(data, np.uint32).reshape(-1, CELL_WORDS)
    words = np.ascontiguousarray(cells[:, 0])
    log = read_log(words, header)
    if not log.is_whole:
        raise Damaged("a generation's checksum is wrong")
    segment = Segment(file, header, log=log)
    assert segment.heads is not None
    segment.heads.read(words[: log.end], 0)
    return segment, cells


def _read_words(file: Descriptor, start: int, stop: int) -> Words:
    data = file.read(CELL_BYTES * (stop - start), HEADER_BYTES + CELL_BYTES * start)
    cells = np.frombuffer(data[: len(data) // CELL_BYTES * CELL_BYTES], np.uint32).reshape(-1, CELL_WORDS)
    return np.ascontiguousarray(cells[:, 0])


def _digest(file: Descriptor, header: Header, seal: Seal) -> bytes:
    """Over all behind the header and what the seal says. Reads the whole file."""
    hashed = xxh3_128(header.pack() + Seal(seal.num_words, seal.num_generations, bytes(16)).pack())
    for offset in range(HEADER_BYTES, header.size, CHUNK):
        hashed.update(file.read(min(CHUNK, header.size - offset), offset))
    return hashed.digest()


def _is_still(folder: int, name: str, file: Descriptor) -> bool:
    """Whether the file has this name; nobody may have renamed or deleted it before it was locked."""
    try:
        return os.path.samestat(os.stat(name, dir_fd=folder, follow_symlinks=False), os.fstat(file.number))
    except OSError as error:
        if error.errno != errno.ENOENT:
            raise
        return False
