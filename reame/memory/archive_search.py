"""The query: places in the archive that end like a live sequence. It runs between two tokens: microseconds count."""

from __future__ import annotations

import struct
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple
from weakref import ref

import numpy as np
from attrs import frozen

from reame.memory.archive_descriptor import pread
from reame.memory.archive_format import CELL_BYTES, CELL_WORDS, HEADER_BYTES
from reame.memory.archive_index import GRAMS, POSITION, POSITION_BITS, hash_of, tag_of
from reame.speculation.palimpsest import Site

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from reame.memory.archive_segment import Segment

LONG, SHORT = 0, 1
"""The kinds of chain, as in GRAMS."""
MOST_SITES = 32
MOST_GIVEN = 24
"""Of those, the ones that match longest are given to whoever asks."""
FEW = 16
"""So many places that match in three tokens are few."""
MOST_STEPS = 192
"""Places that are looked at in one walk, those of other n-grams in the same slot included."""
LONGEST_MATCH = 64
LONGEST_PATH = 64
"""Tokens of a continuation at most."""
TUPLES = [struct.Struct(f"{length}I").unpack_from for length in range(LONGEST_PATH + 1)]
FIRST_ROW = HEADER_BYTES - CELL_BYTES * (LONGEST_MATCH - 1)
"""Where the row of place 0 begins in the file: what precedes the first frame matches nothing."""


@frozen
class Walk:
    """Along which kind of chain, into which rows of the buffer, for how many places at most."""

    chain: int
    row: int
    most: int


BRIEF, FULL = Walk(SHORT, 0, FEW), Walk(LONG, FEW, MOST_SITES)


class ArchivedPlace(NamedTuple):
    """A `realignment.Place`, behind the cell `last`. It can be read for as long as somebody holds it: nothing when the
    file cannot be read any more, or was let go of before."""

    segment: Segment | None
    last: int
    vocab_size: int

    def after(self, most: int) -> list[int]:
        return list(takewhile(self.vocab_size.__gt__, self._words(self.last + 1, most)))

    def before(self, most: int) -> list[int]:
        first = max(0, self.last + 1 - most)
        words = self._words(first, self.last + 1 - first)
        return list(takewhile(self.vocab_size.__gt__, reversed(words)))[::-1]

    def _words(self, first: int, count: int) -> list[int]:
        if self.segment is None:
            return []
        try:
            data = self.segment.file.read(CELL_BYTES * count, HEADER_BYTES + CELL_BYTES * first)
        except OSError:
            return []
        words: list[int] = np.frombuffer(data[: len(data) // 4 * 4], np.uint32)[::CELL_WORDS].tolist()
        return words


class Search:
    """For one thread. Token ids are below `vocab_size`: a continuation ends before a word that is not."""

    def __init__(self, vocab_size: int) -> None:
        self._vocab_size = vocab_size
        size = (FEW + MOST_SITES) * (LONGEST_MATCH + LONGEST_PATH) * CELL_WORDS
        self._words = np.zeros(size, np.uint32)
        self._view = self._words.data
        self._address = self._words.ctypes.data
        self._found: dict[int, tuple[ref[Segment], int]] = {}
        """By age. It keeps no file open: what is forgotten leaves the disk with its shelf, not with the next query."""

    def sites(self, segments: Sequence[Segment], tail: Sequence[int], most: int) -> list[Site]:
        """At most 24, the newest first; `segments` are in the order of their age, the newest last.

        All places that match in three tokens, when they are few. Else, of the newest 32 that match in twelve, those
        that match longest; or, when there are none, the newest few.
        """
        tail, most = tail[-LONGEST_MATCH:], min(most, LONGEST_PATH)
        if len(tail) < GRAMS[SHORT] or most < 1:
            return []
        self._found = {}
        few = self._walk(segments, tail, most, BRIEF)
        many = []
        if len(few) == FEW and len(tail) >= GRAMS[LONG]:
            many = self._walk(segments, tail, most, FULL)
        if many and (sites := self._matches(many, tail, most, FULL)):
            return sites
        return self._matches(few, tail, most, BRIEF) if few else []

    def place(self, site: Site) -> ArchivedPlace:
        """Of one that `sites` has just given."""
        segment, last = self._found[site.age]
        return ArchivedPlace(segment(), last, self._vocab_size)

    def _walk(self, segments: Sequence[Segment], tail: Sequence[int], most: int, walk: Walk) -> list[int]:
        """Read the cells around each place into a row of the buffer. The ages of the places, in tokens."""
        key = hash_of(tail, GRAMS[walk.chain])
        tag, row_words = tag_of(key), (LONGEST_MATCH + most) * CELL_WORDS
        view, size, newer, steps, most_sites = self._view, 4 * row_words, 0, 0, walk.most
        address = self._address + walk.row * size
        link = walk.row * row_words + (LONGEST_MATCH - 1) * CELL_WORDS + 1 + walk.chain
        ages: list[int] = []
        found = self._found
        for segment in reversed(segments):
            entry, below, known = segment.head(walk.chain, key), POSITION, ref(segment)
            while entry and steps < MOST_STEPS and len(ages) < most_sites:
                place = entry & POSITION
                if place >= below or pread(segment.number, address, size, FIRST_ROW + CELL_BYTES * place) != size:
                    break
                steps += 1
                below, following = place, view[link]
                if entry >> POSITION_BITS == tag:
                    ages.append(newer + segment.num_words - place)
                    found[ages[-1]] = known, place
                    address += size
                    link += row_words
                entry = following
            if len(ages) == most_sites:
                break
            newer += segment.num_words
        return ages

    def _matches(self, ages: list[int], tail: Sequence[int], most: int, walk: Walk) -> list[Site]:
        """Compare the tokens: of what the hashes promised, that which is so."""
        width = LONGEST_MATCH + most
        rows = self._words[walk.row * width * CELL_WORDS : (walk.row + len(ages)) * width * CELL_WORDS]
        words = rows.reshape(len(ages), width, CELL_WORDS)[:, :, 0]
        before = words[:, LONGEST_MATCH - len(tail) : LONGEST_MATCH]
        after = words[:, LONGEST_MATCH:]
        matched = _true_before(before[:, ::-1] == np.array(tail[::-1], np.uint32))
        going_on = _true_before(after < self._vocab_size)
        data, size, least = after.tobytes(), 4 * most, GRAMS[walk.chain]
        given: Iterable[int] = range(len(ages))
        if len(ages) > MOST_GIVEN:
            given = sorted(sorted(given, key=matched.__getitem__, reverse=True)[:MOST_GIVEN])
        return [
            Site(matched[row], ages[row], TUPLES[going_on[row]](data, row * size))
            for row in given
            if matched[row] >= least and going_on[row]
        ]


def _true_before(table: NDArray[np.bool_]) -> list[int]:
    """For each row, how many true values it begins with."""
    counts: list[int] = np.where(table.all(axis=1), table.shape[1], table.argmin(axis=1)).tolist()
    return counts
