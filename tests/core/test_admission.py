"""Who gets a slot, from which prefix it starts, and how cells are promised; with few enough cells to count by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from making import held, names, play, request, resident, rows, scheduler

from reame.core.batch import Compact, Copy, Forget, Trim
from reame.core.capture import Capture
from reame.core.slots import Slots

if TYPE_CHECKING:
    from reame.core.request import Request
    from reame.core.scheduler import Scheduler


def admit(loop: Scheduler, one: Request) -> list[object]:
    """Add the request and plan once; the operations that came of it."""
    loop.add(one, 0.0)
    batch = loop.plan(0.0)
    return [] if batch is None else list(batch.operations)


class TestPrefix:
    def test_a_part_of_a_resident_is_shared_and_the_resident_stays(self) -> None:
        loop = scheduler()
        slots = loop.admission.slots
        resident(slots, [1, 2, 3, 4, 5])
        assert admit(loop, request("a", [1, 2, 3, 9, 9])) == [Copy(0, 1, 3)]
        assert held(loop.admission) == [[1, 2, 3, 4, 5], [1, 2, 3], [], []]
        assert loop.running[0].num_cached == 3

    def test_a_resident_that_is_wholly_a_prefix_is_taken_over(self) -> None:
        loop = scheduler()
        resident(loop.admission.slots, [1, 2, 3])
        assert admit(loop, request("a", [1, 2, 3, 4, 5])) == []
        assert held(loop.admission) == [[1, 2, 3], [], [], []]
        assert loop.running[0].slot is loop.admission.slots.slots[0]

    def test_a_part_of_the_only_slot_is_taken_over_and_trimmed(self) -> None:
        loop = scheduler(num_seqs=1, max_running=1)
        resident(loop.admission.slots, [1, 2, 3, 4])
        assert admit(loop, request("a", [1, 2, 9])) == [Trim(0, 2)]
        assert held(loop.admission) == [[1, 2]]

    def test_a_running_sequence_lends_what_it_has_computed(self) -> None:
        loop = scheduler()
        loop.add(request("a", "abcdefgh"), 0.0)
        play(loop)
        assert admit(loop, request("b", "abcdxy")) == [Copy(0, 1, 4)]
        assert rows(loop.plan(0.0)) == {"a": 1, "b": 2}

    def test_the_longest_of_several_wins(self) -> None:
        loop = scheduler()
        for tokens in ([1, 2, 8], [1, 2, 3, 4, 8], [1, 2, 3, 8]):
            resident(loop.admission.slots, tokens)
        assert admit(loop, request("a", [1, 2, 3, 4, 5, 6])) == [Copy(1, 3, 4)]

    def test_the_last_token_of_a_prompt_is_always_computed(self) -> None:
        """Its row is what the first token is drawn from."""
        for prompt in ([1, 2, 3, 4], [1, 2, 3]):
            loop = scheduler()
            resident(loop.admission.slots, [1, 2, 3, 4])
            assert admit(loop, request("a", prompt)) == [Copy(0, 1, len(prompt) - 1)]
            assert rows(loop.plan(0.0)) == {"a": 1}

    def test_another_namespaces_cells_do_not_exist(self) -> None:
        loop = scheduler(max_running=3)
        resident(loop.admission.slots, [1, 2, 3, 4, 5], namespace="theirs")
        loop.add(request("b", "xyzxyzxyz", namespace="theirs"), 0.0)
        assert admit(loop, request("a", [1, 2, 3, 4, 5], namespace="ours")) == []
        assert loop.running[1].num_cached == 0
        assert admit(loop, request("c", "xyzxyzxyz", namespace="ours")) == []
        assert names(loop.running) == ["b", "a", "c"]  # b's prefill is not waited for


class TestPromises:
    def test_a_newcomer_needs_cells_for_its_prompt_and_the_reserve(self) -> None:
        """20 cells: 5 + 4 for each of the first two, so the third (5 + 4) waits, and the small one behind it too."""
        loop = scheduler(num_cells=20, max_running=4)
        for name, tokens in (("a", "abcde"), ("b", "fghij"), ("c", "klmno")):
            loop.add(request(name, tokens, 16), 0.0)
        admit(loop, request("small", "p", 1))
        assert names(loop.running) == ["a", "b"]
        assert [sequence.num_reserved for sequence in loop.running] == [9, 9]
        assert names(loop.waiting()) == ["c", "small"]

    def test_no_more_than_it_can_ever_hold_is_promised(self) -> None:
        loop = scheduler()
        admit(loop, request("a", "abcde", 2))
        assert loop.running[0].num_reserved == 6  # the last token it draws is never computed

    def test_residents_make_room_least_recently_used_first(self) -> None:
        """20 cells, two residents of 6: a promise of 9 needs one of them to go."""
        loop = scheduler(num_cells=20)
        resident(loop.admission.slots, [1] * 6)
        resident(loop.admission.slots, [2] * 6)
        assert admit(loop, request("a", "vwxyz", 16)) == [Trim(0, 0)]
        assert held(loop.admission) == [[], [2] * 6, [], []]

    def test_the_source_of_a_prefix_is_not_evicted_for_its_own_reader(self) -> None:
        """All slots taken, and the source is the one unused for longest."""
        loop = scheduler(num_seqs=2)
        resident(loop.admission.slots, [1, 2, 3, 4])
        resident(loop.admission.slots, [7, 7])
        assert admit(loop, request("a", [1, 2, 9])) == [Trim(1, 0), Copy(0, 1, 2)]

    def test_shared_cells_of_a_resident_are_promised_too(self) -> None:
        """A resident of 10 in 14 cells is no free room: 1 cell beside it is taken, so 14 do not fit, and 13 do."""
        loop = scheduler(num_cells=14, num_seqs=3)
        resident(loop.admission.slots, list(range(1, 11)))
        admit(loop, request("one", "z", 1))
        admit(loop, request("all", list(range(1, 13)), 3))
        assert names(loop.waiting()) == ["all"]
        loop.cancel(loop.waiting()[0])
        admit(loop, request("less", list(range(1, 13)), 2))
        assert names(loop.running) == ["one", "less"]
        assert loop.running[1].num_cached == 10


class TestLeaving:
    def test_a_finished_sequences_cells_stay_for_the_next_turn(self) -> None:
        loop = scheduler()
        sequence = loop.add(request("a", "abc", 3), 0.0)
        for _ in range(3):
            play(loop, {"a": [24]})
        assert sequence.done
        assert held(loop.admission)[0] == [1, 2, 3, 24, 24]
        assert admit(loop, request("b", "abcxxq", 1)) == [Forget("a")]
        assert loop.running[0].num_cached == 5

    def test_one_that_waits_leaves_the_queue_only(self) -> None:
        loop = scheduler(max_running=1)
        loop.add(request("a", "abc"), 0.0)
        waiting = loop.add(request("b", "xyz"), 0.0)
        play(loop)
        loop.cancel(waiting)
        batch = loop.plan(0.0)
        assert batch is not None
        assert (loop.waiting(), batch.operations) == ([], (Forget("b"),))


class TestCompaction:
    def test_garbage_is_left_until_it_is_well_worth_a_move_or_the_cells_run_out(self) -> None:
        """10 cells: 4 are garbage; a prompt of 7 fits only when they are fresh again."""
        loop = scheduler(num_cells=10)
        slots = loop.admission.slots
        slots.trim(resident(slots, [1, 2, 3, 4]), 0)
        assert admit(loop, request("a", "xyz", 1)) == []
        play(loop)
        operations = admit(loop, request("b", "tuvwxyz", 1))
        assert operations[0] == Forget("a")
        assert [type(operation) for operation in operations[1:]] == [Compact]
        assert slots.num_fresh == 7

    def test_more_garbage_than_held_cells_is_compacted_before_it_must_be(self) -> None:
        loop = scheduler(min_garbage=4)
        slots = loop.admission.slots
        resident(slots, [9, 9, 9, 9])
        wasted = resident(slots, [1, 2, 3])
        slots.trim(wasted, 0)
        assert admit(loop, request("a", "x", 1)) == []  # 3 cells of garbage: too few to bother
        slots.trim(resident(slots, [1]), 0)
        batch = loop.plan(0.0)  # 4, as many as are held
        assert batch is not None
        assert [type(operation) for operation in batch.operations] == [Compact]
        assert (slots.num_garbage, slots.num_fresh) == (0, 96)

    def test_when_cells_run_out_residents_make_room_for_the_next_while_too(self) -> None:
        """16 cells: 6 + 7 in residents, 2 garbage, 1 fresh. 3 free ones are enough for now, but less than a quarter."""
        loop = scheduler(num_cells=16)
        slots = loop.admission.slots
        resident(slots, [9] * 6)
        resident(slots, [8] * 7)
        slots.trim(resident(slots, [7, 7]), 0)
        operations = admit(loop, request("a", "xyz", 1))
        assert operations[0] == Trim(0, 0)
        assert [type(operation) for operation in operations[1:]] == [Compact]
        assert held(loop.admission)[1] == [8] * 7


class TestRent:
    """12 residents' cells, and a newcomer who computes row after row beside them."""

    def grown(self, loop: Scheduler, rows: int) -> list[object]:
        """The operations of as many steps of one row."""
        loop.add(request("new", "x", 90), 0.0)
        operations: list[object] = []
        for _ in range(rows):
            operations += play(loop).operations
        return operations

    def test_a_resident_that_the_disk_has_leaves_when_it_has_paid_long_enough(self) -> None:
        loop = scheduler(min_garbage=8, rent_rows=10, block_tokens=4)
        old = resident(loop.admission.slots, [9] * 12)
        old.num_saved = 12
        assert self.grown(loop, 10) == []
        assert [type(each) for each in play(loop).operations] == [Trim, Compact]
        assert old.tokens == []

    def test_a_long_prompt_does_not_pay_first_for_what_leaves_anyway(self) -> None:
        operations = {}
        for length in (10, 11):
            loop = scheduler(min_garbage=8, rent_rows=10, block_tokens=4)
            old = resident(loop.admission.slots, [9] * 12)
            old.num_saved = 12
            loop.add(request("new", "x" * length, 1), 0.0)
            operations[length] = [type(each) for each in play(loop).operations]
        assert operations == {10: [], 11: [Trim, Compact]}

    def test_what_comes_from_the_disk_drives_nobody_out(self) -> None:
        loop = scheduler(min_garbage=8, rent_rows=10, block_tokens=4)
        old = resident(loop.admission.slots, [9] * 12)
        old.num_saved = 12
        loop.add(request("one", "z", 90), 0.0)
        loop.add(request("new", "x" * 20, 1), 0.0, num_on_disk=16)
        assert play(loop).operations == ()
        assert [load.stop for load in loop.take_loads()] == [16]

    def test_one_that_was_not_saved_stays(self) -> None:
        loop = scheduler(min_garbage=8, rent_rows=10)
        old = resident(loop.admission.slots, [9] * 12)
        self.grown(loop, 30)
        assert old.tokens == [9] * 12

    def test_one_that_is_used_meanwhile_stays(self) -> None:
        loop = scheduler(min_garbage=8, rent_rows=10, block_tokens=4)
        old = resident(loop.admission.slots, [9] * 12)
        old.num_saved = 12
        self.grown(loop, 8)
        loop.admission.slots.touch(old)
        self.grown(loop, 8)
        assert old.tokens == [9] * 12

    def test_nobody_pays_while_nothing_is_computed(self) -> None:
        loop = scheduler(min_garbage=8, rent_rows=10, block_tokens=4)
        old = resident(loop.admission.slots, [9] * 12)
        old.num_saved = 12
        self.grown(loop, 9)
        loop.cancel(loop.running[0])
        for _ in range(30):
            loop.plan(0.0)
        assert old.tokens == [9] * 12


def test_what_is_saved_already_is_looked_at_once() -> None:
    slots = Slots(40, 4)
    capture = Capture(slots, 4)
    first = resident(slots, list(range(8)))
    (save,) = capture.take(())
    assert (save.start, len(save.tokens)) == (0, 8)
    assert capture.take(()) == []
    looked: list[int] = []
    capture.of = lambda slot, room=None: looked.append(slot.id)  # type: ignore[method-assign, assignment]
    assert (capture.take(()), looked) == ([], [])
    second = resident(slots, list(range(9)))
    capture.take(())
    assert looked == [first.id, second.id]


def test_what_the_disk_loses_stays_in_the_cells_and_what_it_has_no_room_for_waits() -> None:
    slots = Slots(40, 4)
    capture = Capture(slots, 4)
    slot = resident(slots, list(range(8)))
    capture.waits = True
    assert capture.take(()) == []
    capture.waits = False
    assert len(capture.take(())) == 1
    assert capture.is_saved(slot)
    capture.loses = True
    assert not capture.is_saved(slot)
