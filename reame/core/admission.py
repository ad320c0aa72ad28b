"""Who gets a slot, from which prefix it starts, and how cells are promised so that they cannot run out half way.

Promise: every running sequence holds, or has free cells set aside for, `num_reserved` cells. So a step never fails for
want of cells. A reservation grows when it is used up; when it cannot, the youngest sequence is preempted: its cells
become a resident, it waits at the head of its queue, and starts again from whatever is still computed then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from reame.core.batch import Compact, Copy, Forget, Load, Operation, Trim
from reame.core.checkpoints import Checkpoints
from reame.core.compaction import LONGEST_MOVE
from reame.core.idle_lane import IdleLane
from reame.core.queue import FairQueue
from reame.core.slots import Slot, Slots, common_prefix

if TYPE_CHECKING:
    from reame.core.capture import Capture
    from reame.core.cost import StepCost
    from reame.core.sequence import Sequence


@frozen(kw_only=True)
class Limits:
    """`max_running` sequences at once; `max_rows` rows a step, `max_sampled` of them with logits (both at least one for
    each running sequence).

    `reserve`: cells promised to an answer at first. `min_wait`: tokens of a prefix, being computed by another, that are
    worth waiting for. `min_chunk`: rows that a prefill gets in any step. Garbage is compacted from `min_garbage` cells
    on, in pieces of `longest_move` tokens. A resident that the disk has leaves its cells when `rent_rows` rows were
    computed since it was last used. A step should take at most `step_seconds` when somebody decodes,
    `prefill_seconds` when nobody does (that bounds how long a newcomer or a cancel waits). Background work may make a
    step with people in it longer by the share `slowdown`. A state that cannot be cut is kept every `stride` tokens of a
    long prompt and every `trail` tokens of an answer (`core.checkpoints`).
    """

    max_running: int
    max_rows: int
    max_sampled: int = 128
    reserve: int = 512
    min_wait: int = 16
    min_chunk: int = 16
    min_garbage: int = 256
    rent_rows: int = 128
    longest_move: int = LONGEST_MOVE
    step_seconds: float = 0.2
    prefill_seconds: float = 0.5
    slowdown: float = 0.05
    stride: int = 512
    trail: int = 64


class Admission:
    """Owns the queue, the running sequences (oldest first) and the slots; writes down the operations that follow."""

    def __init__(self, slots: Slots, limits: Limits, capture: Capture, cost: StepCost) -> None:
        self.slots = slots
        self._cost = cost
        self._capture = capture
        self.limits = limits
        self.lane = IdleLane(limits, cost)
        self.checkpoints = Checkpoints(slots, limits, grid=capture.block_tokens or 1)
        self.queue = FairQueue()
        self.running: list[Sequence] = []
        self.num_preempted = 0
        self._operations: list[Operation] = []
        self._loads: list[Load] = []
        self._warm_already: list[Sequence] = []
        self._num_admitted = 0

    def take_operations(self) -> tuple[Operation, ...]:
        operations, self._operations = tuple(self._operations), []
        return operations

    def take_loads(self) -> list[Load]:
        loads, self._loads = self._loads, []
        return loads

    def take_warm_already(self) -> list[Sequence]:
        """Sequences that only wanted their prompt computed and need no slot for it: somebody's cells have it all."""
        warm, self._warm_already = self._warm_already, []
        return warm

    def admit(self, now: float) -> None:
        """Let the waiting in, in turn, while there is a slot and room. One that does not fit holds up those behind it:
        nobody starves. One that waits for a prefix (single flight) holds up nobody. Background work comes last and
        gives way to any other: while people are there, as much of it has a slot as finds rows beside theirs."""
        waiting = sorted(self.queue, key=lambda sequence: sequence.request.background)
        room = self._room_behind(waiting)
        for sequence in waiting:
            behind = sequence.request.background
            if behind and len(self._behind()) >= room:
                return
            reads_disk = not (behind and self._has_people(waiting))
            while not self._place(sequence, now, reads_disk=reads_disk):
                if behind or not self._make_way():
                    return

    def _place(self, sequence: Sequence, now: float, *, reads_disk: bool) -> bool:
        """False: there is no slot or no room for it. Else it runs, or needs no slot, or waits for something else."""
        if len(self.running) == self.limits.max_running:
            return False
        source, length = self._longest_prefix(sequence)
        if source and not sequence.request.max_tokens and length == len(sequence.tokens) - 1:
            self._pass_over(sequence, source, now)
            return True
        on_disk = self._on_disk(sequence, length)
        if on_disk and not reads_disk:
            return True
        if self._longest_in_flight(sequence) >= max(length, on_disk) + self.limits.min_wait:
            return True
        if on_disk:
            length = 0 if self.slots.whole_state else length - length % self._capture.block_tokens
        if not self._enter(sequence, source if length else None, length):
            return False
        if on_disk:
            sequence.loading, sequence.halt = True, on_disk if self.slots.whole_state else None
            self._loads.append(Load(sequence, length, on_disk))
        if not sequence.preempted:
            sequence.num_cached, sequence.admitted = length, now
        return True

    def grow(self) -> None:
        """Promise more cells to the sequences that used up theirs, the oldest first, at the expense of the youngest,
        and of background work before any other."""
        for sequence in list(self.running):
            while sequence.slot and sequence.cells_wanted > sequence.num_reserved and not self._extend(sequence):
                self._preempt((self._behind() or self.running)[-1])

    def keep_states(self) -> None:
        """Make a resident of each state that is to be kept, for whoever begins with the same tokens; if there is a
        place for it."""
        for sequence in self.checkpoints.due(self.running):
            assert sequence.slot is not None
            slot, sequence.num_kept = sequence.slot, sequence.num_computed
            if known := self.checkpoints.known(slot):
                self.slots.touch(known)
                continue
            for old in self.checkpoints.superseded(sequence):
                self._trim(old, 0)
            place = self.slots.empty() or (self._evict() if self.slots.residents() else None)
            if place:
                self.slots.keep(slot, place, yields=sequence.request.background and sequence.request.max_tokens > 0)
                self._operations.append(Copy(slot.id, place.id, len(slot.tokens)))

    def leave(self, sequence: Sequence, *, keep: bool = True) -> None:
        """`sequence` is over, wherever it was. Its cells stay as a resident, unless they hold garbage (`keep` False) or
        nobody will want them."""
        self._operations.append(Forget(sequence.request.id))
        if sequence.slot is None:
            self.queue.discard(sequence)
            return
        if not keep or sequence.traceless or self._is_spent(sequence):
            self._trim(sequence.slot, 0)
        self._vacate(sequence)

    def forget(self, namespace: str) -> None:
        """Residents of the namespace leave their cells, and nobody saves them before. What runs or waits goes on, and
        leaves nothing; what it wanted from the disk is not there any more."""
        for sequence in (*self.queue, *self.running):
            if sequence.request.namespace == namespace:
                sequence.traceless, sequence.num_on_disk = True, 0
        for slot in self.slots.slots:
            if not slot.running and slot.namespace == namespace:
                self._trim(slot, 0)

    def _is_spent(self, sequence: Sequence) -> bool:
        """One of many records done in the background, while a later one runs. They come along the tree of their
        prompts, so the later one has all that the next can share; and thousands of tails would push other people's
        residents out of the cells and the disk."""
        mine = sequence.request
        return bool(mine.background and mine.max_tokens) and any(
            s.order > sequence.order and s.request.background and s.request.namespace == mine.namespace
            for s in self.running
        )

    def compact(self, num_rows: int) -> None:
        """Before a step that writes `num_rows` cells: make garbage fresh cells where it must be or is well worth it.

        Attention looks at every cell that is not fresh, for every row: 0.2 us a cell with the smallest models. So a
        resident pays rent, and after `rent_rows` rows it has cost as much as reading it from the disk will (rent or
        buy: at most twice the cost of knowing the future). A move costs about 25 us a token; with more garbage than
        held cells it has paid after a hundred rows. When cells run out, residents make room for the next while as
        well: else this would come again soon.
        """
        slots = self.slots
        must = num_rows > slots.num_fresh
        overdue = self._overdue() if num_rows else []
        num_garbage = slots.num_garbage + sum(len(slot.tokens) for slot in overdue)
        num_kept = max(0, slots.num_written - num_garbage)
        worth_it = num_garbage >= max(self.limits.min_garbage, num_kept if num_rows else 0)
        if not num_garbage or not (must or worth_it):
            return
        for slot in overdue:
            self._let_go(slot)
        while must and slots.num_free < slots.num_cells // 4 and slots.residents():
            self._evict()
        self._operations.append(Compact(tuple(slots.compact(self.limits.longest_move))))

    def _overdue(self) -> list[Slot]:
        """Residents that the disk has and nobody used for long. A state costs nobody anything until it is used."""
        if self.slots.whole_state:
            return []
        due = self.slots.num_rows - self.limits.rent_rows
        residents = (s for s in self.slots.slots if not s.running and s.tokens and s.rows_at_use < due)
        return [slot for slot in residents if self._capture.is_saved(slot)]

    def _vacate(self, sequence: Sequence) -> None:
        assert sequence.slot is not None
        self.running.remove(sequence)
        request = sequence.request
        self.slots.retire(sequence.slot, yields=request.background and request.max_tokens > 0)
        sequence.slot, sequence.draft, sequence.loading, sequence.restoring = None, None, False, ()
        sequence.halt = None

    def _pass_over(self, sequence: Sequence, source: Slot, now: float) -> None:
        """All of the prompt that is to be computed is: a slot of its own could only push out a resident."""
        self.slots.touch(source)
        self.queue.take(sequence)
        if not sequence.preempted:
            sequence.num_cached, sequence.admitted = len(sequence.tokens) - 1, now
        self._warm_already.append(sequence)

    def _preempt(self, sequence: Sequence) -> None:
        self._put_back(sequence)
        self.num_preempted += 1

    def _behind(self) -> list[Sequence]:
        """The background work that runs, the oldest first."""
        return [sequence for sequence in self.running if sequence.request.background]

    def _has_people(self, waiting: list[Sequence]) -> bool:
        return any(not sequence.request.background for sequence in (*self.running, *waiting))

    def _room_behind(self, waiting: list[Sequence]) -> int:
        """How many background sequences may run now. Those beyond it leave their slots, and so do, when people are
        there, those that wait for the disk: what it has takes time of its own to go into the cells."""
        behind, most = self._behind(), self.limits.max_running
        if not self._has_people(waiting) or not (behind or any(s.request.background for s in waiting)):
            return most
        num_people = min(sum(not s.request.background for s in (*self.running, *waiting)), most)
        room = self.lane.room(num_people, most - num_people)
        staying = [sequence for sequence in behind if not sequence.waits_for_disk][:room]
        for sequence in reversed(behind):
            if sequence not in staying:
                self._put_back(sequence)
        return room

    def _make_way(self) -> bool:
        """Whether the youngest background work that runs left its slot."""
        behind = self._behind()
        if behind:
            self._put_back(behind[-1])
        return bool(behind)

    def _put_back(self, sequence: Sequence) -> None:
        sequence.preempted = True
        if sequence.traceless and sequence.slot:
            self._trim(sequence.slot, 0)
        self._vacate(sequence)
        self.queue.put_back(sequence)

    @property
    def _num_unpromised(self) -> int:
        """Cells that neither a running sequence holds nor one is promised; residents may lie in them."""
        promised = sum(max(0, s.num_reserved - s.num_computed) for s in self.running)
        return self.slots.num_cells - self.slots.num_pinned - promised

    def _longest_prefix(self, sequence: Sequence) -> tuple[Slot | None, int]:
        """The slot, running or resident, that has most of the sequence computed. Its last token is computed anew."""
        best, most = None, 0
        for slot in self.slots.slots:
            if slot.namespace == sequence.request.namespace:
                length = self.slots.reusable(slot, sequence.tokens, sequence.num_reusable)
                if length > most:
                    best, most = slot, length
        return best, most

    def _on_disk(self, sequence: Sequence, length: int) -> int:
        """Where the blocks end that are worth loading behind `length` live tokens; 0 when none are. The last token is
        never taken from a block: it is computed, for its logits."""
        size = self._capture.block_tokens
        if not size:
            return 0
        stop = min(sequence.num_on_disk, sequence.num_reusable) // size * size
        return stop if stop > length and self._cost.pays_to_load(stop - length) else 0

    def _longest_in_flight(self, sequence: Sequence) -> int:
        """The longest prefix of the sequence that another one is catching up with at this moment. People do not wait
        for background work."""
        return max(
            (
                self._coming(other, sequence)
                for other in self.running
                if not other.decodes
                and other.request.namespace == sequence.request.namespace
                and other.request.background <= sequence.request.background
            ),
            default=0,
        )

    def _coming(self, other: Sequence, sequence: Sequence) -> int:
        """The prefix of `sequence` that `other` will have computed, and leave for it, once it has caught up."""
        if self.slots.whole_state:
            return self.checkpoints.promised(other, sequence)
        return min(common_prefix(other.tokens, sequence.tokens), sequence.num_reusable)

    def _enter(self, sequence: Sequence, source: Slot | None, length: int) -> bool:
        reserved = min(sequence.max_cells, len(sequence.tokens) + self.limits.reserve)
        pinned_anew = self.slots.num_unpinned(source, length) if source else 0
        if reserved - length + pinned_anew > self._num_unpromised:
            return False
        sequence.slot = self._slot_with_prefix(sequence, source, length)
        sequence.num_reserved, sequence.num_kept = reserved, length
        self._num_admitted += 1
        sequence.order = self._num_admitted
        self.queue.take(sequence)
        self.running.append(sequence)
        self._evict_for_promises()
        return True

    def _slot_with_prefix(self, sequence: Sequence, source: Slot | None, length: int) -> Slot:
        """A running slot that holds the first `length` tokens: the source itself where nothing else of it is worth
        keeping (a state is gone once a sequence goes on from it), else another one that shares its cells."""
        namespace = sequence.request.namespace
        if source is not None and not source.running:
            others = [s for s in self.slots.slots if not s.running and s is not source]
            if (length == len(source.tokens) and not self.slots.whole_state) or not others:
                self._trim(source, length)
                self.slots.lend(source, namespace)
                return source
        slot = self.slots.empty() or self._evict(keep=source)
        self.slots.lend(slot, namespace)
        if source is not None:
            self.slots.share(source, slot, length)
            self._operations.append(Copy(source.id, slot.id, length))
        return slot

    def _extend(self, sequence: Sequence) -> bool:
        """More cells for `sequence`: a whole reserve, or at least what it needs now."""
        wanted = sequence.cells_wanted
        for target in (min(sequence.max_cells, wanted + self.limits.reserve), wanted):
            if target - sequence.num_reserved <= self._num_unpromised:
                sequence.num_reserved = target
                self._evict_for_promises()
                return True
        return False

    def _evict_for_promises(self) -> None:
        """Make the promised cells free ones. Residents always suffice: promises never exceed what is not pinned."""
        while self._num_unpromised < self.slots.num_cells - self.slots.num_pinned - self.slots.num_free:
            self._evict()

    def _evict(self, keep: Slot | None = None) -> Slot:
        slot = next(s for s in self.slots.residents() if s is not keep)
        self._let_go(slot)
        return slot

    def _let_go(self, slot: Slot) -> None:
        """A resident leaves its cells; what the disk has not seen of it is saved first."""
        if save := self._capture.of(slot):
            self._operations.append(save)
        self._trim(slot, 0)

    def _trim(self, slot: Slot, length: int) -> None:
        if length < len(slot.tokens):
            self.slots.trim(slot, length)
            self._operations.append(Trim(slot.id, length))
