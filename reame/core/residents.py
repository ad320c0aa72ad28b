"""Residents: who takes over what they hold, which leave their cells and when, and when garbage becomes fresh cells.

Apart from the rows of a step all that happens to the cells happens here, and each change is written down as an
operation, by which the engine's cells follow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reame.core.batch import Compact, Copy, Operation, Trim

if TYPE_CHECKING:
    from reame.core.capture import Capture
    from reame.core.limits import Limits
    from reame.core.slots import Slot, Slots


class Residents:
    """Owner of `operations`, what the next step has to do before its rows, in order."""

    def __init__(self, slots: Slots, limits: Limits, capture: Capture) -> None:
        self.slots = slots
        self.operations: list[Operation] = []
        self._limits = limits
        self._capture = capture

    def take_operations(self) -> tuple[Operation, ...]:
        operations, self.operations = tuple(self.operations), []
        return operations

    def lend(self, namespace: str, source: Slot | None, length: int) -> Slot:
        """A running slot that holds the first `length` tokens of `source`: the source itself where nothing else of it
        is worth keeping (a state is gone once a sequence goes on from it, which does not matter for what yields to all
        others), else another one that shares its cells."""
        if source is not None and not source.running:
            others = [s for s in self.slots.slots if not s.running and s is not source]
            is_state = self.slots.whole_state and not source.yields
            if (length == len(source.tokens) and not is_state) or not others:
                self.trim(source, length)
                self.slots.lend(source, namespace)
                return source
        slot = self.slots.empty() or self.evict(keep=source)
        self.slots.lend(slot, namespace)
        if source is not None:
            self.slots.share(source, slot, length)
            self.operations.append(Copy(source.id, slot.id, length))
        return slot

    def keep(self, slot: Slot, *, yields: bool) -> None:
        """Make a resident of what the running `slot` holds at this moment, if there is a place for it. One that
        `yields` is evicted before all that do not."""
        place = self.slots.empty() or (self.evict() if self.slots.residents() else None)
        if place:
            self.slots.keep(slot, place, yields=yields)
            self.operations.append(Copy(slot.id, place.id, len(slot.tokens)))

    def evict(self, keep: Slot | None = None) -> Slot:
        """Empty the resident least recently used, but for `keep`. There must be one."""
        slot = next(s for s in self.slots.residents() if s is not keep)
        self._let_go(slot)
        return slot

    def trim(self, slot: Slot, length: int) -> None:
        """`slot` holds its first `length` tokens only; nobody saves the others before."""
        if length < len(slot.tokens):
            self.slots.trim(slot, length)
            self.operations.append(Trim(slot.id, length))

    def forget(self, namespace: str) -> None:
        """Residents of the namespace leave their cells, and nobody saves them before."""
        for slot in self.slots.slots:
            if not slot.running and slot.namespace == namespace:
                self.trim(slot, 0)

    def compact(self, num_rows: int, num_coming: int) -> None:
        """Before a step that writes `num_rows` cells: make garbage fresh cells where it must be or is well worth it.
        `num_coming`: rows that are known to be computed, in this step and later ones.

        Attention looks at every cell that is not fresh, for every row: 0.2 us a cell with the smallest models. So a
        resident pays rent, and after `rent_rows` rows it has cost as much as reading it from the disk will (rent or
        buy: at most twice the cost of knowing the future; what is known of it, the rest of the prompts that are being
        read, counts at once). A move costs about 25 us a token; with more garbage than held cells it has paid after a
        hundred rows. When cells run out, residents make room for the next while as well: else this would come again
        soon.
        """
        slots = self.slots
        must = num_rows > slots.num_fresh
        overdue = self._overdue(num_coming) if num_rows else []
        num_garbage = slots.num_garbage + (slots.num_only_of(overdue) if overdue else 0)
        num_kept = max(0, slots.num_written - num_garbage)
        worth_it = num_garbage >= max(self._limits.min_garbage, num_kept if num_rows else 0)
        if not num_garbage or not (must or worth_it):
            return
        for slot in overdue:
            self._let_go(slot)
        while must and slots.num_free < slots.num_cells // 4 and slots.residents():
            self.evict()
        self.operations.append(Compact(tuple(slots.compact(self._limits.longest_move))))

    def _overdue(self, num_coming: int) -> list[Slot]:
        """Residents that the disk has and nobody will have used for long. A state costs nothing until it is used."""
        if self.slots.whole_state:
            return []
        due = self.slots.num_rows + num_coming - self._limits.rent_rows
        residents = (s for s in self.slots.slots if not s.running and s.tokens and s.rows_at_use < due)
        return [slot for slot in residents if self._capture.is_saved(slot)]

    def _let_go(self, slot: Slot) -> None:
        """A resident leaves its cells; what the disk has not seen of it is saved first."""
        if save := self._capture.of(slot):
            self.operations.append(save)
        self.trim(slot, 0)
