"""Who gets a slot, in turn, and from which prefix it starts; and what stays when it is over.

The order of things: `core.prefixes` says from where somebody could start, `core.promises` whether there is room,
`core.preemption` who makes some, `core.residents` what becomes of the cells, for all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reame.core.batch import Forget, Load
from reame.core.checkpoints import Checkpoints
from reame.core.idle_lane import IdleLane
from reame.core.preemption import Preemption
from reame.core.prefixes import Prefixes
from reame.core.promises import Promises
from reame.core.queue import FairQueue
from reame.core.residents import Residents

if TYPE_CHECKING:
    from reame.core.capture import Capture
    from reame.core.cost import StepCost
    from reame.core.limits import Limits
    from reame.core.sequence import Sequence
    from reame.core.slots import Slot, Slots

VAIN = 200
"""So many plans without any, and a record whose beginning is on the disk computes it, as it could without a disk."""


class Admission:
    """Owner of the queue, and of the parts that own the running sequences and the cells."""

    def __init__(self, slots: Slots, limits: Limits, capture: Capture, cost: StepCost) -> None:
        self.slots = slots
        self.queue = FairQueue()
        self.lane = IdleLane(limits, cost)
        self.residents = Residents(slots, limits, capture)
        self.promises = Promises(self.residents, limits)
        self.preemption = Preemption(self.promises, self.residents, self.queue, lane=self.lane, limits=limits)
        self.checkpoints = Checkpoints(slots, limits, grid=capture.block_tokens or 1)
        self.prefixes = Prefixes(slots, self.checkpoints, cost, block_tokens=capture.block_tokens)
        self._limits = limits
        self._block_tokens = capture.block_tokens
        self._loads: list[Load] = []
        self._warm_already: list[Sequence] = []

    @property
    def running(self) -> list[Sequence]:
        """Oldest first."""
        return self.promises.running

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
        if not self.queue and not self.preemption.behind():
            return
        waiting = sorted(self.queue, key=lambda sequence: sequence.request.background)
        room = self.preemption.room_behind(waiting)
        for sequence in waiting:
            behind = sequence.request.background
            if behind and len(self.preemption.behind()) >= room:
                return
            reads_disk = not (behind and self.preemption.has_people(waiting))
            if not reads_disk and self.prefixes.needs_disk(sequence):
                sequence.num_vain += 1
                if sequence.num_vain <= VAIN:
                    continue
                sequence.num_on_disk = 0
            while not self._place(sequence, now, reads_disk=reads_disk):
                if behind or not self.preemption.make_way():
                    return

    def leave(self, sequence: Sequence, *, keep: bool = True) -> None:
        """`sequence` is over, wherever it was. Its cells stay as a resident, unless they hold garbage (`keep` False) or
        nobody will want them."""
        self.residents.operations.append(Forget(sequence.request.id))
        if sequence.slot is None:
            self.queue.discard(sequence)
            return
        if not keep or sequence.traceless or self._is_spent(sequence):
            self.residents.trim(sequence.slot, 0)
        self.promises.vacate(sequence)

    def forget(self, namespace: str) -> None:
        """Residents of the namespace leave their cells. What runs or waits goes on, and leaves nothing; what it wanted
        from the disk is not there any more."""
        for sequence in (*self.queue, *self.running):
            if sequence.request.namespace == namespace:
                sequence.traceless, sequence.num_on_disk = True, 0
        self.residents.forget(namespace)

    def _place(self, sequence: Sequence, now: float, *, reads_disk: bool) -> bool:
        """False: there is no slot or no room for it. Else it runs, or needs no slot, or waits for something else."""
        if len(self.running) == self._limits.max_running:
            return False
        source, length = self.prefixes.live(sequence)
        if source and not sequence.request.max_tokens and length == len(sequence.tokens) - 1:
            self._pass_over(sequence, source, now)
            return True
        on_disk = self.prefixes.on_disk(sequence, length)
        if on_disk and not reads_disk:
            return True
        if self.prefixes.in_flight(sequence, self.running) >= max(length, on_disk) + self._limits.min_wait:
            return True
        if on_disk:
            length = 0 if self.slots.whole_state else length - length % self._block_tokens
        if not self.promises.enter(sequence, source if length else None, length):
            return False
        self.queue.take(sequence)
        if on_disk:
            sequence.loading, sequence.halt = True, on_disk if self.slots.whole_state else None
            self._loads.append(Load(sequence, length, on_disk))
        if not sequence.preempted:
            sequence.num_cached, sequence.admitted = length, now
        return True

    def _pass_over(self, sequence: Sequence, source: Slot, now: float) -> None:
        """All of the prompt that is to be computed is: a slot of its own could only push out a resident."""
        self.slots.touch(source)
        self.queue.take(sequence)
        if not sequence.preempted:
            sequence.num_cached, sequence.admitted = len(sequence.tokens) - 1, now
        self._warm_already.append(sequence)

    def _is_spent(self, sequence: Sequence) -> bool:
        """One of many records done in the background, while a later one runs. They come along the tree of their
        prompts, so the later one has all that the next can share; and thousands of tails would push other people's
        residents out of the cells and the disk."""
        mine = sequence.request
        return bool(mine.background and mine.max_tokens) and any(
            s.order > sequence.order and s.request.background and s.request.namespace == mine.namespace
            for s in self.running
        )
