"""Who holds which KV cells: the scheduler's exact mirror of the engine's cells.

Owner of `Slots` and of every `Slot`: the scheduler. The engine's cells follow by the `Copy` and `Trim` operations that
the scheduler puts into its batches; `tests/test_oracle.py` compares both after every step.
"""

from __future__ import annotations

from collections import Counter

from attrs import define, field

from reame.core.compaction import Segment, moves, segments

YIELDING = 1 << 60
"""Older than whatever was used: what is left of work that yields to others."""


@define(eq=False)
class Slot:
    """A sequence id of the engine: empty, lent to a running sequence, or a resident kept for whoever needs its prefix.

    `tokens[i]` is the token whose keys and values lie in the cell `cells[i]`, at position i. `running` and the token
    lists are changed by `Slots` only.
    """

    id: int
    tokens: list[int] = field(factory=list)
    cells: list[int] = field(factory=list)
    namespace: str = ""
    running: bool = False
    last_used: int = 0
    rows_at_use: int = 0
    """How many rows had been computed, in all, when it was last used."""
    num_saved: int = 0
    """Tokens from the front whose blocks were captured for the disk, or came from there."""

    @property
    def yields(self) -> bool:
        """A resident that is evicted before all that do not."""
        return self.last_used < 0

    def common_prefix(self, tokens: list[int]) -> int:
        """Length of the longest common prefix of this slot's tokens and `tokens`."""
        return common_prefix(self.tokens, tokens)


def common_prefix(a: list[int], b: list[int]) -> int:
    """Length of the longest common prefix, by doubling, then halving: list comparison runs at C speed, and lists that
    soon differ cost next to nothing."""
    low, high, limit = 0, 0, min(len(a), len(b))
    while high < limit and a[low:high] == b[low:high]:
        low, high = high, min(2 * high + 16, limit)
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


