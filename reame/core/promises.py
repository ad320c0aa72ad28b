"""How cells are promised, so that they cannot run out half way.

Promise: every running sequence holds, or has free cells set aside for, `num_reserved` cells. So a step never fails for
want of cells. A reservation grows when it is used up; when it cannot, somebody is preempted (`core.preemption`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reame.core.limits import Limits
    from reame.core.residents import Residents
    from reame.core.sequence import Sequence
    from reame.core.slots import Slot


class Promises:
    """Owner of the running sequences, `running`, oldest first. Residents make room for what they are promised."""

    def __init__(self, residents: Residents, limits: Limits) -> None:
        self.running: list[Sequence] = []
        self._residents = residents
        self._slots = residents.slots
        self._limits = limits
        self._num_admitted = 0

    def enter(self, sequence: Sequence, source: Slot | None, length: int) -> bool:
        """`sequence` runs from now on, from the first `length` tokens of `source`. False: there is no room for it. A
        slot must be there."""
        reserved = min(sequence.max_cells, len(sequence.tokens) + self._limits.reserve)
        pinned_anew = self._slots.num_unpinned(source, length) if source else 0
        if reserved - length + pinned_anew > self._num_unpromised:
            return False
        sequence.slot = self._residents.lend(sequence.request.namespace, source, length)
        sequence.num_reserved, sequence.num_kept = reserved, length
        self._num_admitted += 1
        sequence.order = self._num_admitted
        self.running.append(sequence)
        self._evict_for_promises()
        return True

    def extend(self, sequence: Sequence) -> bool:
        """More cells for `sequence`: a whole reserve, or at least what it needs now."""
        wanted = sequence.cells_wanted
        for target in (min(sequence.max_cells, wanted + self._limits.reserve), wanted):
            if target - sequence.num_reserved <= self._num_unpromised:
                sequence.num_reserved = target
                self._evict_for_promises()
                return True
        return False

    def vacate(self, sequence: Sequence, *, comes_back: bool = False) -> None:
        """It runs no more; its cells are a resident, to be taken over by itself if it `comes_back`."""
        assert sequence.slot is not None
        self.running.remove(sequence)
        request = sequence.request
        is_record = request.background and (comes_back or request.max_tokens > 0)
        self._slots.retire(sequence.slot, yields=request.passing or is_record)
        sequence.slot, sequence.draft, sequence.loading, sequence.restoring = None, None, False, ()
        sequence.halt = None

    @property
    def _num_unpromised(self) -> int:
        """Cells that neither a running sequence holds nor one is promised; residents may lie in them."""
        promised = sum(max(0, s.num_reserved - s.num_computed) for s in self.running)
        return self._slots.num_cells - self._slots.num_pinned - promised

    def _evict_for_promises(self) -> None:
        """Make the promised cells free ones. Residents always suffice: promises never exceed what is not pinned."""
        while self._num_unpromised < self._slots.num_cells - self._slots.num_pinned - self._slots.num_free:
            self._residents.evict()
