"""From which prefix a sequence can start: what live cells have of it, what the disk has, what another one computes now.

Nothing changes here; `core.admission` chooses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reame.core.slots import common_prefix

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reame.core.checkpoints import Checkpoints
    from reame.core.cost import StepCost
    from reame.core.sequence import Sequence
    from reame.core.slots import Slot, Slots


class Prefixes:
    """`block_tokens` are a block of the disk; 0: there is none."""

    def __init__(self, slots: Slots, checkpoints: Checkpoints, cost: StepCost, *, block_tokens: int) -> None:
        self._slots = slots
        self._checkpoints = checkpoints
        self._cost = cost
        self._block_tokens = block_tokens

    def live(self, sequence: Sequence) -> tuple[Slot | None, int]:
        """The slot, running or resident, that has most of the sequence computed. Its last token is computed anew."""
        best, most = None, 0
        for slot in self._slots.slots:
            if slot.namespace == sequence.request.namespace:
                length = self._slots.reusable(slot, sequence.tokens, sequence.num_reusable)
                if length > most:
                    best, most = slot, length
        return best, most

    def on_disk(self, sequence: Sequence, length: int) -> int:
        """Where the blocks end that are worth loading behind `length` live tokens; 0 when none are. The last token is
        never taken from a block: it is computed, for its logits."""
        stop = self._blocks_end(sequence)
        return stop if stop > length and self._cost.pays_to_load(stop - length) else 0

    def needs_disk(self, sequence: Sequence) -> bool:
        """Whether live cells lack more than half a block of what the disk has, and loading that pays: `on_disk` without
        the search, which takes up to half a millisecond, for those that wait in vain at each step."""
        part = self._block_tokens // 2
        length = self._blocks_end(sequence) - part
        if length <= 0 or not self._cost.pays_to_load(part + 1):
            return False
        namespace, last = sequence.request.namespace, sequence.tokens[length - 1]
        alike = (s for s in self._slots.slots if len(s.tokens) >= length and s.tokens[length - 1] == last)
        return not any(s.namespace == namespace and s.tokens[:length] == sequence.tokens[:length] for s in alike)

    def in_flight(self, sequence: Sequence, running: Iterable[Sequence]) -> int:
        """The longest prefix of the sequence that another one is catching up with at this moment. People do not wait
        for background work."""
        return max(
            (
                self._coming(other, sequence)
                for other in running
                if not other.decodes
                and other.request.namespace == sequence.request.namespace
                and other.request.background <= sequence.request.background
            ),
            default=0,
        )

    def _blocks_end(self, sequence: Sequence) -> int:
        size = self._block_tokens
        return min(sequence.num_on_disk, sequence.num_reusable) // size * size if size else 0

    def _coming(self, other: Sequence, sequence: Sequence) -> int:
        """The prefix of `sequence` that `other` will have computed, and leave for it, once it has caught up."""
        if self._slots.whole_state:
            return self._checkpoints.promised(other, sequence)
        return min(common_prefix(other.tokens, sequence.tokens), sequence.num_reusable)