class Slots:
    """`num_cells` cells and `num_seqs` sequence ids. A cell shared by several slots is counted once.

    Cells are numbered by their place in the engine's cache. Attention sums in the order of the places, and sums rounded
    in another order give other texts: so a sequence's places must rise with its positions. That holds because a step
    always writes behind everything written before; what is let go is not used again (it is *garbage*) until `compact`
    moves all that is held to the front, prefixes before what follows them.

    Invariants: refs[c] = number of slots holding c; pins[c] = number of running slots holding c; cells from
    `num_written` on hold nothing. `num_rows` were written since the start.

    `whole_state`: beside its cells, if it has any, a sequence has a state that cannot be taken back. Then a slot is of
    use to whoever begins with all of its tokens, and to nobody else; a token is counted as a cell all the same.
    """

    def __init__(self, num_cells: int, num_seqs: int, *, whole_state: bool = False) -> None:
        self.num_cells = num_cells
        self.whole_state = whole_state
        self.slots = [Slot(i) for i in range(num_seqs)]
        self.num_held = 0
        self.num_pinned = 0
        self.num_written = 0
        self.num_rows = 0
        self.num_retired = 0
        """How often a resident came, or had tokens put into it."""
        self._refs = [0] * num_cells
        self._pins = [0] * num_cells
        self._clock = 0

    @property
    def num_free(self) -> int:
        """Cells that hold nothing or garbage."""
        return self.num_cells - self.num_held

    @property
    def num_garbage(self) -> int:
        return self.num_written - self.num_held

    @property
    def num_fresh(self) -> int:
        """Cells that can be written before the next `compact`."""
        return self.num_cells - self.num_written

    def reusable(self, slot: Slot, tokens: list[int], most: int) -> int:
        """How many of `tokens`, from the front and at most `most`, a sequence can begin with that shares `slot`."""
        length = min(slot.common_prefix(tokens), most)
        return 0 if self.whole_state and length < len(slot.tokens) else length

    def residents(self) -> list[Slot]:
        """Finished sequences still held, least recently used first."""
        return sorted((s for s in self.slots if not s.running and s.tokens), key=lambda s: s.last_used)

    def empty(self) -> Slot | None:
        return next((s for s in self.slots if not s.running and not s.tokens), None)

    def touch(self, slot: Slot) -> None:
        self._clock += 1
        slot.last_used = self._clock
        slot.rows_at_use = self.num_rows

    def lend(self, slot: Slot, namespace: str) -> None:
        """Give a slot, empty or a resident of the same namespace, to a sequence that begins to run."""
        assert not slot.running
        assert not slot.tokens or slot.namespace == namespace
        slot.running, slot.namespace = True, namespace
        self._pin(slot.cells)
        self.touch(slot)

    def retire(self, slot: Slot, *, yields: bool = False) -> None:
        """A running slot becomes a resident (or empty, when it holds nothing). One that `yields` is evicted before all
        that do not."""
        slot.running = False
        self.num_retired += 1
        self._unpin(slot.cells)
        self.touch(slot)
        if yields:
            slot.last_used -= YIELDING

    def share(self, src: Slot, dst: Slot, length: int) -> None:
        """Let the running, still empty `dst` hold the first `length` cells of `src` too."""
        assert dst.running
        assert not dst.tokens
        dst.tokens, dst.cells = src.tokens[:length], src.cells[:length]
        dst.num_saved = min(src.num_saved, length)
        for cell in dst.cells:
            self._refs[cell] += 1
        self._pin(dst.cells)
        self.touch(src)

    def keep(self, src: Slot, dst: Slot, *, yields: bool = False) -> None:
        """Make the empty `dst` a resident with all that the running `src` holds at this moment."""
        self.lend(dst, src.namespace)
        self.share(src, dst, len(src.tokens))
        self.retire(dst, yields=yields)

    def write(self, num_rows: int) -> int:
        """A step wrote `num_rows` cells, garbage until somebody holds them. The first one's place."""
        assert num_rows <= self.num_fresh, "more cells written than were fresh: a reservation was broken"
        first = self.num_written
        self.num_written += num_rows
        self.num_rows += num_rows
        return first

    def append(self, slot: Slot, tokens: list[int], first_cell: int) -> None:
        """The running `slot` holds `tokens` too, in the written cells from `first_cell` on."""
        self.extend(slot, tokens, list(range(first_cell, first_cell + len(tokens))))

    def extend(self, slot: Slot, tokens: list[int], cells: list[int]) -> None:
        """The running `slot` holds `tokens` too, in these written cells."""
        for cell in cells:
            self._refs[cell] = 1
        self.num_held += len(cells)
        self._pin(cells)
        slot.tokens += tokens
        slot.cells += cells

    def trim(self, slot: Slot, length: int) -> None:
        """Let go of the cells at positions >= `length`."""
        gone = slot.cells[length:]
        if slot.running:
            self._unpin(gone)
        for cell in gone:
            self._refs[cell] -= 1
            self.num_held -= not self._refs[cell]
        del slot.tokens[length:], slot.cells[length:]
        slot.num_saved = min(slot.num_saved, length)

    def compact(self, longest: int) -> list[Segment]:
        """Number all held cells from 0 without holes, and say which pieces (of at most `longest` tokens) the engine
        has to move for it, in order."""
        pieces = segments({slot.id: slot.cells for slot in self.slots if slot.cells}, longest)
        holes = [cell for cell in range(self.num_written) if not self._refs[cell]]
        moved, place = moves(pieces, holes)
        for slot in self.slots:
            slot.cells = [place(cell) for cell in slot.cells]
        self._recount()
        return moved

    def num_unpinned(self, slot: Slot, length: int) -> int:
        """How many of the first `length` cells of `slot` no running sequence holds."""
        return sum(not self._pins[cell] for cell in slot.cells[:length])

    def num_only_of(self, slots: list[Slot]) -> int:
        """Cells that would be garbage if all of these slots were empty."""
        held = Counter(cell for slot in slots for cell in slot.cells)
        return sum(count == self._refs[cell] for cell, count in held.items())

    def _recount(self) -> None:
        """After the cells got other numbers."""
        self._refs, self._pins = [0] * self.num_cells, [0] * self.num_cells
        for slot in self.slots:
            for cell in slot.cells:
                self._refs[cell] += 1
                self._pins[cell] += slot.running
        self.num_written = self.num_held
        assert all(self._refs[: self.num_written])

    def _pin(self, cells: list[int]) -> None:
        for cell in cells:
            self.num_pinned += not self._pins[cell]
            self._pins[cell] += 1

    def _unpin(self, cells: list[int]) -> None:
        for cell in cells:
            self._pins[cell] -= 1
            self.num_pinned -= not self._pins[cell]
