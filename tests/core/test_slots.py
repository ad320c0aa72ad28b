"""Cells and who holds them: by hand, and by any sequence of what a scheduler may do."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from making import resident, running

from reame.core.slots import Slot, Slots, common_prefix


def test_a_shared_cell_counts_once_and_is_free_after_its_last_holder() -> None:
    slots = Slots(10, 3)
    first = running(slots, [1, 2, 3, 4])
    second = running(slots, [])
    slots.share(first, second, 3)
    assert (slots.num_free, slots.num_pinned) == (6, 4)
    assert (second.tokens, second.cells) == ([1, 2, 3], [0, 1, 2])

    slots.append(second, [9], slots.write(1))
    assert (slots.num_free, slots.num_pinned) == (5, 5)
    slots.trim(first, 2)  # its fourth cell is garbage, its third is still the second's
    assert (slots.num_free, slots.num_pinned, slots.num_garbage) == (6, 4, 1)
    slots.trim(first, 0)
    assert (slots.num_free, slots.num_pinned, slots.num_garbage) == (6, 4, 1)
    slots.trim(second, 0)
    assert (slots.num_free, slots.num_pinned, slots.num_garbage) == (10, 0, 5)


def test_a_cell_is_pinned_as_long_as_somebody_runs_on_it() -> None:
    slots = Slots(10, 3)
    first = running(slots, [1, 2, 3, 4])
    second = running(slots, [])
    slots.share(first, second, 3)
    slots.retire(first)
    assert slots.num_pinned == 3
    assert (slots.num_unpinned(first, 4), slots.num_unpinned(first, 3)) == (1, 0)
    slots.retire(second)
    assert slots.num_pinned == 0
    assert slots.num_unpinned(first, 4) == 4
    slots.lend(first, "")
    assert slots.num_pinned == 4


def test_residents_come_least_recently_used_first_and_a_reader_counts_as_use() -> None:
    slots = Slots(20, 4)
    old, new = resident(slots, [1]), resident(slots, [2])
    assert slots.residents() == [old, new]
    slots.share(old, running(slots, []), 1)
    assert slots.residents() == [new, old]


def test_an_empty_slot_is_no_resident() -> None:
    slots = Slots(4, 1)
    slot = running(slots, [])
    assert slots.empty() is None
    slots.retire(slot)
    assert slots.residents() == []
    assert slots.empty() is slot


def test_rows_that_nobody_keeps_are_garbage_and_more_than_the_fresh_cells_cannot_be_written() -> None:
    slots = Slots(10, 2)
    slot = running(slots, [1, 2])
    assert slots.write(5) == 2
    slots.append(slot, [3], 2)
    assert (slots.num_free, slots.num_fresh, slots.num_garbage) == (7, 3, 4)
    with pytest.raises(AssertionError, match="reservation"):
        slots.write(4)


def test_a_compaction_closes_the_holes_and_moves_a_prefix_before_what_follows_it() -> None:
    slots = Slots(12, 3)
    gone = running(slots, [7, 7])  # cells 0, 1
    first = running(slots, [1, 2])  # cells 2, 3
    second = running(slots, [])
    slots.share(first, second, 2)
    slots.append(second, [5], slots.write(1))  # cell 4
    slots.append(first, [3], slots.write(1))  # cell 5
    slots.retire(gone)
    slots.trim(gone, 0)

    pieces = slots.compact(512)
    assert [(piece.seqs, piece.start, piece.cells) for piece in pieces] == [
        ((first.id, second.id), 0, (2, 3)),
        ((first.id,), 2, (5,)),
        ((second.id,), 2, (4,)),
    ]
    assert (first.cells, second.cells) == ([0, 1, 2], [0, 1, 3])
    assert (slots.num_written, slots.num_fresh, slots.num_garbage, slots.num_pinned) == (4, 8, 0, 4)


@settings(deadline=None)
@given(st.lists(st.integers(0, 1), max_size=80), st.lists(st.integers(0, 1), max_size=80), st.integers(0, 80))
def test_the_common_prefix_is_that_of_a_walk(a: list[int], b: list[int], shared: int) -> None:
    b = a[:shared] + b
    walked = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    assert common_prefix(a, b) == common_prefix(b, a) == walked


NUM_CELLS = 12
Made = tuple[int, int]
"""A token, and the number of its writing, which tells equal tokens apart."""


class AnyUse(RuleBasedStateMachine):
    """Lend, write, share, trim, retire and compact in any order the contract allows, beside two models without
    counters: what each slot holds, and what lies at each place of an engine's cache."""

    def __init__(self) -> None:
        super().__init__()
        self.slots = Slots(NUM_CELLS, 4)
        self.model: dict[int, list[Made]] = {slot.id: [] for slot in self.slots.slots}
        self.cache: list[Made] = []
        self.running: set[int] = set()
        self.num_made = 0

    def some(self, *, running: bool) -> list[Slot]:
        return [slot for slot in self.slots.slots if (slot.id in self.running) == running]

    @precondition(lambda self: self.some(running=False))
    @rule(data=st.data())
    def lend(self, data: st.DataObject) -> None:
        slot = data.draw(st.sampled_from(self.some(running=False)))
        self.slots.lend(slot, "")
        self.running.add(slot.id)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), num_rows=st.integers(1, 5), num_refused=st.integers(0, 2))
    def write(self, data: st.DataObject, num_rows: int, num_refused: int) -> None:
        slot = data.draw(st.sampled_from(self.some(running=True)))
        num_rows = min(num_rows, self.slots.num_fresh)
        rows = [(number % 5, number) for number in range(self.num_made, self.num_made + num_rows)]
        self.num_made += num_rows
        self.cache += rows
        kept = rows[: max(0, num_rows - num_refused)]
        self.slots.append(slot, [token for token, _ in kept], self.slots.write(num_rows))
        self.model[slot.id] += kept

    @precondition(lambda self: any(not slot.tokens for slot in self.some(running=True)))
    @rule(data=st.data())
    def share(self, data: st.DataObject) -> None:
        dst = data.draw(st.sampled_from([slot for slot in self.some(running=True) if not slot.tokens]))
        src = data.draw(st.sampled_from(self.slots.slots))
        length = data.draw(st.integers(0, len(src.tokens)))
        self.slots.share(src, dst, length)
        self.model[dst.id] = self.model[src.id][:length]

    @rule(data=st.data())
    def trim(self, data: st.DataObject) -> None:
        slot = data.draw(st.sampled_from(self.slots.slots))
        length = data.draw(st.integers(0, len(slot.tokens)))
        self.slots.trim(slot, length)
        del self.model[slot.id][length:]

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def retire(self, data: st.DataObject) -> None:
        slot = data.draw(st.sampled_from(self.some(running=True)))
        self.slots.retire(slot)
        self.running.discard(slot.id)

    @rule(longest=st.integers(1, 4))
    def compact(self, longest: int) -> None:
        """Play the moves on the cache: lift a piece, put it down in the lowest holes."""
        held = {made for cells in self.model.values() for made in cells}
        cache = [made if made in held else None for made in self.cache]
        for piece in self.slots.compact(longest):
            assert len(piece.cells) <= longest
            lifted = [cache[cell] for cell in piece.cells]
            assert lifted == self.model[piece.seqs[0]][piece.start : piece.stop]
            for cell in piece.cells:
                cache[cell] = None
            for made in lifted:
                cache[cache.index(None)] = made
        assert cache[len(held) :] == [None] * (len(cache) - len(held))
        self.cache = [made for made in cache if made]

    @invariant()
    def counts_are_those_of_the_model(self) -> None:
        made = {cell for cells in self.model.values() for cell in cells}
        pinned = {cell for seq in self.running for cell in self.model[seq]}
        assert self.slots.num_free == NUM_CELLS - len(made)
        assert self.slots.num_fresh == NUM_CELLS - len(self.cache)
        assert self.slots.num_garbage == len(self.cache) - len(made)
        assert self.slots.num_pinned == len(pinned)
        for slot in self.slots.slots:
            model = self.model[slot.id]
            assert self.slots.num_unpinned(slot, len(model)) == sum(cell not in pinned for cell in model)

    @invariant()
    def a_slot_holds_what_lies_in_its_cells_in_rising_order(self) -> None:
        for slot in self.slots.slots:
            model = self.model[slot.id]
            assert slot.tokens == [token for token, _ in model]
            assert [self.cache[cell] for cell in slot.cells] == model
            assert slot.cells == sorted(slot.cells)


TestAnyUse = AnyUse.TestCase
TestAnyUse.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)


def test_cells_that_only_these_slots_hold() -> None:
    slots = Slots(20, 4)
    first = running(slots, [1, 2, 3, 4])
    second, third = running(slots, []), running(slots, [])
    slots.share(first, second, 3)
    slots.share(first, third, 3)
    slots.append(third, [7, 8], slots.write(2))
    assert slots.num_only_of([first]) == 1
    assert slots.num_only_of([second]) == 0
    assert slots.num_only_of([third]) == 2
    assert slots.num_only_of([first, second]) == 1
    assert slots.num_only_of([first, second, third]) == 6
