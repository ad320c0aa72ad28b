"""The index of the archive: chains of places that end with the same n tokens, newest first, as LZ77 coders have them.

A chain begins in a table of heads, at the slot that the n-gram's hash says, and goes on from place to place; n-grams of
the same slot share a chain, and 12 bits of the hash tell most of them apart. Nothing here needs to be right: whoever
follows a chain compares the tokens, and goes backwards only. Pure.
"""

from __future__ import annotations

from operator import mul
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

Words: TypeAlias = NDArray[np.uint32]

FLAG = 1 << 31
"""Words with this bit frame the generations; the others are tokens."""
GRAMS = (12, 3)
"""Tokens of an n-gram, for each kind of chain. In a replay of templated answers (12, 3) saved more than (6, 3), with
shorter walks; 2 instead of 3 found more, but hardly anything that paid, and cost each step more."""
POSITION_BITS = 20
POSITION = (1 << POSITION_BITS) - 1
"""An entry of a chain is a place (the n-gram's last token) and above it the tag of its hash; 0: the chain's end."""

_ALL = (1 << 64) - 1
_MIX = tuple(pow(0x9E3779B97F4A7C15, 2 * k + 1, 1 << 64) for k in range(max(GRAMS)))
_LAST = 0xD6E8FEB86659FD93


def hash_of(tail: Sequence[int], gram: int) -> int:
    """64 bits of the last `gram` tokens. A table's slot is said by the topmost of them."""
    value = sum(map(mul, tail[: -gram - 1 : -1], _MIX)) & _ALL
    key: int = (value ^ value >> 29) * _LAST & _ALL
    return key


def tag_of(key: int) -> int:
    return key >> 32 & 0xFFF


def _hashes(words: Words, ends: NDArray[np.int64], gram: int) -> NDArray[np.uint64]:
    values = np.zeros(len(ends), np.uint64)
    for k in range(gram):
        values += words[ends - k].astype(np.uint64) * np.uint64(_MIX[k])
    values ^= values >> np.uint64(29)
    values *= np.uint64(_LAST)
    return values


def _ends(words: Words, gram: int) -> NDArray[np.int64]:
    """Where n-grams of one generation end after which a token follows."""
    if len(words) <= gram:
        return np.empty(0, np.int64)
    flags = np.concatenate((np.zeros(1, np.int64), np.cumsum(words >= FLAG)))
    return np.flatnonzero(flags[gram + 1 :] == flags[: -gram - 1]) + (gram - 1)


class Heads:
    """The newest place of each slot, for both kinds of chain, in RAM: 8 bytes a slot."""

    def __init__(self, bits: int) -> None:
        self.shift = 64 - bits
        self.tables = tuple(np.zeros(1 << bits, np.uint32) for _ in GRAMS)
        self._views = tuple(table.data for table in self.tables)

    def entry(self, chain: int, key: int) -> int:
        return self._views[chain][key >> self.shift]

    def link(self, words: Words, start: int) -> tuple[NDArray[np.uint32], list[tuple[Words, Words]]]:
        """The links of `words`, which shall lie from place `start` on: a column for each kind of chain.

        And for each the slots and entries that `add` takes once the links can be read.
        """
        links = np.zeros((len(words), len(GRAMS)), np.uint32)
        news = []
        for chain, gram in enumerate(GRAMS):
            ends = _ends(words, gram)
            slots, entries = self._entries(words, ends, gram, start)
            order = np.argsort(slots, kind="stable")
            slots, entries = slots[order], entries[order]
            first = np.ones(len(slots), np.bool_)
            first[1:] = slots[1:] != slots[:-1]
            before = np.empty_like(entries)
            before[1:] = entries[:-1]
            before[first] = self.tables[chain][slots[first]]
            links[ends[order], chain] = before
            last = np.ones(len(slots), np.bool_)
            last[:-1] = first[1:]
            news.append((slots[last], entries[last]))
        return links, news

    def add(self, news: Sequence[tuple[Words, Words]]) -> None:
        for table, (slots, entries) in zip(self.tables, news, strict=True):
            table[slots] = entries

    def read(self, words: Words, start: int) -> None:
        """Take in words that lie from place `start` on, with their links."""
        for table, gram in zip(self.tables, GRAMS, strict=True):
            slots, entries = self._entries(words, _ends(words, gram), gram, start)
            table[slots] = entries  # of several of one slot the last, which is the newest, stays

    def _entries(self, words: Words, ends: NDArray[np.int64], gram: int, start: int) -> tuple[Words, Words]:
        hashes = _hashes(words, ends, gram)
        tags = (hashes >> np.uint64(32)).astype(np.uint32) & np.uint32(0xFFF)
        entries = tags << np.uint32(POSITION_BITS) | (ends + start).astype(np.uint32)
        return (hashes >> np.uint64(self.shift)).astype(np.uint32), entries
