"""Which cells are read for the disk, and when: a resident's whole blocks, when nobody waits for the decode thread.

Idle: as many as take a few milliseconds, so that a newcomer waits no longer than that. Busy: at most `SHARE` of the
steps' time, and never while somebody waits for a first token. Before an eviction: what is left of that resident.

A state that cannot be cut is one block of all its tokens; it has a name only at the end of a whole one. It is not
written when it takes more than `MOST_STATE_BYTES` for each token that the disk has not yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reame.core.batch import Save
from reame.core.checkpoints import is_trail

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reame.core.batch import Saved
    from reame.core.sequence import Sequence
    from reame.core.slots import Slot, Slots

SHARE = 0.01
IDLE_SECONDS = 0.02
MOST_CREDIT = 0.05
"""Seconds that a busy server may save up for a capture."""
FIRST_GUESS = 0.002
"""Seconds to read a block, before the first was read."""
MOST_STATE_BYTES = 256 << 10
"""Large attention models take 100 to 300 KB a token."""


class Capture:
    """`block_tokens` 0: nothing is kept on disk. Owner: the scheduler."""

    def __init__(self, slots: Slots, block_tokens: int) -> None:
        self._slots = slots
        self.block_tokens = block_tokens
        self._credit = 0.0
        self._seconds_per_block = FIRST_GUESS
        self._state_bytes = 0
        self.loses = self.waits = False
        """The disk takes nothing at present; or has more to write than it should be given more."""
        self._nothing_at = -1
        """`num_retired` of the slots when there was nothing left to be saved."""

    def earn(self, seconds: float) -> None:
        """A step took this long."""
        self._credit = min(self._credit + SHARE * seconds, MOST_CREDIT)

    def spend(self, saved: Iterable[Saved]) -> None:
        for each in saved:
            self._credit -= each.seconds
            if each.payloads:
                self._state_bytes = len(each.payloads[-1])
                self._seconds_per_block += 0.25 * (each.seconds / len(each.payloads) - self._seconds_per_block)

    def take(self, running: Iterable[Sequence]) -> list[Save]:
        """What to read in the step that is planned, the resident that would be evicted first first."""
        if not self.block_tokens or self.waits or self._nothing_at == self._slots.num_retired:
            return []
        running = list(running)
        if any(not sequence.first_token for sequence in running):
            return []
        seconds = self._credit if running else IDLE_SECONDS
        room = int(seconds / self._seconds_per_block) if running else max(1, int(seconds / self._seconds_per_block))
        saves = []
        if room <= 0:
            return []
        all_seen = True
        for slot in self._slots.residents():
            if self._slots.whole_state and any(is_trail(slot, sequence) for sequence in running):
                all_seen = False
                continue
            if save := self.of(slot, room):
                saves.append(save)
                room -= (len(save.tokens) - save.start) // save.block_tokens
                if room <= 0:
                    break
        if all_seen and not saves:
            self._nothing_at = self._slots.num_retired
        return saves

    def is_saved(self, slot: Slot) -> bool:
        """Whether the disk has, or will have, all whole blocks of it. While it loses things nobody can tell."""
        size = self.block_tokens
        return size > 0 and not self.loses and slot.num_saved // size == len(slot.tokens) // size

    def of(self, slot: Slot, room: int | None = None) -> Save | None:
        """The blocks of `slot` that are not saved yet, at most `room` of them. They count as saved from now on: what
        gets lost on the way to the disk is a miss later, nothing worse."""
        size = self.block_tokens
        if not size:
            return None
        if self._slots.whole_state:
            return self._whole(slot)
        start, stop = slot.num_saved // size * size, len(slot.tokens) // size * size
        if room is not None:
            stop = min(stop, start + room * size)
        if stop <= start:
            return None
        slot.num_saved = stop
        return Save(slot.id, slot.namespace, tuple(slot.tokens[:stop]), start, size)

    def _whole(self, slot: Slot) -> Save | None:
        length = len(slot.tokens)
        gained = length - slot.num_saved
        if length % self.block_tokens or gained <= 0 or self._state_bytes > MOST_STATE_BYTES * gained:
            return None
        tokens = tuple(slot.tokens)
        for other in self._slots.slots:
            if other.namespace == slot.namespace and other.tokens[:length] == slot.tokens:
                other.num_saved = max(other.num_saved, length)
        return Save(slot.id, slot.namespace, tokens, 0, length)
