"""Moving all held cells to the front of the cache, so that the cells behind them can be written again.

A sliding compaction: pieces are lifted one after the other and put into the lowest holes. Pieces at lower positions go
first, so that what follows a prefix lands behind it (see `Slots` for why the order matters). Every piece frees as many
cells as it takes, so at the end the holes are all behind the last piece.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from itertools import groupby
from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

LONGEST_MOVE = 512
"""Tokens of a piece at most: bounds the buffer it passes through. Models with a sliding window need no more than their
window, since llama.cpp leaves out of a saved range what the window hides from its end."""


@frozen
class Segment:
    """Consecutive cells, the first at position `start`, that exactly the sequence ids `seqs` hold."""

    seqs: tuple[int, ...]
    start: int
    cells: tuple[int, ...]

    @property
    def stop(self) -> int:
        return self.start + len(self.cells)


def segments(held: dict[int, list[int]], longest: int = LONGEST_MOVE) -> list[Segment]:
    """All cells in pieces of at most `longest`, lower positions first. `held`: the cells of each sequence id."""
    owners: dict[int, list[int]] = {}
    for seq, cells in held.items():
        for cell in cells:
            owners.setdefault(cell, []).append(seq)
    found = []
    for seq, cells in held.items():
        own = [(position, cell) for position, cell in enumerate(cells) if owners[cell][0] == seq]
        for seqs, run in groupby(own, key=lambda item: owners[item[1]]):
            piece = list(run)
            for i in range(0, len(piece), longest):
                part = piece[i : i + longest]
                found.append(Segment(tuple(seqs), part[0][0], tuple(cell for _, cell in part)))
    return sorted(found, key=lambda segment: segment.start)


def moves(pieces: Iterable[Segment], holes: list[int]) -> tuple[list[Segment], Callable[[int], int]]:
    """Which pieces must move, in order, and where each cell is afterwards. `holes`: cells in use for nothing, below
    the last one held. What lies before the first hole stays.
    """
    first = min(holes, default=None)
    if first is None:
        return [], lambda cell: cell
    heapify(holes)
    moved: list[Segment] = []
    places: dict[int, int] = {}
    for piece in pieces:
        if piece.cells[-1] < first:
            continue
        moved.append(piece)
        for cell in piece.cells:
            heappush(holes, cell)
        places |= {cell: heappop(holes) for cell in piece.cells}
    return moved, lambda cell: places.get(cell, cell)
