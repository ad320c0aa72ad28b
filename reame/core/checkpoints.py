"""Which states of a model are kept that has one for all of a text and cannot be taken back: Mamba, RWKV, hybrids.

Cells of attention can be shared up to any token, a state only where it was kept before the sequence went on. It is
large (80 KB with LFM2, 3 MB with Mamba-130M, 75 MB with Granite-4-H) however few tokens are behind it, so it is kept
where somebody may begin (the places follow Marconi, arXiv:2411.19379):
- where a text leaves that of another one that runs, waits or is a resident: the second request with a beginning shows
  that it is one;
- before the end of a prompt, for another answer or another question, and in a long prompt up to `PARTS` times before;
- behind every `Limits.trail` tokens of an answer, only the last of them: the next turn of a chat begins there after a
  restart. (A finished sequence is kept as it is, live: the next turn begins exactly there.)
All these lie on whole blocks, so that they have names on the disk. Each is a resident like any other: the next step
that continues the sequence copies the state, and `engine.residents` says how many there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reame.core.slots import common_prefix

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reame.core.limits import Limits
    from reame.core.residents import Residents
    from reame.core.sequence import Sequence
    from reame.core.slots import Slot, Slots

PARTS = 4
"""A prompt is cut into at most so many parts, which are at least `Limits.stride` long."""
LONG = 4
"""A step that ends early reads all weights once more: a prompt's own marks, which perhaps nobody will use, must save
so many times what is worth waiting for."""
ENOUGH = 64
"""Tokens that hardly two texts have in common at the same places, if they are not the same."""


class Checkpoints:
    """`grid` tokens are a block. Does nothing for a model whose cells can be cut. Owner: the scheduler's admission."""

    def __init__(self, slots: Slots, limits: Limits, *, grid: int) -> None:
        self._slots = slots
        self._grid = grid
        self._limits = limits
        self._least = limits.min_wait

    def mark(self, running: Iterable[Sequence], waiting: Iterable[Sequence]) -> None:
        """Say how far the next rows of each sequence may go (`Sequence.halt`)."""
        if self._slots.whole_state:
            everybody = [*running, *waiting]
            for sequence in running:
                if sequence.slot and not sequence.waits_for_disk:
                    sequence.halt = self._next(sequence, everybody)

    def keep(self, running: Iterable[Sequence], residents: Residents) -> None:
        """Make a resident of each state that is to be kept now, for whoever begins with the same tokens; if there is a
        place for it."""
        for sequence in running:
            slot = sequence.slot
            if slot is None or sequence.halt != sequence.num_computed or sequence.traceless:
                continue
            sequence.num_kept = sequence.num_computed
            if known := self._known(slot):
                self._slots.touch(known)
                continue
            for old in self._superseded(sequence):
                residents.trim(old, 0)
            residents.keep(slot, yields=sequence.request.background and sequence.request.max_tokens > 0)

    def promised(self, other: Sequence, sequence: Sequence) -> int:
        """Up to where `other` will compute and leave what `sequence` may begin with; 0 when it will not."""
        place = self._down(min(common_prefix(other.tokens, sequence.tokens), sequence.num_reusable))
        return place if self._is_mark(other, place, self._least) else 0

    def _known(self, slot: Slot) -> Slot | None:
        """The resident that has the very state of `slot`."""
        same = (s for s in self._slots.slots if not s.running and s.namespace == slot.namespace)
        return next((s for s in same if s.tokens == slot.tokens), None)

    def _superseded(self, sequence: Sequence) -> list[Slot]:
        """What was kept of its answer so far."""
        return [s for s in self._slots.slots if not s.running and is_trail(s, sequence)]

    def _next(self, sequence: Sequence, everybody: list[Sequence]) -> int | None:
        if sequence.decodes:
            return None if sequence.request.background else self._behind(sequence.num_computed, self._limits.trail)
        namespace = sequence.request.namespace
        others = [o for o in everybody if o is not sequence and o.request.namespace == namespace]
        places = {self.promised(sequence, other) for other in others}
        for slot in self._slots.slots:
            if not slot.running and slot.namespace == namespace:
                place = self._down(common_prefix(slot.tokens, sequence.tokens))
                places.add(place if self._is_mark(sequence, place, self._least) else 0)
        if not (sequence.request.background and sequence.request.max_tokens):
            length = len(sequence.tokens) - 1
            own = (self._down(length), self._behind(sequence.num_computed, max(self._limits.stride, length // PARTS)))
            places.update(place for place in own if self._is_mark(sequence, place, LONG * self._least))
        return min(places - {0}, default=None)

    def _is_mark(self, sequence: Sequence, place: int, least: int) -> bool:
        """It is still to come, and far enough behind the last state that was kept."""
        return sequence.num_computed < place < len(sequence.tokens) and place - sequence.num_kept >= least

    def _down(self, length: int) -> int:
        return length - length % self._grid

    def _behind(self, length: int, step: int) -> int:
        """The next multiple of `step`, in whole blocks, behind `length`."""
        step = self._down(step + self._grid - 1)
        return (length // step + 1) * step


def is_trail(slot: Slot, sequence: Sequence) -> bool:
    """`slot` holds a part of the answer of the running `sequence`, which will have a longer one soon.

    Asked for each pair at each step: texts that begin alike are told apart by their ends.
    """
    length = len(slot.tokens)
    end = slice(max(0, length - ENOUGH), length)
    return (
        slot.namespace == sequence.request.namespace
        and len(sequence.request.prompt) < length < len(sequence.tokens)
        and slot.tokens[end] == sequence.tokens[end]
        and slot.tokens == sequence.tokens[:length]
    )


def in_turn(lengths: Iterable[int]) -> list[list[int]]:
    """Which of a step's rows each of its slices has, by the order in which their cells are written: one slice behind
    the other."""
    places, first = [], 0
    for length in lengths:
        places.append(list(range(first, first + length)))
        first += length
    return places


def in_equal_parts(lengths: Iterable[int]) -> list[list[int]]:
    """The same for models with a state: llama.cpp computes as many rows of each sequence as the shortest has, then
    the same of those that have more (`llama_batch_allocr::split_equal`)."""
    left = list(lengths)
    places: list[list[int]] = [[] for _ in left]
    first = 0
    while any(left):
        part = min(length for length in left if length)
        for each, length in enumerate(left):
            if length:
                places[each] += range(first, first + part)
                first, left[each] = first + part, length - part
    return places
