"""A segment of the archive: a header, cells, and the two tables of heads. Little-endian.

    0       static header and its checksum
    256     the seal: what the cells hold and a checksum over everything, once the segment is full; zeros before
    4096    cells of 12 bytes: a word of the log and its links in both chains
    then    heads, 2 tables of capacity / 2 entries; zeros before the seal

The log's words: a generation is three words with the top bit set (its length, and a checksum of its tokens and of its
place) and then its tokens; a lone top bit ends the log. A generation is written with its links in one call, behind
everything; so a process that is killed leaves a torn tail at most, which no checksum fits.
"""

from __future__ import annotations

import struct

import numpy as np
from attrs import frozen
from xxhash import xxh3_64_intdigest, xxh3_128_digest

from reame.memory.archive_index import FLAG, GRAMS, POSITION_BITS, Words
from reame.memory.format import Damaged, Foreign

HEADER_BYTES = 4096
SEAL_AT = 256
FRAME = 3
"""Words before a generation's tokens."""
CELL_WORDS = 1 + len(GRAMS)
CELL_BYTES = 4 * CELL_WORDS
LARGEST = 1 << POSITION_BITS
SMALLEST = 1 << 13

_HEADER = struct.Struct("<8sIIQQ32s16s")
_MAGIC, _VERSION = b"RePalim\n", 1
_SEAL = struct.Struct("<QQ16s")
SEAL_BYTES = _SEAL.size
_LOW = FLAG - 1


@frozen
class Header:
    """`capacity` in cells, a power of two. `created_ns` and `number` make its name, and bind its frames to it."""

    capacity: int
    created_ns: int
    number: int
    fingerprint: bytes
    tag: bytes

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return file_size(self.capacity)

    @property
    def heads_at(self) -> int:
        return HEADER_BYTES + CELL_BYTES * self.capacity

    @property
    def slot_bits(self) -> int:
        return self.capacity.bit_length() - 2

    @property
    def name(self) -> str:
        return f"{self.created_ns:016x}-{self.number:016x}.seg"

    def pack(self) -> bytes:
        data = _HEADER.pack(
            _MAGIC, _VERSION, self.capacity, self.created_ns, self.number, self.fingerprint, self.tag
        )  # fmt: skip
        return data + xxh3_128_digest(data)


HEADER_SIZE = _HEADER.size + 16


def file_size(capacity: int) -> int:
    return HEADER_BYTES + (CELL_BYTES + 2 * len(GRAMS)) * capacity


def unpack_header(data: bytes) -> Header:
    """Raises Damaged, or Foreign for another version's."""
    if len(data) < HEADER_SIZE or not data.startswith(_MAGIC):
        raise Damaged("not a segment of the archive")
    _, version, capacity, created_ns, number, fingerprint, tag = _HEADER.unpack_from(data)
    if xxh3_128_digest(data[: _HEADER.size]) != data[_HEADER.size : HEADER_SIZE]:
        raise Damaged("the header's checksum is wrong")
    if version != _VERSION:
        raise Foreign(f"version {version}")
    if capacity.bit_count() != 1 or not SMALLEST <= capacity <= LARGEST:
        raise Damaged(f"a capacity of {capacity}")
    return Header(capacity, created_ns, number, fingerprint, tag)


@frozen
class Seal:
    """Words in use, generations among them, and the checksum of all behind the header."""

    num_words: int
    num_generations: int
    digest: bytes

    def pack(self) -> bytes:
        return _SEAL.pack(self.num_words, self.num_generations, self.digest)


def unpack_seal(data: bytes) -> Seal | None:
    """None: not sealed yet. A seal of nonsense is one, and its checksum is wrong."""
    return Seal(*_SEAL.unpack(data)) if any(data) else None


def framed(tokens: Words, place: int, header: Header) -> Words:
    """The words of a generation whose frame begins at `place`."""
    check = _check(tokens, place, header)
    frame = np.array((FLAG | len(tokens), FLAG | check & _LOW, FLAG | check >> 31 & _LOW), np.uint32)
    return np.concatenate((frame, tokens))


@frozen
class Log:
    """What a segment's words hold: the spans of the tokens of whole generations, the end of the last of them, and
    whether nothing else lies between them."""

    spans: tuple[tuple[int, int], ...]
    end: int
    is_whole: bool


def read_log(words: Words, header: Header, start: int = 0) -> Log:
    """The generations in `words`, the first of which lies at place `start` of the segment."""
    spans = []
    end, is_whole = 0, True
    for at in np.flatnonzero(words >= FLAG).tolist():
        if at < end:
            continue
        first = at + FRAME
        stop = first + (int(words[at]) & _LOW)
        if stop == first or stop >= len(words):
            continue
        check = _check(words[first:stop], start + at, header)
        if (FLAG | check & _LOW, FLAG | check >> 31 & _LOW) == (int(words[at + 1]), int(words[at + 2])):
            is_whole &= at == end
            spans.append((first, stop))
            end = stop
    return Log(tuple(spans), end, is_whole)


def _check(tokens: Words, place: int, header: Header) -> int:
    return xxh3_64_intdigest(tokens.tobytes(), seed=(header.number + place) & (1 << 64) - 1)
