"""Who holds which KV cells: the scheduler's exact mirror of the engine's cells.

Owner of `Slots` and of every `Slot`: the scheduler. The engine's cells follow by the `Copy` and `Trim` operations that
the scheduler puts into its batches; `tests/test_oracle.py` compares both after every step.
"""

from __future__ import annotations

from attrs import define, field


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

    def common_prefix(self, tokens: list[int]) -> int:
        """Length of the longest common prefix of this slot's tokens and `tokens`."""
        return common_prefix(self.tokens, tokens)


def common_prefix(a: list[int], b: list[int]) -> int:
    """Length of the longest common prefix, by halving: list comparison runs at C speed."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


class Slots:
    """`num_cells` cells and `num_seqs` sequence ids. A cell shared by several slots is counted once.

    Invariants: refs[c] = number of slots holding c; pins[c] = number of running slots holding c; a cell with refs 0 is
    in the free list exactly once.
    """

    def __init__(self, num_cells: int, num_seqs: int) -> None:
        self.num_cells = num_cells
        self.slots = [Slot(i) for i in range(num_seqs)]
        self.num_pinned = 0
        self._refs = [0] * num_cells
        self._pins = [0] * num_cells
        self._free = list(range(num_cells - 1, -1, -1))
        self._clock = 0

    @property
    def num_free(self) -> int:
        return len(self._free)

    def residents(self) -> list[Slot]:
        """Finished sequences still held, least recently used first."""
        return sorted((s for s in self.slots if not s.running and s.tokens), key=lambda s: s.last_used)

    def empty(self) -> Slot | None:
        return next((s for s in self.slots if not s.running and not s.tokens), None)

    def touch(self, slot: Slot) -> None:
        self._clock += 1
        slot.last_used = self._clock

    def lend(self, slot: Slot, namespace: str) -> None:
        """Give a slot, empty or a resident of the same namespace, to a sequence that begins to run."""
        assert not slot.running
        assert not slot.tokens or slot.namespace == namespace
        slot.running, slot.namespace = True, namespace
        self._pin(slot.cells)
        self.touch(slot)

    def retire(self, slot: Slot) -> None:
        """A running slot becomes a resident (or empty, when it holds nothing)."""
        slot.running = False
        self._unpin(slot.cells)
        self.touch(slot)

    def share(self, src: Slot, dst: Slot, length: int) -> None:
        """Let the running, still empty `dst` hold the first `length` cells of `src` too."""
        assert dst.running
        assert not dst.tokens
        dst.tokens, dst.cells = src.tokens[:length], src.cells[:length]
        for cell in dst.cells:
            self._refs[cell] += 1
        self._pin(dst.cells)
        self.touch(src)

    def append(self, slot: Slot, tokens: list[int]) -> None:
        """`tokens` were computed behind what the running `slot` holds. There must be that many free cells."""
        assert len(tokens) <= len(self._free), "more cells written than were free: a reservation was broken"
        cells = [self._free.pop() for _ in tokens]
        for cell in cells:
            self._refs[cell] = 1
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
            if not self._refs[cell]:
                self._free.append(cell)
        del slot.tokens[length:], slot.cells[length:]

    def num_unpinned(self, slot: Slot, length: int) -> int:
        """How many of the first `length` cells of `slot` no running sequence holds."""
        return sum(not self._pins[cell] for cell in slot.cells[:length])

    def _pin(self, cells: list[int]) -> None:
        for cell in cells:
            self.num_pinned += not self._pins[cell]
            self._pins[cell] += 1

    def _unpin(self, cells: list[int]) -> None:
        for cell in cells:
            self._pins[cell] -= 1
            self.num_pinned -= not self._pins[cell]
