"""Who leaves its slot before it is over: the youngest when cells run out, background work when people want its place.

Its cells become a resident, it waits at the head of its queue, and starts again from whatever is still computed then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence as Seq

    from reame.core.idle_lane import IdleLane
    from reame.core.limits import Limits
    from reame.core.promises import Promises
    from reame.core.queue import FairQueue
    from reame.core.residents import Residents
    from reame.core.sequence import Sequence


class Preemption:
    """`num_preempted`: how often somebody was put back for want of cells, since the start."""

    def __init__(
        self, promises: Promises, residents: Residents, queue: FairQueue, *, lane: IdleLane, limits: Limits
    ) -> None:
        self.num_preempted = 0
        self._promises = promises
        self._residents = residents
        self._queue = queue
        self._lane = lane
        self._most = limits.max_running

    def grow(self) -> None:
        """Promise more cells to the sequences that used up theirs, the oldest first, at the expense of the youngest,
        and of background work before any other."""
        running = self._promises.running
        for sequence in list(running):
            while sequence.slot and sequence.cells_wanted > sequence.num_reserved:
                if self._promises.extend(sequence):
                    break
                self._put_back((self.behind() or running)[-1])
                self.num_preempted += 1

    def behind(self) -> list[Sequence]:
        """The background work that runs, the oldest first."""
        return [sequence for sequence in self._promises.running if sequence.request.background]

    def has_people(self, waiting: Seq[Sequence]) -> bool:
        """Whether anything but background work runs or waits."""
        return any(not sequence.request.background for sequence in (*self._promises.running, *waiting))

    def room_behind(self, waiting: Seq[Sequence]) -> int:
        """How many background sequences may run now. Those beyond it leave their slots, and so do, when people are
        there, those that wait for the disk: what it has takes time of its own to go into the cells."""
        behind, most = self.behind(), self._most
        if not self.has_people(waiting) or not (behind or any(s.request.background for s in waiting)):
            return most
        num_people = min(sum(not s.request.background for s in (*self._promises.running, *waiting)), most)
        room = self._lane.room(num_people, most - num_people)
        staying = [sequence for sequence in behind if not sequence.waits_for_disk][:room]
        for sequence in reversed(behind):
            if sequence not in staying:
                self._put_back(sequence)
        return room

    def make_way(self) -> bool:
        """Whether the youngest background work that runs left its slot."""
        behind = self.behind()
        if behind:
            self._put_back(behind[-1])
        return bool(behind)

    def _put_back(self, sequence: Sequence) -> None:
        sequence.preempted = True
        if sequence.traceless and sequence.slot:
            self._residents.trim(sequence.slot, 0)
        self._promises.vacate(sequence, comes_back=True)
        self._queue.put_back(sequence)
